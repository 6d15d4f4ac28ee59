"""SQL statements of the store.

Owns: every statement about rooms, events and keys. Must not know: tasks, transactions, this
process. Times are seconds since 1970. Callers hold `DatabaseFile.turn`. Every function raises
`sqlite3.Error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import aiosqlite

from gateway.storage import schema
from gateway.storage.write_behind import FollowedRoom, RoomWrite

# --- rooms ----------------------------------------------------------------------------------------


async def living(db: aiosqlite.Connection, name: str) -> list[schema.RoomRow]:
    """Return the rooms of a name that have not ended, newest first."""
    return await _rooms(db, "ended IS NULL ORDER BY began DESC", name)


async def readable(
    db: aiosqlite.Connection, name: str, keep_s: float, now: float
) -> list[schema.RoomRow]:
    """Return the rooms of a name that are open or kept: open ones first, then newest first."""
    # An open room is the one that people are in, whatever began later and has ended.
    condition = "(ended IS NULL OR ended + ? > ?) ORDER BY ended IS NULL DESC, began DESC"
    return await _rooms(db, condition, name, keep_s, now)


async def _rooms(db: aiosqlite.Connection, condition: str, *values: object) -> list[schema.RoomRow]:
    sql = f"SELECT {schema.COLUMNS} FROM rooms WHERE name = ? AND {condition}"
    return [schema.RoomRow(*row) for row in await db.execute_fetchall(sql, values)]


async def insert(
    db: aiosqlite.Connection, rooms: Iterable[FollowedRoom], owner: str, now: float
) -> None:
    await db.executemany(
        "INSERT INTO rooms (id, name, epoch, began, seen, owner) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",  # a commit may succeed although its caller was cancelled
        [(room.id, room.name, room.log.epoch, room.began, now, owner) for room in rooms],
    )


async def take_over(db: aiosqlite.Connection, room: FollowedRoom, owner: str, now: float) -> None:
    """Make a process the owner of a room, which may have a new epoch."""
    await db.execute(
        "UPDATE rooms SET owner = ?, epoch = ?, before_epoch = ?, before_seq = ?, seen = ?"
        " WHERE id = ?",
        (owner, room.log.epoch, *(room.log.before or (None, None)), now, room.id),
    )


async def owned(db: aiosqlite.Connection, ids: Iterable[int], owner: str) -> set[int]:
    """Return the ids of rooms that belong to an owner."""
    rows = await db.execute_fetchall(
        "SELECT id FROM rooms WHERE owner = ? AND id IN (SELECT value FROM json_each(?))",
        (owner, schema.numbers(ids)),
    )
    return {id for (id,) in rows}


async def delete(db: aiosqlite.Connection, ids: Iterable[int]) -> None:
    """Delete rooms with all their events."""
    await db.executemany("DELETE FROM rooms WHERE id = ?", [(id,) for id in ids])


async def forget(db: aiosqlite.Connection, name: str) -> bool:
    """Delete all rooms of a name, and return whether there were any."""
    return (await db.execute("DELETE FROM rooms WHERE name = ?", (name,))).rowcount > 0


# --- events ---------------------------------------------------------------------------------------


async def events(db: aiosqlite.Connection, room: int, most: int) -> list[Sequence[Any]]:
    """Return rows for `schema.restored` of the newest ``most`` events of a room."""
    rows = await db.execute_fetchall(
        "SELECT seq, at, body, author FROM events WHERE room = ? ORDER BY seq DESC LIMIT ?",
        (room, most),
    )
    return list(rows)


async def write(
    db: aiosqlite.Connection, writes: Sequence[RoomWrite], owner: str, now: float
) -> None:
    """Insert events, erase withdrawn text, delete events that left the logs, update the rooms."""
    await db.executemany(
        "INSERT INTO events (room, seq, at, body, author) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (  # a generator, so that the rows are encoded in the thread of the connection
            (write.room.id, seq := entry.event.seq, entry.at, schema.body(entry.event))
            + (write.room.log.authors.get(seq or 0),)
            for write in writes
            for entry in write.entries
        ),
    )
    # The rows of a retracted utterance stay, so that the numbers have no gap. The log has erased
    # its text already. Rows older than the log are deleted below.
    await db.executemany(
        "UPDATE events SET body = ? WHERE room = ? AND seq = ?",
        [
            (schema.body(entry.event), write.room.id, entry.event.seq)
            for write in writes
            for entry in write.erased
        ],
    )
    # The file keeps no more of a room than its log does.
    await db.executemany(
        "DELETE FROM events WHERE room = ? AND seq <= ?",
        [(write.room.id, write.oldest) for write in writes if write.oldest],
    )
    await db.executemany(
        "UPDATE rooms SET seen = ?, settings = ?, owner = ?, ended = ? WHERE id = ?",
        [
            (
                now,
                None if write.settings is None else schema.body(write.settings),
                None if write.last else owner,
                now if write.last and write.room.ended else None,
                write.room.id,
            )
            for write in writes
        ],
    )


# --- expiry ---------------------------------------------------------------------------------------


async def mark_seen(db: aiosqlite.Connection, owner: str, ids: Iterable[int], now: float) -> None:
    """Mark rooms of an owner as open now, and release all its other rooms."""
    await db.execute(
        "UPDATE rooms SET owner = NULL"
        " WHERE owner = ? AND id NOT IN (SELECT value FROM json_each(?))",
        (owner, schema.numbers(ids)),
    )
    await db.execute("UPDATE rooms SET seen = ? WHERE owner = ?", (now, owner))


async def other_owners(db: aiosqlite.Connection, owner: str) -> list[str]:
    """Return the other owners of rooms, alive or not."""
    rows = await db.execute_fetchall("SELECT DISTINCT owner FROM rooms WHERE owner != ?", (owner,))
    return [other for (other,) in rows]


async def end_unseen(
    db: aiosqlite.Connection, owner: str | None, room_s: float, now: float
) -> None:
    """End the rooms of an owner (None: without one) that were last seen ``room_s`` seconds ago."""
    # It ended when its time was over, not when this is noticed: `expire` counts from there.
    await db.execute(
        "UPDATE rooms SET ended = seen + ?, owner = NULL"
        " WHERE ended IS NULL AND owner IS ? AND seen + ? <= ?",
        (room_s, owner, room_s, now),
    )


async def expire(db: aiosqlite.Connection, keep_s: float, now: float) -> bool:
    """Delete the rooms that ended ``keep_s`` seconds ago, and return whether there were any."""
    gone = await db.execute("DELETE FROM rooms WHERE ended + ? <= ?", (keep_s, now))
    return gone.rowcount > 0


# --- keys -----------------------------------------------------------------------------------------


async def key(db: aiosqlite.Connection, name: str, new: bytes) -> bytes:
    """Return the key of a name, and store ``new`` if there is none."""
    await db.execute(
        "INSERT INTO keys (name, key) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, new)
    )
    # Another process may have stored a key first. Its key counts then.
    ((kept,),) = await db.execute_fetchall("SELECT key FROM keys WHERE name = ?", (name,))
    return bytes(kept)
