"""Output guards: what a model may show to a reader, and when its output is no translation.

Owns: the rules for an output that streams, and their limits. What only the whole can tell is
`gateway.engines.guards.final`'s, their words are in `gateway.engines.guards.phrases`. Must not
know: engines, retries, metrics, asyncio. A false alarm costs a good caption, so every rule lets
pass what it is not sure of; ``docs/design/guards.md`` has the measured rates.

One `OutputGuard` follows one output as it streams. It *strips* what surrounds a translation
(thinking, "Here is the translation:", quotes, a restarted prefix), *cuts* what follows it (chatter
after the line, invented ends of unfinished sentences), *flags* what a reader should check (numbers,
addresses), and *rejects* the rest by raising `Rejected`."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache

from gateway.engines.guards.final import Guard, judge, rejected
from gateway.engines.guards.phrases import AROUND, OPENERS, QUOTED, QUOTES, RUDE, TRANSLATION
from gateway.engines.guards.words import (
    LEXICONS,
    TOKEN,
    WORD,
    RepeatCounter,
    crude,
    is_dense,
    weight,
    words,
)
from gateway.job import Job
from gateway.text.languages import endonym, name

# Limits. Lengths are in `weight`: characters, where one of a dense script counts for more.

LENGTH_MOST, LENGTH_SLACK = 3.5, 20
"""Longest output: 3.5 times the source and 20 more. References stay under 2.8 times."""

WORDS_MOST, WORDS_SLACK = 2.0, 3
"""Most words of the output while the source is partial; two dense characters are one word."""

LOOP_LEAST, LOOP_WORDS, LOOP_DENSE, LOOP_MORE = 3, 6, 12, 2
"""A loop is a phrase three times in a row and at least 6 words (12 dense characters) in all:
people do say "no, no, no" and 哈哈哈. Two times more than the source has it are always allowed."""

HEAD_MOST = 120
"""Characters held back while they may be a preamble."""

THINKING_MOST = 4000
"""Characters of thinking waited for."""

RUDE_MOST = 10
"""Characters before new text that a rude word may have begun in; none is longer."""

RESTART_LEAST, RESTART_WORDS = 4, 2
"""Shortest overlap with the forced prefix that counts as its restart, in characters; and in words
where the sentence may go on with them: people say "very very", and French has "nous nous"."""

LINE = re.compile(r"[^\n]+|\n")
COLON = re.compile("[:：]")
MARKS = " *,.!#_-(\n'’，。！"
"""What stands around the words of a preamble."""


class OutputGuard:
    """Follows the output of one job.

    ``text``   the translation so far, with the forced prefix. The rules judge both together, and
               leave the prefix itself as it is: it was shown before
    ``done``   the translation is over, whatever else the model would say: stop it
    ``hits``   what was stripped or cut, for the counters
    ``flags``  after `end`: what a reader should check; goes out with the caption
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.text = job.prefix
        self.done = False
        self.hits: list[Guard] = []
        self.flags: tuple[Guard, ...] = ()
        self._easy = False
        """Whether a whole word, or more of the last one, may follow without anything else to do."""
        self._head = ""  # the output until it is known where the translation begins
        self._open = False
        self._close = ""  # the quotes that may close a stripped opening one
        self._space = ""  # white space at the end, held back: nothing may follow it
        self._token = ""  # the last word, which may still grow
        self._folded = ""  # and what it is in the lexicon, if that has it
        self._runs = RepeatCounter()
        for token in TOKEN.findall(job.prefix):
            self._runs.say(token.casefold())
        self._repeats = 0  # of the source, once it is asked for
        self._lines = lines(job.prefix)
        self._lines_most = max(1, lines(job.text))
        self._broken = not job.prefix or job.prefix.endswith("\n")
        self._weight = weight(job.prefix)
        self._weight_most = LENGTH_MOST * weight(job.text) + LENGTH_SLACK
        language = "" if crude(job.text) else job.target.partition("-")[0]
        self._rude = RUDE.get(language)
        self._lexicon = LEXICONS.get(language, LEXICONS[""])
        self._words = words(job.prefix)
        self._words_most = float("inf")
        if job.partial:
            self._words_most = WORDS_MOST * words(job.text) + WORDS_SLACK

    def feed(self, text: str) -> str:
        """Take a piece of the output, return what may be shown now. Raises `Rejected`."""
        if self._easy:
            found = self._lexicon.begun.get(text)
            if found is None or self._words + 1 > self._words_most:
                return self._grow(text)
            # As nearly always. `_look` would find the same.
            folded = self._folded
            if folded:
                runs = self._runs
                if folded in runs.said:
                    self._say(folded)
                else:
                    runs.said.add(folded)
                    runs.tokens.append(folded)
            self._words += 1
            self._token, self._folded = found
            self.text += text
            self._weight += len(text)
            if self._weight > self._weight_most:
                raise rejected(Guard.LENGTH, "is far longer than the source")
            return text
        return self._look(text)

    def _grow(self, text: str) -> str:
        """`feed`, where a word may follow, more of the last one, or the sign that ends it."""
        begins = text[:1] == " "
        word = text[1:] if begins else self._token + text
        begins = begins or not self._token
        folded = self._lexicon.learn(word)
        ended = None if folded else self._lexicon.ended.get(word)
        if not (folded or ended) or self._words + begins > self._words_most:
            return self._look(text)
        if begins:
            self._words += 1
            if self._folded:
                self._say(self._folded)
        if ended:
            self._say(ended)
            self._token = self._folded = ""
        else:
            self._token = word
            self._folded = folded
        self.text += text
        self._weigh(len(text))
        return text

    def end(self) -> str:
        """The model has ended: judge the whole, return what was held back. Raises `Rejected`."""
        rest = ""
        if not self._open:
            rest = self._take(self._opened(final=True) or "")
        if self._token:
            self._say(self._token.casefold())
        if self._rude is not None and self._rude.search(self.text.lower() + " "):
            raise rejected(Guard.RUDE, "has a word that the source does not account for")
        self.flags = judge(self.job, self.text.strip())
        return rest

    def _look(self, text: str) -> str:
        """`feed`, for any piece at all."""
        if self.done:
            return ""
        if not self._open:
            self._head += text
            body = self._opened(final=False)
            if body is None:
                return ""
            text = body
        shown = self._take(text)
        token = self._token
        self._folded = self._lexicon.learn(token) if token else ""
        start = len(self.text) - len(token)
        # A word that the prefix began is not in the lexicon as it stands in the text.
        whole = start == 0 or not self.text[start - 1].isalnum()
        hard = self.done or self._close or self._broken or self._space
        self._easy = not hard and whole and bool(self._folded or not token)
        return shown

    def _opened(self, *, final: bool) -> str | None:
        """The output without what precedes the translation; None while that is not decided."""
        text = self._head.lstrip()
        space = self._head[: len(self._head) - len(text)]
        hits = []
        if text.startswith("<think>") and "think>" not in self.job.text:
            _, closed, text = text.partition("</think>")
            if not closed:
                if final or len(self._head) > THINKING_MOST:
                    raise rejected(Guard.THINKING, "never came to an end of its thinking")
                return None
            text = text.lstrip()
            hits.append(Guard.THINKING)
        if not final and "<think>".startswith(text):  # nothing yet, or not enough to tell
            return None
        if self.job.prefix:  # where it begins, nothing can stand before a translation
            # Where the next word of a sentence may begin, the same one may.
            near = self.job.prefix[-1] + space
            flows = near.endswith(" ") or is_dense(text)
            length = restart(self.job.prefix, text, flows=flows, final=final)
            if length is None:
                return None
            if length and not (flows and self._allowed() > 1):
                text = text[length:]
                hits.append(Guard.RESTART)
            else:  # a continuation brings its own space, unless it was lost behind the thinking
                text = (" " if hits and not is_dense(text) else space) + text
        else:
            at = preamble(text, self.job, final=final)
            if at is None and not final and len(text) <= HEAD_MOST:
                return None
            if at:
                text = text[at:].lstrip(" \n\u00a0*")
                hits.append(Guard.PREAMBLE)
            if text[:1] in QUOTES and not QUOTED.search(self.job.text):
                self._close = QUOTES[text[0]]
                text = text[1:].lstrip()
                hits.append(Guard.QUOTES)
            if not text and not final:
                return None
        self._open = True
        self.hits += hits
        return text

    def _take(self, text: str) -> str:
        """Text of the translation itself: cut, checked, without white space at its end."""
        if self._close:
            text = self._unquoted(text)
        if self._broken or "\n" in text:
            text = self._line(text)
        text = self._spoken(self._space + text)
        shown = text.rstrip()
        self._space = text[len(shown) :]
        before = len(self.text)
        self.text += shown
        if ">" in shown and "</think>" in self.text[-len(shown) - 8 :]:
            if "think>" not in self.job.text:
                raise rejected(Guard.THINKING, "showed its thinking")
        if self._rude is not None:
            start = max(0, before - RUDE_MOST - 1)  # one more, which a word may be the rest of
            if self._rude.search(self.text[start:].lower(), 1 if start else 0):
                raise rejected(Guard.RUDE, "has a word that the source does not account for")
        self._weigh(len(shown) if shown.isascii() else weight(shown))
        return shown

    def _weigh(self, more: float) -> None:
        self._weight += more
        if self._weight > self._weight_most:
            raise rejected(Guard.LENGTH, "is far longer than the source")

    def _unquoted(self, text: str) -> str:
        for at, char in enumerate(text):
            if char in self._close:
                self._close = ""
                return text[:at] + text[at + 1 :]
        return text

    def _line(self, text: str) -> str:
        """``text`` up to the end of the last line that the source has."""
        for match in LINE.finditer(text):
            if match.group() == "\n":
                if self._lines >= self._lines_most:
                    self._stop(Guard.LINES)
                    return text[: match.start()]
                self._broken = True
            elif self._broken and match.group().strip():
                self._lines += 1
                self._broken = False
        return text

    def _spoken(self, text: str) -> str:
        """``text`` up to the last word that an unfinished source can account for."""
        known = len(self._token)
        text = self._token + text
        self._token = ""
        for match in TOKEN.finditer(text):
            token = match.group()
            dense = is_dense(token)
            if match.start() >= known:  # else it was counted when it began
                self._words += 0.5 if dense else 1
                if self._words > self._words_most:
                    self._stop(Guard.INVENTION)
                    return text[known : match.start()]
            if dense or match.end() < len(text):
                self._say(token.casefold())
            else:
                self._token = token
        return text[known:]

    def _say(self, token: str) -> None:
        """A word, case-folded, is complete. Raises `Rejected` when it closes a loop."""
        runs = self._runs
        if token not in runs.said:  # it closes none
            runs.said.add(token)
            runs.tokens.append(token)
            return
        phrase, times = runs.say(token)
        if times >= LOOP_LEAST and times >= loop_limit(phrase, is_dense(token)):
            if times > self._allowed() + LOOP_MORE:
                raise rejected(Guard.LOOP, "repeats itself without end")

    def _allowed(self) -> int:
        """How often the source repeats itself: read once, since within its bounds a long loop asks
        with every word."""
        self._repeats = self._repeats or repeats(self.job.text)
        return self._repeats

    def _stop(self, guard: Guard) -> None:
        self.done = True
        self.hits.append(guard)


def repeats(text: str) -> int:
    """How often ``text`` says a phrase in a row, at most."""
    runs = RepeatCounter()
    return max((runs.say(token.casefold())[1] for token in TOKEN.findall(text)), default=1)


def loop_limit(phrase: int, dense: bool) -> int:
    """Repetitions of a phrase of ``phrase`` tokens that make a loop."""
    return max(LOOP_LEAST, -(-(LOOP_DENSE if dense else LOOP_WORDS) // phrase))


def preamble(text: str, job: Job, *, final: bool) -> int | None:
    """Length of the preamble that ``text`` begins with, 0 for none, None if more must be seen."""
    telling, known, around = preamble_words(job.target)
    first = WORD.match(start := text.lstrip(MARKS))
    if start and (first is None or not begun(first.group().casefold(), known)):
        return 0  # as nearly always
    said = set(map(str.casefold, WORD.findall(job.text)))
    if said & telling:  # "The translation: ..." may then be the translation
        return 0
    if COLON.search(job.text):
        telling = TRANSLATION
    told = False
    at = 0
    while at < len(text):
        if text[at] in ":：" and told:
            # What is left must be seen too: it may be the other half of a bold face.
            return at + 1 if final or text[at + 1 :].strip("* \n") else None
        if match := WORD.match(text, at):
            word = match.group().casefold()
            at = match.end()
            found = begun(word, known)
            if found and at == len(text):
                return None
            if found != word:
                return 0
            known = around
            told = told or word in telling
        elif text[at] in MARKS:
            at += 1
        else:
            return 0
    return None


@lru_cache(maxsize=256)
def preamble_words(target: str) -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]:
    """`TRANSLATION`, and in order `OPENERS` and `AROUND`, with the names of the target language."""
    names = frozenset(map(str.casefold, WORD.findall(f"{name(target)} {endonym(target)}")))
    return TRANSLATION | names, tuple(sorted(OPENERS | names)), tuple(sorted(AROUND | names))


def begun(word: str, known: tuple[str, ...]) -> str:
    """The shortest of ``known``, which are in order, that begins with ``word``; "" for none."""
    at = bisect_left(known, word)
    return known[at] if at < len(known) and known[at].startswith(word) else ""


def restart(prefix: str, text: str, *, flows: bool, final: bool) -> int | None:
    """Length of the end of ``prefix`` that ``text`` says again, None if more must be seen.

    ``flows``: by the space between them, ``text`` may be what the sentence goes on with.
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


def lines(text: str) -> int:
    """Lines that are not blank."""
    return sum(1 for line in text.split("\n") if line.strip())
