"""Agreement of the successive hypotheses of one utterance.

Owns: which recognised words stay, and where the words of a long utterance are settled. Must not
know: audio, jobs, languages' grammar.

Every hypothesis covers the audio from the last cut on. A word that two hypotheses in a row have is
*agreed* (local agreement, Liu et al. 2020, https://arxiv.org/abs/2005.11185): it is shown until the
utterance ends. A word before the last cut is *settled*: its audio is gone, so it never changes. All
times are seconds from the beginning of the audio.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gateway.job import Word
from gateway.text import word_units

_ENDS = frozenset(".!?。！？؟।")
_QUOTES = "\"'”’»」』)]）"

OVERLAP, REACH = 3, 0.6
"""Words that a hypothesis may repeat from before the cut, and seconds behind the cut in which they
begin. The end of a word is often heard as the whole word."""

SHORTENED = 0.5
"""Share of the agreed words below which a last hypothesis is taken for broken off."""


def is_sentence_end(text: str) -> bool:
    """Tell whether a text ends like a sentence. An ellipsis ends like speech that was cut off."""
    text = text.rstrip().rstrip(_QUOTES)
    return text[-1:] in _ENDS and not text.endswith("..")


class Hypotheses:
    """The words of one utterance."""

    def __init__(self, begin: float) -> None:
        self._cut = begin
        self._shown: list[Word] = []  # behind the cut
        self._tail: list[str] = []  # keys of the last words before the cut
        self._whole: list[Word] | None = None  # last hypothesis, if it covers all speech
        self.agreed = 0
        """Number of words behind the cut that are agreed."""
        self.settled: list[Word] = []

    @property
    def words(self) -> list[Word]:
        """All words that are shown."""
        return self.settled + self._shown

    @property
    def text(self) -> str:
        """Text that is shown."""
        return text_of(self.words)

    def add(self, words: Sequence[Word], *, whole: bool = False) -> None:
        """Take in a hypothesis. One without words changes nothing that is shown. One of the
        ``whole`` speech is what `finish` takes its words from, unless more follows.
        """
        # A recogniser that hears nothing for once is no proof that nothing was said.
        fresh = self._fresh(words)
        if fresh:
            now = self._merged(fresh)
            self.agreed = word_units.common(_keys(self._shown), _keys(now))
            self._shown = now
        # A last hypothesis that has lost many words was broken off.
        self._whole = fresh if whole and len(fresh) >= SHORTENED * self.agreed else None

    def finish(self) -> None:
        """End the speech. The last hypothesis has heard most, so it may replace agreed words."""
        if self._whole is not None:
            self._shown = self._whole

    def settleable(self, until: float, *, forced: bool) -> int:
        """Return after how many words behind the cut the text can be settled: at a sentence; where
        ``forced``, else before the longest silence of the second half; 0 for nowhere.

        :param until: the last of them ends by then
        :param forced: words that are not agreed count too
        """
        words = self._shown if forced else self._shown[: self.agreed]
        # A forced cut in the first half would be followed by another one at once.
        least = (self._cut + until) / 2 if forced else self._cut
        fits = [n for n, word in enumerate(words, 1) if least < word.end <= until]
        ends = [n for n in fits if is_sentence_end(words[n - 1].text)]
        if ends or not forced or not fits:
            return max(ends, default=0)
        return max(fits, key=lambda n: (self._gap(n), n))

    def settle(self, count: int) -> float:
        """Settle the first ``count`` words behind the cut, and return the time of the new cut."""
        after = self._shown[count - 1].end
        if count < len(self._shown):
            # In the middle of the gap, so that neither word loses its edge.
            after = (after + max(after, self._shown[count].start)) / 2
        self._move(count, after)
        self.agreed = max(0, self.agreed - count)
        return after

    def skip(self, to: float) -> None:
        """Settle all words, and have the next hypothesis begin at ``to``."""
        self._move(len(self._shown), to)
        self.agreed = 0

    def split(self) -> Hypotheses:
        """Remove the words behind the cut, and return them as the words of a new utterance."""
        rest = Hypotheses(self._cut)
        rest._shown, rest._tail, rest.agreed = self._shown, self._tail, self.agreed
        self._shown, self.agreed = [], 0
        return rest

    def _move(self, count: int, cut: float) -> None:
        """Put the cut behind the first ``count`` words that are behind it now."""
        self.settled += self._shown[:count]
        self._shown = self._shown[count:]
        self._tail = _keys(self.settled[-OVERLAP:])
        self._cut, self._whole = cut, None

    def _gap(self, n: int) -> float:
        return self._shown[n].start - self._shown[n - 1].end if n < len(self._shown) else 0.0

    def _merged(self, words: list[Word]) -> list[Word]:
        """Return a hypothesis with the agreed words in front."""
        agreed = self._shown[: self.agreed]
        if word_units.common(_keys(agreed), _keys(words)) == len(agreed):
            return words
        # It contradicts agreed words, or is shorter: only what was spoken after them counts.
        end = agreed[-1].end
        return agreed + [word for word in words if word.start >= end]

    def _fresh(self, words: Sequence[Word]) -> list[Word]:
        """Return a hypothesis without words from before the cut, with times that only grow."""
        tail, head = self._tail, _keys(words[:OVERLAP])
        near = sum(word.start <= self._cut + REACH for word in words[:OVERLAP])
        repeated = max(
            (n for n in range(1, min(len(tail), near) + 1) if tail[-n:] == head[:n]), default=0
        )
        fresh, least = [], self._cut
        for word in words[repeated:]:
            start = max(word.start, least)
            least = max(word.end, start)
            fresh.append(replace(word, start=start, end=least))
        return fresh


def text_of(words: Sequence[Word]) -> str:
    """Return the text of words."""
    return "".join(word.text for word in words).strip()


def _keys(words: Sequence[Word]) -> list[str]:
    return [word_units.key(word.text) for word in words]
