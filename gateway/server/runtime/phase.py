"""The phases of a gateway's life, as a table.

Owns: every phase and every legal change. Must not know: what a gateway does in them.
"""

from __future__ import annotations

import enum

from gateway.core.base.transitions import Table


class HubPhase(enum.Enum):
    """Phase of the gateway's life."""

    OPEN = "open"
    DRAINING = "draining"  # nothing new is accepted, rooms are released as they settle
    CLOSED = "closed"


class HubEvent(enum.Enum):
    """Events that change the phase of a gateway."""

    DRAIN = "drain"
    END = "end"


HUB_TRANSITIONS: Table[HubPhase, HubEvent] = {
    HubPhase.OPEN: {HubEvent.DRAIN: HubPhase.DRAINING},
    HubPhase.DRAINING: {HubEvent.END: HubPhase.CLOSED},
    HubPhase.CLOSED: {},
}
