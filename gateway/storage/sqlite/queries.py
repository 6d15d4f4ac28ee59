"""What is asked of the store's tables, in SQL.

Owns: every statement about rooms, events and keys. Must not know: tasks, transactions, which
process this is, when anything is asked. Times are seconds since 1970; each function is for whoever
has the turn of the connection, and raises `sqlite3.Error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import aiosqlite

from gateway.core.event_log import StreamPosition
from gateway.storage import rows as tables
from gateway.storage.sqlite.file import many
from gateway.storage.write_behind import FollowedRoom, FollowPhase, RoomWrite

# --- rooms ----------------------------------------------------------------------------------------


async def living(db: aiosqlite.Connection, name: str) -> list[tables.RoomRow]:
    """The rooms of a name that have not ended, the newest first."""
    rows = await db.execute_fetchall(
        f"SELECT {tables.COLUMNS} FROM rooms WHERE name = ? AND ended IS NULL ORDER BY began DESC",
        (name,),
    )
    return [tables.RoomRow(*row) for row in rows]


async def readable(
    db: aiosqlite.Connection, name: str, keep_s: float, now: float
) -> list[tables.RoomRow]:
    """The rooms of a name that live or are kept, the living before the others, then the newest."""
    rows = await db.execute_fetchall(
        f"SELECT {tables.COLUMNS} FROM rooms WHERE name = ? AND"
        " (ended IS NULL OR ended + ? > ?) ORDER BY ended IS NULL DESC, began DESC",
        (name, keep_s, now),
    )
    return [tables.RoomRow(*row) for row in rows]


async def names(db: aiosqlite.Connection) -> list[tuple[int, str]]:
    """Id and name of every room, ended ones that are kept among them."""
    return [(id, name) for id, name in await db.execute_fetchall("SELECT id, name FROM rooms")]


async def insert(
    db: aiosqlite.Connection, rooms: Iterable[FollowedRoom], owner: str, now: float
) -> None:
    """Rooms that begin."""
    await many(
        db,
        "INSERT INTO rooms (id, name, epoch, began, seen, owner) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",  # what was committed may not have been heard
        [(room.id, room.history.name, room.log.epoch, room.began, now, owner) for room in rooms],
    )


async def take(
    db: aiosqlite.Connection,
    id: int,
    owner: str,
    epoch: str,
    before: StreamPosition | None,
    now: float,
) -> None:
    """Another process goes on with a room."""
    await db.execute(
        "UPDATE rooms SET owner = ?, epoch = ?, before_epoch = ?, before_seq = ?, seen = ?"
        " WHERE id = ?",
        (owner, epoch, *(before or (None, None)), now, id),
    )


async def owned(db: aiosqlite.Connection, ids: Iterable[int], owner: str) -> set[int]:
    """Those of the rooms that are this owner's."""
    rows = await db.execute_fetchall(
        "SELECT id FROM rooms WHERE owner = ? AND id IN (SELECT value FROM json_each(?))",
        (owner, tables.numbers(ids)),
    )
    return {id for (id,) in rows}


async def delete(db: aiosqlite.Connection, ids: Iterable[int]) -> None:
    """Rooms, with all their events."""
    await many(db, "DELETE FROM rooms WHERE id = ?", [(id,) for id in ids])


async def forget(db: aiosqlite.Connection, name: str) -> bool:
    """Delete all rooms of a name; whether there were any."""
    return (await db.execute("DELETE FROM rooms WHERE name = ?", (name,))).rowcount > 0


# --- events ---------------------------------------------------------------------------------------


async def events(db: aiosqlite.Connection, room: int, most: int) -> list[Sequence[Any]]:
    """``(seq, at, body)`` of a room's newest events, the newest first."""
    rows = await db.execute_fetchall(
        "SELECT seq, at, body FROM events WHERE room = ? ORDER BY seq DESC LIMIT ?", (room, most)
    )
    return list(rows)


async def write(
    db: aiosqlite.Connection, writes: Sequence[RoomWrite], owner: str, now: float
) -> None:
    """Add events; take back the text of what was retracted; drop what the logs have dropped."""
    await db.executemany(
        "INSERT INTO events (room, seq, at, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (  # made in the thread that writes
            (one.room.id, entry.event.seq, entry.at, tables.body(entry.event))
            for one in writes
            for entry in one.entries
        ),
    )
    await many(
        db,
        "UPDATE events SET body = json_set(body, '$.text', '') WHERE room = ? AND"
        " json_extract(body, '$.ord') IN (SELECT value FROM json_each(?)) AND"
        " json_extract(body, '$.text') != ''",
        [(one.room.id, tables.numbers(one.retracted)) for one in writes if one.retracted],
    )
    await many(
        db,
        "DELETE FROM events WHERE room = ? AND seq <= ?",
        [(one.room.id, one.oldest) for one in writes if one.oldest >= one.room.first],
    )
    await many(
        db,
        "UPDATE rooms SET seen = ?, settings = ?, owner = ?, ended = ? WHERE id = ?",
        [
            (
                now,
                None if one.settings is None else tables.body(one.settings),
                None if one.last else owner,
                now if one.last and one.room.phase is FollowPhase.ENDED else None,
                one.room.id,
            )
            for one in writes
        ],
    )


# --- in time --------------------------------------------------------------------------------------


async def see(db: aiosqlite.Connection, owner: str, ids: Iterable[int], now: float) -> None:
    """These rooms of an owner live; it has nothing more to do with the others it has."""
    await db.execute(
        "UPDATE rooms SET owner = NULL"
        " WHERE owner = ? AND id NOT IN (SELECT value FROM json_each(?))",
        (owner, tables.numbers(ids)),
    )
    await db.execute("UPDATE rooms SET seen = ? WHERE owner = ?", (now, owner))


async def others(db: aiosqlite.Connection, owner: str) -> list[str]:
    """Who else owns rooms, alive or not."""
    rows = await db.execute_fetchall("SELECT DISTINCT owner FROM rooms WHERE owner != ?", (owner,))
    return [other for (other,) in rows]


async def lapse(db: aiosqlite.Connection, owner: str | None, room_s: float, now: float) -> None:
    """End the rooms of an owner, or those of nobody, that were last seen ``room_s`` ago."""
    await db.execute(
        "UPDATE rooms SET ended = seen + ?, owner = NULL"
        " WHERE ended IS NULL AND owner IS ? AND seen + ? <= ?",
        (room_s, owner, room_s, now),
    )


async def expire(db: aiosqlite.Connection, keep_s: float, now: float) -> bool:
    """Delete the rooms that ended ``keep_s`` ago; whether there were any."""
    gone = await db.execute("DELETE FROM rooms WHERE ended + ? <= ?", (keep_s, now))
    return gone.rowcount > 0


# --- keys -----------------------------------------------------------------------------------------


async def key(db: aiosqlite.Connection, name: str, new: bytes) -> bytes:
    """The key of that name, which is ``new`` where there was none."""
    await db.execute(
        "INSERT INTO keys (name, key) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, new)
    )
    ((kept,),) = await db.execute_fetchall("SELECT key FROM keys WHERE name = ?", (name,))
    return bytes(kept)
