"""Common parts of the two dialects: audio in, answers out, text that is only appended to.

Owns: the begin and the clock of the audio, the requests that wait for an answer, ids of events,
errors, the part of a text that is sent while it still changes. Must not know: sockets, and the
meaning of what was heard.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.core.streaming.stability import Agreement, StabilityRules
from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.audio import Audio, AudioState
from gateway.protocol.messages import AskStats, ClientMessage, ServerMessage, Welcome
from gateway.protocol.notices import Error, Stats
from gateway.server.realtime.client_events import RATE, ClientEvent, decode, event_id
from gateway.text import word_units

ServerEvent = dict[str, Any]
"""An event of OpenAI's API, ready to be encoded."""
SERVER_ERRORS = frozenset(("internal", "engine_unavailable", "timeout", "rejected", "busy"))
"""Codes of errors that are not the client's. OpenAI's API tells them apart by the error's type."""
Refusal = tuple[str, str, str | None]
"""The code, the message and the hint of a fault."""
Asked = tuple[str, str | None, Refusal | None]
"""A request, the id of its event, and why the event was refused, if it was."""
UNREADABLE = '{"type":"say","ref":"%s","text":0}'
"""Frame of the gateway's protocol that counts as unreadable, and whose error has this ``ref``."""
NEVER = 253_402_300_799
"""End of the year 9999 in Unix time. OpenAI's sessions name the time at which they expire; those of
this gateway do not."""


class Dialect(ABC):
    """One client's conversation, in the events of OpenAI's API. The query is that of the address
    that the client has opened.
    """

    KEPT = ("room", "speaker", "ticket", "from", "to")
    """Parameters of the query that mean the same as at the gateway's own socket."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self.query = {name: query[name] for name in self.KEPT if name in query}
        self.model = query.get("model") or None
        self._source = query.get("from")
        self.rate = RATE  # samples of the audio in a second
        self._on = False  # audio was begun
        self._sent = 0.0  # seconds of audio so far, dropped ones included
        self._half = b""  # a sample whose second byte is in the next piece
        self._events = 0
        self._asked: dict[str, Asked] = {}  # by ref
        self._refs = 0
        self._audio_ref: str | None = None  # of the message that began the audio
        self._welcome: Welcome | None = None

    def receive(self, frame: str | bytes) -> Sequence[ClientMessage | str | bytes]:
        """Return the meaning of an event of the client: messages, and pieces of audio.

        An event that is refused becomes a request, whose answer is the refusal. So it counts like
        any other, and an unreadable event becomes an unreadable request.
        """
        try:
            return self._do(decode(frame))
        except ClientFault as fault:
            # Not the fault: its traceback refers to the whole event, and a client that does not
            # read has many refusals waiting.
            refusal = fault.code.value, str(fault), fault.hint
            ref = self._ask("refused", event_id(frame), refusal)
            return [UNREADABLE % ref if fault.code is ErrorCode.BAD_FRAME else AskStats(ref=ref)]

    def events(self, message: ServerMessage) -> list[ServerEvent]:
        """Return the events that a message of the gateway becomes, mostly none."""
        match message:
            case Welcome():
                self._welcome = message
                return [self._event("session.created", session=self._described())]
            case Error():
                return self._error(message)
            case Stats(ref=str(ref)) | AudioState(ref=str(ref)) if ref in self._asked:
                request, cause, refusal = self._asked.pop(ref)
                return [self._fault(*refusal, cause)] if refusal else self._answer(request)
            case _:
                return self._tell(message)

    @abstractmethod
    def _do(self, event: ClientEvent) -> list[ClientMessage | bytes]:
        """Carry out a client's event."""

    @abstractmethod
    def _answer(self, request: str) -> list[ServerEvent]:
        """Return the answer to a request that `_ask` has numbered."""

    @abstractmethod
    def _described(self) -> ServerEvent:
        """Return the session as OpenAI describes one."""

    @abstractmethod
    def _tell(self, message: ServerMessage) -> list[ServerEvent]:
        """Return the events for any other message."""

    def _error(self, error: Error) -> list[ServerEvent]:
        ref = error.ref
        # A frame over the rate was not read, so its `ref` is unknown. Answers come in order.
        if error.code == "rate":
            ref = next(iter(self._asked), None)
        _, cause, refused = self._asked.pop(ref or "", ("", None, None))
        if refused is not None and error.code == refused[0]:
            return [self._fault(*refused, cause)]
        if error.code == "audio_off" and ref is None and not self._on:
            return []  # it was told why, and of this piece too there is nothing else to say
        # Audio was not begun, or has ended by a fault: the next piece of audio asks again.
        if error.code == "audio_off" or (ref is not None and ref == self._audio_ref):
            self._on = False
        return [self._fault(error.code, error.msg, error.hint, cause)]

    def _fault(
        self, code: str, text: str, hint: str | None = None, cause: str | None = None
    ) -> ServerEvent:
        """Return an event ``error``. ``cause`` is the id of the client's event."""
        return self._event(
            "error",
            error={
                "type": "server_error" if code in SERVER_ERRORS else "invalid_request_error",
                "code": code,
                "message": f"{text} {hint}" if hint else text,
                "param": None,
                "event_id": cause,
            },
        )

    def _event(self, type: str, **fields: object) -> ServerEvent:
        self._events += 1
        return {"type": type, "event_id": f"event_{self._events}", **fields}

    def _ask(self, request: str, cause: str | None, refusal: Refusal | None = None) -> str:
        """Return the ``ref`` of a request whose answer is told to the client."""
        self._refs += 1
        ref = f"{request} {self._refs}"
        self._asked[ref] = (request, cause, refusal)
        return ref

    def _audio(self, ref: str) -> Audio:
        """Return the message that begins audio, or changes it."""
        self._on, self._audio_ref = True, ref
        return Audio(
            codec="pcm_s16le", rate=self.rate, from_=self._source, t0=round(self._sent, 3), ref=ref
        )

    def _end(self, request: str, cause: str | None) -> Audio | AskStats:
        """Return the message that ends the audio, if there is any. Its answer is told."""
        ref = self._ask(request, cause)
        if not self._on:
            return AskStats(ref=ref)
        self._on, self._half = False, b""
        return Audio(codec="none", ref=ref)

    def _append(self, audio: bytes) -> list[ClientMessage | bytes]:
        messages: list[ClientMessage | bytes] = [] if self._on else [self._audio("audio")]
        audio = self._half + audio
        whole = len(audio) // 2 * 2
        audio, self._half = audio[:whole], audio[whole:]
        self._sent += whole / 2 / self.rate
        return [*messages, audio] if audio else messages

    @property
    def _id(self) -> str:
        """The id of the session as OpenAI writes one."""
        return "sess_" + ("" if self._welcome is None else self._welcome.session)


RULES = StabilityRules(agree=2, hold=1)
"""The last word of a hypothesis is held back, because the next one often completes it."""


class GrowingText:
    """The text of one utterance."""

    __slots__ = ("_agreement", "_spaced", "sent")

    def __init__(self, lang: str) -> None:
        self._agreement = Agreement(lang, RULES)
        self._spaced = word_units.spaced(lang)
        self.sent = ""

    def grow(self, text: str) -> str:
        """Take the newest text; return the words that two texts in a row agree on, beyond the sent
        ones.
        """
        # Text that was sent and has changed since is not taken back: nothing more is sent until the
        # newest text agrees with it again, or the utterance ends.
        added = self._agreement.add(text)
        self.sent += added
        return added

    def append(self, added: str) -> str:
        """Send text that is known to be stable."""
        self.sent += added
        return added

    def finish(self, text: str) -> str:
        """Return the rest of the final text that was not sent.

        If the text has changed, the rest is all of it behind the words that both begin with.
        """
        # Compared by characters first: of "uns" and "uns." only the full stop is missing.
        if text.startswith(self.sent):
            return text[len(self.sent) :]
        sent, whole = (word_units.split(shown, self._spaced) for shown in (self.sent, text))
        rest = "".join(whole[word_units.common(sent, whole) :])
        return " " + rest.lstrip() if rest and self._spaced else rest
