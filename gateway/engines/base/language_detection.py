"""Detection of the language of a text.

Owns: py3langid, the languages that it may answer, and the confidence that it needs. Must not know:
sessions, engines.

There are two questions: in which of the offered languages is a text, and is it surely in none of
them? The model knows more languages than the engine, so that Russian is not taken for English.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from gateway.text import languages, letters

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

log = logging.getLogger("gateway.detect")

SURE = 0.6
"""Confidence from which a guess counts. ``docs/design/server.md`` lists the errors above it and the
misses below it."""
UNLIKELY, SURELY, SURELY_SHORT = 0.02, 0.75, 0.9
"""Confidence in the languages that a text may be in, up to which it is in another one, if that has
the second confidence, or in a text of three words the third. Of 152,022 honest lines in six
languages, one is judged to be in another: it ends in English."""
SAMPLE = 400
"""Characters that are examined. More do not improve the guess, and the event loop waits for it."""
_OTHER = "zxx"
"""The model's label for text in no language. Without it, the model would assign one of the offered
languages to links, ``aaa`` and scripts that are not offered."""
_LIKE_ANOTHER = frozenset(("yue",))
"""Languages that are only answered where they are offered, because short text in a more frequent
one looks like them: the model takes 你好 for Cantonese."""
_LABELS = {"nb": "no", "fil": "tl"}
"""Languages that the model labels otherwise than by their canonical tag."""
_TAGS = {label: tag for tag, label in _LABELS.items()}
Ranks = list[tuple[str, float]]
"""Labels of the model with their confidence, likeliest first."""

_WORD = re.compile(r"[^\W\d_]+")


class Detector:
    """A detector of the likeliest language of a text.

    :param tags: canonical tags of the languages that are offered, of which the model knows some
    """

    def __init__(self, tags: Iterable[str]) -> None:
        self._offered: dict[str, str] = {}  # by label
        for tag in tags:
            self._offered.setdefault(_label(tag), tag)
        others = frozenset(map(_label, languages.NAMED)) - _LIKE_ANOTHER
        self._labels = frozenset((*self._offered, *others, _OTHER))

    def load(self) -> None:
        """Load the model, which takes about a second. Calls in the meantime wait for it."""
        self._model()

    def __call__(self, text: str, among: Sequence[str] = (), /) -> str | None:
        """Return the tag of the likeliest language, or None if none is likely enough.

        :param among: canonical tags, and the answer is one of them. Without any, the answer is an
            offered language, or another one if the text is surely in that
        """
        ranks = self._ranks(text)
        allowed = {_label(tag): tag for tag in among}
        if not among:
            allowed = self._offered
            other = self._other(text, allowed, ranks)
            if other is not None:
                return other
        ranked = _among(ranks, allowed)
        # Confidence in languages that cannot be meant counts for those that can.
        if ranked and ranked[0][1] >= SURE:
            return allowed.get(ranked[0][0])
        return None

    def instead(self, text: str, lang: str, /) -> str | None:
        """Return the language that a text is in, if it is surely not in ``lang``; else None."""
        return self._other(text, {_label(lang): lang}, self._ranks(text))

    def rank(self, text: str) -> list[tuple[str, float]]:
        """Return offered tags with a confidence of 0 to 1, likeliest first; none if no letter."""
        ranks = _among(self._ranks(text), self._offered)
        return [(self._offered[label], share) for label, share in ranks if label != _OTHER]

    def _other(self, text: str, allowed: Mapping[str, str], ranks: Ranks) -> str | None:
        """Return the language of a text that is surely in none of ``allowed``; else None."""
        text = text[:SAMPLE]
        script = letters.foreign_script(text, allowed.values())
        if script is not None:
            label, confidence = ranks[0] if ranks else (_OTHER, 0.0)
            tag = _TAGS.get(label, label)
            sure = confidence >= SURE and letters.written_in(tag, script)
            return tag if sure else letters.likely_language(script)
        # Sounds ("ah ah ah") and names alone are in no language. Of a language that the model does
        # not know, it says nothing.
        words = set(_WORD.findall(text))
        plain = sum(not word[0].isupper() for word in words)
        known = dict(ranks)
        if len(words) < 3 or plain < 2 or not allowed.keys() <= known.keys():
            return None
        best, confidence = ranks[0]
        least = SURELY if len(words) > 3 else SURELY_SHORT
        if best == _OTHER or confidence < least or sum(map(known.__getitem__, allowed)) > UNLIKELY:
            return None
        return _TAGS.get(best, best)

    def _ranks(self, text: str) -> Ranks:
        """Return the languages that the model sees in a text, none without letters."""
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


def _among(ranks: Ranks, allowed: Container[str]) -> Ranks:
    """Return the ranks of some labels and of `_OTHER`, with a sum of 1."""
    known = [(label, share) for label, share in ranks if label in allowed]
    # With one language there is nothing to guess, so "no language" must not be an answer.
    if len(known) > 1:
        known = [(label, share) for label, share in ranks if label in allowed or label == _OTHER]
    whole = sum(share for _, share in known)
    return [(label, share / whole) for label, share in known] if whole else []


_loading = threading.Lock()


@cache
def _load(labels: frozenset[str]) -> LanguageIdentifier | None:
    """Return a model of the languages that it knows; None if it cannot be read."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        whole = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as fault:  # py3langid unpacks it into a temporary file
        log.error("no language will be detected: the detector cannot be loaded (%s)", fault)
        return None
    whole.set_languages(labels & set(whole.labels))
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
