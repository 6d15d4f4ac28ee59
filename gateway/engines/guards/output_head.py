"""The head of an output: words before the translation, and a prefix that is repeated.

Owns: how long a preamble and a restart are. Must not know: what becomes of them
(`gateway.engines.guards.streaming_output`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache

from gateway.engines.guards.measures import TOKEN, WORD, is_dense
from gateway.engines.guards.phrases import AROUND, OPENERS, TRANSLATION
from gateway.job import Job
from gateway.text.languages import endonym, name

RESTART_LEAST, RESTART_WORDS = 4, 2
"""Shortest repeated end of the forced prefix that counts as its restart: in characters, and in
words if the sentence may continue with them. People say "very very", and French has "nous nous"."""
COLON = re.compile("[:：]")
MARKS = " *,.!#_-(\n'’，。！"
"""Characters that stand around the words of a preamble."""


def preamble_length(text: str, job: Job, *, final: bool) -> int | None:
    """Return the length of the preamble of ``text``, 0 if it has none.

    Return None if more text is needed to decide, which is possible also with ``final``: then the
    whole output may be a preamble.
    """
    telling, known, around = preamble_words(job.target)
    first = WORD.match(start := text.lstrip(MARKS))
    if start and (first is None or not completion(first.group().casefold(), known)):
        return 0  # the case of nearly every output
    source_words = set(map(str.casefold, WORD.findall(job.text)))
    if source_words & telling:  # "The translation: ..." may then be the translation
        return 0
    if COLON.search(job.text):
        telling = TRANSLATION
    has_telling_word = False
    at = 0
    while at < len(text):
        if text[at] in ":：" and has_telling_word:
            # The text after the colon is needed too: it may be the end of a bold face.
            return at + 1 if final or text[at + 1 :].strip("* \n") else None
        if match := WORD.match(text, at):
            word = match.group().casefold()
            at = match.end()
            whole = completion(word, known)
            if whole and at == len(text):
                return None
            if whole != word:
                return 0
            known = around
            has_telling_word = has_telling_word or word in telling
        elif text[at] in MARKS:
            at += 1
        else:
            return 0
    return None


@lru_cache(maxsize=256)
def preamble_words(target: str) -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]:
    """Return `TRANSLATION`, and sorted `OPENERS` and `AROUND`, for preambles into ``target``."""
    # The names of the target language are added to each of them.
    names = frozenset(map(str.casefold, WORD.findall(f"{name(target)} {endonym(target)}")))
    return TRANSLATION | names, tuple(sorted(OPENERS | names)), tuple(sorted(AROUND | names))


def completion(word: str, known: tuple[str, ...]) -> str:
    """Return the first of the sorted ``known`` that begins with ``word``, or "" if none does."""
    at = bisect_left(known, word)
    return known[at] if at < len(known) and known[at].startswith(word) else ""


def restart_length(prefix: str, text: str, *, flows: bool, final: bool) -> int | None:
    """Return how much of the end of ``prefix`` is repeated at the beginning of ``text``.

    Return None if more text is needed to decide.

    :param flows: whether ``text``, by the space before it, may continue the sentence
    """
    starts = [match.start() for match in TOKEN.finditer(prefix)]
    for start in starts[: 1 - RESTART_WORDS] if flows else starts:
        again = prefix[start:].rstrip()
        if len(again) < RESTART_LEAST:
            break
        if text.startswith(again):
            after = text[len(again) : len(again) + 1]
            if not after and not final:
                return None
            if is_dense(again[-1]) or not (after.isalnum() and again[-1].isalnum()):
                return len(again)
        elif again.startswith(text) and not final:
            return None
    return 0
