"""What stands in the store's tables: its schema, and how events become rows and rows a log.

Owns: the columns, and what is done with a row that cannot be read. Must not know: files,
connections, processes, when anything is written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.core.event_log import Durable, EventLog, LogEntry
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
            began REAL NOT NULL,    -- seconds since 1970, as the next two
            seen REAL NOT NULL,     -- when it was last known to live
            ended REAL,             -- NULL while it lives
            owner TEXT,             -- the process that writes it; NULL: any may claim it
            settings TEXT,          -- what its `settings` events come to
            before_epoch TEXT,      -- see `History`
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
)
"""The schema, see `File`."""


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
    """An event as it stands in its row."""
    return _encode(event).decode()


def numbers(some: Iterable[int]) -> str:
    """A list for ``json_each``."""
    return _encode(some).decode()


def restored(
    epoch: str, rows: Sequence[Sequence[Any]], began: float, now: float, limits: Limits
) -> tuple[EventLog, int]:
    """A log of ``(seq, at, body)``, the newest first; and how many of those it could not take.

    A log has no holes, so that it ends its way back at the first event that is missing, or that
    this version of the gateway cannot read.
    """
    entries: list[LogEntry] = []
    for seq, at, body in rows:
        try:
            event = _event(body)
        except msgspec.MsgspecError:
            break
        if event.seq != seq or seq != rows[0][0] - len(entries):
            break
        entries.append(LogEntry(event, at))
    if entries:
        began = min(began, now - entries[0].at)  # the wall clock may have been set back
    log = EventLog(epoch, limits, began=began)
    log.restore(reversed(entries))
    if rows:
        log.seq = rows[0][0]
    return log, len(rows) - len(entries)


def settings(body: str | None) -> Changed | None:
    """The settings of a room, or None where a row has none that can be read."""
    try:
        return None if body is None else _changed(body)
    except msgspec.MsgspecError:
        log.warning("the settings of a room cannot be read")
        return None
