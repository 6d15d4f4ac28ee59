"""The parts of a gateway that all its sessions share.

Owns: their types, and the first frame of a session. Must not know: sockets, what a session does
with the parts.
"""

from __future__ import annotations

import msgspec

from gateway.core.base.model import Model
from gateway.core.base.validation import Detect, impossible
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.session.audio_stream import SpeechService
from gateway.core.session.catch_up import Defer
from gateway.limits import Limits
from gateway.protocol.fields import LimitsInfo, RoomSettings
from gateway.protocol.messages import VERSION, Resumed, Welcome


class SessionContext(msgspec.Struct, frozen=True):
    """The parts of the gateway that its sessions share.

    :param engine: name of the engine, for ``welcome``
    :param defer: called with a reader that is to go on soon, so that others come in between
    :param detect: tells the language of a text; None if the gateway cannot
    :param speech: recognises speech; None if the gateway cannot
    """

    model: Model
    engine: str
    limits: Limits
    defer: Defer
    detect: Detect | None = None
    speech: SpeechService | None = None

    def welcome(
        self,
        session: str,
        room: AbstractRoom,
        seq: int,
        *,
        token: str | None,
        settings: RoomSettings | None,
        resumed: Resumed | None,
        hint: str | None,
    ) -> Welcome:
        """Return the first frame of a session in a room.

        :param seq: number of the last event before those that follow
        :param token: with which another socket can continue the session
        :param settings: those of the room, for somebody who may change them
        """
        limits = self.limits
        return Welcome(
            v=VERSION,
            session=session,
            room=room.name,
            epoch=room.log.epoch,
            seq=seq,
            resume=token,
            engine=self.engine,
            languages=self.model.targets,
            impossible=impossible(self.model) or None,
            glossary=self.model.glossary,
            limits=LimitsInfo(
                frame=limits.frame,
                text=limits.text,
                inflight=limits.inflight,
                targets=limits.targets,
                rate=limits.rate,
            ),
            settings=settings,
            audio=None if self.speech is None else self.speech.info(),
            resumed=resumed,
            hint=hint,
        )
