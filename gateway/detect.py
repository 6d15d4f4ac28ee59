"""Which language a text is in, where the optional detector is installed (extra ``detect``).

Owns: the wrapping of lingua, a detector made for short texts. Must not know: sessions, engines.
"""

from __future__ import annotations

from collections.abc import Iterable

SURE = 0.6
"""Confidence from which a guess counts. Below it ("hello": Spanish, 0.49) it is better to go on
with the language the speaker spoke before."""


class Detector:
    """Tells the language of a text: the likeliest among those that can be translated.

    Raises `ImportError` where lingua is not installed.
    """

    def __init__(self, tags: Iterable[str]) -> None:
        from lingua import Language, LanguageDetectorBuilder

        known = {language.iso_code_639_1.name.lower(): language for language in Language.all()}
        self._tags: dict[Language, str] = {}
        for tag in tags:
            language = known.get(tag.partition("-")[0])
            if language is not None:
                self._tags.setdefault(language, tag)
        builder = LanguageDetectorBuilder.from_languages(*self._tags)
        # Loaded now: the first text would wait half a second for it, and all others with it.
        self._detector = builder.with_preloaded_language_models().build()

    def __call__(self, text: str) -> str | None:
        """The tag of the likeliest language, or None where nothing is likely enough."""
        tag, confidence = self.rank(text)[0]
        return tag if confidence >= SURE else None

    def rank(self, text: str) -> list[tuple[str, float]]:
        """(tag, confidence 0..1), likeliest first."""
        ranks = self._detector.compute_language_confidence_values(text)
        return [(self._tags[rank.language], rank.value) for rank in ranks]
