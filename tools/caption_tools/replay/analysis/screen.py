"""The history of captions on a reader's screen.

Owns: the texts of each caption over time, from the events of one socket. Must not know: sockets,
clocks, measurements.
"""

from __future__ import annotations

from collections.abc import Iterable

from caption_tools.replay.meeting.script import ShownCaption
from gateway.client.state.captions import Captions
from gateway.protocol.messages import (
    Cancelled,
    Delta,
    Failed,
    Final,
    ServerMessage,
    Snapshot,
    Source,
)


class ScreenRecorder:
    """The captions of a socket that reads ``langs``, over time.

    It keeps everything until `forget` is called; the caller has to bound what it records.
    """

    def __init__(self, langs: Iterable[str]) -> None:
        self.langs = tuple(langs)
        self.sources: dict[str, Source] = {}  # finished originals, by id
        self._captions = Captions()
        self._histories: dict[str, dict[str, list[ShownCaption]]] = {}

    def note(self, event: ServerMessage, at: float) -> None:
        """Handle an event that came ``at`` a time in seconds."""
        self._captions.fold(event)
        match event:
            case Source():
                self.sources[event.id] = event
            case Delta():
                caption = self._captions[event.id, event.lang]
                self._add(event.id, event.lang, ShownCaption(at, caption.stable, caption.draft))
            case Snapshot():  # the state after a reconnect
                for line in event.lines:
                    if line.lang in self.langs and line.state in ("open", "queued", "running"):
                        self._add(
                            event.id, line.lang, ShownCaption(at, line.text, line.draft or "")
                        )
            case Final():
                self._add(event.id, event.lang, ShownCaption(at, event.text, "", True))
            case Failed():
                self._add(event.id, event.lang, ShownCaption(at, "", "", True))
            # Without a number it only answers this socket's request: no caption ended.
            case Cancelled() if event.seq is not None:
                for lang in self.langs if event.lang is None else (event.lang,):
                    self._add(event.id, lang, ShownCaption(at, "", "", True))
            case _:
                pass

    def history(self, id: str, lang: str) -> tuple[ShownCaption, ...]:
        """Return the texts that were shown of one caption, in order."""
        return tuple(self._histories.get(id, {}).get(lang, ()))

    def parts(self, id: str) -> list[str]:
        """Return the ids of the segments of an utterance, in order: ``u1``, ``u1.2``."""
        known = self.sources.keys() | self._histories.keys()
        parts = {part for part in known if part == id or _part(part, id) is not None}
        return sorted(parts, key=lambda part: _part(part, id) or 1)

    def correct(self, id: str, lang: str, text: str, at: float) -> None:
        """Note a human correction of a caption that had ended."""
        self._histories.setdefault(id, {}).setdefault(lang, []).append(
            ShownCaption(at, text, "", True)
        )

    def forget(self, id: str) -> None:
        """Drop the record of an utterance."""
        self.sources.pop(id, None)
        self._histories.pop(id, None)

    def _add(self, id: str, lang: str, shown: ShownCaption) -> None:
        history = self._histories.setdefault(id, {}).setdefault(lang, [])
        last = history[-1] if history else ShownCaption(0.0, "")
        same = (last.stable, last.draft, last.ended) == (shown.stable, shown.draft, shown.ended)
        # Only changes that a reader could see count as states.
        if not (same or last.ended):
            history.append(shown)


def _part(id: str, whole: str) -> int | None:
    """Return the number of a segment of an utterance, or None if the id is not of one."""
    number = id.removeprefix(f"{whole}.")
    return int(number) if number != id and number.isdecimal() else None
