"""Policy for partial source texts: how much of a growing text is translated, and when.

Owns: the agreement of successive partials on words, and the timing of translations. Must not know:
jobs, captions, translations, clocks (time is an argument, in seconds).

Speech recognition often corrects its last words. So a word is translated once two partials in a row
have it (local agreement, Liu et al. 2020, https://arxiv.org/abs/2005.11185), or once nothing has
changed for a while. Words are compared by `word_units.key`, without commas and capitals. A word is
*agreed* if it may be translated, and *admitted* if it was given to a translation.
"""

from __future__ import annotations

import msgspec

from gateway.text import languages, word_units

_MARKS = " .!?…‥,;:。．！？、，；："
"""Marks that are removed from the end of agreed text. Recognisers put a full stop behind every
partial, and remove it when a word follows."""


class PartialTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of the policy, in words and seconds. In scripts without spaces `word_units.density`
    characters count as a word. Each with a docstring is a setting with the prefix ``pace_``. The
    others are constants, which only tests and benchmarks change.
    """

    interval: float = 0.3
    """Minimum seconds between the starts of two translations of the same growing utterance."""
    # Number of new agreed words that are translated at once, without waiting for
    # `interval`. A word is agreed once two partial texts in a row contain it. In Chinese
    # and Japanese two characters count as a word, in Thai three.
    words: int = 6
    # Number of agreed words before the first translation of an utterance. A single word is
    # mostly translated wrongly.
    first: int = 2
    # Minimum number of new agreed words for a further translation, except after `stall`.
    step: int = 3
    # Seconds without a change after which the whole partial text counts as agreed.
    stall: float = 0.8
    repeats: int = 2
    """Number of partial texts in a row with the same words after which the whole text counts as
    agreed. Use more than 2 for a recogniser that repeats partial texts. 1 trusts every partial text
    at once."""


class PartialPolicy:
    """Policy for one growing utterance, or for the open part of one.

    Agreed words are kept if a partial is shorter. They are withdrawn if two partials in a row have
    other words in their place and are not shorter, or if one such partial stays unchanged for
    `PartialTiming.stall`. At most three texts are kept.
    """

    __slots__ = (
        *("_admitted", "_agreed", "_changed", "_ends", "_keys", "_lang", "_pace", "_said", "_size"),
        *("_spoken", "_stalled", "_taken", "_text", "_times", "_witness"),
    )

    def __init__(self, pace: PartialTiming) -> None:
        self._pace = pace
        self._lang = ""
        self._size = 1  # units per word
        # The newest partial, how many times it was received in a row, and since when.
        self._text = ""
        self._keys: list[str] = []
        self._ends: list[int] = []
        self._times = 0
        self._changed = 0.0
        self._stalled = False
        # Keys that the next partial is compared with: those of the newest partial, or of an earlier
        # one that begins with all of it.
        self._witness: list[str] = []
        self._agreed: list[str] = []
        self._said = ""
        self._admitted: list[str] = []
        self._spoken = ""
        self._taken: float | None = None

    @property
    def agreed(self) -> str:
        """Agreed text, spelt as in the newest partial that has it."""
        return self._said

    @property
    def admitted(self) -> int:
        """Number of words (`word_units.keyed`) that were admitted last."""
        return len(self._admitted)

    @property
    def diverged(self) -> bool:
        """True if the agreed text does not continue the text that was admitted last, or is in
        another language. The translation of that text is then void. Ask before `admit`.
        """
        return bool(self._admitted) and not (
            languages.same(self._lang, self._spoken)
            and word_units.common(self._admitted, self._agreed) == len(self._admitted)
        )

    def continues(self, text: str, lang: str) -> bool:
        """Tell whether the final text of the utterance continues the text admitted last."""
        if not self._admitted:
            return True
        keys, _ = word_units.keyed(text, word_units.spaced(lang))
        return languages.same(lang, self._spoken) and _begins(keys, self._admitted)

    def offer(self, text: str, lang: str, now: float) -> None:
        """Process the newest partial, which is the whole text so far."""
        spaced = word_units.spaced(lang)
        # Units of the other kind cannot be compared, so the utterance begins again.
        if self._lang and spaced is not word_units.spaced(self._lang):
            self._keys, self._witness, self._agreed, self._said = [], [], [], ""
        self._lang, self._size = lang, word_units.density(lang)
        keys, ends = word_units.keyed(text, spaced)
        # Punctuation and capitals alone are no change.
        if keys == self._keys:
            self._times += 1
        else:
            self._times, self._changed, self._stalled = 1, now, False
        shared = word_units.common(self._witness, keys)
        if self._times >= self._pace.repeats:
            agreement = keys
        else:
            # A repetition that is not trusted yet agrees with itself only, which proves nothing.
            agreement = keys[:shared] if self._times == 1 else []
        # A partial that is only the beginning of the earlier one does not replace it.
        if shared < len(keys):
            self._witness = keys
        self._text, self._keys, self._ends = text, keys, ends
        # A shorter partial must not withdraw words: it may only be slow to repeat them.
        self._agree(agreement, sure=len(keys) >= len(self._agreed))

    def due(self, now: float) -> float | None:
        """Return when the agreed text should be translated: now, or later if no `offer` comes
        before; None: not before the next `offer`.
        """
        self._settle(now)
        # The first translation of an utterance need not wait for one before it.
        free = now if self._taken is None else self._taken + self._pace.interval
        fresh = len(self._agreed) - word_units.common(self._agreed, self._admitted)
        if self._ripe(fresh):
            return now if fresh >= self._pace.words * self._size else free
        left = fresh or self.diverged or not _begins(self._admitted, self._keys)
        # Nothing is due if the whole text is agreed, or if the partial only repeats admitted words.
        if self._stalled or not left:
            return None
        return max(self._changed + self._pace.stall, free)

    def admit(self, now: float) -> str:
        """Admit the agreed text and return it, for a translation that starts now."""
        self._settle(now)
        # The language is kept too: the same words in another language are another text.
        self._admitted, self._spoken, self._taken = self._agreed, self._lang, now
        return self._said

    def rest(self, count: int) -> PartialPolicy:
        """Return the policy of the rest behind ``count`` agreed words. Nothing is admitted."""
        rest = PartialPolicy(self._pace)
        rest._lang, rest._size = self._lang, self._size
        rest._text, rest._ends = _behind(self._text, self._ends, count)
        rest._keys = self._keys[count:]
        rest._times, rest._changed, rest._stalled = self._times, self._changed, self._stalled
        rest._witness = self._witness[count:]
        rest._agreed = self._agreed[count:]
        if rest._agreed:
            rest._said, _ = _behind(
                self._said, word_units.keyed(self._said, word_units.spaced(self._lang))[1], count
            )
        return rest

    def _ripe(self, fresh: int) -> bool:
        """Tell whether enough agreed words are not admitted yet, apart from the interval."""
        if not self._agreed:
            return False
        # The speaker pauses, so even one new word is worth a translation.
        if self._stalled:
            return fresh > 0 or self.diverged
        if not (_begins(self._agreed, self._keys) or _begins(self._keys, self._agreed)):
            return False  # the newest partial contradicts it, and the next one decides
        if self.diverged:
            return True  # what readers see now is wrong
        least = self._pace.step if self._admitted else self._pace.first
        return fresh >= max(1, least * self._size)

    def _settle(self, now: float) -> None:
        """Agree on the whole text if it has not changed for `PartialTiming.stall` seconds."""
        if not self._stalled and now >= self._changed + self._pace.stall:
            self._stalled = True
            self._agree(self._keys, sure=True)

    def _agree(self, agreement: list[str], *, sure: bool) -> None:
        """Accept the words that two partials share, if ``sure`` also against agreed words."""
        # Longer agreements extend the agreed words, others may only replace them.
        more = _begins(agreement, self._agreed)
        if more or (sure and not _begins(self._agreed, agreement)):
            self._agreed = agreement
        count = len(self._agreed)
        if count and _begins(self._keys, self._agreed):
            self._said = self._text[: self._ends[count - 1]]
            sure = self._stalled or self._times >= self._pace.repeats
            # The mark behind the last word may disappear with the next partial.
            if count == len(self._keys) and not sure:
                self._said = self._said.rstrip(_MARKS)


def _begins(text: list[str], head: list[str]) -> bool:
    return word_units.common(text, head) == len(head)


def _behind(text: str, ends: list[int], count: int) -> tuple[str, list[int]]:
    """Return ``text`` without its first ``count`` words, and the ends of the others in the rest."""
    cut = ends[count - 1] if 0 < count <= len(ends) else 0 if count <= 0 else len(text)
    rest = text[cut:].lstrip()
    return rest, [end - (len(text) - len(rest)) for end in ends[count:]]
