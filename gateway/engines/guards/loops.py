"""Loops: words and characters that a model repeats without end.

Owns: the count of repetitions, and how many make a loop. Must not know: what becomes of a loop
(`gateway.engines.guards.streaming_output`).
"""

from __future__ import annotations

from gateway.engines.guards.measures import TOKEN, is_dense

NGRAM = 8
"""Longest phrase, in words or dense characters, of which every repetition is counted. A longer one
counts as repeated from its first words after this number on."""

STUTTER = 9
"""Most characters that are repeated inside a word."""

LOOP_LEAST, LOOP_WORDS, LOOP_DENSE, LOOP_MORE = 3, 6, 12, 2
"""Least repetitions of a phrase that make a loop, and their least length in all, in words or dense
characters: people do say "no, no, no" and 哈哈哈. Two repetitions more than the source has are
always allowed. From half the repetitions on, the text is withheld until it goes on otherwise."""

STUTTER_HELD, STUTTER_MOST = 18, 36
"""Characters inside a word, or signs without words, that repeat a few of them: from the first
number on they are withheld, and from the second on they make a loop, unless the source has such a
passage as well."""


def stutters(text: str, length: int) -> bool:
    """Tell whether so many characters at the end of a text repeat up to `STUTTER` of them.

    Only an unbroken word ("hahaha", "und-und-und") and signs without words (". . .") stutter.
    Repeated words are counted by `RepeatCounter`.
    """
    tail = text[-length:]
    if len(tail) < length or is_dense(tail[-1]):
        return False
    if any(map(str.isspace, tail)) and any(map(str.isalnum, tail)):
        return False
    return any(tail[size:] == tail[:-size] for size in range(1, STUTTER + 1))


class RepeatCounter:
    """A count of how often the last phrase repeats.

    A token that is not in ``seen`` completes no repetition. A caller that knows this may append it
    to ``tokens`` and ``seen`` itself and spare the call of `add`.

    ``tokens``  all tokens in order, case-folded
    ``seen``    the same tokens, each with the last place where it stands
    """

    __slots__ = ("_at", "_period", "_run", "_run_at", "_same", "seen", "tokens")

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.seen: dict[str, int] = {}
        self._same: list[int] = []  # at n: length of the run of tokens equal to the one n before
        # Number of tokens for which `_same` holds. A token added without a call of `add` ends all
        # runs, which shows in this number.
        self._at = -1
        # The last `_run` of the first `_run_at` tokens stood there `_period` tokens before as well.
        self._run_at = -1
        self._period = self._run = 0

    def add(self, token: str) -> tuple[int, int]:
        """Add the next token. Return the length of the repeated phrase in tokens, and its count."""
        tokens, seen = self.tokens, self.seen
        place = len(tokens)
        tokens.append(token)
        before = seen.get(token)
        seen[token] = place
        best = (1, 1)
        if self._run_at == place and tokens[place - self._period] == token:
            self._run += 1
            self._run_at = place + 1
            if self._run > NGRAM and self._period > NGRAM:
                best = (self._period, 1 - -self._run // self._period)
        elif before is not None:
            self._run = 1
            self._run_at = place + 1
            self._period = place - before
        # The time does not grow with the length of the run: a speaker may say one word a thousand
        # times.
        if before is not None and place - before <= NGRAM:
            if self._at != place:
                self._same = [0] * (NGRAM + 1)
            for n in range(1, min(NGRAM, place) + 1):
                same = self._same[n] = self._same[n] + 1 if tokens[place - n] == token else 0
                times = same // n + 1
                if times > best[1]:
                    best = (n, times)
            self._at = place + 1
        return best


def max_repeats(text: str) -> int:
    """Return the largest number of repetitions of a phrase in ``text``; at least 1."""
    counter = RepeatCounter()
    return max((counter.add(token.casefold())[1] for token in TOKEN.findall(text)), default=1)


def loop_limit(phrase: int, dense: bool) -> int:
    """Return the number of repetitions that make a loop, of a phrase of ``phrase`` tokens."""
    return max(LOOP_LEAST, -(-(LOOP_DENSE if dense else LOOP_WORDS) // phrase))
