"""State machines as tables, in the manner of h11.

Owns: how a table is read, and the error of a move that it does not have. Must not know: which
machines there are.

A table says for each state which events may happen in it, and which state each of them leads to.
An event that leads back to the same state is legal and changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

State = TypeVar("State", bound=enum.Enum)
Event = TypeVar("Event", bound=enum.Enum)
Table = Mapping[State, Mapping[Event, State]]


class IllegalTransition(Exception):
    """An event that may not happen in the present state: a fault of the gateway's own code.

    :param state: the present state
    :param target: the state that the event leads to where it is legal
    """

    def __init__(self, state: enum.Enum, event: enum.Enum, target: enum.Enum) -> None:
        self.state = state
        self.event = event
        self.target = target
        name = type(state).__name__
        super().__init__(
            f"{name} cannot go from {state.value!r} to {target.value!r} ({event.value})"
        )


def next_state(table: Table[State, Event], state: State, event: Event) -> State:
    """Return the state that follows when ``event`` happens in ``state``.

    Raises `IllegalTransition` if the table has no such event in this state.
    """
    try:
        return table[state][event]
    except KeyError:
        raise IllegalTransition(state, event, _target(table, event)) from None


def _target(table: Table[State, Event], event: Event) -> State:
    """Return the state that an event leads to, by the first row that it changes."""
    return next(
        after[event] for state, after in table.items() if after.get(event, state) is not state
    )
