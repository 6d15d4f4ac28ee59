"""Detection of the language of a text.

Owns: py3langid, the languages it is restricted to, and the confidence that it needs. Must not know:
sessions, engines.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

log = logging.getLogger("gateway.detect")

SURE = 0.6
"""Confidence from which a guess counts. ``docs/design/server.md`` lists the errors above it and the
misses below it."""
SAMPLE = 400
"""Characters that are examined. More do not improve the guess, and the event loop waits for it."""
_OTHER = "zxx"
"""The model's label for text in no language. Without it, the model would assign one of the offered
languages to links, ``aaa`` and scripts that are not offered."""
_LABELS = {"nb": "no", "fil": "tl"}
"""Languages that the model labels otherwise than by their canonical tag."""


class Detector:
    """A detector of the likeliest language of a text, among those that can be translated.

    :param tags: canonical tags; languages that the model does not know are never detected
    """

    def __init__(self, tags: Iterable[str]) -> None:
        self._tags: dict[str, str] = {}
        for tag in tags:
            self._tags.setdefault(_label(tag), tag)
        self._labels = frozenset(self._tags)

    def load(self) -> None:
        """Load the model, which takes about a second. Calls in the meantime wait for it."""
        self._model()

    def __call__(self, text: str, among: Sequence[str] = (), /) -> str | None:
        """Return the tag of the likeliest language, or None if none is likely enough.

        :param among: canonical tags; other languages are left out, and the answer is one of them
        """
        allowed = {_label(tag): tag for tag in among}
        ranks = [
            (allowed.get(label, self._tags.get(label)), found)
            for label, found in self._ranks(text)
            if not allowed or label in allowed or label == _OTHER
        ]
        # Confidence in languages that cannot be meant counts for those that can.
        if ranks and ranks[0][1] >= SURE * sum(found for _, found in ranks):
            return ranks[0][0]
        return None

    def rank(self, text: str) -> list[tuple[str, float]]:
        """Return tags with a confidence of 0 to 1, likeliest first; none without letters."""
        return [(self._tags[label], found) for label, found in self._ranks(text) if label != _OTHER]

    def _ranks(self, text: str) -> list[tuple[str, float]]:
        """Return the labels of the model with their confidence, `_OTHER` among them."""
        text = text[:SAMPLE]
        model = self._model() if any(map(str.isalpha, text)) else None
        return model.rank(text) if model is not None else []

    def _model(self) -> LanguageIdentifier | None:
        with _loading:
            return _load(self._labels)


def _label(tag: str) -> str:
    """Return the model's label of a canonical tag."""
    lang = tag.partition("-")[0]
    return _LABELS.get(lang, lang)


_loading = threading.Lock()


@cache
def _load(labels: frozenset[str]) -> LanguageIdentifier | None:
    """Return a model of these languages; None if it knows none of them or cannot be read."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        whole = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as fault:  # py3langid unpacks it into a temporary file
        log.error("no language will be detected: the detector cannot be loaded (%s)", fault)
        return None
    known = labels & set(whole.labels)
    if not known:
        return None
    # With one language there is nothing to guess, so "no language" must not be an answer.
    whole.set_languages(known | {_OTHER} if len(known) > 1 else known)
    # A new object, because `whole` keeps its table of 140 languages (28 MB).
    return LanguageIdentifier(
        whole.nb_ptc,
        whole.nb_pc,
        whole.nb_classes,
        whole.tk_nextmove,
        whole.tk_output,
        norm_probs=True,
        tk_row=whole.tk_row,
    )
