"""Measures of growing captions: latency, flicker and lag.

Owns: the figures and how each is computed; ``docs/reference/replay.md`` says what they mean. Must
not know: sockets, clocks, files, how translations are scored.

Units are words, or characters in scripts without spaces. Times are seconds of one clock that began
with the meeting; results in milliseconds are called ``..._ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from caption_tools.replay.meeting.script import ScriptUtterance, ShownCaption
from caption_tools.report.stats import percentile
from gateway.text import word_units

AGREED = 2  # words of the source that two updates must agree on before a caption can be expected


class ReaderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One utterance as it was said, and as one reader saw it in one language.

    ``shown`` is in order, and empty if nothing came. ``parts`` has the same for each segment of a
    long utterance that was cut; it may be left out if there is one.
    """

    said: ScriptUtterance
    shown: tuple[ShownCaption, ...]
    parts: tuple[Sequence[ShownCaption], ...] = ()

    @property
    def final(self) -> ShownCaption | None:
        """The finished caption, or None if it failed or has not come."""
        last = self.shown[-1] if self.shown else None
        return last if last is not None and last.ended and last.text else None

    @property
    def lost(self) -> bool:
        """True if the caption never ended, not even in a failure."""
        return not (self.shown and self.shown[-1].ended)


class Percentiles(msgspec.Struct, frozen=True):
    """A median and a 95th percentile."""

    p50: float
    p95: float


class CaptionMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one language in one view; None if there was nothing to measure.

    ``agreed_ms`` ends with the first visible text, and begins with the update that confirmed the
    second word.
    """

    captions: int  # that were finished
    failed: int  # that ended otherwise
    lost: int  # that never ended
    erasure: float | None  # units taken back for each unit of the final texts
    updates: float | None  # times that the text on the screen changed, for each caption
    agreed_ms: Percentiles | None
    visible_ms: Percentiles | None  # first visible text, after the first update was sent
    final_ms: Percentiles | None  # final caption, after the final text was said
    laal_ms: float | None  # length-adaptive average lagging of the words from when they stayed
    laal_source_ms: float | None  # the same by how much had been said by then


def figures(readings: Sequence[ReaderRecord], lang: str) -> CaptionMetrics:
    """Return the figures of everything that one reader of ``lang`` saw."""
    spaced = word_units.spaced(lang)
    good = [reading for reading in readings if reading.final is not None]
    lost = sum(reading.lost for reading in readings)
    starts = [(reading, visible(reading.shown)) for reading in good]
    lags = [lag for reading in good if (lag := _lags(reading, lang, spaced)) is not None]
    return CaptionMetrics(
        captions=len(good),
        failed=len(readings) - len(good) - lost,
        lost=lost,
        # Segments grow side by side, so a unit of the first would seem to erase the second.
        erasure=erasure(
            [part for reading in good for part in reading.parts or (reading.shown,) if part],
            spaced=spaced,
        ),
        updates=_mean([changes(reading.shown) for reading in good]),
        agreed_ms=_spread([1000 * (at - agreed(reading.said)) for reading, at in starts]),
        visible_ms=_spread([1000 * (at - begun(reading.said)) for reading, at in starts]),
        final_ms=_spread([1000 * (reading.shown[-1].at - reading.said.t1) for reading in good]),
        laal_ms=_mean([wall for wall, _ in lags]),
        laal_source_ms=_mean([source for _, source in lags]),
    )


def counted(text: str, *, spaced: bool) -> list[str]:
    """Return the units of a text: its words, or every character that is no space."""
    return text.split() if spaced else [char for char in text if not char.isspace()]


# --- flicker -------------------------------------------------------------------------------------


def erasure(histories: Iterable[Sequence[ShownCaption]], *, spaced: bool) -> float | None:
    """Return the normalised erasure (https://arxiv.org/abs/2004.03643) of ended captions.

    A last word that only grew longer was not erased. Return None if there is no final text.
    """
    erased = final = 0
    for shown in histories:
        texts = [counted(state.text, spaced=spaced) for state in shown]
        erased += sum(taken(old, new) for old, new in pairwise(texts))
        final += len(texts[-1])
    return erased / final if final else None


def taken(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many units disappear when ``new`` replaces ``old``."""
    same = word_units.common(old, new)
    left = len(old) - same
    # A word that only grows at its end does not flicker.
    if left == 1 and same < len(new) and new[same].startswith(old[same]):
        return 0
    return left


def changes(shown: Sequence[ShownCaption]) -> int:
    """Return how often the text on the screen changed."""
    return sum(old.text != new.text for old, new in pairwise((ShownCaption(0.0, ""), *shown)))


# --- delay ---------------------------------------------------------------------------------------


def begun(said: ScriptUtterance) -> float:
    """Return when the first update was sent, or the final text if there was no update."""
    return said.updates[0].at if said.updates else said.t1


def agreed(said: ScriptUtterance) -> float:
    """Return when the update was sent that confirmed the second word.

    A word is confirmed if an update and the one before both have it. The final text confirms all
    words.
    """
    spaced = word_units.spaced(said.lang)
    least = AGREED * word_units.density(said.lang)
    texts = [word_units.keyed(update.text, spaced)[0] for update in said.updates]
    for update, (old, new) in zip(said.updates[1:], pairwise(texts), strict=True):
        if word_units.common(old, new) >= least:
            return update.at
    return said.t1


def visible(shown: Sequence[ShownCaption]) -> float:
    """Return when the first text was visible. A finished caption has one."""
    return next(state.at for state in shown if state.text.strip())


def settled(shown: Sequence[ShownCaption], *, spaced: bool) -> list[float]:
    """Return for each unit of the last text since when it and all before it have not changed."""
    final = counted(shown[-1].text, spaced=spaced)
    times: list[float] = [shown[-1].at] * len(final)
    kept = len(final)
    # Going back in time, a unit is settled as long as all texts agree up to it.
    for state in reversed(shown):
        kept = min(kept, word_units.common(counted(state.text, spaced=spaced), final))
        times[:kept] = [state.at] * kept
    return times


def heard(said: ScriptUtterance, at: float) -> float:
    """Return how far into the meeting the source went that had been sent by ``at``."""
    if at >= said.t1:
        return said.t1
    return max((update.at for update in said.updates if update.at <= at), default=said.t0)


def lagging(delays: Sequence[float], source: float, reference: int) -> float:
    """Return LAAL (https://arxiv.org/abs/2206.05807) of one utterance, in the unit of its delays.

    :param delays: delay of each unit, from the beginning of the utterance; not empty
    :param source: length of the utterance, above 0
    :param reference: units of the reference, or 0 if there is none
    """
    each = source / max(len(delays), reference)
    # LAAL averages up to the first unit after the end of the source.
    last = next((at for at, delay in enumerate(delays, 1) if delay >= source), len(delays))
    return sum(delay - number * each for number, delay in enumerate(delays[:last])) / last


def _lags(reading: ReaderRecord, lang: str, spaced: bool) -> tuple[float, float] | None:
    said = reading.said
    length = 1000 * (said.t1 - said.t0)
    stays = settled(reading.shown, spaced=spaced)
    source = [1000 * (heard(said, at) - said.t0) for at in stays]
    wall = [1000 * (at - said.t0) for at in stays]
    if length <= 0 or not wall:
        return None
    reference = len(counted(said.references.get(lang, ""), spaced=spaced))
    return lagging(wall, length, reference), lagging(source, length, reference)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _spread(values: Sequence[float]) -> Percentiles | None:
    """Return percentiles by the nearest rank, so that each is a value that occurred."""
    return Percentiles(percentile(values, 0.5), percentile(values, 0.95)) if values else None


# --- captions cut in parts -----------------------------------------------------------------------


def joined(parts: Sequence[Sequence[ShownCaption]], *, spaced: bool) -> tuple[ShownCaption, ...]:
    """Return one caption made of the segments that a long utterance was cut into, in order."""
    if len(parts) == 1:
        return tuple(parts[0])
    steps = [(number, state) for number, part in enumerate(parts) for state in part]
    now = [ShownCaption(0.0, "")] * len(parts)
    whole: list[ShownCaption] = []
    for number, state in sorted(steps, key=lambda step: step[1].at):
        now[number] = state
        whole.append(_whole(state.at, now, spaced))
    return tuple(whole)


def _whole(at: float, now: Sequence[ShownCaption], spaced: bool) -> ShownCaption:
    stable = draft = ""
    firm = True
    for state in now:
        if not state.text:
            continue
        gap = " " if spaced and (stable or draft) else ""
        if firm:
            stable += gap + state.stable
            draft = state.draft
            firm = state.ended
        else:
            draft += gap + state.text
    return ShownCaption(at, stable, draft, all(state.ended for state in now))
