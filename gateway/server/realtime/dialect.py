"""Common parts of the two dialects: audio in, answers out, text that is only appended to.

Owns: the begin and the clock of the audio, the requests that wait for an answer, ids of events,
errors, the part of a text that is sent while it still changes. Must not know: sockets, and the
meaning of what was heard.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from gateway.core.streaming.stability import Agreement, StabilityRules
from gateway.errors import ClientFault
from gateway.protocol.audio import Audio, AudioState
from gateway.protocol.messages import AskStats, ClientMessage, Error, ServerMessage, Stats, Welcome
from gateway.server.realtime.client_events import RATE, ClientEvent, decode, event_id
from gateway.text import units

ServerEvent = dict[str, Any]
"""An event of OpenAI's API, ready to be encoded."""
SERVER_ERRORS = frozenset(("internal", "engine_unavailable", "timeout", "rejected", "busy"))
"""Codes of errors that are not the client's. OpenAI's API tells them apart by the error's type."""
NEVER = 253_402_300_799
"""End of the year 9999 in Unix time. OpenAI's sessions name the time at which they expire; those of
this gateway do not."""


class Dialect(ABC):
    """One client's conversation, in the events of OpenAI's API.

    :param query: parameters of the address that the client has opened
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
        self._asked: dict[str, tuple[str, str | None]] = {}  # by ref: the request and its event id
        self._refs = 0
        self._audio_ref: str | None = None  # of the message that began the audio
        self._end_ref = ""  # of the message that ended it
        self._welcome: Welcome | None = None

    def receive(self, frame: str | bytes) -> list[ClientMessage | bytes]:
        """Return what an event of the client means: messages, and pieces of audio.

        Raises `ClientFault`; then the event has no effect.
        """
        return self._do(decode(frame))

    def events(self, message: ServerMessage) -> list[ServerEvent]:
        """Return the events that a message of the gateway becomes, mostly none."""
        match message:
            case Welcome():
                self._welcome = message
                return [self._event("session.created", session=self._described())]
            case Error():
                return self._error(message)
            case Stats(ref=str(ref)) | AudioState(ref=str(ref)) if ref in self._asked:
                return self._answer(*self._asked.pop(ref))
            case _:
                return self._tell(message)

    def refusal(self, fault: ClientFault, frame: str | bytes) -> ServerEvent:
        """Return the error about an event that `receive` has refused."""
        return self._fault(fault.code.value, str(fault), fault.hint, event_id(frame))

    @abstractmethod
    def _do(self, event: ClientEvent) -> list[ClientMessage | bytes]:
        """Carry out a client's event."""

    @abstractmethod
    def _answer(self, request: str, cause: str | None) -> list[ServerEvent]:
        """Return the answer to a request that `_ask` has numbered. ``cause`` is its event's id."""

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
        _, cause = self._asked.pop(ref or "", ("", None))
        if ref is not None and ref == self._audio_ref:
            self._on = False  # the next piece of audio asks again
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

    def _ask(self, request: str, cause: str | None) -> str:
        """Return the ``ref`` of a request whose answer is told to the client."""
        self._refs += 1
        ref = f"{request} {self._refs}"
        self._asked[ref] = (request, cause)
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
        self._on, self._half, self._end_ref = False, b"", ref
        return Audio(codec="none", ref=ref)

    @property
    def ending(self) -> bool:
        """True until all of the audio that was ended is heard. New audio has to wait for that."""
        return self._end_ref in self._asked

    def _append(self, audio: bytes) -> list[ClientMessage | bytes]:
        """Return the messages for a piece of audio."""
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
    """The text of one utterance.

    :param lang: canonical tag of its language
    """

    __slots__ = ("_agreement", "_sent", "_spaced")

    def __init__(self, lang: str) -> None:
        self._agreement = Agreement(lang, RULES)
        self._spaced = units.spaced(lang)
        self._sent = ""

    def grow(self, text: str) -> str:
        """Take the newest text; return what two texts in a row agree on, beyond what was sent."""
        # Text that was sent and has changed since is not taken back: nothing more is sent until the
        # newest text agrees with it again, or the utterance ends.
        added = self._agreement.add(text)
        self._sent += added
        return added

    def append(self, added: str) -> str:
        """Send text that is known to be stable."""
        self._sent += added
        return added

    def finish(self, text: str) -> str:
        """Return what is missing from the final text.

        If that has changed what was sent, it is all behind the words that both begin with.
        """
        # Compared by characters first: of "uns" and "uns." only the full stop is missing.
        if text.startswith(self._sent):
            return text[len(self._sent) :]
        sent, whole = (units.split(one, self._spaced) for one in (self._sent, text))
        rest = "".join(whole[units.common(sent, whole) :])
        return " " + rest.lstrip() if rest and self._spaced else rest
