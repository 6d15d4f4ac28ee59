"""The schedule of a speaker: utterances that begin at random, grow, end or are cancelled.

Owns: the order of the sends, and ids that carry their due times. Must not know: clocks, sockets,
answers, because the loop is open. Randomness is passed in.

The id of an utterance carries the moments at which it began and ended, so that a reader in another
process can compute latencies. Seconds count from the beginning of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from caption_tools.loadtest.model.plan import Plan
from caption_tools.speech import recogniser
from caption_tools.speech.recogniser import RecogniserRandom
from caption_tools.speech.text import arrivals
from gateway.text import word_units

CANCEL_S = 0.5
"""Seconds after the beginning of an utterance within which a cancel comes. If speaking it takes
longer, the cancel comes within that time.
"""
PREFIX = "b"


class Send(NamedTuple):
    """One frame to send. ``rev`` 0 is a cancel; ``final`` ends the utterance."""

    due: float
    id: str
    rev: int = 0
    text: str = ""
    final: bool = False


def prefix(speaker: int | None) -> str:
    """Return the prefix of a speaker's ids. For a reader it is one that no id has."""
    return "-" if speaker is None else f"{PREFIX}{speaker}-"


def label(speaker: int, number: int, due: float, end: float) -> str:
    """Return the id of an utterance that begins and ends at these seconds."""
    return f"{prefix(speaker)}{number}-{round(due * 1e6)}-{round(end * 1e6)}"


def times(id: str) -> tuple[float, float] | None:
    """Return when the utterance of an id (or the utterance that this segment belongs to) began and
    ended, in seconds. Return None for ids that were not made here.
    """
    fields = id.partition(".")[0].split("-")
    # Ids of other clients in the room have another form.
    if len(fields) != 4 or not fields[0].startswith(PREFIX):
        return None
    try:
        return int(fields[2]) / 1e6, int(fields[3]) / 1e6
    except ValueError:
        return None


def sends(
    plan: Plan, speaker: int, text: Callable[[RecogniserRandom], str], draw: RecogniserRandom
) -> Iterator[Send]:
    """Yield the frames of one speaker, ordered by due time."""
    speakers = plan.rooms * plan.speakers
    # Evenly spaced speakers take turns instead of speaking at the same moments.
    offset = speaker / plan.rate if plan.arrivals == "fixed" else 0.0
    begins = arrivals(plan.rate / speakers, plan.seconds - offset, plan.arrivals, draw)
    waiting: list[tuple[float, int, Send]] = []
    order = 0
    for number, begin in enumerate(begins):
        due = begin + offset
        # Sends of overlapping utterances are merged by due time; a heap keeps memory small.
        while waiting and waiting[0][0] <= due:
            yield heappop(waiting)[2]
        for send in _utterance(plan, speaker, number, due, text(draw), draw):
            # `order` keeps sends of one time in the order of their utterance.
            heappush(waiting, (send.due, order, send))
            order += 1
    while waiting:
        yield heappop(waiting)[2]


def _utterance(
    plan: Plan, speaker: int, number: int, due: float, text: str, draw: RecogniserRandom
) -> list[Send]:
    grows, cancelled = draw.random() < plan.partials, draw.random() < plan.cancel
    spaced = word_units.spaced(plan.source)
    pace = plan.pace / 60 * (1 if spaced else word_units.density(plan.source))
    length = len(recogniser.words(text, spaced=spaced)) / pace if grows else 0.0
    end = round(due + length, 6)
    id = label(speaker, number, due, end)
    made: list[Send] = []
    if grows:
        said = recogniser.timed(text, due, end, spaced=spaced)
        partials = recogniser.updates(said, due, end, spaced=spaced, draw=draw)
        made = [Send(at, id, rev, part) for rev, (at, part) in enumerate(partials, 1)]
    made.append(Send(end, id, len(made) + 1, text, True))
    if cancelled:
        # The first frame is always sent: an unknown id cannot be cancelled.
        at = due + draw.random() * max(CANCEL_S, length)
        first = made[0].due
        made = [send for send in made if send.due < at or send.due == first]
        made.append(Send(max(at, first), id))
    return made
