"""Schema of the store: its tables, their migrations, and the conversion between events and rows.

Owns: the columns, and the handling of rows that cannot be read. Must not know: files, connections,
processes, the time of writing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.core.history.event_log import Durable, EventLog, LogEntry
from gateway.limits import Limits
from gateway.protocol.messages import Settings as Changed

log = logging.getLogger("gateway.tables")

MIGRATIONS = (
    (
        """
        CREATE TABLE rooms (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            epoch TEXT NOT NULL,
            began REAL NOT NULL,    -- seconds since 1970, like the next two
            seen REAL NOT NULL,     -- when a process last had it open
            ended REAL,             -- NULL while it is open
            owner TEXT,             -- the process that writes it; NULL: any may claim it
            settings TEXT,          -- sum of its `settings` events
            before_epoch TEXT,      -- see `EventLog.before`
            before_seq INTEGER
        ) STRICT
        """,
        "CREATE INDEX rooms_name ON rooms (name)",
        """
        CREATE TABLE events (
            room INTEGER NOT NULL REFERENCES rooms ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            at REAL NOT NULL,       -- seconds since the room began
            body TEXT NOT NULL CHECK (json_valid(body)),
            UNIQUE (room, seq)
        ) STRICT
        """,
    ),
    ("CREATE TABLE keys (name TEXT PRIMARY KEY, key BLOB NOT NULL) STRICT",),
    ("ALTER TABLE events ADD COLUMN author TEXT",),  # of a `source`: the session that has said it
)
"""Statements that lead from each version of the schema to the next, see `DatabaseFile`."""


class RoomRow(NamedTuple):
    """A row of ``rooms``."""

    id: int
    name: str
    epoch: str
    began: float
    seen: float
    owner: str | None
    settings: str | None
    before_epoch: str | None
    before_seq: int | None


COLUMNS = ", ".join(RoomRow._fields)

_encode = msgspec.json.Encoder().encode
_event = msgspec.json.Decoder(Durable).decode
_changed = msgspec.json.Decoder(Changed).decode


def body(event: Durable) -> str:
    """Return an event as JSON for its row."""
    return _encode(event).decode()


def numbers(some: Iterable[int]) -> str:
    """Return numbers as JSON for SQLite's ``json_each``."""
    return _encode(some).decode()


def restored(
    epoch: str, rows: Sequence[Sequence[Any]], began: float, now: float, limits: Limits
) -> tuple[EventLog, int]:
    """Return the log of some rows, and the number of rows that it leaves out. Times are of the
    clock of logs.

    :param rows: ``(seq, at, body, author)``, newest first
    """
    entries: list[LogEntry] = []
    authors: dict[int, str] = {}
    # A log has no gaps. So it begins behind the newest event that is missing or that this version
    # of the gateway cannot read.
    for seq, at, body, author in rows:
        try:
            event = _event(body)
        except msgspec.MsgspecError:
            break
        # Rows are in descending order, so the number of each is known.
        if event.seq != seq or seq != rows[0][0] - len(entries):
            break
        entries.append(LogEntry(event, at))
        if author is not None:
            authors[seq] = author
    if entries:
        began = min(began, now - entries[0].at)  # the wall clock may have been set back
    log = EventLog(epoch, limits, began=began)
    log.restore(reversed(entries), authors)
    # Numbers continue behind the newest row even if it cannot be read: no number is used twice.
    if rows:
        log.seq = rows[0][0]
    return log, len(rows) - len(entries)


def settings(body: str | None) -> Changed | None:
    """Return the settings of a room, or None if there are none or they cannot be read."""
    try:
        return None if body is None else _changed(body)
    except msgspec.MsgspecError:
        log.warning("the settings of a room cannot be read")
        return None
