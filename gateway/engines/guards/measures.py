"""Measures of text that the guards use: words and weight.

Owns: the definition of a word, the weight of a text, and the cache of words. Must not know: the
rules (`gateway.engines.guards.streaming_output`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from gateway.engines.guards.phrases import CRUDE, FILLERS, RUDE
from gateway.text.letters import DENSITY
from gateway.text.word_units import CJK

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


WORD_CACHES = {language: WordCache(RUDE.get(language)) for language in ("", *RUDE)}
"""Word caches by language. "" is for languages without rude words and for crude sources."""
