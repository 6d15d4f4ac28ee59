"""Rooms in a file after the process was killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.history.event_log import StreamPosition
from gateway.protocol.messages import Source
from tests.support.disk import Disk, crash, texts

ROOT = Path(__file__).resolve().parents[3]


async def test_after_a_crash_the_room_has_a_new_epoch_with_the_written_events(
    disk: Disk,
) -> None:
    async with disk.open() as store:
        first = await store.claim("meeting")
        disk.say(first, "written", times=3)
        await store.flush()
        disk.say(first, "seen by readers, and lost", times=2)
        await crash(store)
    async with disk.open() as store:
        second = await store.claim("meeting")
        assert texts(second) == ["written"] * 3
        assert second.seq == 3
        assert second.epoch != first.epoch
        assert second.before == StreamPosition(first.epoch, 3)
    async with disk.open() as store:
        third = await store.claim("meeting")
        assert (third.epoch, third.before) == (second.epoch, second.before)


WRITE = """
import asyncio, itertools, sys, time
from pathlib import Path
from gateway.limits import Limits
from gateway.protocol.messages import Source
from gateway.storage.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(Path(sys.argv[1]), Limits())
    await store.open()
    logs = [await store.claim(f"room {n}") for n in range(5)]
    for turn in itertools.count():
        for log in logs:
            seq = log.seq + 1
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
def test_kill_9_while_writing_loses_no_written_event(disk: Disk, reports: int) -> None:
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
                log = await store.claim(f"room {n}")
                events = log.since(0)
                assert events is not None and log.seq >= written
                for number, event in enumerate(events, start=1):
                    assert isinstance(event, Source)
                    assert event.text.startswith(f"{number} ")

    asyncio.run(main())
    assert disk.sql("PRAGMA integrity_check") == [("ok",)]


step = st.one_of(
    st.tuples(st.just("say"), st.sampled_from("abc"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["flush", "restart", "crash"]), st.just(""), st.just(0)),
    st.tuples(st.sampled_from(["end", "release", "forget"]), st.sampled_from("abc"), st.just(0)),
)


@settings(max_examples=40)
@given(steps=st.lists(step, max_size=25), keep_s=st.sampled_from([0, 3600]))
async def test_after_any_sequence_of_faults_a_room_has_exactly_the_written_events(
    steps: list[tuple[str, str, int]], keep_s: float
) -> None:
    """``said`` has all events of an open room, ``sure`` the number of them that must survive."""
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder), keep_s=keep_s)
        said: dict[str, list[str]] = {}
        sure: dict[str, int] = {}
        store = disk.store()
        await store.open()

        def settle() -> None:
            sure.update({room: len(said[room]) for room in store._pending.living})

        for count, (what, room, times) in enumerate(steps):
            match what:
                case "say":
                    log = await store.claim(room)
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
                    if room in store._pending.living:
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
