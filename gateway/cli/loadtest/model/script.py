"""What a speaker sends, and when: utterances that begin at random, grow, end or are cancelled.

Owns: the order of the sends, and ids that say when they were due. Must not know: clocks, sockets,
answers: the loop is open. Chance is passed in.

The id of an utterance carries the moments at which it began and was said to its end, so that a
reader in another process can tell how long its captions took. Seconds count from the beginning of
the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from gateway.cli.loadtest.model.plan import Plan
from gateway.cli.replay.meeting import recogniser
from gateway.cli.replay.meeting.recogniser import RecogniserRandom
from gateway.cli.report.schedule import arrivals
from gateway.text import units

CANCEL_S = 0.5
"""A cancel comes within so many seconds after the utterance began, or within the time it takes to
be spoken, whichever is longer."""
PREFIX = "b"


class Send(NamedTuple):
    """One frame. ``rev`` 0 is a cancel; `final` says the utterance to its end."""

    due: float
    id: str
    rev: int = 0
    text: str = ""
    final: bool = False


def prefix(speaker: int | None) -> str:
    """What the ids of a speaker begin with; for who does not speak, what no id begins with."""
    return "-" if speaker is None else f"{PREFIX}{speaker}-"


def label(speaker: int, number: int, due: float, end: float) -> str:
    """The id of an utterance that began and ended at these seconds."""
    return f"{prefix(speaker)}{number}-{round(due * 1e6)}-{round(end * 1e6)}"


def times(id: str) -> tuple[float, float] | None:
    """When an utterance, or the one that this is a part of, began and ended; None for others."""
    fields = id.partition(".")[0].split("-")
    if len(fields) != 4 or not fields[0].startswith(PREFIX):
        return None
    try:
        return int(fields[2]) / 1e6, int(fields[3]) / 1e6
    except ValueError:
        return None


def sends(
    plan: Plan, speaker: int, text: Callable[[RecogniserRandom], str], draw: RecogniserRandom
) -> Iterator[Send]:
    """What one of the speakers sends, by when it is due.

    :param text: what is said next
    """
    speakers = plan.rooms * plan.speakers
    offset = speaker / plan.rate if plan.arrivals == "fixed" else 0.0
    begins = arrivals(plan.rate / speakers, plan.seconds - offset, plan.arrivals, draw)
    waiting: list[tuple[float, int, Send]] = []
    order = 0
    for number, begin in enumerate(begins):
        due = begin + offset
        while waiting and waiting[0][0] <= due:
            yield heappop(waiting)[2]
        for send in _utterance(plan, speaker, number, due, text(draw), draw):
            heappush(waiting, (send.due, order, send))
            order += 1
    while waiting:
        yield heappop(waiting)[2]


def _utterance(
    plan: Plan, speaker: int, number: int, due: float, text: str, draw: RecogniserRandom
) -> list[Send]:
    grows, cancelled = draw.random() < plan.partials, draw.random() < plan.cancel
    spaced = units.spaced(plan.source)
    pace = plan.pace / 60 * (1 if spaced else units.density(plan.source))
    length = len(recogniser.words(text, spaced=spaced)) / pace if grows else 0.0
    end = round(due + length, 6)
    id = label(speaker, number, due, end)
    found: list[Send] = []
    if grows:
        said = recogniser.timed(text, due, end, spaced=spaced)
        partials = recogniser.updates(said, due, end, spaced=spaced, draw=draw)
        found = [Send(at, id, rev, part) for rev, (at, part) in enumerate(partials, 1)]
    found.append(Send(end, id, len(found) + 1, text, True))
    if cancelled:
        at = due + draw.random() * max(CANCEL_S, length)
        first = found[0].due
        found = [send for send in found if send.due < at or send.due == first]
        found.append(Send(max(at, first), id))
    return found
