"""Guards of a streaming output: which part of it readers see, and when it is no translation.

Owns: the rules for an output that streams, and their limits, without those of loops
(`gateway.engines.guards.loops`). The rules for a complete output are in
`gateway.engines.guards.complete_output`, the words for all of them in
`gateway.engines.guards.phrases`. Must not know: engines, retries, metrics, asyncio. A false alarm
costs a good caption, so every rule accepts what it is not sure of. ``docs/design/guards.md`` has
the measured rates.

One `OutputGuard` follows one output as it streams. It *strips* what surrounds a translation
(thinking, "Here is the translation:", quotes, a repeated prefix). It *cuts* what follows it
(chatter after the last line, invented ends of unfinished sentences). It *flags* what a reader
should check (numbers, addresses). It *rejects* everything else that is no translation by raising
`Rejected`.
"""

from __future__ import annotations

import re

from gateway.engines.guards.complete_output import Guard, Instead, judge, rejection
from gateway.engines.guards.loops import (
    LOOP_MORE,
    STUTTER_HELD,
    STUTTER_MOST,
    RepeatCounter,
    loop_limit,
    max_repeats,
    stutters,
)
from gateway.engines.guards.measures import (
    TOKEN,
    WORD_CACHES,
    count_words,
    has_crude_sign,
    is_dense,
    weight,
)
from gateway.engines.guards.output_head import preamble_length, restart_length
from gateway.engines.guards.phrases import QUOTED, QUOTES, RUDE
from gateway.job import Job

# Limits. Lengths are in `weight`: characters, where one of a dense script counts for more.

LENGTH_MOST, LENGTH_SLACK = 3.5, 20
"""Longest output: 3.5 times the source and 20 more. Reference translations stay under 2.8 times."""

WORDS_MOST, WORDS_SLACK = 2.0, 3
"""Most words of the output of a partial source: twice those of the source and 3 more."""

HEAD_MOST = 120
"""Characters held back while they may be a preamble."""

THINKING_MOST = 4000
"""Characters of thinking after which the output is rejected."""

RUDE_MOST = 10
"""Length of the longest rude word: so many characters before new text are searched again."""

LINE = re.compile(r"[^\n]+|\n")


class OutputGuard:
    """A guard of the output of one job.

    :param instead: tells the language of a complete output, which is not judged without it

    ``text``   the translation so far, with the forced prefix. The rules judge both together. They
               never change the prefix, because readers have seen it already
    ``done``   whether the translation is complete, so that the model should be stopped
    ``hits``   rules that stripped or cut something, for the counters
    ``flags``  after `end`: rules that flag something for readers to check
    """

    def __init__(self, job: Job, instead: Instead | None = None) -> None:
        self.job = job
        self._instead = instead
        self.text = job.prefix
        self.done = False
        self.hits: list[Guard] = []
        self.flags: tuple[Guard, ...] = ()
        self._fast_path = False
        """True while the next piece needs no check but those of `accept`, if it is a word or the
        rest of one."""
        self._head = ""  # the output, until the beginning of the translation is known
        self._begun = False  # whether it is known
        self._closing_quotes = ""  # quotes that may close the stripped opening quote
        self._repeats = False  # the last words may be the beginning of a loop
        self._held = ""  # text that is withheld while they may
        self._held_space = ""  # white space at the end, which is withheld until text follows
        self._last_word = ""  # the last word, which may still grow
        self._last_folded = ""  # its entry in the word cache, "" if it has none
        self._repeat_counter = RepeatCounter()
        for token in TOKEN.findall(job.prefix):
            self._repeat_counter.add(token.casefold())
        self._source_repeats = 0  # of the source; 0 until it is needed
        self._line_count = count_lines(job.prefix)
        self._line_limit = max(1, count_lines(job.text))
        self._at_line_start = not job.prefix or job.prefix.endswith("\n")
        self._weight = weight(job.prefix)
        self._weight_limit = LENGTH_MOST * weight(job.text) + LENGTH_SLACK
        language = "" if has_crude_sign(job.text) else job.target.partition("-")[0]
        self._rude_pattern = RUDE.get(language)
        self._word_cache = WORD_CACHES.get(language, WORD_CACHES[""])
        self._word_count = count_words(job.prefix)
        self._word_limit = float("inf")
        if job.partial:
            self._word_limit = WORDS_MOST * count_words(job.text) + WORDS_SLACK

    def accept(self, text: str) -> str:
        """Check a piece of the output, and return the text that may be shown now. Raises `Rejected`
        if the output is no translation.
        """
        if self._fast_path:
            cached = self._word_cache.spaced.get(text)
            if cached is None or self._word_count + 1 > self._word_limit:
                return self._accept_word(text)
            # Fast path for nearly every piece; `_accept_any` would give the same result.
            folded = self._last_folded
            if folded:
                counter = self._repeat_counter
                if folded in counter.seen:
                    self._count_word(folded)
                    self._fast_path = not self._repeats
                else:
                    counter.seen[folded] = len(counter.tokens)
                    counter.tokens.append(folded)
            self._word_count += 1
            self._last_word, self._last_folded = cached
            self.text += text
            self._weight += len(text)
            if self._weight > self._weight_limit:
                raise rejection(Guard.LENGTH, "is far longer than the source")
            return text if self._fast_path else self._withhold(text)
        return self._accept_any(text)

    def _accept_word(self, text: str) -> str:
        """Do the work of `accept` for a word, the rest of a word, or a sign that ends one."""
        begins = text[:1] == " "
        word = text[1:] if begins else self._last_word + text
        begins = begins or not self._last_word
        folded = self._word_cache.learn(word)
        ended = None if folded else self._word_cache.signed.get(word)
        if not (folded or ended) or self._word_count + begins > self._word_limit:
            return self._accept_any(text)
        if begins:
            self._word_count += 1
            if self._last_folded:
                self._count_word(self._last_folded)
        if ended:
            self._count_word(ended)
            self._last_word = self._last_folded = ""
        else:
            self._last_word = word
            self._last_folded = folded
        self.text += text
        self._add_weight(len(text))
        if len(word) >= STUTTER_HELD:
            self._check_stutter()
        return self._withhold(text) if self._repeats else text

    def complete(self) -> str:
        """Judge the complete output, and return the text that was withheld. Raises `Rejected` if
        the output is no translation.
        """
        rest = ""
        if not self._begun:
            rest = self._check_body(self._strip_head(final=True) or "")
        if self._last_word:
            self._count_word(self._last_word.casefold())
        if self._rude_pattern is not None and self._rude_pattern.search(self.text.lower() + " "):
            raise rejection(Guard.RUDE, "has a word that the source does not account for")
        self.flags = judge(self.job, self.text.strip(), self._instead)
        self._repeats = False
        return self._withhold(rest)

    def _accept_any(self, text: str) -> str:
        if self.done:
            return ""
        if not self._begun:
            self._head += text
            body = self._strip_head(final=False)
            if body is None:
                return ""
            text = body
        shown = self._check_body(text)
        token = self._last_word
        self._last_folded = self._word_cache.learn(token) if token else ""
        start = len(self.text) - len(token)
        # The cache does not know a word whose first letters are in the prefix.
        whole = start == 0 or not self.text[start - 1].isalnum()
        # In these states the next piece may have to be changed or withheld.
        pending = self.done or self._closing_quotes or self._at_line_start or self._held_space
        self._fast_path = not pending and whole and bool(self._last_folded or not token)
        return self._withhold(shown)

    def _withhold(self, text: str) -> str:
        """Return the text that may be shown now, nothing while a phrase repeats itself."""
        text, self._held = self._held + text, ""
        if self._repeats:
            self._held, text = text, ""
            self._fast_path = False
        return text

    def _strip_head(self, *, final: bool) -> str | None:
        """Return the head of the output without the words that precede the translation.

        Return None while that is not decided, which is never with ``final``.
        """
        text = self._head.lstrip()
        space = self._head[: len(self._head) - len(text)]
        hits = []
        if text.startswith("<think>") and "think>" not in self.job.text:
            _, closed, text = text.partition("</think>")
            if not closed:
                if final or len(self._head) > THINKING_MOST:
                    raise rejection(Guard.THINKING, "never came to an end of its thinking")
                return None
            text = text.lstrip()
            hits.append(Guard.THINKING)
        if not final and "<think>".startswith(text):  # empty, or perhaps the beginning of the tag
            return None
        if self.job.prefix:  # after a prefix there can be no preamble, only a restart
            # The next word of a sentence may be the same as the last one.
            near = self.job.prefix[-1] + space
            flows = near.endswith(" ") or is_dense(text)
            length = restart_length(self.job.prefix, text, flows=flows, final=final)
            if length is None:
                return None
            if length and not (flows and self._allowed_repeats() > 1):
                text = text[length:]
                hits.append(Guard.RESTART)
            else:  # a continuation has its own space, unless it was stripped with the thinking
                text = (" " if hits and not is_dense(text) else space) + text
        else:
            at = preamble_length(text, self.job, final=final)
            if at is None and not final and len(text) <= HEAD_MOST:
                return None
            if at:
                text = text[at:].lstrip(" \n\u00a0*")
                hits.append(Guard.PREAMBLE)
            if text[:1] in QUOTES and not QUOTED.search(self.job.text):
                self._closing_quotes = QUOTES[text[0]]
                text = text[1:].lstrip()
                hits.append(Guard.QUOTES)
            if not text and not final:
                return None
        self._begun = True
        self.hits += hits
        return text

    def _check_body(self, text: str) -> str:
        """Return text of the translation, cut, checked, and without white space at its end."""
        if self._closing_quotes:
            text, found = re.subn(f"[{self._closing_quotes}]", "", text, count=1)
            if found:
                self._closing_quotes = ""
        if self._at_line_start or "\n" in text:
            text = self._cut_lines(text)
        text = self._cut_invention(self._held_space + text)
        shown = text.rstrip()
        self._held_space = text[len(shown) :]
        before = len(self.text)
        self.text += shown
        if ">" in shown and "</think>" in self.text[-len(shown) - 8 :]:
            if "think>" not in self.job.text:
                raise rejection(Guard.THINKING, "showed its thinking")
        if self._rude_pattern is not None:
            start = max(0, before - RUDE_MOST - 1)  # one more: a word starts after another letter
            if self._rude_pattern.search(self.text[start:].lower(), 1 if start else 0):
                raise rejection(Guard.RUDE, "has a word that the source does not account for")
        self._add_weight(len(shown) if shown.isascii() else weight(shown))
        self._check_stutter()
        return shown

    def _add_weight(self, more: float) -> None:
        self._weight += more
        if self._weight > self._weight_limit:
            raise rejection(Guard.LENGTH, "is far longer than the source")

    def _cut_lines(self, text: str) -> str:
        """Return ``text`` up to the end of the last line that the source accounts for."""
        for match in LINE.finditer(text):
            if match.group() == "\n":
                if self._line_count >= self._line_limit:
                    self._cut(Guard.LINES)
                    return text[: match.start()]
                self._at_line_start = True
            elif self._at_line_start and match.group().strip():
                self._line_count += 1
                self._at_line_start = False
        return text

    def _cut_invention(self, text: str) -> str:
        """Return ``text`` up to the last word that a partial source can account for."""
        known = len(self._last_word)
        text = self._last_word + text
        self._last_word = ""
        for match in TOKEN.finditer(text):
            token = match.group()
            dense = is_dense(token)
            if match.start() >= known:  # an earlier word was counted when it began
                self._word_count += 0.5 if dense else 1
                if self._word_count > self._word_limit:
                    self._cut(Guard.INVENTION)
                    return text[known : match.start()]
            if dense or match.end() < len(text):
                self._count_word(token.casefold())
            else:
                self._last_word = token
        return text[known:]

    def _count_word(self, token: str) -> None:
        """Count a complete, case-folded word. Raises `Rejected` if it completes a loop."""
        counter = self._repeat_counter
        self._repeats = False
        if token not in counter.seen:  # a new word completes no repetition
            counter.seen[token] = len(counter.tokens)
            counter.tokens.append(token)
            return
        phrase, times = counter.add(token)
        limit = loop_limit(phrase, is_dense(token))
        if times > 1 and times >= limit // 2:
            more = times - self._allowed_repeats()
            if times >= limit and more > LOOP_MORE:
                raise rejection(Guard.LOOP, "repeats itself without end")
            self._repeats = more > 0

    def _check_stutter(self) -> None:
        """Withhold a word or signs that repeat themselves. Raises `Rejected` for a loop of them."""
        if not stutters(self.text, STUTTER_HELD):
            return
        text = self.job.text
        ends = range(STUTTER_HELD, len(text) + 1)
        if not any(stutters(text[:end], STUTTER_HELD) for end in ends):
            self._repeats = True
            if stutters(self.text, STUTTER_MOST):
                raise rejection(Guard.LOOP, "repeats itself without end")

    def _allowed_repeats(self) -> int:
        """Return how often the source repeats a phrase."""
        # The result is kept, because it is needed with every word of a repetition.
        self._source_repeats = self._source_repeats or max_repeats(self.job.text)
        return self._source_repeats

    def _cut(self, guard: Guard) -> None:
        self.done = True
        self.hits.append(guard)


def count_lines(text: str) -> int:
    """Return the number of lines that are not blank."""
    return sum(1 for line in text.split("\n") if line.strip())
