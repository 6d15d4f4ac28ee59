"""HTTP routes of OpenAI's transcription and translation of files.

Owns: ``/v1/audio/transcriptions`` and ``/v1/audio/translations``: the bounds of a request, and the
session in which its file is heard. Must not know: the form and the answers
(`gateway.server.openai_api.audio`), how a file is decoded. The sound takes the way of a socket's,
with the same limits, guards, fairness and metrics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway.auth.permissions import Permissions
from gateway.core.history.event_log import LogEntry
from gateway.core.session.audio import AGAIN_S, no_recogniser
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.session import Session
from gateway.core.transcripts.transcript import Transcript
from gateway.errors import ClientFault, CloseCode, EngineFault, ErrorCode
from gateway.protocol.audio import PCM, Audio, AudioState
from gateway.protocol.messages import Bye, Failed, Final, ServerMessage, Set, Source
from gateway.protocol.notices import Error
from gateway.server.access.guarded_route import POST, TRANSLATE, GuardedRoute
from gateway.server.audio.files import Sound, opened
from gateway.server.openai_api.audio import AudioFileRequest
from gateway.server.routes.api import trace, while_connected
from gateway.server.routes.body import read_upload
from gateway.server.routes.openai import refused
from gateway.server.runtime.hub import Hub
from gateway.text import languages

UPLOAD_BYTES = 26_214_400
"""Bytes of a request: OpenAI takes files of 25 MB too."""
UPLOAD_S = 120.0
"""Seconds for a client to send them."""
LONGEST_S = 3600.0
"""Seconds of sound in a file."""
ANSWER_S = 600.0
"""Seconds until a file is answered. OpenAI's clients wait as long by default, and an hour takes 450
at eight seconds of sound per second."""
MOST = 8
"""Files at once. Each takes its bytes twice and a process of 100 MB."""

_decode = msgspec.json.Decoder(ServerMessage).decode


class Uploads:
    """The files that are being heard, in memory."""

    def __init__(self) -> None:
        self._taken = Counter[str]()  # by tenant

    @contextmanager
    def place(self, tenant: str) -> Iterator[None]:
        """Count a file while it is heard. Raises `ClientFault` (``busy``).

        A tenant has at most as many as there are places left, so it never takes them all (dynamic
        thresholds, Choudhury and Hahne 1998, https://doi.org/10.1109/90.664262).
        """
        if self._taken[tenant] >= MOST - self._taken.total():
            raise ClientFault(
                ErrorCode.BUSY, "Too many files are being transcribed.", retry_ms=5000
            )
        self._taken[tenant] += 1
        try:
            yield
        finally:
            self._taken -= Counter((tenant,))  # keeps no tenant without files


async def transcribe(request: Request, permissions: Permissions) -> Response:
    """Answer with the words of a file of sound."""
    return await _answer(request, permissions, translated=False)


async def translate(request: Request, permissions: Permissions) -> Response:
    """Answer with the words of a file of sound in another language, English by default."""
    return await _answer(request, permissions, translated=True)


async def _answer(request: Request, permissions: Permissions, *, translated: bool) -> Response:
    hub: Hub = request.app.state.hub
    uploads: Uploads = request.app.state.uploads
    if hub.recognition is None:
        raise no_recogniser()
    with uploads.place(permissions.tenant):
        asked = await read_upload(request, AudioFileRequest, UPLOAD_BYTES, UPLOAD_S)
        asked.check()
        target = languages.normalise(asked.target_lang) if translated else None
        targets = () if target is None else (target,)
        session = hub.open(
            ConnectRequest(once=True, targets=targets, view="final", permissions=permissions)
        )
        trace(request, session.id)
        listener = FileListener(hub, session)
        try:
            await while_connected(request, listener.hear(asked))
        finally:
            hub.close(session)
        heard = Transcript.of(listener.entries)
        media_type, body = await asyncio.to_thread(asked.answer, heard, listener.seconds, target)
    return Response(body, media_type=media_type, headers={"cache-control": "no-store"})


class FileListener:
    """The file of one request, and the events of its session."""

    def __init__(self, hub: Hub, session: Session) -> None:
        self.entries: list[LogEntry] = []
        self.seconds = 0.0
        """Seconds of sound in the file."""
        self._hub = hub
        self._session = session
        self._has_events = asyncio.Event()
        session.outbox.wake = self._has_events.set

    async def hear(self, asked: AudioFileRequest) -> None:
        """Hear a file to its end. Raises `ClientFault` and `EngineFault`."""
        try:
            async with asyncio.timeout(ANSWER_S), opened(asked.file) as sound:
                self._read_outbox()
                if asked.prompt:
                    self._hub.perform(self._session, Set(context=asked.prompt))
                message = Audio(codec=PCM, rate=sound.rate, from_=asked.language or None)
                self._hub.perform(self._session, message)
                await self._send(sound)
                self._hub.perform(self._session, Bye())
                while self._read_outbox():
                    await self._has_events.wait()
        except TimeoutError:
            raise EngineFault(
                f"The file was not heard within {ANSWER_S:g} s.", ErrorCode.TIMEOUT
            ) from None

    async def _send(self, sound: Sound) -> None:
        """Send the sound as fast as a socket may, and wait for translations that are late."""
        session = self._session
        many = self._hub.limits.inflight // 2
        async with aclosing(sound.pieces) as pieces:
            async for piece in pieces:
                self.seconds += len(piece) / (2 * sound.rate)
                if self.seconds > LONGEST_S:
                    raise ClientFault(
                        ErrorCode.TOO_LONG, f"The file is longer than {LONGEST_S / 60:g} minutes."
                    )
                self._hub.receive(session, piece)
                while self._read_outbox() and session.audio is not None:
                    late = len(session.member.in_flight) > many
                    wait = session.audio.delay(self._hub.now()) or (AGAIN_S if late else 0.0)
                    if not wait:
                        break
                    await asyncio.sleep(wait)

    def _read_outbox(self) -> bool:
        """Read all events, and tell whether more will come. Raises `ClientFault`, `EngineFault`."""
        self._has_events.clear()
        outbox = self._session.outbox
        for frame in outbox.take():
            event = _decode(frame)
            match event:
                case Source() | Final() | Failed():
                    # The clock of a file is its own: what was said arrives when it was said.
                    self.entries.append(LogEntry(event, getattr(event, "t1", None) or 0.0))
                case AudioState(lost=lost) if lost:
                    raise EngineFault(f"{lost:g} s of the speech were not recognised.")
                case Error(code=code, msg=msg, hint=hint, retry_ms=retry_ms):
                    raise ClientFault(ErrorCode(code), msg, hint, retry_ms)
        if outbox.closing not in (None, CloseCode.DONE):
            raise EngineFault("The gateway stopped before the file was heard.")
        return outbox.closing is None


ROUTES = (
    GuardedRoute("/v1/audio/transcriptions", transcribe, TRANSLATE, methods=POST, refused=refused),
    GuardedRoute("/v1/audio/translations", translate, TRANSLATE, methods=POST, refused=refused),
)
