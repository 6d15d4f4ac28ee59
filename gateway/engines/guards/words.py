"""Measures of text that the guards use: words, weight and repetition.

Owns: the definition of a word, the weight of a text, the count of repeated phrases, and the cache
of words. Must not know: the rules (`gateway.engines.guards.streaming_output`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from gateway.engines.guards.patterns import CRUDE, FILLERS, RUDE
from gateway.text.letters import DENSITY
from gateway.text.units import CJK

NGRAM = 8
"""Longest phrase, in words or dense characters, of which every repetition is counted. A longer one
counts as repeated from its first words after this number on."""

STUTTER = 9
"""Most characters that are repeated inside a word."""

WORD_CACHE_SIZE, WORD_CACHE_LONGEST = 16_384, 32
"""Words in the cache of one language, and the longest of them in characters. Such a cache takes
about 4 MB for Latin scripts and 9 MB at most. A full cache is emptied, after which each word costs
some microseconds once."""

SIGNS = frozenset(",.;:!?")
"""Signs that end a word and that no guard looks for."""

DENSE_CHAR = re.compile(f"[{CJK}]")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
TOKEN = re.compile(rf"[{CJK}]|[^\W_{CJK}]+(?:['’.,-][^\W_{CJK}]+)*")
ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>\"'，。、）)]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


def weight(text: str) -> float:
    """Return the length of ``text`` in Latin characters; a dense one counts as `DENSITY`."""
    return len(text) + (DENSITY - 1) * len(DENSE_CHAR.findall(text))


def count_words(text: str) -> float:
    """Return the number of words in ``text``; two dense characters count as one word."""
    return sum(0.5 if is_dense(token) else 1 for token in TOKEN.findall(text))


def is_dense(token: str) -> bool:
    """Tell whether a token is a dense character."""
    return not token.isascii() and DENSE_CHAR.match(token) is not None


def has_words(text: str) -> bool:
    """Tell whether ``text`` has a letter or digit."""
    return any(char.isalnum() for char in text)


def is_filler(text: str) -> bool:
    """Tell whether ``text`` has only words that fill a pause."""
    words = re.findall(r"\w+", text.casefold())
    return bool(words) and all(word in FILLERS for word in words)


def has_crude_sign(text: str) -> bool:
    """Tell whether ``text`` has one of the signs of crude language, `CRUDE`."""
    parts = text.split()
    if max(map(len, parts), default=0) > WORD_CACHE_LONGEST:
        return CRUDE.search(text) is not None
    return any(map(_crude, parts))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _crude(word: str) -> bool:
    """Tell whether one word has such a sign. No sign contains a space, so words can be cached."""
    return CRUDE.search(word) is not None


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


class WordCache:
    """A cache of words of one language that concern no guard but the loop guard.

    A word is a run of letters and digits, none of them dense. Captions use the same words again and
    again, so nearly every word is found here, without a look at its characters.

    ``words``   spelling to the case-folded word, or to "" if it is no such word or may be rude
    ``spaced``  spelling with a space before it to (spelling, case-folded word), words only
    ``signed``  spelling with one of `SIGNS` after it to the case-folded word
    """

    __slots__ = ("_rude", "spaced", "signed", "words")

    def __init__(self, rude: re.Pattern[str] | None) -> None:
        self._rude = rude
        self.words: dict[str, str] = {}
        self.spaced: dict[str, tuple[str, str]] = {}
        self.signed: dict[str, str] = {}

    def learn(self, word: str) -> str:
        """Return ``words[word]``, and add the word to the cache unless it is too long."""
        learned = self.words.get(word)
        if learned is not None:
            return learned
        folded = self._folded(word)
        if len(word) <= WORD_CACHE_LONGEST:
            if len(self.words) >= WORD_CACHE_SIZE:
                for known in (self.words, self.spaced, self.signed):
                    known.clear()
            self.words[word] = folded
            if folded:
                self.spaced[f" {word}"] = (word, folded)
            # Inside a `TOKEN` a sign is always followed by more text. That text would be another
            # chunk, so here the sign ends the word.
            if word[-1:] in SIGNS and (signed := self._folded(word[:-1])):
                self.signed[word] = signed
        return folded

    def _folded(self, word: str) -> str:
        """Return the value of ``words`` for a word that is not cached."""
        if not word.isalnum() or DENSE_CHAR.search(word):
            return ""
        # Some patterns of rude words need a character after the word, so a space is added.
        if self._rude is not None and self._rude.search(word.lower() + " "):
            return ""
        folded = word.casefold()
        return word if folded == word else folded  # keeps one string instead of two


WORD_CACHES = {
    "": WordCache(None),
    **{language: WordCache(rude) for language, rude in RUDE.items()},
}
"""Word caches by language. "" is for languages without rude words and for crude sources."""
