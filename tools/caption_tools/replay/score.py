"""BLEU and chrF of finals against human translations, computed by sacrebleu.

Owns: the choice of metrics and tokenisers. Must not know: where captions come from.
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

TOKENISERS = {"zh": "zh", "ja": "char"}
"""Tokenisers of BLEU by language; others have sacrebleu's default, ``13a``. Japanese is scored by
characters, since a tokeniser of words would be another dependency. Compare these scores with
nothing else.
"""


def bleu(made: Sequence[str], references: Sequence[str], lang: str) -> float:
    """Return BLEU of the whole set, 0 to 100."""
    tokeniser = TOKENISERS.get(lang.partition("-")[0], "13a")
    return float(BLEU(tokenize=tokeniser).corpus_score(list(made), [list(references)]).score)


def chrf(made: Sequence[str], references: Sequence[str]) -> float:
    """Return chrF of the whole set, 0 to 100."""
    return float(CHRF().corpus_score(list(made), [list(references)]).score)
