"""The settings of a room that every translation job is told.

Owns: topic, glossary, style and the names of speakers. Must not know: jobs, captions, who changes
the settings.
"""

from __future__ import annotations

from gateway.protocol.fields import RoomSettings
from gateway.protocol.messages import Set, Settings
from gateway.text.glossary import Glossary, named

Pairs = tuple[tuple[str, str], ...]
"""Texts, each with its translation."""

NAMES = 100
"""Names of speakers that a room keeps."""

HINTS = 100
"""Names and terms that a recogniser is told. Whisper reads about as many words."""


class TranslationContext:
    """The settings of one room. ``version`` rises with every change of them."""

    def __init__(self) -> None:
        self.topic = ""
        self.glossary = Glossary()
        self.style: str | None = None
        self.version = 0
        self.names: dict[str, None] = {}
        """Names of those who speak in the room, in order of their first appearance."""

    def change(self, change: Set | Settings) -> None:
        """Take over the settings that a change has; an empty style means none."""
        if change.context is not None:
            self.topic = change.context
        if change.glossary is not None:
            self.glossary = Glossary(change.glossary)
        if change.style is not None:
            self.style = change.style or None

    def add_speaker(self, name: str) -> None:
        """Keep the name of a speaker; beyond `NAMES` the oldest is forgotten."""
        if name and name not in self.names:
            self.names[name] = None
            if len(self.names) > NAMES:
                del self.names[next(iter(self.names))]

    def settings(self) -> RoomSettings | None:
        """Return the settings for somebody who may change them; None if nothing was ever set."""
        if not self.version:
            return None
        return RoomSettings(
            version=self.version,
            context=self.topic or None,
            glossary=self.glossary.terms or None,
            style=self.style,
        )

    def hints(self) -> tuple[str, tuple[str, ...]]:
        """Return the topic, and the names and terms that a recogniser should know, `HINTS` at most.
        Names come first: a glossary may be long, and recognisers take few words.
        """
        return self.topic, tuple(dict.fromkeys((*self.names, *self.glossary.terms)))[:HINTS]

    def terms(self, text: str, lang: str) -> Pairs:
        """Return the glossary's terms in ``text`` for a translation into ``lang``, and the names in
        it, which stay as they are.
        """
        terms = self.glossary.find(text, lang)
        known = {term.casefold() for term, _ in terms}
        kept = ((name, name) for name in named(self.names, text) if name.casefold() not in known)
        return (*terms, *kept)
