"""State machines as tables, in the manner of h11.

Owns: how a table is read. Must not know: which machines there are.

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
    """An event that may not happen in the present state: a fault of the gateway's own code."""


def next_state(table: Table[State, Event], state: State, event: Event) -> State:
    """Return the state that follows ``event``. Raises `IllegalTransition` if there is none."""
    try:
        return table[state][event]
    except KeyError:
        name = type(state).__name__
        raise IllegalTransition(f"{name} {state.value!r} has no event {event.value!r}") from None
