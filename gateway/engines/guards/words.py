"""Text as the guards see it: words and what they weigh.

Owns: what a word is, how much a text weighs, how often a phrase is repeated, and which words are
remembered. Must not know: the rules (`gateway.engines.guards.stream`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from gateway.engines.guards.phrases import CRUDE, RUDE
from gateway.text.scripts import CJK

DENSITY = 2.5

NGRAM = 8
"""Longest repeated phrase looked for, in words (or dense characters)."""

LEXICON_MOST, LEXICON_LONGEST = 16_384, 32
"""Words of one language that are remembered, and their characters: 4 MB of Latin ones, 9 MB at
most. A full lexicon begins anew, which costs some microseconds a word."""

SIGNS = frozenset(",.;:!?")
"""What ends a word, and nothing that a guard looks for."""

DENSE_CHAR = re.compile(f"[{CJK}]")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
TOKEN = re.compile(rf"[{CJK}]|[^\W_{CJK}]+(?:['’.,-][^\W_{CJK}]+)*")
ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>\"'，。、）)]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


def weight(text: str) -> float:
    """Length in Latin characters, about: a dense one says as much as `DENSITY` of them."""
    return len(text) + (DENSITY - 1) * len(DENSE_CHAR.findall(text))


def words(text: str) -> float:
    """Words, about: two dense characters are one."""
    return sum(0.5 if is_dense(token) else 1 for token in TOKEN.findall(text))


def is_dense(token: str) -> bool:
    return not token.isascii() and DENSE_CHAR.match(token) is not None


def has_words(text: str) -> bool:
    return any(char.isalnum() for char in text)


def crude(text: str) -> bool:
    """Whether there is a sign that it is crude."""
    parts = text.split()
    if max(map(len, parts), default=0) > LEXICON_LONGEST:
        return CRUDE.search(text) is not None
    return any(map(_crude, parts))


@lru_cache(maxsize=LEXICON_MOST)
def _crude(word: str) -> bool:
    """No sign has a space in it, so each word can be remembered by itself."""
    return CRUDE.search(word) is not None


class RepeatCounter:
    """How often the last phrase was said in a row, for phrases of up to `NGRAM` tokens.

    ``tokens`` in their order, and ``said`` without; tokens are case-folded. One that was never said
    closes no run: whoever knows that may add it to both without a call.
    """

    __slots__ = ("_at", "_same", "said", "tokens")

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.said: set[str] = set()
        self._same: list[int] = []  # by n: how many tokens in a row equal the one n before,
        self._at = -1  # counted so far: a token that was said without being counted ends them all

    def say(self, token: str) -> tuple[int, int]:
        """Take the next token. Return the phrase's length in tokens and how often it was said.

        The time it takes does not grow with the run: a speaker may say one word a thousand times.
        """
        tokens = self.tokens
        recent = tokens[-NGRAM:]
        tokens.append(token)
        self.said.add(token)
        best = (1, 1)
        if token in recent:
            if self._at != len(tokens) - 1:
                self._same = [0] * (NGRAM + 1)
            for n in range(1, len(recent) + 1):
                same = self._same[n] = self._same[n] + 1 if recent[-n] == token else 0
                times = same // n + 1
                if times > best[1]:
                    best = (n, times)
            self._at = len(tokens)
        return best


class WordCache:
    """Words of one language that only the loop guard asks about, as it compares them.

    A word is a run of letters and digits, none of them dense. A caption says what a thousand before
    it have said, so nearly every word is found here, instead of looking at its characters.

    ``words``  by spelling: the word case-folded, or "" where it is none, or may be a rude one
    ``begun``  by spelling, with a space before it: both, of those that are a word
    ``ended``  as ``words``, of a word with the sign that ends it, which that has as none
    """

    __slots__ = ("_rude", "begun", "ended", "words")

    def __init__(self, rude: re.Pattern[str] | None) -> None:
        self._rude = rude
        self.words: dict[str, str] = {}
        self.begun: dict[str, tuple[str, str]] = {}
        self.ended: dict[str, str] = {}

    def learn(self, word: str) -> str:
        """What ``words`` has of it; it has it from now on, unless that is too long."""
        found = self.words.get(word)
        if found is not None:
            return found
        folded = self._folded(word)
        if len(word) <= LEXICON_LONGEST:
            if len(self.words) >= LEXICON_MOST:
                for known in (self.words, self.begun, self.ended):
                    known.clear()
            self.words[word] = folded
            if folded:
                self.begun[f" {word}"] = (word, folded)
            # Of `TOKEN`s a sign can be a part only where more follows, and that is another piece.
            if word[-1:] in SIGNS and (ended := self._folded(word[:-1])):
                self.ended[word] = ended
        return folded

    def _folded(self, word: str) -> str:
        if not word.isalnum() or DENSE_CHAR.search(word):
            return ""
        # Whether a rude word ends with it, only what follows can tell: a space would.
        if self._rude is not None and self._rude.search(word.lower() + " "):
            return ""
        folded = word.casefold()
        return word if folded == word else folded  # one string in memory instead of two


LEXICONS = {"": WordCache(None), **{language: WordCache(rude) for language, rude in RUDE.items()}}
"""By language; "" for those without rude words, and for sources that are crude themselves."""
