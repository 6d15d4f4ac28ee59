"""The parts of a gateway that all its sessions share.

Owns: their types. Must not know: rooms, sockets, what a session does with them.
"""

from __future__ import annotations

import msgspec

from gateway.core.base.model import Model
from gateway.core.base.validation import Detect
from gateway.core.session.log_reader import Defer
from gateway.limits import Limits
from gateway.protocol.messages import LimitsInfo


class SessionContext(msgspec.Struct, frozen=True):
    """The parts of the gateway that its sessions share.

    :param engine: name of the engine, for ``welcome``
    :param defer: called with a reader that is to go on soon, so that others come in between
    :param detect: tells the language of a text; None if the gateway cannot
    """

    model: Model
    engine: str
    limits: Limits
    defer: Defer
    detect: Detect | None = None

    def limits_info(self) -> LimitsInfo:
        """Return the limits that clients are told."""
        limits = self.limits
        return LimitsInfo(
            frame=limits.frame,
            text=limits.text,
            inflight=limits.inflight,
            targets=limits.targets,
            rate=limits.rate,
        )
