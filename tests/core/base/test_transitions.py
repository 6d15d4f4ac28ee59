"""State machines: every pair of a state and an event either moves or is an error."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from gateway.core.base.transitions import IllegalTransition, Table, next_state
from gateway.core.session.state import SESSION_TRANSITIONS, SessionEvent, SessionState
from gateway.core.utterances.caption_state import CAPTION_TRANSITIONS, CaptionEvent, CaptionState

MACHINES: tuple[tuple[Table[Any, Any], type[enum.Enum], type[enum.Enum]], ...] = (
    (CAPTION_TRANSITIONS, CaptionState, CaptionEvent),
    (SESSION_TRANSITIONS, SessionState, SessionEvent),
)
PAIRS = [
    pytest.param(table, state, event, id=f"{states.__name__}-{state.value}-{event.value}")
    for table, states, events in MACHINES
    for state in states
    for event in events
]


@pytest.mark.parametrize(("table", "state", "event"), PAIRS)
def test_an_event_leads_to_the_state_in_the_table_or_an_error_names_both(
    table: Table[Any, Any], state: enum.Enum, event: enum.Enum
) -> None:
    if event in table[state]:
        assert next_state(table, state, event) is table[state][event]
        return
    fault = f"{type(state).__name__} {state.value!r} has no event {event.value!r}"
    with pytest.raises(IllegalTransition, match=fault):
        next_state(table, state, event)


@pytest.mark.parametrize(("table", "states", "events"), MACHINES)
def test_a_table_has_a_row_for_every_state_and_uses_every_event(
    table: Table[Any, Any], states: type[enum.Enum], events: type[enum.Enum]
) -> None:
    assert set(table) == set(states)
    assert {event for after in table.values() for event in after} == set(events)


def test_a_caption_that_ended_is_only_edited() -> None:
    for state in CaptionState:
        if state.ended:
            assert CAPTION_TRANSITIONS[state] == {CaptionEvent.EDIT: CaptionState.FINAL}


def test_a_closed_session_stays_closed() -> None:
    assert set(SESSION_TRANSITIONS[SessionState.CLOSED].values()) == {SessionState.CLOSED}
