"""The translation of the texts of one HTTP request in private sessions.

Owns: the sessions of a request, and the pieces of its texts. Must not know: HTTP. The texts take
the way of those from a socket, with the same limits, guards, fairness and metrics. Only the rate of
frames does not apply: as many pieces wait for the engine as of one socket, and the others here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.auth.permissions import EVERYTHING, Permissions
from gateway.core.base.faults import no_source
from gateway.core.base.validation import AUTO
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.session import Session
from gateway.errors import ClientFault, EngineFault, ErrorCode
from gateway.protocol.fields import Translations
from gateway.protocol.messages import (
    Cancelled,
    Delta,
    Failed,
    Final,
    Say,
    ServerMessage,
    Set,
    Timing,
)
from gateway.protocol.notices import Error
from gateway.server.runtime.hub import Hub
from gateway.text import languages, sentences, word_units

ANSWER_S = 30.0
"""Seconds for the translation of all texts."""
BUSY_S = 0.05
"""Seconds until a piece is tried again while the gateway is busy."""
TEXT = 10_000
"""Most characters of one text: ten minutes of speech."""
PIECES = 2_000
"""Most sentences and lines of one request. Each is an utterance, with an id and events."""
TURN, PIECE = 2_000, 100
"""Characters that are said in one turn of the event loop, and those that a short piece counts for:
about as much work as one utterance of the greatest length."""

KEPT = "kept"
"""Flag of a piece of a longer text that is in another language, and therefore stays as it is."""

_decode = msgspec.json.Decoder(ServerMessage).decode


class OneShotRequest(msgspec.Struct, frozen=True):
    """Texts to translate, each by itself.

    ``source``   BCP 47 tag, or `AUTO`: the language of each text is detected
    ``target``   BCP 47 tag
    ``context``  what the meeting is about, for the model
    ``glossary`` translations of terms, see `Set`
    ``live``     whether growing captions are reported, and not only final ones
    """

    texts: tuple[str, ...]
    source: str
    target: str
    context: str | None = None
    glossary: Translations | None = None
    live: bool = False


@dataclass(slots=True, eq=False)
class Passage:
    """One text of a request, cut into pieces: none if it has no word.

    ``source``      its language, as given or as detected
    ``confidence``  confidence in percent that it is in ``source``; 0 if it was not detected
    ``pieces``      sentences, each with the white space behind it
    ``session``     the session in which they are said, from the first piece to the end of the last
    ``kept``        number of pieces that were in another language
    """

    text: str
    source: str = ""
    confidence: float = 0.0
    pieces: Sequence[tuple[str, str]] = ()
    session: Session | None = None
    ended: int = 0
    kept: int = 0


async def read(hub: Hub, request: OneShotRequest) -> list[Passage]:
    """Detect the languages of texts and cut the texts.

    Raises `ClientFault`: ``too_long``, ``empty_text`` if no text has a word, ``lang_unsupported``.
    """
    passages = []
    for text in request.texts:
        if len(text) > TEXT:
            raise ClientFault(
                ErrorCode.TOO_LONG, f"The text has {len(text)} characters; {TEXT} are allowed."
            )
        passage = Passage(text)
        if text.strip():
            passage.source, passage.confidence = _language(hub, request, text)
            passage.pieces = sentences.split(text, hub.limits.text, passage.source)
        passages.append(passage)
        await asyncio.sleep(0)  # others have their turn between two texts
    count = sum(len(passage.pieces) for passage in passages)
    if count > PIECES:
        raise ClientFault(
            ErrorCode.TOO_LONG,
            f"The request has {count} sentences and lines; {PIECES} are allowed.",
            "Send several requests.",
        )
    if not count:
        raise ClientFault(ErrorCode.EMPTY_TEXT, "The text is empty.", "Send a word at least.")
    return passages


def _language(hub: Hub, request: OneShotRequest, text: str) -> tuple[str, float]:
    """Return the language of a text, and the confidence in it. Raises `ClientFault`."""
    if request.source != AUTO:
        # A session may have several languages, but one text has one.
        return languages.normalise(request.source), 0.0
    if hub.detect is None:
        return AUTO, 0.0  # the session refuses it, and says why
    # A text that is too short to tell is taken to be in the language of all texts.
    detected = hub.detect(text) or hub.detect("\n".join(request.texts))
    if detected is None:
        raise ClientFault(
            ErrorCode.LANG_UNSUPPORTED,
            "The language of this text could not be detected.",
            'Name it, such as "en", instead of "auto"; short texts, names and numbers alone'
            " often leave it open.",
        )
    sources = hub.engine.profile.sources
    if languages.match(detected, sources) is None:
        raise no_source(detected, sources)
    return detected, round(100 * dict(hub.detect.rank(text)).get(detected, 0.0), 1)


def _stopped() -> EngineFault:
    return EngineFault("The gateway stopped before the text was translated.")


def _made(event: Failed | Cancelled, **caption: Any) -> Final:
    """Return a caption that no engine made, for the end of one."""
    assert event.seq is not None, "it ended something"
    times = Timing(queue=0, first=0, total=0)
    return Final(seq=event.seq, id=event.id, rev=event.rev, ms=times, **caption)


class OneShot:
    """The translation of the passages of one request, which `read` returns. `close` it in any case.
    ``opened`` is called with the id of each session.

    Raises `ClientFault` at once: ``lang_unsupported`` or ``pair_unsupported``, and the codes of
    `Hub.open`.
    """

    def __init__(
        self,
        hub: Hub,
        request: OneShotRequest,
        passages: list[Passage],
        permissions: Permissions = EVERYTHING,
        opened: Callable[[str], None] = lambda session: None,
    ) -> None:
        self.passages = passages
        self.target = languages.normalise(request.target)
        self._hub = hub
        self._request = request
        self._permissions = permissions
        self._opened = opened
        self._pieces = [piece for passage in passages for piece in passage.pieces]
        numbered = (passage for passage in passages for _ in passage.pieces)
        self._waiting = deque(enumerate(numbered, 1))
        """Numbers of the pieces that are not said yet, each with its passage."""
        self._events: deque[tuple[Passage, ServerMessage]] = deque()
        self._has_events = asyncio.Event()
        try:
            # The first session tells whether the languages exist and the gateway has room.
            self.session = self._open(self._waiting[0][1]).id
            """Id of the first session."""
            for source in {passage.source for passage in passages if passage.pieces}:
                # A text that is in the target language already is returned as it is.
                if not languages.same(source, self.target):
                    hub.engine.profile.resolve(source, self.target)
        except ClientFault:
            # The caller gets no object that it could close.
            self.close()
            raise

    @property
    def source(self) -> str:
        """Language of the first text that has one."""
        return next(passage.source for passage in self.passages if passage.pieces)

    def close(self) -> None:
        """End the sessions and abort unfinished translations. Idempotent."""
        for passage in self.passages:
            self._close(passage)

    def _close(self, passage: Passage) -> None:
        if passage.session is not None:
            self._hub.close(passage.session)
            passage.session = None

    @property
    def _sessions(self) -> list[tuple[Passage, Session]]:
        """Passages whose pieces are being translated, with their sessions."""
        return [(one, one.session) for one in self.passages if one.session is not None]

    async def finals(self) -> list[Final]:
        """Return the final pieces as they ended. Raises `EngineFault` if a piece failed."""
        try:
            return [event async for event in self.events() if isinstance(event, Final)]
        finally:
            self.close()

    async def events(self) -> AsyncGenerator[Delta | Final]:
        """Yield the events of the pieces as they happen. Ids number the pieces from 1.

        Raises `EngineFault` if a piece failed, and with ``timeout`` after `ANSWER_S`.
        """
        unfinished, said = len(self._pieces), 0
        limit = self._hub.limits.inflight
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ANSWER_S
        while unfinished:
            retry_at = deadline
            # As many pieces at once as one socket may have in flight.
            while self._waiting and unfinished - len(self._waiting) < limit:
                try:
                    self._say_next()
                except ClientFault as fault:
                    if not fault.code.retry or len(self._waiting) == len(self._pieces):
                        raise  # no piece was accepted: the client may try again later
                    retry_at = loop.time() + BUSY_S
                    break
                said += PIECE + len(self._pieces[-1 - len(self._waiting)][0])
                if said > TURN:  # others have their turn
                    said = 0
                    await asyncio.sleep(0)
            if not self._events:
                if any(session.outbox.closing for _, session in self._sessions):
                    raise _stopped()
                if loop.time() >= deadline:
                    raise EngineFault(
                        f"The text was not translated within {ANSWER_S:g} s.", ErrorCode.TIMEOUT
                    )
                # A timeout ends the wait, not the translation: the loop checks why it ended.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(min(retry_at, deadline)):
                        await self._has_events.wait()
                self._has_events.clear()  # before reading, so that no event is missed
                for passage, session in self._sessions:
                    self._read_outbox(passage, session)
            while self._events:
                shown = self._shown(*self._events.popleft())
                if isinstance(shown, Final):
                    unfinished -= 1
                if shown is not None:
                    yield shown

    def _shown(self, passage: Passage, event: ServerMessage) -> Delta | Final | None:
        """Return the event to show for one of a session. Raises `EngineFault` if a piece failed."""
        match event:
            case Delta():
                return event
            case Final():
                final = event
            case Failed(code=ErrorCode.LANG_MISMATCH) if passage.kept < len(passage.pieces) - 1:
                # A document quotes other languages: the piece itself is its caption.
                passage.kept += 1
                piece, _ = self._pieces[int(event.id) - 1]
                about = {"ord": event.ord, "lang": event.lang, "flags": (KEPT,)}
                final = _made(event, text=piece, by="same", **about)
            case Cancelled(lang=str(lang), was="none"):
                final = _made(event, ord=int(event.id), lang=lang, text="", by="mt")
            case Failed():
                why = event.msg or "The text could not be translated."
                raise EngineFault(why, ErrorCode(event.code))
            case Cancelled():
                raise _stopped()
            case _:
                return None
        passage.ended += 1
        if passage.ended == len(passage.pieces):
            self._close(passage)
        return final

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
                    space += sentences.space(gap, spaced=word_units.spaced(self.target))
                    current, shown = current + 1, ""

    def join(self, finals: list[Final]) -> list[str]:
        """Return the translation of each text, with the spaces between its pieces."""
        spaced = word_units.spaced(self.target)
        # Pieces end in any order, and their ids are their numbers.
        translations = iter(sorted(finals, key=lambda final: int(final.id)))
        return [
            sentences.join(
                [(next(translations).text, gap) for _, gap in passage.pieces], spaced=spaced
            )
            if passage.pieces
            else passage.text
            for passage in self.passages
        ]

    def _open(self, passage: Passage) -> Session:
        """Open the session of a passage. Raises `ClientFault`."""
        request = self._request
        session = passage.session = self._hub.open(
            ConnectRequest(
                once=True,
                source=passage.source,
                targets=(request.target,),
                view="live" if request.live else "final",
                permissions=self._permissions,
            )
        )
        session.outbox.wake = self._has_events.set
        self._opened(session.id)
        self._read_outbox(passage, session)
        if request.context is not None or request.glossary is not None:
            self._hub.perform(session, Set(context=request.context, glossary=request.glossary))
        return session

    def _say_next(self) -> None:
        """Say the next piece. Raises `ClientFault`; then the piece still waits."""
        number, passage = self._waiting[0]
        session = passage.session or self._open(passage)
        if session.outbox.closing is not None:
            raise _stopped()
        self._hub.perform(session, Say(text=self._pieces[number - 1][0], id=str(number)))
        self._waiting.popleft()
        self._read_outbox(passage, session)

    def _read_outbox(self, passage: Passage, session: Session) -> None:
        """Read all frames for a passage. Raises `ClientFault` if one of them is an ``error``."""
        errors = []
        for frame in session.outbox.take():
            event = _decode(frame)
            if isinstance(event, Error):
                errors.append(event)
            else:
                self._events.append((passage, event))
        # Raised after the loop, so that no event behind the error is lost.
        if errors:
            error = errors[-1]
            raise ClientFault(ErrorCode(error.code), error.msg, error.hint, error.retry_ms)
