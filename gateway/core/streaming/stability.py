"""Stability of a growing caption: the part that is committed, and the part that is shown.

Owns: the agreement of successive hypotheses, and the mask on the last words. Must not know: jobs,
readers, the source text, time.

A hypothesis is one translation of the source as it grew. The rules are local agreement (Liu et al.
2020, https://arxiv.org/abs/2005.11185), hold-n, and mask-k (Arivazhagan et al. 2020,
https://arxiv.org/abs/2004.03643). Units are words, or characters in scripts without spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import msgspec

from gateway.text import word_units


class StabilityRules(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of the rules, in words; ``docs/figures/captions.md`` has the measurements.

    ``stable_mask`` is a setting. The others are constants; the setting ``stability`` chooses these
    or `WITHOUT_CHECKS`.
    """

    # Number of words at the end of a translation that stay a draft, even if translations in a
    # row agree on them. More words mean later stable text, which is taken back less.
    hold: int = 10
    # Number of translations in a row that have to agree on a word before it is stable. More
    # make later stable text, which is taken back less.
    agree: int = 4
    mask: int = 7
    """Number of words at the end of a translation that are not shown while the source is growing,
    because they change most. More make captions calmer, and later. Default with engines that do not
    check drafts: 5."""
    # Number that is added to the probability of each token with which a translation of growing
    # text repeats the last one. More makes captions calmer, and slower to correct themselves.
    # Final captions have none.
    bias: float = 0.2
    # Number of words at the beginning of a caption that are shown in spite of `mask`. A
    # late first word is worse than one that changes. In Chinese and Japanese two characters
    # count as a word, in Thai three.
    early: int = 1
    # Number of characters that count as a word of `hold` and `mask` in scripts
    # without spaces between words: more than a word has, because the next words change more of
    # such a translation.
    dense: int = 4


WITHOUT_CHECKS = StabilityRules(hold=4, agree=2, mask=5)
"""Defaults for engines that do not check drafts. Only the forced beginning keeps their translations
from changing and from being made again, so that it has to be long."""


class Agreement:
    """Agreement of the successive hypotheses of one caption. ``committed`` only grows until
    `reset`, and every later hypothesis is forced to begin with it.
    """

    __slots__ = (
        *("_early", "_last", "_most", "_rules", "_size", "_spaced", "_text", "committed", "ids"),
    )

    def __init__(self, lang: str, rules: StabilityRules) -> None:
        self._spaced = word_units.spaced(lang)
        self._size = 1 if self._spaced else rules.dense
        self._early = rules.early * word_units.density(lang)
        self._rules = rules
        self._last: tuple[list[str], ...] = ()  # a deque takes 600 bytes, in every caption
        self._most = max(1, rules.agree - 1)
        self._text = ""
        self.committed = ""
        self.ids: tuple[int, ...] = ()
        """Token ids of the last hypothesis, if the engine has returned them."""

    def add(self, text: str, ids: tuple[int, ...] = (), needed: int = 0) -> str:
        """Add a hypothesis and return the text that it commits in addition.

        :param needed: predicted number of characters before the masked words, behind which the
            engine may have stopped; 0 if nothing was predicted
        """
        now = word_units.split(text, self._spaced)
        # Fewer hypotheses than the rule asks for agree on nothing.
        enough = len(self._last) == self._most
        agreed = min(word_units.common(old, now) for old in self._last) if enough else 0
        self._last = (*self._last, now)[-self._most :]
        self._text, self.ids = text, ids
        # Hypotheses often agree on last words that the next source word changes.
        free = len(now) - self._rules.hold * self._size
        # Where the end is predicted, the masked words are among those that are held.
        left = max(0, self._rules.hold - self._rules.mask) * self._size
        free = max(0, free, _within(now, needed, len(text)) - left)
        sure = "".join(now[: min(agreed, free)])
        if len(sure) <= len(self.committed) or not sure.startswith(self.committed):
            return ""
        added = sure[len(self.committed) :]
        self.committed = sure
        return added

    def visible(self, text: str, needed: int = 0) -> str:
        """Return the part of a hypothesis, complete or not, that is shown."""
        now = word_units.split(text, self._spaced)
        # The end of a translation of unfinished speech is mostly a guess.
        masked = len(now) - self._rules.mask * self._size
        masked = max(masked, _within(now, needed, len(text)))
        early = min(len(now), self._early)
        shown = "".join(now[: max(masked, early)])
        return shown if shown.startswith(self.committed) else self.committed

    def commit(self, text: str) -> None:
        """Commit ``text``, because a hypothesis that was made without it begins with it."""
        self.committed = text

    def draft(self, prefix: str) -> str:
        """Return the last hypothesis without ``prefix``; nothing if it begins otherwise."""
        return self._text[len(prefix) :] if self._text.startswith(prefix) else ""

    def reset(self) -> None:
        """Agree on nothing, because the source has changed. The last one stays as a draft."""
        self._last = ()
        self.committed = ""


def _within(text: Sequence[str], needed: int, length: int) -> int:
    """Return the number of units that end before ``needed`` of the ``length`` characters of a text,
    0 if it has fewer. A unit that ends there may be incomplete.
    """
    if not 0 < needed <= length:
        return 0
    ends = accumulate(map(len, text))
    return sum(end < needed for end in ends)
