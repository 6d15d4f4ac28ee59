"""Realtime translation: OpenAI's ``/v1/realtime/translations``, without spoken output.

Owns: the text in one language, in the order in which it was said, that is only appended to. Must
not know: sockets. Source: the types of openai-python 3.54, ``realtime_translation_*``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.audio import HeardSpeech
from gateway.protocol.messages import (
    AskStats,
    Bye,
    Cancelled,
    ClientMessage,
    Delta,
    Failed,
    Final,
    Retracted,
    ServerMessage,
    Source,
    Want,
)
from gateway.protocol.notices import Error, Stats
from gateway.server.realtime.client_events import (
    ClientEvent,
    Close,
    SessionAppend,
    TranscriptionConfig,
    Update,
    audio_rate,
)
from gateway.server.realtime.dialect import NEVER, Dialect, GrowingText, ServerEvent
from gateway.text import languages, word_units

KEPT = 256
"""Utterances whose captions may still come. A room has at most some tens in flight."""


class _QueuedCaption:
    """One caption, whose text waits until the captions before it have ended."""

    def __init__(self, lang: str) -> None:
        self.text = GrowingText(lang)
        self.waiting = ""
        self.ended = False


class _AppendedText:
    """The event that appends to a transcript, and the gap between two utterances in it."""

    def __init__(self, type: str) -> None:
        self.type = type
        self.filled = False
        self._gap = False

    def separate(self) -> None:
        """Begin the next text with a gap, if there is a text before it."""
        self._gap = self.filled

    def append(self, text: str, lang: str) -> str:
        """Return the text to append, with the gap if one is due."""
        gap = " " if self._gap and word_units.spaced(lang) else ""
        self._gap, self.filled = False, True
        return gap + text


class TranslationDialect(Dialect):
    """A client that wants to read its own speech in another language."""

    def __init__(self, query: Mapping[str, str]) -> None:
        super().__init__(query)
        target = (query.get("to") or "").partition(",")[0]
        # Drafts could not be taken back.
        self.query |= {"to": target, "view": "stable"}
        self._target: str | None = None
        if target:
            with suppress(ClientFault):  # the session refuses it too, and says why
                self._target = languages.normalise(target)
        self._former = self._target
        self._switching: str | None = None  # `ref` of a change of the language
        self._transcription: TranscriptionConfig | None = None
        self._own: dict[str, float] = {}  # seconds at which the utterances heard here end
        self._heard: dict[str, GrowingText] = {}
        self._captions: dict[str, _QueuedCaption] = {}
        self._input = _AppendedText("session.input_transcript.delta")
        self._output = _AppendedText("session.output_transcript.delta")

    def _do(self, event: ClientEvent) -> list[ClientMessage | bytes]:
        match event:
            case Update():
                return self._update(event)
            case SessionAppend():
                return self._append(event.audio)
            case Close():
                return [Bye(ref=self._ask("session.closed", event.event_id))]
            case _:
                raise ClientFault(ErrorCode.UNKNOWN_TYPE, "This event belongs to /v1/realtime.")

    def _update(self, event: Update) -> list[ClientMessage | bytes]:
        wish = event.session.input
        target = event.session.audio.output.language
        lang = None if target is None else languages.normalise(target)
        before = self.rate, self._source
        if wish.format is not UNSET:
            self.rate = audio_rate(wish.format)
        if wish.transcription is not UNSET:
            self._transcription = wish.transcription
            if wish.transcription is not None and wish.transcription.language is not None:
                self._source = wish.transcription.language
        # Messages with one `ref` are answered together: by the first error, or else at the end.
        ref = self._ask("session.updated", event.event_id)
        messages: list[ClientMessage | bytes] = []
        if lang is not None and lang != self._target:
            self._switching, self._former, self._target = ref, self._target, lang
            self._captions.clear()
            # What was said before is not said again in the new language.
            messages.append(Want(langs=(lang,), backfill=0, ref=_want_ref(ref)))
        if not self._on or (self.rate, self._source) != before:
            messages.append(self._audio(ref))
        return [*messages, AskStats(ref=ref)]

    def events(self, message: ServerMessage) -> list[ServerEvent]:
        """Return the events that a message becomes; none of captions while the language changes."""
        if isinstance(message, Stats) and message.ref == self._switching:
            self._switching = None
        elif isinstance(message, Error) and message.ref == _want_ref(self._switching):
            self._target = self._former
            message = replace(message, ref=self._switching)
        return super().events(message)

    def _answer(self, request: str) -> list[ServerEvent]:
        if request == "session.closed":
            return [self._event(request)]
        return [self._event(request, session=self._described())]

    def _tell(self, message: ServerMessage) -> list[ServerEvent]:
        match message:
            case HeardSpeech():
                return self._hear(message)
            case Source() | Delta() | Final() | Failed() | Cancelled() | Retracted():
                return self._caption(message) if _root(message.id) in self._own else []
            case _:
                return []

    def _hear(self, heard: HeardSpeech) -> list[ServerEvent]:
        self._own[heard.id] = heard.t1
        if len(self._own) > KEPT:
            oldest = next(iter(self._own))
            del self._own[oldest]
            self._heard.pop(oldest, None)
        if self._transcription is None:
            return []
        growing = self._heard.setdefault(heard.id, GrowingText(heard.lang))
        added = growing.finish(heard.text) if heard.final else growing.grow(heard.text)
        events = self._append_to(self._input, heard.id, added, heard.lang)
        if heard.final:
            del self._heard[heard.id]
            self._input.separate()
        return events

    def _caption(self, message: _CaptionEvent) -> list[ServerEvent]:
        """Take an event of a caption and return the text that can be appended now."""
        # Captions of several utterances are made at the same time. The text of each waits until
        # those before it have ended.
        target = self._target
        # Captions in the former language do not come to an end any more.
        if target is None or self._switching is not None:
            return []
        if isinstance(message, Cancelled | Retracted) and message.id not in self._captions:
            return []
        caption = self._captions.setdefault(message.id, _QueuedCaption(target))
        told: list[ServerEvent] = []
        match message:
            case Delta(reset=False):
                caption.waiting += caption.text.append(message.add)
            case Final():
                caption.waiting += caption.text.finish(message.text)
                caption.ended = True
            case Failed():
                caption.ended = True
                told.append(self._fault(message.code, f"{message.id} was not translated."))
            case Cancelled() | Retracted():
                caption.ended = True
        return told + self._flush(target)

    def _flush(self, target: str) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        for id, caption in list(self._captions.items()):
            events += self._append_to(self._output, id, caption.waiting, target)
            caption.waiting = ""
            if not caption.ended:
                break
            del self._captions[id]
            self._output.separate()
        return events

    def _append_to(
        self, transcript: _AppendedText, id: str, text: str, lang: str
    ) -> list[ServerEvent]:
        if not text:
            return []
        elapsed = round(1000 * self._own[_root(id)]) if _root(id) in self._own else None
        delta = transcript.append(text, lang)
        return [self._event(transcript.type, delta=delta, elapsed_ms=elapsed)]

    def _described(self) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "translation",
            "model": self.model or "",
            "expires_at": NEVER,
            "audio": {
                "input": {"transcription": msgspec.to_builtins(self._transcription)},
                "output": {"language": self._target},
            },
        }


_CaptionEvent = Source | Delta | Final | Failed | Cancelled | Retracted


def _want_ref(update: str | None) -> str:
    """Return the ``ref`` of the change of language in an update."""
    return f"{update} language"


def _root(id: str) -> str:
    """Return the id of the utterance that a caption is a part of."""
    return id.partition(".")[0]
