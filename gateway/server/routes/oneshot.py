"""The translation of one text in a private session.

Owns: the session of an HTTP request, and the pieces of a longer text. Must not know: HTTP. The text
takes the same way as one from a socket: the same limits, guards, fairness and metrics apply.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

from gateway.auth.permissions import EVERYTHING, Permissions
from gateway.core.base.validation import AUTO
from gateway.core.session.connect_request import ConnectRequest
from gateway.errors import ClientFault, EngineFault, ErrorCode
from gateway.protocol.fields import Translations
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
from gateway.text import languages, sentences, units

ANSWER_S = 30.0
"""Seconds for the translation of the whole text."""
BUSY_S = 0.05
"""Seconds until a piece is tried again while the gateway is busy."""
TEXT = 10_000
"""Most characters of one request: ten minutes of speech."""

_decode = msgspec.json.Decoder(ServerMessage).decode


class OneShotRequest(msgspec.Struct, frozen=True):
    """A text to translate.

    ``source``   BCP 47 tag, or `AUTO`: the language is detected
    ``target``   BCP 47 tag
    ``sample``   text that is probably in the same language, for the detection of a short text
    ``context``  what the meeting is about, for the model
    ``glossary`` translations of terms, see `Set`
    ``live``     whether growing captions are reported, and not only final ones
    """

    text: str
    source: str
    target: str
    sample: str = ""
    context: str | None = None
    glossary: Translations | None = None
    live: bool = False


class OneShot:
    """The translation of one text. `close` it in any case.

    Raises `ClientFault` at once: ``lang_unsupported`` for an unknown language or an undetected one,
    ``too_long``, ``empty_text``, and the codes of `Hub.open`.

    :param permissions: what the client may do
    """

    def __init__(
        self, hub: Hub, request: OneShotRequest, permissions: Permissions = EVERYTHING
    ) -> None:
        text, source = request.text, request.source
        if len(text) > TEXT:
            raise ClientFault(
                ErrorCode.TOO_LONG, f"The text has {len(text)} characters; {TEXT} are allowed."
            )
        if not text.strip():
            raise ClientFault(ErrorCode.EMPTY_TEXT, "The text is empty.", "Send a word at least.")
        self.target = languages.normalise(request.target)
        self._hub = hub
        self.confidence = 0.0
        """Confidence in percent that the text is in `source`; 0 if it was not detected."""
        if source == AUTO and hub.detect is not None:
            # Detect the whole text here: its pieces are shorter, and so less certain.
            detected = hub.detect(text) or hub.detect(request.sample)
            if detected is None:
                raise ClientFault(
                    ErrorCode.LANG_UNSUPPORTED,
                    "The language of this text could not be detected.",
                    'Name it, such as "en", instead of "auto"; short texts, names and numbers alone'
                    " often leave it open.",
                )
            source = detected
            self.confidence = round(100 * dict(hub.detect.rank(text)).get(source, 0.0), 1)
        if source != AUTO:
            # A session may have several languages, but one text has one.
            source = languages.normalise(source)
        self._events: deque[ServerMessage] = deque()
        self._has_events = asyncio.Event()
        self._session = hub.open(
            ConnectRequest(
                once=True,
                source=source,
                targets=(request.target,),
                view="live" if request.live else "final",
                permissions=permissions,
            )
        )
        self._session.outbox.wake = self._has_events.set
        self._pieces = sentences.split(text, hub.limits.text, self.source)
        try:
            self._read_outbox()
            # A text that is in the target language already is returned as it is.
            if not languages.same(self.source, self.target):
                hub.engine.profile.resolve(self.source, self.target)
            if request.context is not None or request.glossary is not None:
                self._send(Set(context=request.context, glossary=request.glossary))
        except ClientFault:
            # The caller gets no object that it could close.
            self.close()
            raise

    @property
    def session(self) -> str:
        """Id of the session."""
        return self._session.id

    @property
    def source(self) -> str:
        """Language of the text, as given or as detected."""
        return self._session.lang

    def close(self) -> None:
        """End the session and abort what is not translated yet. Idempotent."""
        self._hub.close(self._session)

    async def finals(self) -> list[Final]:
        """Return the final pieces in order. Raises `EngineFault` if a piece failed."""
        try:
            done: dict[str, Final] = {}
            async for event in self.events():
                if isinstance(event, Final):
                    done[event.id] = event
            # Pieces end in any order, and their ids are their numbers.
            return [done[id] for id in sorted(done, key=int)]
        finally:
            self.close()

    async def events(self) -> AsyncGenerator[Delta | Final]:
        """Yield the events of the pieces as they happen. Ids number the pieces from 1.

        Raises `EngineFault` if a piece failed, and with ``timeout`` after `ANSWER_S`.
        """
        waiting = deque((str(i), piece) for i, (piece, _) in enumerate(self._pieces, 1))
        unfinished = len(waiting)
        limit = self._hub.limits.inflight
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ANSWER_S
        while unfinished:
            retry_at = deadline
            # As many pieces at once as the session may have in flight.
            while waiting and len(self._session.member.inflight) < limit:
                id, piece = waiting[0]
                try:
                    self._send(Say(text=piece, id=id))
                except ClientFault as fault:
                    if not fault.code.retry or id == "1":
                        raise  # no piece was accepted: the client may try again later
                    retry_at = loop.time() + BUSY_S
                    break
                waiting.popleft()
            if not self._events:
                if self._session.outbox.closing is not None:
                    raise EngineFault("The gateway stopped before the text was translated.")
                if loop.time() >= deadline:
                    raise EngineFault(
                        f"The text was not translated within {ANSWER_S:g} s.", ErrorCode.TIMEOUT
                    )
                # A timeout ends the wait, not the translation: the loop checks why it ended.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(min(retry_at, deadline)):
                        await self._has_events.wait()
                self._read_outbox()
            while self._events:
                match self._events.popleft():
                    case Delta() as delta:
                        yield delta
                    case Final() as final:
                        unfinished -= 1
                        yield final
                    case Failed(code=code):
                        raise EngineFault("The text could not be translated.", ErrorCode(code))
                    case Cancelled():
                        raise EngineFault("The gateway stopped before the text was translated.")

    async def text(self) -> AsyncGenerator[str]:
        """Yield the translation in order, as it grows. Needs ``live``. Raises as `events` does.

        Raises `EngineFault` (``rejected``) if a second attempt begins differently: text that was
        yielded cannot be taken back.
        """
        texts: dict[int, str] = {}
        ended: set[int] = set()
        current, shown, space = 1, "", ""
        async with contextlib.aclosing(self.events()) as events:
            async for event in events:
                number = int(event.id)
                if isinstance(event, Final):
                    texts[number] = event.text
                    ended.add(number)
                else:
                    texts[number] = ("" if event.reset else texts.get(number, "")) + event.add
                # Pieces grow side by side; those behind the current one wait for their turn.
                while True:
                    piece = texts.get(current, "")
                    if piece.startswith(shown):
                        if piece != shown:
                            yield space + piece[len(shown) :]
                            shown, space = piece, ""
                    elif current in ended:
                        raise EngineFault(
                            "The model began again after text had been sent.", ErrorCode.REJECTED
                        )
                    if current not in ended:
                        break
                    gap = self._pieces[current - 1][1]  # the white space behind the piece
                    space += sentences.space(gap, spaced=units.spaced(self.target))
                    current, shown = current + 1, ""

    def join(self, finals: list[Final]) -> str:
        """Return the whole translation, with the spaces between the pieces."""
        pieces = [(final.text, gap) for final, (_, gap) in zip(finals, self._pieces, strict=True)]
        return sentences.join(pieces, spaced=units.spaced(self.target))

    def _send(self, message: ClientMessage) -> None:
        self._hub.receive(self._session, msgspec.json.encode(message).decode())
        self._read_outbox()

    def _read_outbox(self) -> None:
        """Read all frames of the outbox. Raises `ClientFault` if one of them is an ``error``."""
        refused = None
        self._has_events.clear()  # before reading: `events` waits for it when nothing is left
        for frame in self._session.outbox.take():
            event = _decode(frame)
            if isinstance(event, Error):
                refused = ClientFault(ErrorCode(event.code), event.msg, event.hint, event.retry_ms)
            else:
                self._events.append(event)
        # Raised after the loop, so that no event behind the error is lost.
        if refused is not None:
            raise refused
