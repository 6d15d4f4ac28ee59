"""The phases of a gateway: every pair of a phase and an event either moves or is an error."""

from __future__ import annotations

import pytest

from gateway.core.base.transitions import IllegalTransition, next_state
from gateway.server.runtime.phase import HUB_TRANSITIONS, HubEvent, HubPhase

LEGAL = {
    (HubPhase.OPEN, HubEvent.DRAIN): HubPhase.DRAINING,
    (HubPhase.DRAINING, HubEvent.END): HubPhase.CLOSED,
}


@pytest.mark.parametrize("phase", HubPhase)
@pytest.mark.parametrize("event", HubEvent)
def test_a_gateway_drains_and_then_ends_and_everything_else_is_an_error(
    phase: HubPhase, event: HubEvent
) -> None:
    if (phase, event) in LEGAL:
        assert next_state(HUB_TRANSITIONS, phase, event) is LEGAL[phase, event]
        return
    with pytest.raises(IllegalTransition) as caught:
        next_state(HUB_TRANSITIONS, phase, event)
    for state in (phase, caught.value.target):
        assert repr(state.value) in str(caught.value)
