"""Guards of a complete output: whether it is a translation, and what a reader should check.

Owns: the rules that compare a whole output with its source, and their limits. Must not know: how an
output streams, what becomes of a rejected output (both `gateway.engines.guards.streaming_output`).

Every finished caption is judged here, and nearly all of them are good. So each rule begins with a
cheap test that accepts most outputs.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from gateway.engines.guards import phrases
from gateway.engines.guards.measures import ADDRESS, TOKEN, has_words, is_dense, weight
from gateway.errors import Rejected
from gateway.job import Job
from gateway.text import letters
from gateway.text.languages import script
from gateway.text.numbers import Number, may_have_numbers, numbers, reads

Instead = Callable[[str, str], str | None]
"""A function that returns the language of a text if it is surely not in the given one."""


class Guard(enum.StrEnum):
    """Names of all rules, as in `Rejected`, in the counters and in the flags of captions."""

    # Stripped
    THINKING = "thinking"
    PREAMBLE = "preamble"
    QUOTES = "quotes"
    RESTART = "restart"
    # Replaced
    FILLER = "filler"
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
    LANGUAGE = "language"
    REFUSAL = "refusal"
    NOTE = "note"
    RUDE = "rude"
    # Flagged
    NUMBERS = "numbers"
    URL = "url"
    UNSURE = "unsure"


SHORT_LEAST, SHORT_FROM = 0.25, 40
"""Least weight of an output as a share of its source's weight, for finished sources that weigh 40
or more. The outputs of reference translations stay over 0.26."""

COPY_LIKE, COPY_WORDS, COPY_DIFFERENT, COPY_DENSE = 0.8, 4, 3, 8
"""Limits of the copy rule. An output is a copy if more than this share of the source's plain words
(no names, numbers or quotations) stands in it in the same order. Sources with fewer than 4 plain
words, or 3 different ones ("ha ha ha ha"), and fewer than 8 dense characters are not judged."""

COPY_SPAN, COPY_PAIRS = 300, 10_000
"""Words compared, at most, and pairs of equal words of which the order is compared: the work grows
with both, and runs on the event loop."""

SCRIPT_LEAST, SCRIPT_PARTIAL, SCRIPT_SHARE = 16, 40, 0.5
"""Limits of the script rule: the least weight of Latin letters to judge in a target of another
script, the same for a partial source, where names may come first, and the share of letters that
must be in the target's script. Words taken from the source do not count. A share of letters of a
third script is judged from two letters on: no name is written in them."""

NUMBER_LEAST = 13
"""Least number in words that is looked for in the output; smaller ones are idioms too often."""
OTHERWISE = frozenset((15, 30, 45, 100, 1_000, 10**6))
"""Numbers that are often said in other words: "halb zehn" is nine thirty, a thousand is many."""
CLOCK = re.compile(r"(?<![\d:])(\d{1,2}) ?(?::|[hH]|[时時点]) ?([0-5]\d)(?![\d:])")
"""A time as a clock shows it: 17:45, 17 h 45, 17时45."""
AMOUNT_SIGN = re.compile(r"[$€£¥](?=\s?\d)|(?<=\d)\s?[$€£¥]")
"""The sign of a currency, beside a number."""
SEPARATOR = re.compile(r"(?<=\d)[.,'’\u00a0\u202f ](?=\d)")
"""A separator of thousands or decimals."""


def judge(job: Job, text: str, instead: Instead | None = None) -> tuple[Guard, ...]:
    """Return the flags of a complete output: what a reader should check.

    :param text: the whole translation, with the forced prefix
    :param instead: tells the language of the output

    Raises `Rejected` if it is no translation.
    """
    # A partial source may have no translation yet, so only finished ones are judged by length.
    if not job.partial:
        if has_words(job.text) and not has_words(text):
            raise rejection(Guard.EMPTY, "has no words")
        if SHORT_FROM <= weight(job.text) and weight(text) < SHORT_LEAST * weight(job.text):
            raise rejection(Guard.SHORT, "is far shorter than the source")
    if is_copy(job.text, text, job.source, job.target):
        raise rejection(Guard.COPY, "is the source itself")
    least = SCRIPT_PARTIAL if job.partial else SCRIPT_LEAST
    if in_wrong_script(job.text, text, job.target, least):
        raise rejection(Guard.SCRIPT, "is not in the script of the target language")
    if instead is not None and is_other_language(job.text, text, job.target, instead):
        raise rejection(Guard.LANGUAGE, "is not in the target language")
    if is_refusal(job.text, text, job.source):
        raise rejection(Guard.REFUSAL, "answers instead of translating")
    if phrases.NOTES.search(text) and not phrases.BRACKET.search(job.text):
        raise rejection(Guard.NOTE, "comments on the translation")
    return () if job.partial else find_flags(job.text, text, job.source, job.target)


def is_copy(source: str, text: str, spoken: str, wanted: str) -> bool:
    """Tell whether the output repeats the source, in a language in which that is no translation."""
    # Between near languages much of a sentence may rightly stay as it is.
    if are_near(spoken, wanted):
        return False
    output = set(map(str.casefold, TOKEN.findall(text)[:COPY_SPAN]))
    tokens = TOKEN.findall(phrases.QUOTATION.sub(" ", without_addresses(source)))[:COPY_SPAN]
    if output.isdisjoint(map(str.casefold, tokens)):
        return False
    plain = [  # neither names nor numbers, nor words that are spelt out
        token.casefold()
        for token in tokens
        if (len(token) > 1 and token[0].isalpha() and not token[0].isupper()) or is_dense(token)
    ]
    known = set(plain)
    dense = sum(map(is_dense, plain))
    words = len(plain) - dense if len(known) >= COPY_DIFFERENT else 0
    if words < COPY_WORDS and dense < COPY_DENSE:
        return False
    if len(known & output) <= COPY_LIKE * len(known) / 2:
        return False  # the cheap test, which accepts nearly every output
    output_words = [token.casefold() for token in TOKEN.findall(text)[:COPY_SPAN]]
    before, after = Counter(plain), Counter(output_words)
    if (before & after).total() <= COPY_LIKE * len(plain):
        return False  # no order of the words would make more of them agree
    # A text of few different words, again and again: their order says nothing, and takes 50 ms.
    if sum(count * after[word] for word, count in before.items()) > COPY_PAIRS:
        return True
    matcher = SequenceMatcher(None, plain, output_words, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) > COPY_LIKE * len(plain)


def in_wrong_script(source: str, text: str, target: str, least: float) -> bool:
    """Tell whether most letters of ``text`` are not in the script of the target language.

    Latin words that are taken from the source do not count.

    :param least: weight of letters from which a text in Latin letters is judged
    """
    # Most targets are in the Latin script, and their outputs have no other characters.
    code = script(target)
    wanted = letters.LETTERS.get(code)
    if wanted is None or (code == "Latn" and not letters.BEYOND_LATIN.search(text)):
        return False
    tokens = TOKEN.findall(without_addresses(text))
    counts = letters.count_letters("".join(tokens))
    if letters.is_other_cjk(code, counts):
        return True
    # Words of the source count here: a name is written in the target's letters or in Latin ones.
    if letters.foreign_letters(text, counts, (*wanted, "LATIN")) is not None:
        return True
    given = {token for token in TOKEN.findall(source) if not is_dense(token)}
    own = "".join(token for token in tokens if token not in given)
    sizes = letters.weigh(letters.count_letters(own))
    total = sum(sizes.values())
    return total >= least and sum(sizes.get(name, 0) for name in wanted) < SCRIPT_SHARE * total


def is_other_language(source: str, text: str, target: str, instead: Instead) -> bool:
    """Tell whether the words of an output are surely in another language than the target.

    Words taken from the source do not count: names, titles and quotations stay as they are. An
    output that has no other words is judged as it is.
    """
    given = set(map(str.casefold, TOKEN.findall(source)))
    own = [token for token in TOKEN.findall(text) if token.casefold() not in given]
    detected = instead(" ".join(own) or text, target)
    return detected is not None and not are_near(detected, target)


def are_near(one: str, other: str) -> bool:
    """Tell whether two languages are the same or of one family of `NEAR`."""
    a, b = one.split("-")[0], other.split("-")[0]
    return a == b or any(a in family and b in family for family in phrases.NEAR)


def is_refusal(source: str, text: str, spoken: str) -> bool:
    """Tell whether the model speaks for itself in words that cannot come from the source."""
    if phrases.ASSISTANTS.search(text) and not phrases.MODELS.search(source):
        return True
    own = phrases.REFUSING.get(spoken.split("-")[0])
    return own is not None and bool(phrases.REFUSALS.search(text)) and not own.search(source)


def find_flags(source: str, text: str, spoken: str, target: str) -> tuple[Guard, ...]:
    """Return flags for parts of the source that are not in the output: numbers, times of day,
    currencies of sums, addresses.
    """
    flags = []
    plain = unicodedata.normalize("NFKC", without_addresses(source))
    if may_have_numbers(plain, spoken) and (spoken_numbers := numbers(plain, spoken)):
        if (
            lacks_number(spoken_numbers, text, target)
            # A time of day in the output that is none of the source's is another one.
            or has_other_time(source, text)
            or lacks_currency(plain, text, target)
        ):
            flags.append(Guard.NUMBERS)
    if may_have_address(source):
        folded = text.casefold()
        addresses = (address.rstrip(".,;:!?") for address in ADDRESS.findall(source.casefold()))
        if any(address not in folded for address in addresses):
            flags.append(Guard.URL)
    return tuple(flags)


def lacks_number(found: Sequence[Number], text: str, target: str) -> bool:
    """Tell whether the output lacks a number of the source with three digits and more, one in
    words, or a sum.
    """
    digits = SEPARATOR.sub("", unicodedata.normalize("NFKC", text))
    made = {number.value for number in numbers(text, target)}
    for number in found:
        if number.value in made:
            continue
        if number.figures:
            if len(number.figures) >= 3 and number.figures not in digits:
                return True
        elif (
            reads(target)
            and number.value >= NUMBER_LEAST
            and number.value not in OTHERWISE
            and number.value - 12 not in made  # vierzehn Uhr is two o'clock
            and str(number.value) not in digits
        ):
            return True
    return False


def has_other_time(source: str, text: str) -> bool:
    """Tell whether a source with times of day became an output with another one."""
    # 17:45 can be 5:45, and "Viertel vor sechs" is not looked for. A full hour of the output may be
    # "10 pm" in the source.
    times = clock_times(source)
    return bool(times) and any(time[1] and time not in times for time in clock_times(text))


def lacks_currency(source: str, text: str, target: str) -> bool:
    """Tell whether the source has a sum with the sign of a currency that the output lacks.

    :param source: in the normal form NFKC
    """
    signs = {sign.strip() for sign in AMOUNT_SIGN.findall(source)}
    if not signs or target.partition("-")[0] not in phrases.CURRENCY_LANGUAGES:
        return False
    text = unicodedata.normalize("NFKC", text)
    return any(not phrases.CURRENCIES[sign].search(text) for sign in signs)


def clock_times(text: str) -> set[tuple[int, int]]:
    """Return the times of day in ``text``, on a dial of twelve hours."""
    times = CLOCK.findall(unicodedata.normalize("NFKC", text))
    return {(int(hour) % 12, int(minute)) for hour, minute in times}


def may_have_address(text: str) -> bool:
    """Tell, by a cheap test, whether ``text`` can contain an `ADDRESS`."""
    return "@" in text or "://" in text or "www." in text.casefold()


def without_addresses(text: str) -> str:
    return ADDRESS.sub(" ", text) if may_have_address(text) else text


def rejection(guard: Guard, predicate: str) -> Rejected:
    """Return the fault of an output, with ``predicate`` after "The model's output"."""
    return Rejected(guard, f"The model's output {predicate}.")
