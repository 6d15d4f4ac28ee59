"""The log of a room, restored from its entries.

Owns: which entries make a log. Must not know: where they are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.core.history.event_log import EventLog, LogEntry
from gateway.core.replication.messages import Decided, Frames
from gateway.limits import Limits
from gateway.protocol.codec import Envelope


def as_written(log: EventLog, entries: Iterable[LogEntry], began: float) -> list[Decided]:
    """Return entries of a log as they are written.

    :param began: begin of the log, in seconds since 1970
    """
    return [
        Decided(
            Frames.of(Envelope(event)),
            log.concerns(event),
            log.epoch,
            began,
            at,
            author=log.authors.get(event.seq or 0),
        )
        for event, at in entries
    ]


def restored_log(entries: Sequence[Decided], limits: Limits, now: float, wall: float) -> EventLog:
    """Return the log of some entries.

    A log has no gaps and one epoch. So it begins behind the newest entry that does not fit. Without
    entries it has no epoch yet.

    :param now: the time in seconds, as logs are told it
    :param wall: the same time in seconds since 1970
    """
    if not entries:
        return EventLog("", limits, began=now)
    last = entries[-1]
    kept: list[LogEntry] = []
    authors: dict[int, str] = {}
    for entry in reversed(entries):
        if entry.epoch != last.epoch or entry.event.seq != (last.event.seq or 0) - len(kept):
            break
        kept.append(LogEntry(entry.event, entry.at))
        if entry.author is not None:
            authors[entry.event.seq or 0] = entry.author
    # The clocks of two machines may differ, and no event is in the future.
    log = EventLog(last.epoch, limits, began=now - max(wall - last.began, last.at))
    log.restore(reversed(kept), authors)
    return log
