"""One text through the gateway, as if a socket had said it.

Owns: the private session of an HTTP request, and the pieces of a longer text. Must not know: HTTP.
Nothing here translates: what holds for sockets (limits, guards, fairness, metrics) holds here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

from gateway.auth.permissions import EVERYTHING, Permissions
from gateway.core.connect import ConnectRequest
from gateway.core.validation import AUTO
from gateway.errors import ClientFault, EngineFault, ErrorCode
from gateway.protocol.messages import (
    Cancelled,
    ClientMessage,
    Delta,
    Error,
    Failed,
    Final,
    Say,
    ServerMessage,
    Set,
)
from gateway.server.runtime.hub import Hub
from gateway.text import languages, sentences

ANSWER_S = 30.0
"""Seconds for the whole text."""
BUSY_S = 0.05
"""Seconds until the next piece is tried again while the gateway is busy."""
TEXT = 10_000
"""Characters of one request; a meeting says as much in ten minutes."""

_decode = msgspec.json.Decoder(ServerMessage).decode


class OneShot:
    """The translation of one text. Close it, whatever comes.

    Raises `ClientFault` at once for languages that do not exist, text that cannot be said, and text
    of no certain language where ``source`` is `AUTO`. ``beside`` is text in the same language,
    probably: it decides where ``text`` itself is too short for that.
    """

    def __init__(
        self,
        hub: Hub,
        text: str,
        *,
        source: str,
        target: str,
        beside: str = "",
        context: str | None = None,
        glossary: dict[str, str] | None = None,
        live: bool = False,
        grant: Permissions = EVERYTHING,
    ) -> None:
        if len(text) > TEXT:
            raise ClientFault(
                ErrorCode.TOO_LONG, f"The text has {len(text)} characters; {TEXT} are allowed."
            )
        if not text.strip():
            raise ClientFault(ErrorCode.EMPTY_TEXT, "The text is empty.", "Send a word at least.")
        self.target = languages.normalise(target)
        self._hub = hub
        self.confidence = 0.0
        """Percent, that the text is in `source`; 0 where that was not looked for."""
        if source == AUTO and hub.detect is not None:
            # The whole text tells more than its pieces.
            told = hub.detect(text) or hub.detect(beside)
            if told is None:
                raise ClientFault(
                    ErrorCode.LANG_UNSUPPORTED,
                    "The language of this text could not be detected.",
                    'Name it, such as "en", instead of "auto"; short texts, names and numbers alone'
                    " often leave it open.",
                )
            source = told
            self.confidence = round(100 * dict(hub.detect.rank(text)).get(source, 0.0), 1)
        self._heard: deque[ServerMessage] = deque()
        self._work = asyncio.Event()
        seat = ConnectRequest(
            once=True,
            source=source,
            targets=(target,),
            view="live" if live else "final",
            grant=grant,
        )
        self._session = hub.open(seat)
        self._session.outbox.wake = self._work.set
        self._pieces = sentences.split(text, hub.limits.text, self.source)
        try:
            self._listen()
            if not languages.same(self.source, self.target):
                hub.engine.profile.resolve(self.source, self.target)
            if context is not None or glossary is not None:
                self._send(Set(context=context, glossary=glossary))
        except ClientFault:
            self.close()
            raise

    @property
    def source(self) -> str:
        """The language it is translated from, as given or as detected."""
        return self._session.lang

    def close(self) -> None:
        """End the session; what still runs is aborted. Idempotent."""
        self._hub.close(self._session)

    async def finals(self) -> list[Final]:
        """The finished pieces in order. Raises `EngineFault` for the first that failed."""
        try:
            done: dict[str, Final] = {}
            async for event in self.events():
                if isinstance(event, Final):
                    done[event.id] = event
            return [done[id] for id in sorted(done, key=int)]
        finally:
            self.close()

    async def events(self) -> AsyncGenerator[Delta | Final]:
        """What happens, as it happens: ids count the pieces from 1.

        Raises `EngineFault` where a piece failed, or ``timeout`` after `ANSWER_S`.
        """
        waiting = deque((str(i), piece) for i, (piece, _) in enumerate(self._pieces, 1))
        left = len(waiting)
        limit = self._hub.limits.inflight
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ANSWER_S
        while left:
            again = deadline
            while waiting and len(self._session.inflight) < limit:
                id, piece = waiting[0]
                try:
                    self._send(Say(text=piece, id=id))
                except ClientFault as fault:
                    if not fault.code.retry or id == "1":
                        raise  # not a single piece was taken: the caller may try later
                    again = loop.time() + BUSY_S
                    break
                waiting.popleft()
            if not self._heard:
                if self._session.outbox.closing is not None:
                    raise EngineFault("The gateway stopped before the text was translated.")
                if loop.time() >= deadline:
                    raise EngineFault(
                        f"The text was not translated within {ANSWER_S:g} s.", ErrorCode.TIMEOUT
                    )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(min(again, deadline)):
                        await self._work.wait()
                self._listen()
            while self._heard:
                match self._heard.popleft():
                    case Delta() as delta:
                        yield delta
                    case Final() as final:
                        left -= 1
                        yield final
                    case Failed(code=code):
                        raise EngineFault("The text could not be translated.", ErrorCode(code))
                    case Cancelled():
                        raise EngineFault("The gateway stopped before the text was translated.")

    def join(self, finals: list[Final]) -> str:
        """The whole translation."""
        gaps = [gap for _, gap in self._pieces]
        spaced = languages.script(self.target) not in sentences.UNSPACED
        texts = [final.text for final in finals]
        return sentences.join(list(zip(texts, gaps, strict=True)), spaced=spaced)

    def _send(self, message: ClientMessage) -> None:
        self._hub.receive(self._session, msgspec.json.encode(message).decode())
        self._listen()

    def _listen(self) -> None:
        """Take what the outbox holds. Raises `ClientFault` for an ``error`` among it."""
        refused = None
        self._work.clear()  # or a wait for more would not wait, and nobody else came to run
        for frame in self._session.outbox.take():
            event = _decode(frame)
            if isinstance(event, Error):
                refused = ClientFault(ErrorCode(event.code), event.msg, event.hint, event.retry_ms)
            else:
                self._heard.append(event)
        if refused is not None:
            raise refused
