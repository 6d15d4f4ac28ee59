"""Text as the guards see it: words and what they weigh.

Owns: what a word is, how much a text weighs, how often a phrase is repeated, and which words are
remembered. Must not know: the rules (`gateway.guards`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from gateway.phrases import CRUDE, RUDE

DENSE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Kana and Han: no spaces between words, and one character says as much as 2.5 Latin ones."""

DENSITY = 2.5

NGRAM = 8
"""Longest repeated phrase looked for, in words (or dense characters)."""

LEXICON_MOST, LEXICON_LONGEST = 16_384, 32
"""Words of one language that are remembered, and their characters: 2 MB of Latin ones, 7 MB at
most. A full lexicon begins anew, which costs some microseconds a word."""

DENSE_CHAR = re.compile(f"[{DENSE}]")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
TOKEN = re.compile(rf"[{DENSE}]|[^\W_{DENSE}]+(?:['’.,-][^\W_{DENSE}]+)*")
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


class Runs:
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


class Lexicon:
    """Words of one language that only the loop guard asks about, as it compares them.

    A word is a run of letters and digits, none of them dense. A caption says what a thousand before
    it have said, so nearly every word is found here, instead of looking at its characters.

    ``words``  by spelling: the word case-folded, or "" where it is none, or may be a rude one
    """

    __slots__ = ("_rude", "words")

    def __init__(self, rude: re.Pattern[str] | None) -> None:
        self._rude = rude
        self.words: dict[str, str] = {}

    def learn(self, word: str) -> str:
        """What ``words`` has of it; it has it from now on, unless that is too long."""
        known = self.words.get(word)
        if known is not None:
            return known
        plain = word.isalnum() and not DENSE_CHAR.search(word)
        # Whether a rude word ends with it, only what follows can tell: a space would.
        if plain and self._rude is not None and self._rude.search(word.lower() + " "):
            plain = False
        folded = word.casefold() if plain else ""
        if folded == word:
            folded = word  # one string in memory instead of two
        if len(word) <= LEXICON_LONGEST:
            if len(self.words) >= LEXICON_MOST:
                self.words.clear()
            self.words[word] = folded
        return folded


LEXICONS = {"": Lexicon(None), **{language: Lexicon(rude) for language, rude in RUDE.items()}}
"""By language; "" for those without rude words, and for sources that are crude themselves."""
