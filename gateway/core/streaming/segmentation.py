"""Cutting a long growing text into captions that can be read, and finding the open part again.

Owns: where an open text is cut, which words count as said before the cut, and the names of parts.
Must not know: utterances, captions, jobs, clocks.

A speaker without full stops would fill one caption for minutes. So the beginning of the text
becomes a caption of its own, final from then on, and the rest goes on under the name of the next
part: ``u1``, ``u1.2``, ``u1.3``. In the order in which they are tried:

1. behind the end of a sentence, when the caption has `SegmentLengths.least` words: shorter
sentences share
   one, which reads better than a line that is gone at once;
2. from `SegmentLengths.most` words on: behind the last end of a sentence, however short; else at
the
   longest pause; else before a conjunction that begins a clause, else before any other;
3. from `SegmentLengths.hard` words on: behind a comma, else anywhere.

`SegmentLengths.behind` words always follow, so that a word that still changes is never the last of
a caption. Nothing here is exact: names, lists, and "one and two" look like clauses. A wrong cut
costs a break in a line, and no word."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from gateway.text import sentences, units


class SegmentLengths(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers, in words; in scripts without spaces `units.density` characters are a word."""

    least: int = 8
    """Words of a caption that ends with a sentence or before a pause."""
    clause: int = 10
    """Words of a caption that ends before a conjunction, or behind a comma."""
    most: int = 28
    """Words from which a text without an end is cut: two captions of two lines."""
    hard: int = 45
    """Words from which it is cut anywhere, and of the longest caption."""
    behind: int = 3
    """Words that follow a cut."""
    pause: float = 0.6
    """Seconds of silence that are a pause."""


class ClausePatterns(NamedTuple):
    """Where clauses begin in a language: a text is cut before group 1, else behind the match."""

    sure: re.Pattern[str]
    """What hardly ever stands inside a clause."""
    likely: re.Pattern[str]
    """What may join two nouns as well."""


def _clauses(lead: str, sure: str, likely: str) -> ClausePatterns:
    """From words; ``lead`` are those that belong to the conjunction behind them."""

    def before(words: str) -> re.Pattern[str]:
        words = words.replace("'", "['’]")
        return re.compile(rf"(?<!\S)((?:(?:{lead})\s+){{0,2}}(?:{words}))(?!\w)", re.IGNORECASE)

    return ClausePatterns(before(sure), before(likely))


CLAUSES = {
    "de": _clauses(
        "und|aber|oder|vor allem|auch|nur|besonders|gerade",
        "und dann|und ich|und wir|und sie|und er|und es|und das|und da|und jetzt|aber|sondern|weil"
        "|obwohl|sodass|so dass|deshalb|deswegen|trotzdem|allerdings|außerdem",
        "und|oder|denn|dass|wenn|damit|bevor|nachdem|während",
    ),
    "en": _clauses(
        "and|but|or|mainly|mostly|partly|especially|just|only|even|not",
        "and then|and so|and i|and we|and you|and he|and she|and they|and it|and this|and that"
        "|and there|and now|but|because|although|though|however|whereas|unless"
        "|so i|so we|so you|so he|so she|so they|so it|so that|so the|so this|which means",
        "and|or|which|who|when|where|while|if|until|before|after",
    ),
    "es": _clauses(
        "y|pero|o|sobre todo|incluso|solo|no",
        "y entonces|y luego|y después|y yo|y nosotros|y ellos|y eso|y esto|y ahora|y también"
        "|pero|porque|aunque|sino que|así que|entonces|mientras que|ya que|sin embargo|por eso"
        "|además",
        "y|o|cuando|si|donde|para que|mientras",
    ),
    "fr": _clauses(
        "et|mais|ou|surtout|même|seulement|notamment",
        "et puis|et après|et ensuite|et je|et j'|et on|et nous|et vous|et il|et ils|et elle"
        "|et elles|et ça|et c'|mais|parce que|parce qu'|puisque|puisqu'|cependant|pourtant"
        "|tandis que|alors que|alors qu'|donc on|donc je|donc nous|donc il|du coup",
        "et|ou|car|donc|alors|quand|si|pour que|afin que|qui|ensuite",
    ),
    "it": _clauses(
        "e|ma|o|soprattutto|anche|solo|non",
        "e poi|e allora|e io|e noi|e loro|e questo|e adesso|e ora|ma|però|perché|quindi|anche se"
        "|siccome|mentre|tuttavia|infatti|inoltre",
        "e|o|oppure|quando|se|dove|allora",
    ),
    "ja": ClausePatterns(
        # Polite verbs end a clause, with what may be behind them; not in conditions.
        re.compile(
            "(?:です|ます|でした|ました|ません|でしょう|ましょう|ください)"
            "(?:けれども|けれど|けど|から|ので|が|し|よね|ね|よ|か)?+(?!ら|り|と|ます)"
            "|(しかし|そして|それから|それで|ところが|つまり)"
        ),
        re.compile("けれども|けれど|けど|ので|だから|たら"),
    ),
    "ko": _clauses(
        "그리고",
        "그리고|그런데|하지만|그래서|그러나|그러면|그러니까|왜냐하면|따라서",
        "또는|혹은|만약",
    ),
    "nl": _clauses(
        "en|maar|of|vooral|ook|alleen|juist",
        "en dan|en toen|en ik|en we|en wij|en ze|en zij|en het|en dat|en nu|maar|want|omdat|hoewel"
        "|terwijl|zodat|daarom|echter",
        "en|of|dus|als|wanneer|nadat|voordat",
    ),
    "pl": _clauses(
        "i|a|ale|lub|zwłaszcza|tylko|głównie",
        "i potem|i wtedy|a potem|ale|ponieważ|bo|więc|dlatego|jednak|chociaż",
        "i|a|albo|lub|oraz|gdy|kiedy|jeśli|który|która|które|żeby",
    ),
    "pt": _clauses(
        "e|mas|ou|sobretudo|principalmente|mesmo|só|não",
        "e então|e depois|e aí|e eu|e nós|e eles|e isso|e agora|e também|mas|porque|porém|embora"
        "|por isso|enquanto|já que|no entanto|além disso",
        "e|ou|quando|se|onde|então|para que",
    ),
    "ru": _clauses(
        "и|а|но|или|особенно|только",
        "и потом|и тогда|и я|и мы|но|потому что|поэтому|однако|хотя|так что",
        "и|а|или|когда|если|чтобы|который|которая|которые",
    ),
    "zh": ClausePatterns(
        re.compile(
            "((?:主要是|就是|不是|是)?(?:但是|所以|因为|因為|然后|然後|而且|不过|不過|另外|可是|因此"
            "|接下来|接下來|于是|於是|虽然|雖然|其实|其實))"
        ),
        re.compile("(如果|或者|以及|并且|並且|还有|還有)|的时候|的時候"),
    ),
}
"""By language. To cut another one before its conjunctions, add it here."""

_COMMAS = ",;:、，；："

_NO_PAUSES: Mapping[int, float] = MappingProxyType({})


def cut(
    text: str,
    lang: str,
    lengths: SegmentLengths,
    pauses: Mapping[int, float] = _NO_PAUSES,
    *,
    since: int = 0,
) -> int | None:
    """Where the first caption of ``text`` ends, None where nothing is to be cut.

    ``since`` words have been translated already: what of them stands behind a cut would be read in
    both captions, so a cut leaves no more of them behind it than it must.

    ``text`` is what is agreed of the open part, ``pauses`` the seconds of silence by the number of
    words (`units.keyed`) before them. Cut the rest again: a text may grow by several captions.
    """
    _, ends = units.keyed(text, units.spaced(lang))
    size = units.density(lang)
    least, clause, most, hard, behind = (
        number * size
        for number in (lengths.least, lengths.clause, lengths.most, lengths.hard, lengths.behind)
    )
    last = min(len(ends) - behind, hard)
    early = max(1, since - behind)
    if last < early:
        return None
    head = text[: ends[min(len(ends), hard + behind) - 1]]
    *said, _ = sentences.ends(head, lang)  # there are words in it, so it has an end
    finished = [count for count in _counts(said, ends) if early <= count <= last]
    at = next((count for count in finished if count >= least), 0)
    if not at and len(ends) > most:
        at = finished[-1] if finished else _longest(pauses, lengths.pause, max(least, early), last)
        for clauses in CLAUSES.get(lang.partition("-")[0], ()):
            at = at or _nearest(
                _counts(_joints(head, clauses), ends), max(clause, early), most, last
            )
    if not at and len(ends) > hard:
        commas = (n for n, end in enumerate(ends, 1) if text[end - 1] in _COMMAS)
        at = _nearest(commas, max(clause, early), last, last) or last
    return ends[at - 1] if at else None


def remainder(text: str, consumed: Sequence[str], lang: str) -> str:
    """What of ``text`` belongs to the open part, after the words that were cut off.

    ``text`` is the whole of what was said under an id, ``consumed`` the keys (`units.keyed`) of the
    parts before, in order. The last of them are looked for about where they were: recognition may
    have spelt them otherwise, or made `25` of "twenty five", which moves all that follows. Where
    they are not found, their number decides.
    """
    keys, ends = units.keyed(text, units.spaced(lang))
    count = min(_aligned(keys, consumed, units.density(lang)), len(ends))
    return text[ends[count - 1] :].strip() if count else text.strip()


def part(id: str, n: int) -> str:
    """The id of the ``n``-th part of an utterance: the first has that of the utterance."""
    return id if n == 1 else f"{id}.{n}"


def root(id: str) -> str | None:
    """The id of the utterance that ``id`` may be a later part of, by its form."""
    head, _, number = id.rpartition(".")
    later = number.isascii() and number.isdecimal() and number[0] != "0" and number != "1"
    return head if head and later else None


class PauseMap:
    """The silences in the open part of one text, for `cut`. As many as it has words, at most."""

    WORD = 0.35
    """Seconds that a word takes: 170 a minute."""

    __slots__ = ("_at", "_count", "before")

    def __init__(self) -> None:
        self.before: dict[int, float] = {}
        """Seconds of silence by the number of words before it."""
        self._count = 0
        self._at: float | None = None

    def hear(self, count: int, lang: str, at: float) -> None:
        """The text has ``count`` words (`units.keyed`) at ``at``: in seconds of the speaker's clock
        (``t1``), or of its arrival, but always of the same."""
        new = count - self._count
        if new <= 0:
            return
        if self._at is not None:
            silence = at - self._at - new * self.WORD / units.density(lang)
            if silence > 0:
                self.before[self._count] = silence
        self._count, self._at = count, at

    def cut(self, count: int) -> None:
        """The first ``count`` words are no longer in the open part."""
        self.before = {n - count: silence for n, silence in self.before.items() if n > count}
        self._count = max(0, self._count - count)


def _joints(text: str, clauses: re.Pattern[str]) -> Iterable[int]:
    """Where clauses begin."""
    return (match.start(1) if match.lastindex else match.end() for match in clauses.finditer(text))


def _longest(pauses: Mapping[int, float], pause: float, least: int, last: int) -> int:
    """How many words are before the longest pause, the last of equals; 0 where there is none."""
    fits = ((s, n) for n, s in pauses.items() if s >= pause and least <= n <= last)
    return max(fits, default=(0.0, 0))[1]


def _counts(places: Iterable[int], ends: list[int]) -> Iterable[int]:
    """How many words are before each of these places."""
    return (bisect_right(ends, place) for place in places)


def _nearest(counts: Iterable[int], least: int, most: int, last: int) -> int:
    """The last of them up to ``most``, else the first up to ``last``, else 0."""
    fits = [count for count in counts if least <= count <= last]
    return max((count for count in fits if count <= most), default=min(fits, default=0))


_TAIL, _REACH = 8, 6
"""Words before a cut that are looked for, and how many words away from where they were."""

_SPELT, _OTHER, _MORE, _LOST = 0.5, 1.5, 1.0, 1.25
"""What it costs that a word is spelt otherwise, is another, is one more, or is missing. Another one
at the cut itself would rather be said twice than swallow what follows: so it costs most."""

_DRIFT, _ALIKE = 0.1, 0.7
"""What a word of distance costs, and what each word of the tail may cost, or it was not found."""


def _aligned(keys: list[str], consumed: Sequence[str], size: int) -> int:
    """How many of ``keys`` are ``consumed``."""
    expected = len(consumed)
    tail = list(consumed[-_TAIL * size :])
    if keys[expected - len(tail) : expected] == tail:
        return expected
    # The edit distance between the tail and what ends at each place of a window; a beginning of
    # the window costs nothing.
    reach = _REACH * size
    start = max(0, expected - len(tail) - reach)
    window = keys[start : expected + reach]
    costs = [0.0] * (len(window) + 1)
    for word in tail:
        above = costs
        costs = [above[0] + _LOST]
        for place, other in enumerate(window):
            swapped = above[place] + _swap(word, other)
            costs.append(min(swapped, above[place + 1] + _LOST, costs[place] + _MORE))
    places = range(max(0, expected - reach - start), len(costs))
    best = min(
        places,
        key=lambda place: costs[place] + _DRIFT * abs(start + place - expected) / size,
        default=0,
    )
    return start + best if places and costs[best] <= _ALIKE * len(tail) else expected


def _swap(a: str, b: str) -> float:
    """What one word instead of the other costs; figures may be any word."""
    if a == b:
        return 0.0
    alike = a[0] == b[0] or a[0].isdigit() is not b[0].isdigit()
    return _SPELT if alike else _OTHER
