"""Which part of a growing source text is translated, and when: the gate before the engine.

Owns: agreement of successive partials on words, and the pace of translations. Must not know: jobs,
captions, what a translation says, clocks (time is an argument, in seconds).

Speech recognition takes back much of what it says last. So a word is translated when two partials
in a row have it (local agreement, Liu et al. 2020, https://arxiv.org/abs/2005.11185), or when
nothing has changed for a while. Words are compared by `units.key`: a comma or a capital that comes
later is no reason to translate again.
"""

from __future__ import annotations

import msgspec

from gateway.text import languages, units

_MARKS = " .!?…‥,;:。．！？、，；："
"""Recognisers put a full stop behind every partial, and take it back when a word follows."""


class PartialTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers, in words and seconds; in scripts without spaces `units.density` characters are
    a word (Chinese and Japanese 2: the first translation has 4 characters)."""

    interval: float = 0.3
    """Seconds between the starts of two translations of an utterance."""
    words: int = 6
    """So many new agreed words do not wait for the interval."""
    first: int = 2
    """Agreed words before the first translation: one alone is mostly translated wrongly."""
    step: int = 3
    """New agreed words below which there is no further translation, but for `stall`."""
    stall: float = 0.8
    """Seconds without a change after which all of the text counts as agreed."""
    repeats: int = 2
    """Partials in a row with the same words after which all of it counts as agreed. More than 2
    for a recogniser that sends what it has sent before; 1 believes every partial at once."""


class PartialPolicy:
    """One growing utterance, or the open part of one.

    Agreed words are kept while the recogniser says less for a moment. They are withdrawn when two
    partials in a row have other words in their place and are not shorter, or one such that stands
    for `PartialTiming.stall`.

    Costs time linear in the length of the text; keeps three texts at most.
    """

    __slots__ = (
        "_admitted",
        "_agreed",
        "_changed",
        "_ends",
        "_keys",
        "_lang",
        "_pace",
        "_said",
        "_size",
        "_spoken",
        "_stalled",
        "_taken",
        "_text",
        "_times",
        "_witness",
    )

    def __init__(self, pace: PartialTiming) -> None:
        self._pace = pace
        self._lang = ""
        self._size = 1  # units that are a word
        # The newest partial, how often it came, and since when.
        self._text = ""
        self._keys: list[str] = []
        self._ends: list[int] = []
        self._times = 0
        self._changed = 0.0
        self._stalled = False
        # What the next one is compared with: the newest, or one it is only the beginning of.
        self._witness: list[str] = []
        self._agreed: list[str] = []
        self._said = ""
        self._admitted: list[str] = []
        self._spoken = ""
        self._taken: float | None = None

    def __repr__(self) -> str:
        return (
            f"<Gate {len(self._keys)} units, {len(self._agreed)} agreed, "
            f"{len(self._admitted)} admitted>"
        )

    @property
    def agreed(self) -> str:
        """What is agreed now, spelt as in the newest partial that has it."""
        return self._said

    @property
    def admitted(self) -> int:
        """How many words (`units.keyed`) were admitted last."""
        return len(self._admitted)

    @property
    def diverged(self) -> bool:
        """Whether the agreed text does not continue what was admitted last, or is in another
        language: what was made of that is void. Ask before `take`."""
        return bool(self._admitted) and not (
            languages.same(self._lang, self._spoken)
            and units.common(self._admitted, self._agreed) == len(self._admitted)
        )

    def continues(self, text: str, lang: str) -> bool:
        """Whether the text that an utterance has in the end continues what was admitted of it."""
        if not self._admitted:
            return True
        keys, _ = units.keyed(text, units.spaced(lang))
        return languages.same(lang, self._spoken) and _begins(keys, self._admitted)

    def offer(self, text: str, lang: str, now: float) -> None:
        """Take the newest partial: the whole text so far."""
        spaced = units.spaced(lang)
        if self._lang and spaced is not units.spaced(self._lang):
            self._keys, self._witness, self._agreed, self._said = [], [], [], ""
        self._lang, self._size = lang, units.density(lang)
        keys, ends = units.keyed(text, spaced)
        if keys == self._keys:
            self._times += 1
        else:
            self._times, self._changed, self._stalled = 1, now, False
        shared = units.common(self._witness, keys)
        if self._times >= self._pace.repeats:
            agreement = keys
        else:
            agreement = keys[:shared] if self._times == 1 else []
        if shared < len(keys):
            self._witness = keys
        self._text, self._keys, self._ends = text, keys, ends
        self._agree(agreement, sure=len(keys) >= len(self._agreed))

    def due(self, now: float) -> float | None:
        """When the agreed text should be translated: ``now`` or before is at once. Later is when to
        ask again, unless there is an offer before. None is not before there is one."""
        self._settle(now)
        free = now if self._taken is None else self._taken + self._pace.interval
        fresh = len(self._agreed) - units.common(self._agreed, self._admitted)
        if self._ripe(fresh):
            return now if fresh >= self._pace.words * self._size else free
        left = fresh or self.diverged or not _begins(self._admitted, self._keys)
        if self._stalled or not left:
            return None
        return max(self._changed + self._pace.stall, free)

    def take(self, now: float) -> str:
        """The agreed text, which is admitted from now on."""
        self._settle(now)
        self._admitted, self._spoken, self._taken = self._agreed, self._lang, now
        return self._said

    def rest(self, count: int) -> PartialPolicy:
        """The gate of what follows the first ``count`` agreed words (`units.keyed`), where these
        are cut off: what is agreed stays so, and nothing is admitted."""
        gate = PartialPolicy(self._pace)
        gate._lang, gate._size = self._lang, self._size
        gate._text, gate._ends = _behind(self._text, self._ends, count)
        gate._keys = self._keys[count:]
        gate._times, gate._changed, gate._stalled = self._times, self._changed, self._stalled
        gate._witness = self._witness[count:]
        gate._agreed = self._agreed[count:]
        if gate._agreed:
            gate._said, _ = _behind(
                self._said, units.keyed(self._said, units.spaced(self._lang))[1], count
            )
        return gate

    def _ripe(self, fresh: int) -> bool:
        """Whether there is something to translate, but for the interval."""
        if not self._agreed:
            return False
        if self._stalled:
            return fresh > 0 or self.diverged
        if not (_begins(self._agreed, self._keys) or _begins(self._keys, self._agreed)):
            return False  # the newest partial doubts it: one more will tell
        if self.diverged:
            return True
        least = self._pace.step if self._admitted else self._pace.first
        return fresh >= max(1, least * self._size)

    def _settle(self, now: float) -> None:
        """Nothing has changed for so long that all of the text is agreed."""
        if not self._stalled and now >= self._changed + self._pace.stall:
            self._stalled = True
            self._agree(self._keys, sure=True)

    def _agree(self, agreement: list[str], *, sure: bool) -> None:
        """Two partials agree on this; it contradicts what is agreed only if that is ``sure``."""
        more = _begins(agreement, self._agreed)
        if more or (sure and not _begins(self._agreed, agreement)):
            self._agreed = agreement
        count = len(self._agreed)
        if count and _begins(self._keys, self._agreed):
            self._said = self._text[: self._ends[count - 1]]
            sure = self._stalled or self._times >= self._pace.repeats
            if count == len(self._keys) and not sure:
                self._said = self._said.rstrip(_MARKS)


def _begins(text: list[str], head: list[str]) -> bool:
    return units.common(text, head) == len(head)


def _behind(text: str, ends: list[int], count: int) -> tuple[str, list[int]]:
    """``text`` without its first ``count`` words, and where the others end in that."""
    cut = ends[count - 1] if 0 < count <= len(ends) else 0 if count <= 0 else len(text)
    rest = text[cut:].lstrip()
    return rest, [end - (len(text) - len(rest)) for end in ends[count:]]
