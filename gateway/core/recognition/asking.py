"""States of the only job that a stream of speech has at a time.

Owns: every legal change. Must not know: which audio is recognised.
"""

from __future__ import annotations

import enum

from gateway.core.base.transitions import Table


class AskState(enum.Enum):
    """States of the only job that a stream has at a time."""

    FREE = "free"
    ASKED = "asked"


class AskEvent(enum.Enum):
    """Events that change the state of the job."""

    ASK = "ask"
    ANSWER = "answer"  # a result, or a fault
    RESET = "reset"


ASK_TRANSITIONS: Table[AskState, AskEvent] = {
    AskState.FREE: {AskEvent.ASK: AskState.ASKED, AskEvent.RESET: AskState.FREE},
    # A job that lacks the end of the speech is replaced.
    AskState.ASKED: {
        AskEvent.ASK: AskState.ASKED,
        AskEvent.ANSWER: AskState.FREE,
        AskEvent.RESET: AskState.FREE,
    },
}
