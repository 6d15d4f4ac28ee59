"""Output guards: what a model may show to a reader, and when its output is no translation.

Owns: the rules, each with a name and its limits; their words are in `gateway.phrases`. Must not
know: engines, retries, metrics, asyncio. A false alarm costs a good caption, so every rule lets
pass what it is not sure of; ``docs/design/guards.md`` has the measured rates.

One `Watch` follows one output as it streams. It *strips* what surrounds a translation (thinking,
"Here is the translation:", quotes, a restarted prefix), *cuts* what follows it (chatter after the
line, invented ends of unfinished sentences), *flags* what a reader should check (numbers,
addresses), and *rejects* the rest by raising `Rejected`.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections import Counter
from difflib import SequenceMatcher
from functools import lru_cache

from gateway.errors import Rejected
from gateway.job import Job
from gateway.languages import endonym, name, script
from gateway.phrases import (
    AROUND,
    ASSISTANTS,
    BRACKET,
    CRUDE,
    DENSE_LETTERS,
    KNOWN,
    LETTERS,
    MODELS,
    NEAR,
    NOTES,
    OPENERS,
    QUOTED,
    QUOTES,
    REFUSALS,
    REFUSING,
    RUDE,
    TRANSLATION,
)


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


# Limits. Lengths are in `weight`: characters, where one of a dense script counts for more.

DENSE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Kana and Han: no spaces between words, and one character says as much as 2.5 Latin ones."""

DENSITY = 2.5
LENGTH_MOST, LENGTH_SLACK = 3.5, 20
"""Longest output: 3.5 times the source and 20 more. References stay under 2.8 times."""

SHORT_LEAST, SHORT_FROM = 0.25, 40
"""Shortest output of a finished source that weighs 40 or more. References stay over 0.26."""

WORDS_MOST, WORDS_SLACK = 2.0, 3
"""Most words of the output while the source is partial; two dense characters are one word."""

NGRAM = 8
"""Longest repeated phrase looked for, in words (or dense characters)."""

LOOP_LEAST, LOOP_WORDS, LOOP_DENSE, LOOP_MORE = 3, 6, 12, 2
"""A loop is a phrase three times in a row and at least 6 words (12 dense characters) in all:
people do say "no, no, no" and 哈哈哈. Two times more than the source has it are always allowed."""

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

HEAD_MOST = 120
"""Characters held back while they may be a preamble."""

THINKING_MOST = 4000
"""Characters of thinking waited for."""

RUDE_MOST = 10
"""Characters before new text that a rude word may have begun in; none is longer."""

RESTART_LEAST, RESTART_WORDS = 4, 2
"""Shortest overlap with the forced prefix that counts as its restart, in characters; and in words
where the sentence may go on with them: people say "very very", and French has "nous nous"."""

LEXICON_MOST, LEXICON_LONGEST = 16_384, 32
"""Words of one language that are remembered, and their characters: 2 MB. A full lexicon begins
anew, which costs some microseconds a word."""

LINE = re.compile(r"[^\n]+|\n")
COLON = re.compile("[:：]")
DENSE_CHAR = re.compile(f"[{DENSE}]")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
TOKEN = re.compile(rf"[{DENSE}]|[^\W_{DENSE}]+(?:['’.,-][^\W_{DENSE}]+)*")
ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>\"'，。、）)]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f ]\d{3}(?!\d))*")
"""A number with its thousands separators."""
SEPARATOR = re.compile(r"(?<=\d)[.,'’\u00a0\u202f ](?=\d)")


class Watch:
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
        self._runs = Runs()
        for token in TOKEN.findall(job.prefix):
            self._runs.say(token.casefold())
        self._lines = lines(job.prefix)
        self._lines_most = max(1, lines(job.text))
        self._broken = not job.prefix or job.prefix.endswith("\n")
        self._weight = weight(job.prefix)
        self._weight_most = LENGTH_MOST * weight(job.text) + LENGTH_SLACK
        language = "" if CRUDE.search(job.text) else job.target.partition("-")[0]
        self._rude = RUDE.get(language)
        self._lexicon = LEXICONS.get(language, LEXICONS[""])
        self._words = words(job.prefix)
        self._words_most = (
            WORDS_MOST * words(job.text) + WORDS_SLACK if job.partial else float("inf")
        )

    def feed(self, text: str) -> str:
        """Take a piece of the output, return what may be shown now. Raises `Rejected`."""
        if self._easy:
            # As nearly always. `_look` would find the same.
            begins = text[:1] == " "
            word = text[1:] if begins else self._token + text
            begins = begins or not self._token
            folded = self._lexicon.words.get(word)
            if folded is None:
                folded = self._lexicon.learn(word)
            if folded and self._words + begins <= self._words_most:
                if begins:
                    self._words += 1
                    if self._folded:
                        self._say(self._folded)
                self._token = word
                self._folded = folded
                self.text += text
                self._weight += len(text)
                if self._weight > self._weight_most:
                    raise rejected(Guard.LENGTH, "is far longer than the source")
                return text
        return self._look(text)

    def end(self) -> str:
        """The model has ended: judge the whole, return what was held back. Raises `Rejected`."""
        rest = ""
        if not self._open:
            rest = self._take(self._opened(final=True) or "")
        if self._token:
            self._say(self._token.casefold())
        self._judge()
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
            if length and not (flows and repeats(self.job.text) > 1):
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
        self._weight += len(shown) if shown.isascii() else weight(shown)
        if self._weight > self._weight_most:
            raise rejected(Guard.LENGTH, "is far longer than the source")
        return shown

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
            if times > repeats(self.job.text) + LOOP_MORE:
                raise rejected(Guard.LOOP, "repeats itself without end")

    def _stop(self, guard: Guard) -> None:
        self.done = True
        self.hits.append(guard)

    def _judge(self) -> None:
        """Everything that only the whole output can tell."""
        job, text = self.job, self.text.strip()
        if not job.partial:
            if has_words(job.text) and not has_words(text):
                raise rejected(Guard.EMPTY, "has no words")
            if SHORT_FROM <= weight(job.text) and weight(text) < SHORT_LEAST * weight(job.text):
                raise rejected(Guard.SHORT, "is far shorter than the source")
        if self._rude is not None and self._rude.search(text.lower() + " "):
            raise rejected(Guard.RUDE, "has a word that the source does not account for")
        if copied(job.text, text, job.source, job.target):
            raise rejected(Guard.COPY, "is the source itself")
        least = SCRIPT_PARTIAL if job.partial else SCRIPT_LEAST
        if foreign(job.text, text, job.target, least):
            raise rejected(Guard.SCRIPT, "is not in the script of the target language")
        if refused(job.text, text, job.source):
            raise rejected(Guard.REFUSAL, "answers instead of translating")
        if NOTES.search(text) and not BRACKET.search(job.text):
            raise rejected(Guard.NOTE, "comments on the translation")
        if not job.partial:
            self.flags = flagged(job.text, text)


class Runs:
    """How often the last phrase was said in a row, for phrases of up to `NGRAM` tokens.

    ``tokens`` in their order, and ``said`` without; tokens are case-folded.
    """

    __slots__ = ("said", "tokens")

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.said: set[str] = set()

    def say(self, token: str) -> tuple[int, int]:
        """Take the next token. Return the phrase's length in tokens and how often it was said."""
        tokens = self.tokens
        recent = tokens[-NGRAM:]
        tokens.append(token)
        self.said.add(token)
        best = (1, 1)
        if token in recent:
            for n in range(1, len(recent) + 1):
                times = self._same(n) // n + 1
                if times > best[1]:
                    best = (n, times)
        return best

    def _same(self, n: int) -> int:
        """How many of the last tokens in a row equal the one ``n`` before."""
        tokens = self.tokens
        at = len(tokens) - 1
        while at >= n and tokens[at] == tokens[at - n]:
            at -= 1
        return len(tokens) - 1 - at


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
        if len(word) <= LEXICON_LONGEST:
            if len(self.words) >= LEXICON_MOST:
                self.words.clear()
            self.words[word] = folded
        return folded


def repeats(text: str) -> int:
    """How often ``text`` says a phrase in a row, at most."""
    runs = Runs()
    return max((runs.say(token.casefold())[1] for token in TOKEN.findall(text)), default=1)


def loop_limit(phrase: int, dense: bool) -> int:
    """Repetitions of a phrase of ``phrase`` tokens that make a loop."""
    return max(LOOP_LEAST, -(-(LOOP_DENSE if dense else LOOP_WORDS) // phrase))


def preamble(text: str, job: Job, *, final: bool) -> int | None:
    """Length of the preamble that ``text`` begins with, 0 for none, None if more must be seen."""
    telling, known, around = preamble_words(job.target)
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
            if at == len(text) and any(other.startswith(word) for other in known):
                return None
            if word not in known:
                return 0
            known = around
            told = told or word in telling
        elif text[at] in " *,.!#_-(\n'’，。！":
            at += 1
        else:
            return 0
    return None


@lru_cache(maxsize=256)
def preamble_words(target: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """`TRANSLATION`, `OPENERS` and `AROUND`, with the names of the target language."""
    names = frozenset(map(str.casefold, WORD.findall(f"{name(target)} {endonym(target)}")))
    return TRANSLATION | names, OPENERS | names, AROUND | names


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


def copied(source: str, text: str, spoken: str, wanted: str) -> bool:
    """Whether the output is the source, in a language where it cannot be."""
    a, b = spoken.split("-")[0], wanted.split("-")[0]
    if a == b or any(a in family and b in family for family in NEAR):
        return False
    plain = [  # neither names nor numbers, nor words that are spelt out
        token.casefold()
        for token in TOKEN.findall(ADDRESS.sub(" ", source))[:COPY_SPAN]
        if is_dense(token) or (len(token) > 1 and token[0].isalpha() and not token[0].isupper())
    ]
    dense = sum(map(is_dense, plain))
    if len(plain) - dense < COPY_WORDS and dense < COPY_DENSE:
        return False
    output = [token.casefold() for token in TOKEN.findall(text)[:COPY_SPAN]]
    if len(set(plain).intersection(output)) <= COPY_LIKE * len(set(plain)) / 2:
        return False  # cheap, and nearly always so
    matcher = SequenceMatcher(None, plain, output, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) > COPY_LIKE * len(plain)


def foreign(source: str, text: str, target: str, least: float) -> bool:
    """Whether most letters are not of the target's script, but for words taken from the source."""
    code = script(target)
    wanted = LETTERS.get(code)
    if wanted is None:
        return False
    given = {token for token in TOKEN.findall(source) if not is_dense(token)}
    own = (token for token in TOKEN.findall(ADDRESS.sub(" ", text)) if token not in given)
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
    said = digits(text)
    numbers = NUMBER.findall(unicodedata.normalize("NFKC", ADDRESS.sub(" ", source)))
    if any(len(number) >= 3 and number not in said for number in map(digits, numbers)):
        flags.append(Guard.NUMBERS)
    addresses = (address.rstrip(".,;:!?") for address in ADDRESS.findall(source.casefold()))
    if any(address not in text.casefold() for address in addresses):
        flags.append(Guard.URL)
    return tuple(flags)


def digits(text: str) -> str:
    """``text`` in ASCII digits, without what separates thousands and decimals."""
    return SEPARATOR.sub("", unicodedata.normalize("NFKC", text))


def weight(text: str) -> float:
    """Length in Latin characters, about: a dense one says as much as `DENSITY` of them."""
    return len(text) + (DENSITY - 1) * len(DENSE_CHAR.findall(text))


def words(text: str) -> float:
    """Words, about: two dense characters are one."""
    return sum(0.5 if is_dense(token) else 1 for token in TOKEN.findall(text))


def lines(text: str) -> int:
    """Lines that are not blank."""
    return sum(1 for line in text.split("\n") if line.strip())


def is_dense(token: str) -> bool:
    return not token.isascii() and DENSE_CHAR.match(token) is not None


def has_words(text: str) -> bool:
    return any(char.isalnum() for char in text)


LEXICONS = {"": Lexicon(None), **{language: Lexicon(rude) for language, rude in RUDE.items()}}
"""By language; "" for those without rude words, and for sources that are crude themselves."""


def rejected(guard: Guard, what: str) -> Rejected:
    return Rejected(guard, f"The model's output {what}.")
