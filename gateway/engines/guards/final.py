"""What only a whole output can tell: whether it is a translation, and what a reader should check.

Owns: the rules that look at source and output as a whole, and their limits. Must not know: how an
output streams, what becomes of one that is rejected (both `gateway.engines.guards.stream`).

Every finished caption comes this way, and nearly all are good: so each rule first asks what is
cheap and clears most of them.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections import Counter
from difflib import SequenceMatcher
from functools import lru_cache

from gateway.engines.guards.phrases import (
    ASSISTANTS,
    BRACKET,
    DENSE_LETTERS,
    KNOWN,
    LETTERS,
    MODELS,
    NEAR,
    NOTES,
    REFUSALS,
    REFUSING,
)
from gateway.engines.guards.words import ADDRESS, DENSITY, TOKEN, has_words, is_dense, weight
from gateway.errors import Rejected
from gateway.job import Job
from gateway.text.languages import script


class Guard(enum.StrEnum):
    """Every rule by name: the ``guard`` of `Rejected` and of the counters, a flag of captions."""

    # Stripped
    THINKING = "thinking"
    PREAMBLE = "preamble"
    QUOTES = "quotes"
    RESTART = "restart"
    # Cut
    LINES = "lines"
    INVENTION = "invention"
    # Rejected
    EMPTY = "empty"
    LOOP = "loop"
    LENGTH = "length"
    SHORT = "short"
    COPY = "copy"
    SCRIPT = "script"
    REFUSAL = "refusal"
    NOTE = "note"
    RUDE = "rude"
    # Flagged
    NUMBERS = "numbers"
    URL = "url"


SHORT_LEAST, SHORT_FROM = 0.25, 40
"""Shortest output of a finished source that weighs 40 or more. References stay over 0.26."""

COPY_LIKE, COPY_WORDS, COPY_DENSE = 0.8, 4, 8
"""Share of the source's plain words (no names, no numbers) that stand in the output in the same
order when the source was copied; judged from 4 plain words, or 8 dense characters, on."""

COPY_SPAN = 300
"""Words compared: the work is quadratic in them and runs on the event loop."""

SCRIPT_LEAST, SCRIPT_PARTIAL, SCRIPT_SHARE = 16, 40, 0.5
"""Weight of letters (not of words taken from the source) needed to judge the script, more of them
while the source is partial (names may come first), and the share that must be in the target's."""

KANA_LEAST, KANA_SHARE, HAN_ONLY = 4, 0.2, 20
"""Kana, and their share, that make a text not Chinese; Han without any that make it no Japanese."""

BEYOND_LATIN = re.compile("[^\u0000-\u024f\u2000-\u206f]")
"""A character that is neither of the Latin script nor one of its punctuation marks."""
_LATIN = LETTERS["Latn"]

NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f ]\d{3}(?!\d))*")
"""A number with its thousands separators."""
SEPARATOR = re.compile(r"(?<=\d)[.,'’\u00a0\u202f ](?=\d)")


def judge(job: Job, text: str) -> tuple[Guard, ...]:
    """Everything that only the whole output can tell: what a reader should check.

    Raises `Rejected`.
    """
    if not job.partial:
        if has_words(job.text) and not has_words(text):
            raise rejected(Guard.EMPTY, "has no words")
        if SHORT_FROM <= weight(job.text) and weight(text) < SHORT_LEAST * weight(job.text):
            raise rejected(Guard.SHORT, "is far shorter than the source")
    if copied(job.text, text, job.source, job.target):
        raise rejected(Guard.COPY, "is the source itself")
    least = SCRIPT_PARTIAL if job.partial else SCRIPT_LEAST
    if foreign(job.text, text, job.target, least):
        raise rejected(Guard.SCRIPT, "is not in the script of the target language")
    if refused(job.text, text, job.source):
        raise rejected(Guard.REFUSAL, "answers instead of translating")
    if NOTES.search(text) and not BRACKET.search(job.text):
        raise rejected(Guard.NOTE, "comments on the translation")
    return () if job.partial else flagged(job.text, text)


def copied(source: str, text: str, spoken: str, wanted: str) -> bool:
    """Whether the output is the source, in a language where it cannot be."""
    a, b = spoken.split("-")[0], wanted.split("-")[0]
    if a == b or any(a in family and b in family for family in NEAR):
        return False
    output = set(map(str.casefold, TOKEN.findall(text)[:COPY_SPAN]))
    tokens = TOKEN.findall(unaddressed(source))[:COPY_SPAN]
    if output.isdisjoint(map(str.casefold, tokens)):
        return False
    plain = [  # neither names nor numbers, nor words that are spelt out
        token.casefold()
        for token in tokens
        if (len(token) > 1 and token[0].isalpha() and not token[0].isupper()) or is_dense(token)
    ]
    dense = sum(map(is_dense, plain))
    if len(plain) - dense < COPY_WORDS and dense < COPY_DENSE:
        return False
    known = set(plain)
    if len(known & output) <= COPY_LIKE * len(known) / 2:
        return False  # cheap, and nearly always so
    said = [token.casefold() for token in TOKEN.findall(text)[:COPY_SPAN]]
    matcher = SequenceMatcher(None, plain, said, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) > COPY_LIKE * len(plain)


def foreign(source: str, text: str, target: str, least: float) -> bool:
    """Whether most letters are not of the target's script, but for words taken from the source."""
    code = script(target)
    wanted = LETTERS.get(code)
    if wanted is None or (wanted == _LATIN and not BEYOND_LATIN.search(text)):
        return False
    given = {token for token in TOKEN.findall(source) if not is_dense(token)}
    own = (token for token in TOKEN.findall(unaddressed(text)) if token not in given)
    found: Counter[str] = Counter()
    for char, count in Counter("".join(own)).items():
        found[letter(char)] += count
    kana = found["HIRAGANA"] + found["KATAKANA"]
    if code == "Jpan" and not kana and found["CJK"] >= HAN_ONLY:
        return True
    if code in ("Hans", "Hant") and kana > KANA_SHARE * (kana + found["CJK"]):
        return kana >= KANA_LEAST
    known = {name: found[name] * (DENSITY if name in DENSE_LETTERS else 1) for name in KNOWN}
    total = sum(known.values())
    return total >= least and sum(known[name] for name in wanted) < SCRIPT_SHARE * total


@lru_cache(maxsize=8192)
def letter(char: str) -> str:
    """The first word of a character's Unicode name, which for letters is the script."""
    return unicodedata.name(char, "").split(" ")[0]


def refused(source: str, text: str, spoken: str) -> bool:
    """Whether the model speaks for itself, and the speaker cannot have said it."""
    if ASSISTANTS.search(text) and not MODELS.search(source):
        return True
    own = REFUSING.get(spoken.split("-")[0])
    return own is not None and bool(REFUSALS.search(text)) and not own.search(source)


def flagged(source: str, text: str) -> tuple[Guard, ...]:
    """What is in the source and not found in the translation: long numbers, addresses."""
    flags = []
    numbers = NUMBER.findall(unicodedata.normalize("NFKC", unaddressed(source)))
    if numbers:
        said = digits(text)
        if any(len(number) >= 3 and number not in said for number in map(digits, numbers)):
            flags.append(Guard.NUMBERS)
    if addressed(source):
        folded = text.casefold()
        addresses = (address.rstrip(".,;:!?") for address in ADDRESS.findall(source.casefold()))
        if any(address not in folded for address in addresses):
            flags.append(Guard.URL)
    return tuple(flags)


def addressed(text: str) -> bool:
    """Whether there may be an `ADDRESS` in it."""
    return "@" in text or "://" in text or "www." in text.casefold()


def unaddressed(text: str) -> str:
    """``text`` without addresses."""
    return ADDRESS.sub(" ", text) if addressed(text) else text


def digits(text: str) -> str:
    """``text`` in ASCII digits, without what separates thousands and decimals."""
    return SEPARATOR.sub("", unicodedata.normalize("NFKC", text))


def rejected(guard: Guard, what: str) -> Rejected:
    return Rejected(guard, f"The model's output {what}.")
