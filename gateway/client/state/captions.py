"""What a reader sees, made of the events of a gateway.

Owns: captions, from events in the order in which they came. Must not know: sockets, clocks.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from gateway.protocol.messages import (
    Cancelled,
    Delta,
    Edited,
    Failed,
    Final,
    Retracted,
    ServerMessage,
    Snapshot,
    Source,
    Synced,
    Welcome,
)

KEPT = 1000
"""Ended captions remembered; a room remembers as many utterances."""

State = Literal["open", "final", "failed", "cancelled", "void"]
"""``void``: what would have come of it is lost, as events were that this client has not seen."""


class ReaderCaption(msgspec.Struct):
    """One utterance in one language, as a reader sees it: ``stable`` text and its ``draft``."""

    rev: int = 0
    stable: str = ""
    draft: str = ""
    state: State = "open"
    gap: bool = False
    """Stable text is missing, as for one who came in the middle. The ``final`` has it all."""

    @property
    def text(self) -> str:
        return self.stable + self.draft


class Captions:
    """What all events so far add up to, by (id, lang). Pure.

    Leaving out every ephemeral event leads to the same captions in the end: rule 2 of the protocol.
    Of the captions that have ended, only the newest are kept: about ``kept`` in all, and as many
    ``originals``, by id, as they read now. What was taken back is gone.

    After a connection that was resumed they go on. Where something is lost between two connections
    (``resumed.ok`` is false, or it was not asked), those that have not ended are void: the next
    event of such a caption begins it anew.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.originals: dict[str, Source] = {}
        self._captions: dict[tuple[str, str], ReaderCaption] = {}
        self._kept = kept

    def __getitem__(self, key: tuple[str, str]) -> ReaderCaption:
        """The caption; an empty one where nothing is known."""
        return self._captions.get(key) or ReaderCaption()

    def growing(self) -> list[tuple[tuple[str, str], ReaderCaption]]:
        """The captions that have not ended, oldest first."""
        return [(key, one) for key, one in self._captions.items() if one.state == "open"]

    def fold(self, event: ServerMessage) -> None:
        """Take one more event in; those that are not about captions change nothing."""
        match event:
            case Source():
                self.originals[event.id] = event
                if len(self.originals) > self._kept:
                    del self.originals[next(iter(self.originals))]
            case Delta():
                caption = self._open((event.id, event.lang))
                if caption.state == "void":
                    caption = self._captions[event.id, event.lang] = ReaderCaption()
                if caption.state == "open" and event.rev >= caption.rev:
                    caption.rev = event.rev
                    caption.stable = event.add if event.reset else caption.stable + event.add
                    caption.draft = caption.draft if event.draft is None else event.draft
                    caption.gap = len(caption.stable) != event.n
            case Final():
                self._end((event.id, event.lang), event.rev, "final", event.text)
            case Failed():
                self._end((event.id, event.lang), event.rev, "failed")
            case Cancelled():
                for key, _ in self.growing():
                    if key[0] == event.id and event.lang in (None, key[1]):
                        self._end(key, event.rev, "cancelled")
            case Edited():
                self._edit(event)
            case Retracted():
                self.originals.pop(event.id, None)
                for key in [key for key in self._captions if key[0] == event.id]:
                    del self._captions[key]
            case Welcome(resumed=None):
                self._void()
            case Welcome(resumed=after) if after is not None and not after.ok:
                self._void()
            case Synced(ok=False):
                self._void()
            case Snapshot():
                for line in event.lines:
                    key = (event.id, line.lang)
                    if line.state in ("final", "failed", "cancelled"):
                        text = line.text if line.state == "final" else ""
                        self._end(key, event.rev, line.state, text)  # type: ignore[arg-type]
                    else:
                        caption = ReaderCaption(event.rev, line.text, line.draft or "")
                        self._captions[key] = caption
            case _:
                pass

    def _void(self) -> None:
        """What these were going to be may have been decided unseen."""
        for _, caption in self.growing():
            caption.state, caption.draft = "void", ""

    def _edit(self, event: Edited) -> None:
        """Another text, of a caption or of the original, which everybody is told of."""
        key = event.id, event.lang
        original = self.originals.get(event.id)
        if original is not None and original.lang == event.lang:
            self.originals[event.id] = replace(original, text=event.text)
            if key not in self._captions:
                return
        self._end(key, event.rev, "final", event.text)

    def _open(self, key: tuple[str, str]) -> ReaderCaption:
        caption = self._captions.get(key)
        if caption is None:
            caption = self._captions[key] = ReaderCaption()
            if len(self._captions) > self._kept:
                ended = (key for key, one in self._captions.items() if one.state != "open")
                if (oldest := next(ended, None)) is not None:
                    del self._captions[oldest]
        return caption

    def _end(self, key: tuple[str, str], rev: int, state: State, text: str = "") -> None:
        caption = self._open(key)
        caption.rev, caption.stable, caption.draft = rev, text, ""
        caption.state, caption.gap = state, False
