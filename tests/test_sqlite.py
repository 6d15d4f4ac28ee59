"""Rooms on disk, on real files: what survives, what goes, and what happens when the disk fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import database, tables
from gateway import sqlite as module
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.log import Durable, Entry, Log, Point
from gateway.messages import Final, Retracted, Source, Timing
from gateway.messages import Settings as Changed
from gateway.server.metrics import Metrics
from gateway.settings import Settings, SettingsError
from gateway.sqlite import SWEEP_S, SqliteStore, build
from gateway.store import StoreFault
from tests.live import until

ROOT = Path(__file__).resolve().parent.parent
SECRET = "xyzzy"


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await main

    asyncio.run(bounded())


class Time:
    """Two clocks that agree on how fast time passes. A restart sets the first one back."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000.0
        self.booted = self.wall - 1000

    def clock(self) -> float:
        return self.wall - self.booted

    def restart(self) -> None:
        self.booted = self.wall - 10


class Disk:
    """One file, and the stores that are opened on it, one after the other or beside each other."""

    def __init__(self, folder: Path, limits: Limits | None = None, keep_s: float = 0) -> None:
        self.path = folder / "rooms.db"
        self.time = Time()
        self.limits = limits if limits is not None else Limits()
        self.keep_s = keep_s

    def store(self) -> SqliteStore:
        return SqliteStore(
            self.path,
            self.limits,
            keep_s=self.keep_s,
            clock=self.time.clock,
            wall=lambda: self.time.wall,
        )

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[SqliteStore]:
        store = self.store()
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    def say(self, log: Log, text: str = "good morning", times: int = 1) -> None:
        for _ in range(times):
            seq = log.next()
            event = Source(seq=seq, id=f"u{seq}", rev=1, ord=seq, lang="en", text=text)
            log.append(event, self.time.clock())

    def sql(self, statement: str, *values: object) -> list[Any]:
        """What a program of the operator's sees, or does."""
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            return db.execute(statement, values).fetchall()

    def has(self, text: str) -> bool:
        """Whether the bytes are in any of the files. Read by another process: SQLite's locks would
        be lost with any file that this one closes."""
        files = [str(path) for path in self.path.parent.glob("rooms.db*")]
        found = subprocess.run(["cat", *files], capture_output=True, check=True).stdout
        return text.encode() in found


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def crash(store: SqliteStore) -> None:
    """The process is gone: nothing is written any more, and its locks are free."""
    for task in list(store._tasks):
        task.cancel()
        await asyncio.wait([task])
    await store._abandon()


def texts(log: Log) -> list[str]:
    return [entry.event.text for entry in log.entries() if isinstance(entry.event, Source)]


# --- settings -------------------------------------------------------------------------------------


def test_by_default_there_is_no_store() -> None:
    assert Settings().store is None
    assert build(Settings()) is None


def test_a_store_is_named_by_its_kind_and_path(tmp_path: Path) -> None:
    store = build(Settings(store=f"sqlite:{tmp_path}/a/../rooms.db"))
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "rooms.db"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["rooms.db", "postgres://host/db", "sqlite:", ""])
def test_a_store_of_another_kind_is_told_at_once(name: str) -> None:
    with pytest.raises(SettingsError, match="sqlite:PATH"):
        build(Settings(store=name))


# --- a restart ------------------------------------------------------------------------------------


def test_all_processes_of_a_file_sign_with_one_key_that_another_file_does_not_have(
    disk: Disk, tmp_path: Path
) -> None:
    async def main() -> None:
        async with disk.open() as first, disk.open() as second:
            keys = {await first.key(), await second.key(), await first.key()}
        async with disk.open() as later:
            keys.add(await later.key())
        (tmp_path / "other").mkdir()
        async with Disk(tmp_path / "other").open() as other:
            strange = await other.key()
        (key,) = keys
        assert len(key) == len(strange) == 32 and key != strange

    run(main())


def test_a_room_goes_on_after_a_restart_where_it_was(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            before = await store.claim("meeting")
            disk.time.wall += 60
            disk.say(before.log, times=3)
        disk.time.wall += 30
        disk.time.restart()
        async with disk.open() as store:
            after = await store.claim("meeting")
            assert after.log is not before.log
            assert (after.log.epoch, after.log.seq) == (before.log.epoch, 3)
            assert after.before is None
            assert after.log.entries() == before.log.entries()
            disk.say(after.log, "good night")
            assert after.log.entries()[-1].at == 90
            assert store.behind == 1
        async with disk.open() as store:
            assert (await store.claim("meeting")).log.entries() == after.log.entries()

    run(main())


def test_all_there_is_of_an_event_comes_back(disk: Disk) -> None:
    events: list[Durable] = [
        Source(
            seq=1,
            id="u1",
            rev=2,
            ord=1,
            lang="en",
            text='nul \0 "quoted"\n\U0001f600',
            speaker="Ana",
            t0=0.5,
            t1=1.25,
        ),
        Final(
            seq=2,
            id="u1",
            rev=2,
            ord=1,
            lang="ja",
            text="おはよう",
            by="mt",
            ms=Timing(queue=1, first=2, total=3),
            flags=("numbers",),
        ),
        Changed(seq=3, version=1, glossary={"a": "b"}, from_="de", session="s1"),
        Retracted(seq=4, id="u2", ord=2),
    ]

    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            for event in events:
                log.next()
                log.append(event, disk.time.clock())
        async with disk.open() as store:
            assert (await store.claim("meeting")).log.since(0) == events

    run(main())


def test_every_caller_gets_the_same_history_while_the_room_lives(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            one, two = await asyncio.gather(store.claim("meeting"), store.claim("meeting"))
            assert one is two
            assert await store.claim("meeting") is one
            disk.say(one.log)
            loaded = await store.load("meeting")
            assert loaded is not None and loaded.log is one.log

    run(main())


def test_a_history_that_was_released_is_claimed_again_complete(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            one = await store.claim("meeting")
            disk.say(one.log)
            store.release("meeting")
            two = await store.claim("meeting")
            assert (two.log.epoch, texts(two.log)) == (one.log.epoch, ["good morning"])

    run(main())


def test_a_restored_log_has_the_bounds_of_this_process_and_so_has_the_file(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, times=20)
        disk.limits = Limits(log=5)
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            assert [entry.event.seq for entry in log.entries()] == [16, 17, 18, 19, 20]
            assert log.since(14) is None
            disk.say(log)
        assert disk.sql("SELECT min(seq), max(seq) FROM events") == [(17, 21)]

    run(main())


def test_settings_outlive_their_events(disk: Disk) -> None:
    disk.limits = Limits(log=2)

    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            for change in (
                Changed(seq=1, version=1, context="a court", speaker="Ana", session="s1"),
                Changed(seq=2, version=2, glossary={"a": "b"}, style="formal"),
                Changed(seq=3, version=3, glossary={}, from_="de"),
            ):
                log.next()
                log.append(change, disk.time.clock())
                await store.flush()
            disk.say(log, times=5)
        async with disk.open() as store:
            found = (await store.claim("meeting")).settings
            assert found == Changed(
                seq=3, version=3, context="a court", glossary={}, style="formal"
            )

    run(main())


def test_a_wall_clock_that_was_set_back_does_not_let_the_room_run_backwards(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            disk.time.wall += 500
            disk.say(log)
        disk.time.wall -= 300
        disk.time.restart()
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            disk.say(log)
            assert [entry.at for entry in log.entries()] == [500, 500]

    run(main())


def test_a_file_is_for_its_owner_alone(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log)
            await store.flush()
            for path in (disk.path, disk.path.with_name("rooms.db-wal")):
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.listdir(disk.path.parent) == ["rooms.db"]

    run(main())


def test_a_long_backlog_is_written_in_several_transactions(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 7)

    async def main() -> None:
        async with disk.open() as store:
            logs = {name: (await store.claim(name)).log for name in "abcde"}
            for name, log in logs.items():
                disk.say(log, times=10)
                if name in "bd":
                    store.release(name)
            await store.flush()
            assert store.behind == 0
        assert disk.sql("SELECT count(*) FROM events") == [(50,)]

    run(main())


# --- a crash --------------------------------------------------------------------------------------


def test_after_a_crash_the_room_has_another_epoch_that_shares_what_was_written(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            first = await store.claim("meeting")
            disk.say(first.log, "written", times=3)
            await store.flush()
            disk.say(first.log, "seen by readers, and lost", times=2)
            await crash(store)
        async with disk.open() as store:
            second = await store.claim("meeting")
            assert texts(second.log) == ["written"] * 3
            assert second.log.seq == 3
            assert second.log.epoch != first.log.epoch
            assert second.before == Point(first.log.epoch, 3)
        async with disk.open() as store:
            third = await store.claim("meeting")
            assert (third.log.epoch, third.before) == (second.log.epoch, second.before)

    run(main())


WRITE = """
import asyncio, itertools, sys, time
from pathlib import Path
from gateway.limits import Limits
from gateway.messages import Source
from gateway.sqlite import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]), Limits())
    await store.open()
    logs = [(await store.claim(f"room {n}")).log for n in range(5)]
    for turn in itertools.count():
        for log in logs:
            seq = log.next()
            text = f"{seq} " + "x" * (turn % 500)
            event = Source(seq=seq, id=f"u{seq}", rev=1, ord=seq, lang="en", text=text)
            log.append(event, time.monotonic())
        if turn % 50 == 49:
            await store.flush()
            print(log.seq, flush=True)
        await asyncio.sleep(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("reports", [1, 7])
def test_kill_9_while_writing_loses_nothing_that_was_written(disk: Disk, reports: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(disk.path)], stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        for _ in range(reports):
            written = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)

    disk.time.wall = time.time()

    async def main() -> None:
        async with disk.open() as store:
            for n in range(5):
                log = (await store.claim(f"room {n}")).log
                events = log.since(0)
                assert events is not None and log.seq >= written
                for number, event in enumerate(events, start=1):
                    assert isinstance(event, Source)
                    assert event.text.startswith(f"{number} ")

    run(main())
    assert disk.sql("PRAGMA integrity_check") == [("ok",)]


step = st.one_of(
    st.tuples(st.just("say"), st.sampled_from("abc"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["flush", "restart", "crash"]), st.just(""), st.just(0)),
    st.tuples(st.sampled_from(["end", "release", "forget"]), st.sampled_from("abc"), st.just(0)),
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(step, max_size=25), keep_s=st.sampled_from([0, 3600]))
def test_whatever_happens_a_room_has_what_was_written_and_nothing_else(
    steps: list[tuple[str, str, int]], keep_s: float
) -> None:
    """``said``: all of a living room; ``sure``: how many of these must survive."""

    async def main(disk: Disk) -> None:
        said: dict[str, list[str]] = {}
        sure: dict[str, int] = {}
        store = disk.store()
        await store.open()

        def settle() -> None:
            sure.update({room: len(said[room]) for room in store._rooms})

        for count, (what, room, times) in enumerate(steps):
            match what:
                case "say":
                    log = (await store.claim(room)).log
                    found = texts(log)
                    known = said.setdefault(room, [])
                    assert len(found) >= sure.setdefault(room, 0)
                    assert found == known[: len(found)]
                    disk.say(log, f"{room} {count}", times)
                    said[room] = found + [f"{room} {count}"] * times
                case "flush":
                    await store.flush()
                    settle()
                case "restart":
                    settle()
                    await store.close()
                case "crash":
                    await crash(store)
                case "release":
                    settle()
                    store.release(room)
                    await store.flush()
                case "end":
                    settle()
                    if room in store._rooms:
                        said.pop(room)
                        sure.pop(room)
                    store.end(room)
                    await store.flush()
                case "forget":
                    assert await store.forget(room) >= (sure.get(room, 0) > 0)
                    said.pop(room, None)
                    sure.pop(room, None)
                    assert await store.load(room) is None
            if what in ("restart", "crash"):
                store = disk.store()
                await store.open()
        await store.close()
        assert store.lost == 0

    with tempfile.TemporaryDirectory() as folder:
        run(main(Disk(Path(folder), keep_s=keep_s)))


# --- what is kept, and what goes ------------------------------------------------------------------


def test_a_private_room_is_never_written(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("~1f2e3d")).log
            disk.say(log, SECRET)
            store.end("~1f2e3d")
            await store.flush()
            assert (store.behind, await store.names()) == (0, [])
        assert not disk.has(SECRET) and not disk.has("1f2e3d")

    run(main())


def test_a_room_that_ends_is_deleted_and_its_bytes_too(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("zork")).log, SECRET, times=50)
            disk.say((await store.claim("other")).log, times=50)
            await store.flush()
            assert disk.has(SECRET)
            store.end("zork")
            assert await store.names() == ["other"]
            assert await store.load("zork") is None
            await store.flush()
            assert not disk.has(SECRET) and not disk.has("zork")
            assert len((await store.claim("zork")).log) == 0

    run(main())


def test_a_room_that_ends_before_it_was_written_leaves_nothing(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, SECRET)
            store.end("meeting")
            disk.say((await store.claim("meeting")).log, "afresh")
        assert not disk.has(SECRET)
        async with disk.open() as store:
            assert texts((await store.claim("meeting")).log) == ["afresh"]

    run(main())


def test_forgotten_text_is_gone_from_every_page_that_ever_held_it(disk: Disk) -> None:
    """Rows of all lengths, so that pages are split, merged, overflow and are used again."""
    disk.limits = Limits(log=60)

    async def main() -> None:
        async with disk.open() as store:
            for turn in range(6):
                for room in range(12):
                    log = (await store.claim(f"room{room}of{turn % 3}")).log
                    for length in range(1, 80, 3):
                        mark = f"mark{room}of{turn % 3}end"
                        disk.say(log, mark + "y" * (length * (room + 1)) + mark)
                    await store.flush()
                for room in range(0, 12, 2):
                    assert await store.forget(f"room{room}of{turn % 3}")
                    assert not disk.has(f"mark{room}of{turn % 3}end")
                    assert not disk.has(f"room{room}of{turn % 3}")
            assert disk.has("mark1of0end")

    run(main())


def test_a_room_is_forgotten_with_all_its_histories_and_the_answer_says_whether_there_were_any(
    disk: Disk,
) -> None:
    disk.keep_s = 3600

    async def main() -> None:
        async with disk.open() as store:
            for _ in range(2):
                disk.say((await store.claim("meeting")).log, SECRET)
                store.end("meeting")
            disk.say((await store.claim("meeting")).log, SECRET)
            await store.flush()
            assert disk.sql("SELECT count(*) FROM rooms") == [(3,)]
            assert await store.forget("meeting")
            assert not await store.forget("meeting")
            assert not disk.has(SECRET)
            assert await store.names() == []
        assert disk.sql("SELECT count(*) FROM rooms") == [(0,)]

    run(main())


def test_a_room_that_is_forgotten_is_written_no_more(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            disk.say(log, SECRET)
            assert await store.forget("meeting")
            disk.say(log, SECRET)
            await store.flush()
            assert store.behind == 0
        assert not disk.has(SECRET)

    run(main())


def test_what_is_retracted_is_taken_out_of_the_file_too(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            disk.say(log, SECRET)
            disk.say(log, "stays")
            await store.flush()
            assert disk.has(SECRET)
            disk.say(log, SECRET)
            for ord in (1, 3):
                log.erase(ord)
                log.append(Retracted(seq=log.next(), id=f"u{ord}", ord=ord), disk.time.clock())
            await store.flush()
            assert not disk.has(SECRET)
        async with disk.open() as store:
            restored = (await store.claim("meeting")).log
            assert restored.entries() == log.entries()
            assert texts(restored) == ["", "stays", ""]

    run(main())


def test_an_ended_room_is_kept_for_as_long_as_is_asked_and_read_but_not_continued(
    disk: Disk,
) -> None:
    disk.keep_s = 3600

    async def main() -> None:
        async with disk.open() as store:
            old = await store.claim("meeting")
            disk.say(old.log)
            store.end("meeting")
            loaded = await store.load("meeting")
            assert loaded is not None and loaded.log is old.log
            await store.flush()
            loaded = await store.load("meeting")
            assert loaded is not None and loaded.log.entries() == old.log.entries()
            new = await store.claim("meeting")
            assert new.log.epoch != old.log.epoch and len(new.log) == 0
            store.end("meeting")
            assert await store.names() == ["meeting"]
            disk.time.wall += 3601
            assert await store.load("meeting") is not None  # not written yet, so not ended
            await store.flush()
            disk.time.wall += 3601
            assert await store.load("meeting") is None
            await store.flush()
        assert disk.sql("SELECT count(*) FROM rooms") == [(0,)]

    run(main())


@pytest.mark.parametrize("clean", [True, False])
def test_after_a_restart_a_room_ends_its_time_to_live_after_it_was_last_seen(
    disk: Disk, clean: bool
) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, SECRET)
            await store.flush()
            disk.time.wall += disk.limits.room_s + 1
            await store.flush()  # a pause in a meeting is no end of it
            await (store.close() if clean else crash(store))
        disk.time.wall += disk.limits.room_s - 1
        async with disk.open() as store:
            assert await store.names() == ["meeting"]
            disk.time.wall += 2
            assert len((await store.claim("meeting")).log) == 0
            await store.flush()
        async with disk.open() as store:
            assert await store.names() == ["meeting"]  # the new one
        assert not disk.has(SECRET)
        disk.time.wall += disk.limits.room_s + 1
        async with disk.open() as store:
            assert await store.names() == []

    run(main())


def test_text_is_wiped_later_where_somebody_reads_the_file(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FORGET_S", 0)
    monkeypatch.setattr(database, "BUSY_S", 0)

    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, SECRET)
            await store.flush()
            with contextlib.closing(sqlite3.connect(disk.path)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT * FROM rooms").fetchall()
                with pytest.raises(StoreFault, match="reading"):
                    await store.forget("meeting")
                await store.flush()
            disk.time.wall += SWEEP_S
            await store.flush()
            assert not disk.has(SECRET)

    run(main())


def test_to_forget_waits_for_whoever_reads_the_file(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0)
    monkeypatch.setattr(module, "POLL_S", 0)

    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, SECRET)
            await store.flush()
            with contextlib.closing(sqlite3.connect(disk.path)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT * FROM rooms").fetchall()
                forgetting = asyncio.create_task(store.forget("meeting"))
                await until(lambda: disk.sql("SELECT count(*) FROM rooms") == [(0,)])
                assert not forgetting.done()
            assert await forgetting
            assert not disk.has(SECRET)

    run(main())


def test_nothing_is_said_in_the_log_of_what_is_written(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, SECRET)

    with caplog.at_level(logging.DEBUG):
        run(main())
    assert SECRET not in caplog.text


# --- several processes ----------------------------------------------------------------------------


def test_a_room_passes_from_one_process_to_the_next_with_all_that_was_decided(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as old, disk.open() as new:
            before = await old.claim("meeting")
            disk.say(before.log)
            claim = asyncio.create_task(new.claim("meeting"))
            disk.say((await new.claim("other")).log)  # is not held up
            disk.say(before.log, "the last caption")
            assert not claim.done()
            old.release("meeting")
            after = await claim
            assert (after.log.epoch, after.before) == (before.log.epoch, None)
            assert texts(after.log) == ["good morning", "the last caption"]

    run(main())


def test_closing_releases_everything(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as new:
            old = disk.store()
            await old.open()
            for name in "abc":
                disk.say((await old.claim(name)).log)
            claims = [asyncio.create_task(new.claim(name)) for name in "abc"]
            await old.close()
            for claim in claims:
                assert texts((await claim).log) == ["good morning"]

    run(main())


def test_a_room_that_is_not_released_is_busy(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDOVER_S", 0)

    async def main() -> None:
        async with disk.open() as one, disk.open() as two:
            log = (await one.claim("meeting")).log
            disk.say(log)
            with pytest.raises(ClientFault) as refused:
                await two.claim("meeting")
            assert refused.value.code is ErrorCode.BUSY
            await one.flush()
            disk.time.wall += disk.limits.room_s + 1
            await two.flush()  # it looks for rooms that have ended; this one's process lives
            loaded = await two.load("meeting")
            assert loaded is not None and loaded.log.entries() == log.entries()

    run(main())


def test_another_process_can_forget_a_room(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with disk.open() as one, disk.open() as two:
            log = (await one.claim("meeting")).log
            other = (await one.claim("other")).log
            disk.say(log, SECRET)
            await one.flush()
            assert await two.forget("meeting")
            disk.say(log, SECRET)
            disk.say(other)
            await one.flush()
            assert one.behind == 0
            assert await two.names() == ["other"]
        assert "forgotten" in caplog.text
        assert not disk.has(SECRET)
        assert disk.sql("SELECT count(*) FROM events") == [(1,)]

    run(main())


def test_what_a_dead_process_left_is_cleared_away(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.path.with_name(f"rooms.db-owner-{'0' * 16}").touch()
            await crash(store)
        async with disk.open():
            assert len(list(disk.path.parent.glob("*-owner-*"))) == 1
        assert os.listdir(disk.path.parent) == ["rooms.db"]

    run(main())


TAKE_TURNS = """
import asyncio, sys, time
from pathlib import Path
from gateway import database
from gateway import sqlite as module
from gateway.limits import Limits
from gateway.messages import Source

module.POLL_S = 0.001

async def main(path, who, turns):
    store = module.SqliteStore(Path(path), Limits())
    await store.open()
    for turn in range(int(turns)):
        for name in ("shared", who):
            log = (await store.claim(name)).log
            seq = log.next()
            event = Source(seq=seq, id=f"{who}-{turn}", rev=1, ord=seq, lang="en", text=who)
            log.append(event, time.monotonic())
        store.release("shared")
        await store.flush()
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_that_share_a_file_neither_lose_nor_overwrite_anything(disk: Disk) -> None:
    turns = 30
    processes = [
        subprocess.Popen([sys.executable, "-c", TAKE_TURNS, str(disk.path), who, str(turns)])
        for who in "abc"
    ]
    assert [process.wait(50) for process in processes] == [0, 0, 0]

    disk.time.wall = time.time()

    async def said(store: SqliteStore, room: str) -> list[str]:
        events = (await store.claim(room)).log.since(0)
        assert events is not None
        return [event.id for event in events if isinstance(event, Source)]

    async def main() -> None:
        async with disk.open() as store:
            shared = await said(store, "shared")
            assert len(shared) == 3 * turns
            for who in "abc":
                own = [f"{who}-{turn}" for turn in range(turns)]
                assert [id for id in shared if id.startswith(who)] == own
                assert await said(store, who) == own

    run(main())
    assert disk.sql("PRAGMA integrity_check") == [("ok",)]


def test_a_caller_who_goes_away_leaves_no_half_a_claim(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            for turn in range(30):
                caller = asyncio.create_task(store.claim(f"room {turn}"))
                for _ in range(turn % 7):
                    await asyncio.sleep(0)
                caller.cancel()
                await asyncio.wait([caller])
            await store.flush()
            for turn in range(30):
                disk.say((await store.claim(f"room {turn}")).log)
        assert disk.sql("SELECT count(*) FROM rooms") == [(30,)]
        assert disk.sql("SELECT count(*) FROM events") == [(30,)]

    run(main())


# --- a disk that fails ----------------------------------------------------------------------------


def test_while_the_file_is_locked_rooms_live_on_and_the_log_says_what_to_do_once(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.001)
    for name in ("RETRY_S", "POLL_S", "FLUSH_S"):
        monkeypatch.setattr(module, name, 0.001)

    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            with contextlib.closing(sqlite3.connect(disk.path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                disk.say(log, SECRET, times=3)
                for _ in range(3):
                    with pytest.raises(StoreFault, match="locked"):
                        await store.flush()
                await until(lambda: "locked" in caplog.text)
                claim = asyncio.create_task(store.claim("new"))
                while not claim.done():
                    disk.time.wall += 1
                    await asyncio.wait({claim}, timeout=0.01)
                disk.say(claim.result().log)
                assert store.behind == 4
                assert (await store.names()) == ["meeting", "new"]
                with pytest.raises(StoreFault, match="locked"):
                    await store.forget("new")
            await until(lambda: "written again" in caplog.text)
            await until(lambda: store.behind == 0)
        assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 1
        assert "Another program has locked the file: end it." in caplog.text
        assert SECRET not in caplog.text
        assert disk.sql("SELECT name FROM rooms") == [("meeting",)]

    run(main())


def test_what_a_log_drops_before_it_is_written_is_counted_and_told(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk.limits = Limits(log=10)
    monkeypatch.setattr(database, "BUSY_S", 0)

    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            disk.say(log, times=4)
            await store.flush()
            disk.say(log, times=16)
            assert store.behind == 16
            await store.flush()
            assert (store.behind, store.lost) == (0, 6)
            assert "6 events were not written" in caplog.text
            metrics = Metrics()
            metrics.keep(store)
            shown = metrics.expose().decode()
            assert "\ngateway_store_behind 0.0\n" in shown
            assert "\ngateway_store_lost_total 6.0\n" in shown
        async with disk.open() as store:
            assert (await store.claim("meeting")).log.entries() == log.entries()

    run(main())


def test_when_the_disk_is_full_rooms_live_on_and_are_written_when_there_is_room(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            await store._file.db.execute_fetchall("PRAGMA max_page_count = 10")
            disk.say(log, "x" * 1000, times=100)
            with pytest.raises(StoreFault) as fault:
                await store.flush()
            assert fault.value.hint == "The disk is full: make room on it."
            assert store.behind == 100
            disk.say((await store.claim("new")).log)
            await store._file.db.execute_fetchall("PRAGMA max_page_count = 1000000")
            await store.flush()
            assert (store.behind, store.lost) == (0, 0)
        async with disk.open() as store:
            assert (await store.claim("meeting")).log.entries() == log.entries()
            assert len((await store.claim("new")).log) == 1

    run(main())


def test_a_disk_that_hangs_holds_up_neither_a_room_nor_the_end_for_long(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 0.001)
    monkeypatch.setattr(database, "BUSY_S", 1)

    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            with contextlib.closing(sqlite3.connect(disk.path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")  # BUSY_S is longer than the patience of all
                for name in ("CLAIM_S", "CLOSE_S", "COMPLAIN_S"):
                    monkeypatch.setattr(module, name, 0.01)
                monkeypatch.setattr(database, "CLOSE_S", 0.01)
                disk.say(log, times=3)
                disk.say((await store.claim("new")).log)
                await until(lambda: "does not answer" in caplog.text)
                await store.close()
            assert store.lost == 4
            assert "4 events are not written" in caplog.text
            await until(lambda: not any("worker" in one.name for one in threading.enumerate()))

    run(main())
    assert disk.sql("SELECT count(*) FROM events") == [(0,)]


def test_the_end_waits_for_a_lock_that_passes(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0)
    monkeypatch.setattr(module, "POLL_S", 0.001)

    async def main() -> None:
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            with contextlib.closing(sqlite3.connect(disk.path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                disk.say(log)
                closing = asyncio.create_task(store.close())
                await until(lambda: "locked" in caplog.text)
            await closing
            assert store.lost == 0
        assert disk.sql("SELECT count(*) FROM events") == [(1,)]

    run(main())


def test_rooms_that_left_while_the_disk_fails_are_bounded(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.limits = Limits(rooms=2)

    async def main() -> None:
        async with disk.open() as store:
            logs = {name: (await store.claim(name)).log for name in "abcd"}
            for name, log in logs.items():
                disk.say(log, times=5)
                store.release(name)
            assert (store.behind, store.lost) == (10, 10)
        assert "5 events were not written" in caplog.text
        assert disk.sql("SELECT count(*) FROM events") == [(10,)]

    run(main())


def test_a_fault_of_the_gateway_is_logged_and_writing_goes_on(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 0)

    class Moody(SqliteStore):
        asked = 0

        async def _work(self) -> None:
            self.asked += 1
            if self.asked == 1:
                raise ValueError("a bug")
            await super()._work()

    async def main() -> None:
        store = Moody(disk.path, Limits())
        await store.open()
        await until(lambda: store.asked >= 3)
        assert "a bug" in caplog.text
        await store.close()

    run(main())


# --- a file that is not as it should be -----------------------------------------------------------


async def refusal(disk: Disk) -> StoreFault:
    with pytest.raises(StoreFault) as refused:
        async with disk.open():
            pass
    assert str(disk.path) in str(refused.value)
    assert not list(disk.path.parent.glob("*-owner-*"))
    return refused.value


def test_a_file_that_is_no_database_is_refused_by_name(disk: Disk) -> None:
    disk.path.write_bytes(b"minutes of the meeting\n" * 1000)

    async def main() -> None:
        assert "Move it away" in str((await refusal(disk)).hint)

    run(main())
    assert disk.path.read_bytes().startswith(b"minutes")


@pytest.mark.parametrize("at", [100, 4096, 20_480])
def test_a_damaged_file_is_refused_by_name(disk: Disk, at: int) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, times=500)
        with disk.path.open("r+b") as file:
            file.seek(at)
            file.write(b"\xff" * 3000)
        assert "Move it away" in str((await refusal(disk)).hint)

    run(main())


def test_damage_that_is_found_late_costs_the_room_its_history_and_nothing_else(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "CHECK_BYTES", 0)  # as if the file were large

    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, times=500)
        with disk.path.open("r+b") as file:
            file.seek(20_480)
            file.write(b"\xff" * 30_000)
        async with disk.open() as store:
            with pytest.raises(StoreFault) as fault:
                await store.load("meeting")
            assert "Move it away" in str(fault.value.hint)
            assert len((await store.claim("meeting")).log) == 0
            assert "Move it away" in caplog.text

    run(main())


def test_another_programs_database_is_refused_and_left_alone(disk: Disk) -> None:
    disk.sql("CREATE TABLE invoices (id)")

    async def main() -> None:
        assert "another program's" in str(await refusal(disk))

    run(main())
    assert disk.sql("SELECT name FROM sqlite_master") == [("invoices",)]
    assert disk.sql("PRAGMA journal_mode") == [("delete",)]


def test_a_schema_of_a_newer_gateway_is_refused(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open():
            pass
        disk.sql("PRAGMA user_version = 9")
        assert "it has schema 9, and this one knows 2" in str(await refusal(disk))

    run(main())


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        assert "No such file or directory" in str(await refusal(Disk(tmp_path / "nowhere")))

    run(main())


def test_an_older_schema_is_brought_up_to_date_keeping_what_is_in_it(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log)
        later = (*tables.MIGRATIONS, ("ALTER TABLE rooms ADD COLUMN colour TEXT",))
        monkeypatch.setattr(tables, "MIGRATIONS", later)
        async with disk.open() as store:
            assert texts((await store.claim("meeting")).log) == ["good morning"]
        assert disk.sql("SELECT colour FROM rooms") == [(None,)]
        assert disk.sql("PRAGMA user_version") == [(3,)]

    run(main())


def test_an_old_sqlite_is_told(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))

    async def main() -> None:
        with pytest.raises(StoreFault, match="3.37"):
            await disk.store().open()

    run(main())


def test_events_of_a_newer_gateway_with_fields_unknown_here_are_read(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log)
        disk.sql("UPDATE events SET body = json_set(body, '$.mood', 'glad')")
        async with disk.open() as store:
            assert texts((await store.claim("meeting")).log) == ["good morning"]

    run(main())


@pytest.mark.parametrize(
    ("body", "left"),
    [(json.dumps({"type": "sung", "seq": 3}), 2), ("3", 2), (None, 2)],
)
def test_a_log_reaches_back_to_the_event_that_cannot_be_read_or_is_missing(
    disk: Disk, caplog: pytest.LogCaptureFixture, body: str | None, left: int
) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, times=5)
        if body is None:
            disk.sql("DELETE FROM events WHERE seq = 3")
        else:
            disk.sql("UPDATE events SET body = ? WHERE seq = 3", body)
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            assert [entry.event.seq for entry in log.entries()] == [4, 5]
            assert log.since(2) is None
            assert "of a room cannot be restored" in caplog.text

    run(main())


def test_numbers_go_on_even_where_the_last_event_cannot_be_read(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            disk.say((await store.claim("meeting")).log, times=5)
        disk.sql("UPDATE events SET body = '{}' WHERE seq = 5")
        disk.sql("UPDATE rooms SET settings = '{}'")
        async with disk.open() as store:
            history = await store.claim("meeting")
            assert (history.log.seq, len(history.log), history.settings) == (5, 0, None)
            assert (history.log.since(5), history.log.since(4)) == ([], None)
            disk.say(history.log)
        async with disk.open() as store:
            log = (await store.claim("meeting")).log
            assert isinstance(log.entries()[0], Entry)
            assert [entry.event.seq for entry in log.entries()] == [6]

    run(main())


def test_a_store_that_is_closed_says_so_and_can_be_closed_again(disk: Disk) -> None:
    async def main() -> None:
        async with disk.open() as store:
            await store.close()
            with pytest.raises(StoreFault, match="closed"):
                await store.load("meeting")
        assert repr(store) == f"<SqliteStore {disk.path}, 0 rooms, 0 behind>"

    run(main())
