"""The detector of the language of a text.

Owns: py3langid, the languages it is restricted to, and when it is sure. Must not know: sessions,
engines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

log = logging.getLogger("gateway.detect")

SURE = 0.6
"""Confidence from which a guess counts. docs/design/server.md has what is told wrongly above it and
left open below it."""

SAMPLE = 400
"""Characters that are looked at. More do not make the guess surer, and the event loop waits."""

_OTHER = "zxx"
"""The model's label for text in no language. Links, ``aaa`` and scripts that are not offered have
it, where one of the languages offered would have to be taken otherwise."""

_LABELS = {"nb": "no", "fil": "tl"}
"""Labels of the model that are not the canonical tags."""


class Detector:
    """The likeliest language of a text among those that can be translated.

    :param tags: canonical tags; languages that the model does not know are never told
    """

    def __init__(self, tags: Iterable[str]) -> None:
        self._tags: dict[str, str] = {}
        for tag in tags:
            lang = tag.partition("-")[0]
            self._tags.setdefault(_LABELS.get(lang, lang), tag)
        self._labels = frozenset(self._tags)

    def load(self) -> None:
        """Load the model, which takes about a second; a text that comes earlier waits for it."""
        self._model()

    def __call__(self, text: str) -> str | None:
        """Return the tag of the likeliest language, or None where none is likely enough."""
        for tag, confidence in self.rank(text)[:1]:
            if confidence >= SURE:
                return tag
        return None

    def rank(self, text: str) -> list[tuple[str, float]]:
        """Return (tag, confidence 0..1), likeliest first; nothing for a text without letters."""
        text = text[:SAMPLE]
        model = self._model() if any(map(str.isalpha, text)) else None
        ranks = model.rank(text) if model is not None else []
        return [(self._tags[label], found) for label, found in ranks if label != _OTHER]

    def _model(self) -> LanguageIdentifier | None:
        with _loading:
            return _load(self._labels)


_loading = threading.Lock()


@cache
def _load(labels: frozenset[str]) -> LanguageIdentifier | None:
    """Load a model of these languages, or None where it knows none of them or cannot be read."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        whole = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as fault:  # it is unpacked into a temporary file
        log.error("No language will be detected: the detector cannot be loaded (%s).", fault)
        return None
    known = labels & set(whole.labels)
    if not known:
        return None
    # One language needs no guess.
    whole.set_languages(known | {_OTHER} if len(known) > 1 else known)
    # A new object, since `whole` keeps its table of 140 languages (28 MB).
    return LanguageIdentifier(
        whole.nb_ptc,
        whole.nb_pc,
        whole.nb_classes,
        whole.tk_nextmove,
        whole.tk_output,
        norm_probs=True,
        tk_row=whole.tk_row,
    )
