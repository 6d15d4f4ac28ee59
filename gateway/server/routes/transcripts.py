"""What was said in a room, over HTTP: while the meeting runs, and as long as its room is there.

Owns: what may be asked of a room without a socket, and the headers of the answer. Must not know:
how a transcript is made.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gateway.auth.permissions import Role
from gateway.core.event_log import LogEntry
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.handshake import is_room_name
from gateway.server.routes.api import allowed
from gateway.server.runtime.hub import Hub
from gateway.text import languages
from gateway.transcripts import formats
from gateway.transcripts.formats import Format, Title
from gateway.transcripts.transcript import Transcript

TOGETHER = 2
"""Languages in one VTT, SRT or TXT: a cue has two lines."""

WAITING = 32
"""Different transcripts waiting to be written; one more is refused (``busy``). One is written at a
time: a full log takes about a second, in which everybody's captions come some milliseconds late."""

DESK_BYTES = 67_108_864
"""Bytes of transcripts that are being sent, over all who asked; beyond it one more is refused
(``busy``). A full log makes up to some 32 MiB."""

SEND_S = 120.0
"""Seconds that a transcript may take to be read; then the connection is closed."""

PIECE = 65_536
"""Bytes of a transcript that are given to a connection at once."""

MEDIA: Mapping[Format, str] = {
    Format.VTT: "text/vtt; charset=utf-8",
    Format.SRT: "application/x-subrip; charset=utf-8",
    Format.TXT: "text/plain; charset=utf-8",
    Format.JSON: "application/json",
}


class TranscriptRequest(NamedTuple):
    """Which transcript is asked for."""

    format: Format
    langs: tuple[str, ...]
    original: bool

    @property
    def choice(self) -> formats.Choice:
        """The languages that are shown together."""
        return (None, *self.langs) if self.original or not self.langs else self.langs

    def file(self, room: str) -> str:
        """A name to save it under; players know the language by it."""
        langs = "+".join((*(("original",) if self.original else ()), *self.langs))
        return ".".join(filter(None, (room, langs, self.format.value)))


class TranscriptWriter:
    """Writes transcripts off the event loop, one at a time.

    Who asks for what is being written already waits for that. What has been written is not kept.

    ``held``: bytes of those that are being sent.
    """

    def __init__(self) -> None:
        self.held = 0
        self._out: dict[int, int] = {}
        self._turn = asyncio.Lock()
        self._tasks: dict[Hashable, asyncio.Task[bytes]] = {}

    async def write(self, key: Hashable, work: Callable[[], bytes]) -> bytes:
        """The result of ``work``, done in a thread. Raises `ClientFault` (``busy``).

        :param key: the same for the same result
        """
        task = self._tasks.get(key)
        if task is None:
            self._check()
            if len(self._tasks) >= WAITING:
                raise ClientFault(
                    ErrorCode.BUSY, f"{len(self._tasks)} transcripts are waiting already."
                )
            task = self._tasks[key] = asyncio.create_task(self._write(work))
            task.add_done_callback(lambda _: self._tasks.pop(key))
        return await asyncio.shield(task)  # whoever hangs up does not take it from the others

    async def _write(self, work: Callable[[], bytes]) -> bytes:
        async with self._turn:
            self._check()
            return await asyncio.to_thread(work)

    def _check(self) -> None:
        if self.held >= DESK_BYTES:
            raise ClientFault(ErrorCode.BUSY, "Too many transcripts are being read.")

    @contextlib.contextmanager
    def sending(self, body: bytes) -> Iterator[None]:
        """While it lasts, the transcript is in memory; once for several who asked together."""
        count = self._out[id(body)] = self._out.get(id(body), 0) + 1
        if count == 1:
            self.held += len(body)
        try:
            yield
        finally:
            self._out[id(body)] -= 1
            if not self._out[id(body)]:
                del self._out[id(body)]
                self.held -= len(body)


class TranscriptResponse(Response):
    """A transcript on its way. It is given out as it is read: all of it at once would lie in the
    connection of whoever asks and does not read."""

    def __init__(self, scribe: TranscriptWriter, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(headers=headers | {"content-length": str(len(body))})
        self._scribe = scribe
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = self._body
        with self._scribe.sending(body), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEND_S):
                await send(
                    {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                )
                for at in range(0, len(body), PIECE):
                    part = body[at : at + PIECE]
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})


async def transcript(request: Request) -> Response:
    """The transcript of a room, in one of the formats, with the languages asked for."""
    hub: Hub = request.app.state.hub
    scribe: TranscriptWriter = request.app.state.transcript_writer
    ask = read_ask(request, hub.limits.targets)
    room = request.path_params["room"]
    grant = await allowed(request, Role.VIEW, room)
    grant.read(ask.langs)
    title, log = await entries(hub, room)
    body = await scribe.write((title, ask), lambda: _write(ask, title, log))
    headers = {
        "cache-control": "no-store",
        "content-disposition": f'inline; filename="{ask.file(room)}"',
        "content-type": MEDIA[ask.format],
    }
    return TranscriptResponse(scribe, body, headers)


async def entries(hub: Hub, name: str) -> tuple[Title, list[LogEntry]]:
    """What is left of the log of a room that a client can name.

    Whoever reads what was said comes through here, wherever it is kept. Raises `ClientFault`
    (``not_found``).
    """
    room = hub.rooms.get(name) if is_room_name(name) else None
    if room is None and hub.store is not None and is_room_name(name):
        history = await hub.store.load(name)
        if history is not None:
            log = history.log
            return Title(name, log.epoch, log.seq), log.entries()
    if room is None:
        raise ClientFault(
            ErrorCode.NOT_FOUND,
            f"There is no room {name[:64]!r}.",
            f"A room is there while somebody is in it, and {hub.limits.room_s:g} s longer.",
        )
    return Title(name, room.log.epoch, room.log.seq), room.log.entries()


def read_ask(request: Request, limit: int) -> TranscriptRequest:
    """What the path and the query ask for; ``limit`` is how many languages JSON may have.

    Raises `ClientFault`: ``bad_frame``, ``lang_unsupported``, ``too_many_targets``.
    """
    name = request.path_params["format"]
    if name not in Format.__members__.values():
        known = ", ".join(Format)
        raise ClientFault(
            ErrorCode.BAD_FRAME, f"{name[:32]!r} is not a format.", f"There are: {known}."
        )
    query = request.query_params
    tags = (tag for tags in query.getlist("lang") for tag in tags.split(",") if tag.strip())
    langs = tuple(dict.fromkeys(map(languages.normalise, tags)))
    original = query.get("bilingual", "0") not in ("0", "")
    if original and not langs:
        raise ClientFault(
            ErrorCode.BAD_FRAME,
            "A bilingual transcript needs a language beside the original.",
            "Add lang=, such as ?lang=de&bilingual=1.",
        )
    ask = TranscriptRequest(Format(name), langs, original)
    shown, most = (langs, limit) if ask.format is Format.JSON else (ask.choice, TOGETHER)
    if len(shown) > most:
        raise ClientFault(
            ErrorCode.TOO_MANY_TARGETS,
            f"{len(shown)} languages were asked for; {ask.format.value} takes {most}.",
            "Ask for json, or for each by itself.",
        )
    return ask


def _write(ask: TranscriptRequest, title: Title, log: list[LogEntry]) -> bytes:
    whole = Transcript.of(log)
    match ask.format:
        case Format.VTT:
            return formats.vtt(whole, ask.choice).encode()
        case Format.SRT:
            return formats.srt(whole, ask.choice).encode()
        case Format.TXT:
            return formats.txt(whole, ask.choice).encode()
        case Format.JSON:
            return formats.json(whole, title, ask.langs)


async def forget(request: Request) -> Response:
    """End a room and delete all that is known of it, in memory and in the store."""
    hub: Hub = request.app.state.hub
    name = request.path_params["room"]
    await allowed(request, Role.MODERATE, name)
    if not (is_room_name(name) and await hub.forget(name)):
        raise ClientFault(ErrorCode.NOT_FOUND, f"There is no room {name[:64]!r}.")
    return Response(status_code=204)


ROUTES = (
    Route("/v1/rooms/{room}/transcript.{format}", transcript),
    Route("/v1/rooms/{room}", forget, methods=["DELETE"]),
)
