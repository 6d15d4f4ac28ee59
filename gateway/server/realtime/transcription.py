"""Realtime transcription: OpenAI's ``/v1/realtime?intent=transcription``.

Owns: the items of a transcription, their deltas and ends. Must not know: sockets. An item is an
utterance, or without turn detection all that was said before an ``input_audio_buffer.commit``.
Source: OpenAI's guide "Realtime transcription" and the types of openai-python 3.54.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.audio import HeardSpeech
from gateway.protocol.messages import (
    PRIVATE,
    AskStats,
    Cancel,
    Cancelled,
    ClientMessage,
    ServerMessage,
    Set,
)
from gateway.protocol.notices import Error
from gateway.server.realtime.client_events import (
    Append,
    Clear,
    ClientEvent,
    Commit,
    OlderUpdate,
    TranscriptionConfig,
    TurnDetection,
    Update,
    audio_rate,
)
from gateway.server.realtime.dialect import NEVER, Dialect, GrowingText, ServerEvent
from gateway.text import word_units

TRANSCRIPTION = "conversation.item.input_audio_transcription"
COMMIT, CLEAR, UPDATED = "commit", "clear", "session.updated"


class _Item:
    """A transcription that has begun. Times are in seconds of the audio."""

    def __init__(self, id: str, start: float) -> None:
        self.id = id
        self.utterance: str | None = None
        self.langs: list[str] = []
        self.start = self.end = start
        self._text = ""  # of the utterances that have ended
        self._newest = ""  # of the one that grows, after a space if it needs one
        self._growing = GrowingText("en")

    @property
    def text(self) -> str:
        """The whole text so far."""
        return self._text + self._newest

    def hear(self, heard: HeardSpeech) -> str:
        """Take the newest text of an utterance, and return the text to append."""
        if heard.id != self.utterance:
            self.utterance = heard.id
            self._text += self._newest
            self._growing = GrowingText(heard.lang)
        if heard.lang not in self.langs:
            self.langs.append(heard.lang)
        self.end = heard.t1
        gap = " " if self._text and word_units.spaced(heard.lang) else ""
        self._newest = gap + heard.text if heard.text else ""
        begun = bool(self._growing.sent)
        grow = self._growing.finish if heard.final else self._growing.grow
        added = grow(heard.text)
        if heard.final:
            self._text, self._newest, self.utterance = self.text, "", None
        return gap + added if added and not begun else added

    def drop(self) -> None:
        """Forget the utterance that grows: it was withdrawn."""
        self._newest, self.utterance = "", None


class TranscriptionDialect(Dialect):
    """A client that wants to read its own speech."""

    def __init__(self, query: Mapping[str, str]) -> None:
        super().__init__(query)
        self.query["to"] = ""  # nobody reads translations on this socket
        self._turns: TurnDetection | None = TurnDetection()
        self._config = TranscriptionConfig(model=self.model)
        self._item: _Item | None = None
        self._items = 0
        self._previous: str | None = None
        self._completed = False  # an item, since the last commit
        self._clearing = False

    def _do(self, event: ClientEvent) -> list[ClientMessage | bytes]:
        match event:
            case Update() | OlderUpdate():
                return self._update(event)
            case Append():
                return self._append(event.audio)
            case Commit():
                return [self._end(COMMIT, event.event_id)]
            case Clear():
                self._clearing = True
                heard = self._item.utterance if self._item is not None else None
                cancel = [] if heard is None else [Cancel(id=heard)]
                return [*cancel, self._end(CLEAR, event.event_id)]
            case _:
                raise ClientFault(
                    ErrorCode.UNKNOWN_TYPE, "This event belongs to /v1/realtime/translations."
                )

    def _update(self, event: Update | OlderUpdate) -> list[ClientMessage | bytes]:
        wish = event.session.input
        before = self.rate, self._source
        if wish.format is not UNSET:
            self.rate = audio_rate(wish.format)
        if wish.turn_detection is not UNSET:
            self._turns = wish.turn_detection
        request = UPDATED if isinstance(event, Update) else f"transcription_{UPDATED}"
        # Messages with one `ref` are answered together: by the first error, or else at the end.
        ref = self._ask(request, event.event_id)
        messages: list[ClientMessage | bytes] = []
        if isinstance(wish.transcription, TranscriptionConfig):
            messages = self._configure(wish.transcription, ref)
        if not self._on or (self.rate, self._source) != before:
            messages.append(self._audio(ref))
        return [*messages, AskStats(ref=ref)]

    def _configure(self, wish: TranscriptionConfig, ref: str) -> list[ClientMessage | bytes]:
        given = {name: value for name, value in msgspec.structs.asdict(wish).items() if value}
        before, self._config = self._config, msgspec.structs.replace(self._config, **given)
        spoken = wish.languages or ((wish.language,) if wish.language else ())
        if spoken:
            self._source = ",".join(spoken)
        now = self._config
        # Topic and glossary are the room's, which others may have set.
        private = self._welcome is None or self._welcome.room.startswith(PRIVATE)
        if not private or (now.prompt, now.keywords) == (before.prompt, before.keywords):
            return []
        terms = {term: term for term in now.keywords or ()}
        return [Set(context=now.prompt, glossary=terms, ref=ref)]

    def _answer(self, request: str) -> list[ServerEvent]:
        match request:
            case "commit":
                told = self._complete() if self._item is not None or not self._completed else []
                self._completed = False
                return told
            case "clear":
                self._item, self._clearing = None, False
                return [self._event("input_audio_buffer.cleared")]
            case _:
                return [self._event(request, session=self._described())]

    def _tell(self, message: ServerMessage) -> list[ServerEvent]:
        match message:
            case HeardSpeech() if not self._clearing:
                return self._hear(message)
            case Cancelled() if self._item is not None and message.id == self._item.utterance:
                self._item.drop()
                return self._complete() if self._turns is not None else []
            case _:
                return []

    def _hear(self, heard: HeardSpeech) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        item = self._item
        if item is None:
            item = self._open(heard.t0)
            if self._turns is not None:
                start = {"audio_start_ms": _ms(heard.t0), "item_id": item.id}
                events.append(self._event("input_audio_buffer.speech_started", **start))
        if added := item.hear(heard):
            events.append(self._event(f"{TRANSCRIPTION}.delta", **_place(item), delta=added))
        if heard.final and self._turns is not None:
            stop = {"audio_end_ms": _ms(heard.t1), "item_id": item.id}
            events.append(self._event("input_audio_buffer.speech_stopped", **stop))
            events += self._complete()
        return events

    def _open(self, start: float) -> _Item:
        self._items += 1
        self._item = _Item(f"item_{self._items}", start)
        return self._item

    def _complete(self) -> list[ServerEvent]:
        """End the open item, or an empty one for a commit without speech."""
        item = self._item if self._item is not None else self._open(self._sent)
        before, self._previous = self._previous, item.id
        self._item, self._completed = None, True
        return [
            self._event("input_audio_buffer.committed", item_id=item.id, previous_item_id=before),
            self._event(
                f"{TRANSCRIPTION}.completed",
                **_place(item),
                transcript=item.text,
                languages=[{"code": lang} for lang in item.langs],
                usage={"type": "duration", "seconds": round(item.end - item.start, 3)},
            ),
        ]

    def _error(self, error: Error) -> list[ServerEvent]:
        # The room has refused a text, as when too many are in flight. It was heard nevertheless.
        if error.id is not None and error.ref is None:
            failed = {"item_id": self._previous or "", "content_index": 0}
            why = self._fault(error.code, error.msg, error.hint)["error"]
            return [self._event(f"{TRANSCRIPTION}.failed", **failed, error=why)]
        return super()._error(error)

    def _described(self) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "realtime.transcription_session",
            "type": "transcription",
            "expires_at": NEVER,
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": self.rate},
                    "transcription": msgspec.to_builtins(self._config),
                    "turn_detection": msgspec.to_builtins(self._turns),
                }
            },
        }


def _place(item: _Item) -> dict[str, object]:
    return {"item_id": item.id, "content_index": 0}


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
