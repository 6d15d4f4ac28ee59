"""A conversation with a dialect, as its client and as the gateway see it."""

from __future__ import annotations

import base64
import json
from typing import Any

from gateway.protocol.audio import AudioState, HeardSpeech
from gateway.protocol.fields import LimitsInfo
from gateway.protocol.messages import AskStats, ClientMessage, ServerMessage, Welcome
from gateway.protocol.notices import Error, Stats
from gateway.server.realtime.dialect import Dialect, ServerEvent

PIECE = base64.b64encode(b"\x01\x02" * 240).decode()
"""Ten milliseconds of audio."""


def welcome(room: str = "~demo") -> Welcome:
    limits = LimitsInfo(frame=1, text=1, inflight=1, targets=1, rate=1)
    return Welcome(
        v=1,
        session="s1",
        room=room,
        epoch="e",
        seq=0,
        resume=None,
        engine="scripted",
        languages=("de", "en"),
        limits=limits,
    )


def stats(ref: str | None) -> Stats:
    numbers = dict.fromkeys(Stats.__struct_fields__, 0)
    return Stats(**{**numbers, "ref": ref})  # type: ignore[arg-type]  # all others are numbers


def heard(text: str, *, final: bool = False, **more: Any) -> HeardSpeech:
    fields = {"id": "s1-1", "rev": 1, "lang": "en", "t0": 0.5, "t1": 2.0, **more}
    return HeardSpeech(text=text, final=final, **fields)


def ended(ref: str | None) -> AudioState:
    return AudioState(codec="none", rate=24_000, from_="en", seconds=0.0, ref=ref)


class Peer:
    """A dialect with both of its sides. Events are without their ids."""

    def __init__(self, dialect: Dialect, room: str = "~demo") -> None:
        self.dialect = dialect
        (self.created,) = self.told(welcome(room))
        self.refused: ServerEvent | None = None

    def send(self, type: str, **fields: object) -> list[ClientMessage | bytes]:
        """Send an event of the client, and return its meaning to the gateway."""
        messages = self.dialect.receive(json.dumps({"type": type, **fields}))
        self.refused = self._refusal(messages[0]) if messages else None
        return [] if self.refused else [one for one in messages if not isinstance(one, str)]

    def _refusal(self, meant: ClientMessage | str | bytes) -> ServerEvent | None:
        """Answer a request in place of a refused event as a session does."""
        if isinstance(meant, str):
            ref = json.loads(meant)["ref"]
            error = Error(code="bad_frame", fatal=False, retry=False, msg="?", ref=ref)
            return self.dialect.events(error)[0]
        if isinstance(meant, AskStats) and (meant.ref or "").startswith("refused"):
            return self.dialect.events(stats(meant.ref))[0]
        return None

    def ask(self, type: str, **fields: object) -> list[ServerEvent]:
        """Send an event, and return the answer after the gateway has done it."""
        (*_, last) = self.send(type, **fields)
        assert not isinstance(last, bytes)
        return self.told(stats(last.ref) if isinstance(last, AskStats) else ended(last.ref))

    def told(self, message: ServerMessage) -> list[ServerEvent]:
        events = self.dialect.events(message)
        for event in events:
            assert event.pop("event_id").startswith("event_")
        return events
