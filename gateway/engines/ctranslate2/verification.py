"""Verification of a draft: how much of it a model would have decoded by itself.

Owns: what the model's scores say of a draft. Must not know: CTranslate2, jobs, texts.

The rule is that of speculative decoding with greedy choice (Leviathan et al. 2023,
https://arxiv.org/abs/2211.17192), with the last translation as the draft and a bias towards it
(https://arxiv.org/abs/2509.21740).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def accepted(scores: Any, draft: Sequence[int], bias: float = 0.0) -> tuple[int, int]:
    """Return how many tokens of ``draft`` are accepted, and the token that follows these.

    A token is accepted if it is the most probable one, or less probable than that by at most
    ``bias``. With a bias of 0, accepted and following tokens are those of greedy decoding.

    :param scores: logits of shape (tokens of the draft + 1, vocabulary); row ``n`` is of the token
        that follows ``n`` tokens of the draft
    """
    best = scores.argmax(axis=-1)
    same = best[:-1] == np.asarray(draft, dtype=best.dtype)
    if bias and not same.all():
        rows = np.exp(_log_softmax(scores[:-1]))
        same |= rows[np.arange(len(draft)), list(draft)] + bias >= rows.max(axis=-1)
    count = len(draft) if same.all() else int(same.argmin())
    return count, int(best[count])


def log_probs(scores: Any, ids: Sequence[int]) -> list[float]:
    """Return the log probability of each of ``ids``.

    :param scores: logits as in `accepted`, with at least one row for each of ``ids``
    """
    rows = _log_softmax(scores[: len(ids)])
    return [float(row[id]) for row, id in zip(rows, ids, strict=True)]


def _log_softmax(scores: Any) -> Any:
    rows = scores.astype(np.float64)
    rows -= rows.max(axis=-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True))
