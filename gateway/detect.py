"""Which language a text is in, where the optional detector is installed (extra ``detect``).

Owns: the wrapping of lingua, a detector made for short texts. Must not know: sessions, engines.
"""

from __future__ import annotations

from collections.abc import Iterable

SURE = 0.6
"""Confidence from which a guess counts. Below it ("hello": Spanish, 0.49) it is better to go on
with the language the speaker spoke before."""


SAMPLE = 400
"""Characters that are looked at. More make it no surer, and the event loop waits meanwhile."""

FEW = 10
"""Languages up to which the full models are loaded: 130 MB for 6, but 870 MB and 3 s for 47, where
the small ones take 50 MB and 0.2 s."""


class Detector:
    """Tells the language of a text: the likeliest among those that can be translated.

    Raises `ImportError` where lingua is not installed, `ValueError` where it knows none of them.
    """

    def __init__(self, tags: Iterable[str]) -> None:
        from lingua import Language, LanguageDetectorBuilder

        known = {language.iso_code_639_1.name.lower(): language for language in Language.all()}
        self._tags: dict[Language, str] = {}
        for tag in tags:
            language = known.get(tag.partition("-")[0])
            if language is not None:
                self._tags.setdefault(language, tag)
        if not self._tags:
            raise ValueError("The detector knows none of these languages.")
        builder = LanguageDetectorBuilder.from_languages(*self._tags)
        if len(self._tags) > FEW:
            builder = builder.with_low_accuracy_mode()
        # Loaded now: the first text would wait half a second for it, and all others with it.
        self._detector = builder.with_preloaded_language_models().build()

    def __call__(self, text: str) -> str | None:
        """The tag of the likeliest language, or None where nothing is likely enough."""
        tag, confidence = self.rank(text)[0]
        return tag if confidence >= SURE else None

    def rank(self, text: str) -> list[tuple[str, float]]:
        """(tag, confidence 0..1), likeliest first."""
        ranks = self._detector.compute_language_confidence_values(text[:SAMPLE])
        return [(self._tags[rank.language], rank.value) for rank in ranks]
