"""HTTP routes of rooms: their transcripts, and their deletion.

Owns: the requests, the headers of the answers, the bounds on transcripts in memory. Must not know:
how a transcript is made. A transcript can be read while the meeting runs, and until its room ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.auth.permissions import Permissions, Role
from gateway.core.history.event_log import EventLog, LogEntry
from gateway.core.transcripts import formats
from gateway.core.transcripts.formats import Format, Title, text_formats
from gateway.core.transcripts.transcript import Transcript
from gateway.errors import ClientFault, ErrorCode, bad_frame, redacted
from gateway.protocol.handshake import is_room_name
from gateway.server.access.guarded_route import ROOM, GuardedRoute, Right
from gateway.server.routes.api import no_room
from gateway.server.runtime.hub import Hub
from gateway.text import languages

log = logging.getLogger("gateway.transcripts")

LANGUAGES_SHOWN = 2
"""Most languages in one file of text: a cue has two lines."""
WAITING = 32
"""Most different transcripts that wait to be written; more are refused (``busy``). One is written
at a time. A full log takes about a second, in which all captions come some milliseconds late."""
SENDING_BYTES = 67_108_864
"""Bytes of all transcripts that are being sent, from which further ones are refused (``busy``). A
full log makes up to about 32 MiB."""
SEND_S = 120.0
"""Seconds for a client to read a transcript; then the connection is closed."""
CHUNK = 65_536
"""Bytes of a transcript that are passed to a connection at once."""


class TranscriptRequest(NamedTuple):
    """The transcript that a request asks for.

    ``format``: name of a text format, or ``json``
    ``original``: whether what was said stands beside the translation
    """

    format: str
    langs: tuple[str, ...]
    original: bool

    @property
    def choice(self) -> formats.Choice:
        """Languages that are shown together; None is the original."""
        return (None, *self.langs) if self.original or not self.langs else self.langs

    def file(self, room: str) -> str:
        """Return a name for the file. Media players read the language from it."""
        langs = "+".join((*(("original",) if self.original else ()), *self.langs))
        return ".".join(filter(None, (room, langs, self.format)))


class TranscriptWriter:
    """A queue of transcripts that are written off the event loop, one at a time.

    Requests for the same transcript share one writing. Nothing is cached afterwards.
    """

    def __init__(self) -> None:
        self.sending_bytes = 0  # of all transcripts that are being sent
        self._senders = Counter[int]()  # number of answers that send a body, by its id
        self._writing = asyncio.Lock()
        self._tasks: dict[Hashable, asyncio.Task[bytes]] = {}

    async def write(self, key: Hashable, work: Callable[[], bytes]) -> bytes:
        """Return the result of ``work``, which runs in a thread. Calls with equal keys share one
        result. Raises `ClientFault` (``busy``).
        """
        task = self._tasks.get(key)
        if task is None:
            # Joining a writing that is under way costs nothing, so only new ones are refused.
            self._check()
            if len(self._tasks) >= WAITING:
                raise ClientFault(ErrorCode.BUSY, f"{WAITING} transcripts are waiting already.")
            task = self._tasks[key] = asyncio.create_task(self._write(work))
            task.add_done_callback(lambda _: self._tasks.pop(key))
        # A client that disconnects must not cancel the writing for the others.
        return await asyncio.shield(task)

    async def _write(self, work: Callable[[], bytes]) -> bytes:
        async with self._writing:
            # Checked again: others may have begun to send while this one waited.
            self._check()
            return await asyncio.to_thread(work)

    def _check(self) -> None:
        if self.sending_bytes >= SENDING_BYTES:
            raise ClientFault(ErrorCode.BUSY, "Too many transcripts are being read.")

    @contextlib.contextmanager
    def sending(self, body: bytes) -> Iterator[None]:
        """Count the bytes of a transcript while it is sent, once for all answers that share it."""
        if not self._senders[id(body)]:  # answers that share a body share its memory
            self.sending_bytes += len(body)
        self._senders[id(body)] += 1
        try:
            yield
        finally:
            self._senders -= Counter((id(body),))  # keeps no body without senders
            if not self._senders[id(body)]:
                self.sending_bytes -= len(body)


class TranscriptResponse(Response):
    """An answer with a transcript."""

    def __init__(self, writer: TranscriptWriter, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(headers=headers | {"content-length": str(len(body))})
        self._writer = writer
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = self._body
        with self._writer.sending(body), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEND_S):
                # A timeout leaves the answer incomplete, and the server closes the connection.
                start = {"type": "http.response.start", "status": 200}
                await send({**start, "headers": self.raw_headers})
                # It is sent in chunks, as fast as the client reads: a client that does not read
                # would otherwise hold all of it in the buffers of its connection.
                for at in range(0, len(body), CHUNK):
                    chunk = body[at : at + CHUNK]
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})


async def transcript(request: Request, permissions: Permissions) -> Response:
    """Answer with the transcript of a room, in the format and languages of the request."""
    hub: Hub = request.app.state.hub
    writer: TranscriptWriter = request.app.state.transcript_writer
    room: str = request.path_params["room"]
    asked = read_request(request, hub.limits.targets)
    permissions.check_languages(asked.langs)
    identity, log = await entries(hub, room)
    body = await writer.write((identity, asked), lambda: _write(asked, identity, log))
    headers = {
        "cache-control": "no-store",
        "content-disposition": f'inline; filename="{asked.file(room)}"',
        "content-type": _media_type(asked.format),
    }
    return TranscriptResponse(writer, body, headers)


async def entries(hub: Hub, name: str) -> tuple[Title, list[LogEntry]]:
    """Return the log of a room that a client can name, from memory or from the store.

    Raises `ClientFault` (``not_found``).
    """
    log: EventLog | None = None
    # Private rooms have names that no client can give: their logs are never shown.
    if is_room_name(name):
        log = await hub.fleet.history(name)
    if log is None or not log.epoch:
        raise no_room(
            name, f"A room is there while somebody is in it, and {hub.limits.room_s:g} s longer."
        )
    # The log has times of the hub's own clock.
    title = Title(name, log.epoch, log.seq, round(log.began + hub.wall() - hub.now()))
    return title, log.entries()


def read_request(request: Request, limit: int) -> TranscriptRequest:
    """Return the request in the path and the query. JSON has ``limit`` languages at most.

    Raises `ClientFault`: ``bad_frame``, ``lang_unsupported``, ``too_many_targets``.
    """
    name = request.path_params["format"]
    if name != Format.JSON and name not in text_formats():
        known = ", ".join(dict.fromkeys((*Format, *text_formats())))
        raise bad_frame(f"{name[:32]!r} is not a format.", f"There are: {known}.")
    query = request.query_params
    langs = languages.listed(",".join(query.getlist("lang")))
    original = query.get("bilingual", "0") not in ("0", "")
    if original and not langs:
        why = "A bilingual transcript needs a language beside the original."
        raise bad_frame(why, "Add lang=, such as ?lang=de&bilingual=1.")
    asked = TranscriptRequest(name, langs, original)
    # JSON has a list for each utterance; the other formats show the languages one above the other.
    is_json = asked.format == Format.JSON
    shown, most = (langs, limit) if is_json else (asked.choice, LANGUAGES_SHOWN)
    if len(shown) > most:
        raise ClientFault(
            ErrorCode.TOO_MANY_TARGETS,
            f"{len(shown)} languages were asked for; {asked.format} takes {most}.",
            "Ask for json, or for each by itself.",
        )
    return asked


def _media_type(format: str) -> str:
    return "application/json" if format == Format.JSON else text_formats()[format].media_type


def _write(asked: TranscriptRequest, title: Title, kept: list[LogEntry]) -> bytes:
    whole = Transcript.of(kept)
    if asked.format == Format.JSON:
        return formats.json(whole, title, asked.langs)
    try:
        return text_formats()[asked.format].write(whole, asked.choice).encode()
    except Exception as exc:  # of another package, whose message may quote the meeting
        log.error("the format %s has failed", asked.format, exc_info=redacted(exc))
        raise ClientFault(
            ErrorCode.INTERNAL, f"The format {asked.format} has failed; it was logged."
        ) from None


async def forget(request: Request, _: Permissions) -> Response:
    """End a room and delete all its data, in memory and in the store."""
    hub: Hub = request.app.state.hub
    name = request.path_params["room"]
    if not (is_room_name(name) and await hub.forget(name)):
        raise no_room(name)
    return Response(status_code=204)


ROUTES = (
    GuardedRoute("/v1/rooms/{room}/transcript.{format}", transcript, Right(Role.VIEW, ROOM)),
    GuardedRoute("/v1/rooms/{room}", forget, Right(Role.MODERATE, ROOM), methods=["DELETE"]),
)
