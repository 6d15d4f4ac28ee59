"""The events in the log of a meeting, and their invariants."""

from __future__ import annotations

from msgspec.structs import replace

from gateway.core.room.room import Room
from gateway.protocol.messages import (
    Cancelled,
    Edited,
    Failed,
    Final,
    Retracted,
    ServerMessage,
    Source,
)


class DecidedEvents:
    """All events that a room has logged. No caption ends twice, and none after a retraction.

    Captions are named by the position of their utterance and by their language.
    """

    def __init__(self) -> None:
        self.log: list[ServerMessage] = []
        self.ends: dict[tuple[int, str], int] = {}
        """Number of ends of each caption."""
        self.asked: set[tuple[int, str]] = set()
        """Captions in languages that were read when their utterance was complete."""
        self.gone: set[int] = set()
        """Positions of the retracted utterances."""

    def record(self, event: ServerMessage, room: Room) -> None:
        """Count the ends of captions in an event that the room logs."""
        self.log.append(event)
        assert getattr(event, "seq", 0) == len(self.log), "a hole in the log"
        match event:
            case Source(ord=ord):
                self.asked |= {(ord, lang) for lang in room.subscribers.wanted}
                ended = []
            case Final(ord=ord, lang=lang) | Failed(ord=ord, lang=lang):
                assert ord not in self.gone
                ended = [(ord, lang)]
            case Edited(ord=ord, lang=lang):
                assert ord not in self.gone
                ended = []
            case Retracted(ord=ord):
                assert ord not in self.gone
                self.gone.add(ord)
                ended = []
            case Cancelled(id=id, lang=lang):
                utterance = room.utterances.by_id[id]
                assert utterance.ord not in self.gone
                ended = [
                    (utterance.ord, caption.lang)
                    for caption in utterance.captions.values()
                    if lang == caption.lang
                    or (lang is None and (utterance.ord, caption.lang) not in self.ends)
                ]
            case _:
                ended = []
        for key in ended:
            self.ends[key] = self.ends.get(key, 0) + 1
            assert self.ends[key] == 1, f"{key} ended twice"

    def kept(self, event: ServerMessage) -> ServerMessage:
        """Return an event as the log has it: without the text of a retracted utterance."""
        if isinstance(event, Source | Final | Edited) and event.ord in self.gone:
            return replace(event, text="")
        return event
