"""The parts of a gateway that all its sessions share.

Owns: their types, and the first frame of a session. Must not know: sockets, what a session does
with the parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.auth.permissions import Permissions, Role
from gateway.core.base import validation
from gateway.core.base.model import Model
from gateway.core.base.validation import Detect, impossible
from gateway.core.members.member import Member
from gateway.core.room.abstract_room import AbstractRoom
from gateway.core.session.audio_stream import SpeechService
from gateway.core.session.log_reader import Defer
from gateway.errors import ClientFault
from gateway.limits import Limits
from gateway.protocol.fields import LimitsInfo
from gateway.protocol.messages import VERSION, Resumed, Welcome

NO_LANGUAGE = (
    "This socket reads no language yet: connect with ?to=de,fr "
    'or send {"type":"want","langs":["de","fr"]}.'
)
"""Hint in the ``welcome`` of a socket that reads nothing."""


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

    def readable(
        self, tags: Sequence[str], permissions: Permissions
    ) -> tuple[tuple[str, ...], ClientFault | None]:
        """Return the tags that can be read here, see `validation.readable`."""
        return validation.readable(tags, self.model, self.limits.targets, permissions)

    def welcome(
        self,
        member: Member,
        room: AbstractRoom,
        seq: int,
        *,
        token: str | None,
        resumed: Resumed | None,
        reads: bool,
    ) -> Welcome:
        """Return the first frame of a session in a room.

        :param seq: number of the last event before those that follow
        :param token: with which another socket can continue the session
        :param reads: whether it reads any language
        """
        may_change = member.role is not Role.VIEW
        limits = self.limits
        return Welcome(
            v=VERSION,
            session=member.id,
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
            settings=room.translation_context.settings() if may_change else None,
            audio=None if self.speech is None else self.speech.info(),
            resumed=resumed,
            hint=None if reads else NO_LANGUAGE,
        )
