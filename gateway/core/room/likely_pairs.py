"""The language pairs that a room will need once somebody speaks.

Owns: the languages that members say they speak. Must not know: engines, what they do to be ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from gateway.core.base.model import Model
from gateway.core.members.subscribers import Subscribers
from gateway.text import languages


class LikelyPairs(msgspec.Struct, eq=False):
    """The pairs of one room."""

    model: Model
    subscribers: Subscribers
    prepare: Callable[[str, str], None] = lambda *_: None
    """Called with the model's tags of each pair, for some pairs several times."""
    _spoken: list[str] = []

    def speak(self, tags: str) -> None:
        """Add the languages that a member speaks, several with commas; others are ignored."""
        for tag in tags.split(","):
            lang = languages.match(tag, self.model.sources)
            if lang is not None and lang not in self._spoken:
                self._spoken.append(lang)
                self._tell([lang], self.subscribers.wanted)

    def read(self, tags: Iterable[str]) -> None:
        """Add the languages that a member reads."""
        self._tell(self._spoken, [self.subscribers.served_by(tag) for tag in tags])

    def _tell(self, spoken: Iterable[str], read: Iterable[str]) -> None:
        for source in spoken:
            for target in read:
                if self.model.supports(source, target):
                    self.prepare(source, target)
