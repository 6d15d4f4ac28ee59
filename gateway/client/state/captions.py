"""Captions as a reader sees them, reduced from the events of a gateway.

Owns: the state of captions, from events in order. Must not know: sockets, clocks.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from gateway.client.state.recovery import is_resumed
from gateway.protocol import messages
from gateway.protocol.messages import ServerMessage

KEPT = 1000
"""Number of ended captions that are kept. A room keeps as many utterances."""

State = Literal["open", "final", "failed", "cancelled", "void"]
"""``void`` means that the outcome is unknown, because events were missed."""


class ReaderCaption(msgspec.Struct):
    """One utterance in one language as a reader sees it: ``stable`` text, then a ``draft``."""

    rev: int = 0
    stable: str = ""
    draft: str = ""
    state: State = "open"
    gap: bool = False
    """Stable text is missing, because the reader joined in the middle. ``final`` has all of it."""

    @property
    def text(self) -> str:
        """Stable text and draft together."""
        return self.stable + self.draft


class Captions:
    """All captions after the events so far, by (id, lang).

    The final captions are the same if ephemeral events are left out (rule 2 of the protocol).
    About ``kept`` captions are kept; the oldest ended ones are removed first. ``originals`` are the
    latest sources by id, equally limited. Withdrawn utterances are removed.

    Captions continue after a connection that was resumed. If events were missed (``resumed`` is
    absent or not ok), captions that have not ended become void, and their next event starts them
    again.

    Example::

        captions = Captions()
        async for event in client:
            captions.fold(event)
            for (id, lang), caption in captions.growing():
                print(id, lang, caption.text)
    """

    def __init__(self, kept: int = KEPT) -> None:
        self.originals: dict[str, messages.Source] = {}
        self._captions: dict[tuple[str, str], ReaderCaption] = {}
        self._kept = kept

    def __getitem__(self, key: tuple[str, str]) -> ReaderCaption:
        """Return the caption of (id, lang), an empty one if there is none."""
        return self._captions.get(key) or ReaderCaption()

    def growing(self) -> list[tuple[tuple[str, str], ReaderCaption]]:
        """Return the captions that have not ended with their keys, oldest first."""
        return [
            (key, caption) for key, caption in self._captions.items() if caption.state == "open"
        ]

    def fold(self, event: ServerMessage) -> None:
        """Update the captions with an event. Events about other things change nothing."""
        match event:
            case messages.Source():
                self.originals[event.id] = event
                if len(self.originals) > self._kept:
                    del self.originals[next(iter(self.originals))]
            case messages.Delta():
                caption = self._open((event.id, event.lang))
                # The text before the gap is useless, so the caption starts again.
                if caption.state == "void":
                    caption = self._captions[event.id, event.lang] = ReaderCaption()
                # Deltas of an older revision may still arrive, and ended captions do not change.
                if caption.state == "open" and event.rev >= caption.rev:
                    caption.rev = event.rev
                    caption.stable = event.add if event.reset else caption.stable + event.add
                    caption.draft = caption.draft if event.draft is None else event.draft
                    caption.gap = len(caption.stable) != event.n
            case messages.Final():
                # Whatever deltas were lost, this text is whole.
                self._end((event.id, event.lang), event.rev, "final", event.text)
            case messages.Failed():
                self._end((event.id, event.lang), event.rev, "failed")
            case messages.Cancelled():
                for key, _ in self.growing():
                    if key[0] == event.id and event.lang in (None, key[1]):
                        self._end(key, event.rev, "cancelled")
            case messages.Edited():
                self._edit(event)
            case messages.Retracted():
                # The text was withdrawn, so no copy of it is kept.
                self.originals.pop(event.id, None)
                self._captions = {k: c for k, c in self._captions.items() if k[0] != event.id}
            case messages.Welcome() if not is_resumed(event):
                self._void()
            case messages.Synced(ok=False):
                self._void()
            case messages.Snapshot():
                for line in event.lines:
                    key = (event.id, line.lang)
                    if line.state in ("final", "failed", "cancelled"):
                        text = line.text if line.state == "final" else ""
                        self._end(key, event.rev, line.state, text)  # type: ignore[arg-type]
                    else:
                        caption = ReaderCaption(event.rev, line.text, line.draft or "")
                        self._captions[key] = caption

    def _void(self) -> None:
        """Mark captions that have not ended as void: they may have ended unseen."""
        for _, caption in self.growing():
            caption.state, caption.draft = "void", ""

    def _edit(self, event: messages.Edited) -> None:
        """Apply a correction of a caption or of an original."""
        key = event.id, event.lang
        original = self.originals.get(event.id)
        if original is not None and original.lang == event.lang:
            self.originals[event.id] = replace(original, text=event.text)
            # Everybody receives corrections of originals, but only readers of that language have
            # it as a caption.
            if key not in self._captions:
                return
        self._end(key, event.rev, "final", event.text)

    def _open(self, key: tuple[str, str]) -> ReaderCaption:
        """Return the caption of a key, and create it if there is none."""
        caption = self._captions.get(key)
        if caption is None:
            caption = self._captions[key] = ReaderCaption()
            # Open captions are never removed, since their next delta needs the text so far.
            if len(self._captions) > self._kept:
                ended = (key for key, caption in self._captions.items() if caption.state != "open")
                if (oldest := next(ended, None)) is not None:
                    del self._captions[oldest]
        return caption

    def _end(self, key: tuple[str, str], rev: int, state: State, text: str = "") -> None:
        caption = self._open(key)
        caption.rev, caption.stable, caption.draft = rev, text, ""
        caption.state, caption.gap = state, False
