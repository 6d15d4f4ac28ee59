"""The parts of a gateway that all its sessions share.

Owns: their types. Must not know: sockets, what a session does with the parts.
"""

from __future__ import annotations

import msgspec

from gateway.core.base.model import Model
from gateway.core.base.validation import Detect
from gateway.core.session.audio_stream import SpeechService
from gateway.core.session.log_reader import Defer
from gateway.limits import Limits


class SessionContext(msgspec.Struct, frozen=True):
    """The parts of the gateway that its sessions share.

    :param defer: called with a reader that is to go on soon, so that others come in between
    """

    model: Model
    engine: str
    limits: Limits
    defer: Defer
    detect: Detect | None = None
    speech: SpeechService | None = None
