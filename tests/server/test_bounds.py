"""The bounds on memory and on the store's file hold for meetings in scripts beyond ASCII."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path
from sys import getsizeof

import pytest

from gateway.core.room.room import Room
from gateway.core.session.connect_request import ConnectRequest
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.server.runtime.fleet import Fleet
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost
from gateway.storage.sqlite.store import SqliteStore
from tests.properties.test_memory import LOG_BYTES, taken
from tests.support.live import until

SENTENCES = {
    "German": "Schöne Grüße aus Köln, wir müssen über die Größe der Räume reden. ",
    "Chinese": "我们今天讨论会议室的大小和下个月的预算安排。",
    "Arabic": "نناقش اليوم حجم قاعات الاجتماعات وميزانية الشهر القادم. ",
    "emoji": "😀🎉🚀 👍🏽🌍 😂🔥 ",
}
ROOMS = 3
BOUND = 50_000
"""Most bytes of one room's log. A meeting of the test makes ten to forty times as many."""
FILE = 65_536
"""Bytes of the store's file besides the events: its tables, and pages that are not full."""
ROUNDS = 60


@pytest.mark.parametrize("script", SENTENCES)
async def test_long_meetings_stay_within_the_bounds_on_memory_and_on_the_file(
    script: str, tmp_path: Path
) -> None:
    limits = Limits(log_bytes=BOUND, memory_bytes=2 * BOUND, rate=1e6, burst=10**6)
    text = (SENTENCES[script] * 100)[:1_900]

    engine = ScriptedEngine()
    await engine.start()
    store = SqliteStore(tmp_path / "rooms.db", limits)
    await store.open()
    hub = Hub(host := RoomHost(engine, limits), Fleet(host, store))
    sessions = []
    for n in range(ROOMS):
        await hub.fetch(f"room{n}")
        sessions.append(hub.open(ConnectRequest(room=f"room{n}", targets=("de",), view="final")))
    remembered = 0
    for n in range(ROUNDS):
        for session in sessions:
            said = {"type": "say", "text": f"{n} {text}", "speaker": f"{text[:90]} {n}"}
            hub.receive(session, json.dumps(said))
        await until(lambda: not any(session.member.in_flight.utterances for session in sessions))
        for session in sessions:
            session.outbox.take()
            assert isinstance(session.room, Room)
            log, utterances = session.room.log, session.room.utterances
            assert log.bytes <= BOUND
            assert taken(log) <= BOUND + LOG_BYTES
            texts = {id(one.text): one.text for one in utterances.by_id.values()}
            assert sum(map(getsizeof, texts.values())) <= BOUND
            remembered = max(remembered, len(utterances))
        if n % 10 == 9:
            await store.flush()
            hub.sweep()
            logs = sum(taken(session.room.log) for session in sessions)
            assert logs <= limits.memory_bytes + ROOMS * LOG_BYTES
            # New events are written before those that the log has dropped are deleted.
            assert store.path.stat().st_size <= 2 * ROOMS * BOUND + FILE
    assert 1 < remembered < ROUNDS / 2
    for session in sessions:
        hub.close(session)
    await store.close()


@pytest.mark.parametrize(("script", "length"), [("German", 60), ("Chinese", 60), ("emoji", 1_900)])
async def test_the_account_is_within_a_tenth_of_the_memory_that_rooms_take(
    script: str, length: int
) -> None:
    limits = Limits(memory_bytes=4 * 2**20, rate=1e6, burst=10**6)
    text = (SENTENCES[script] * 100)[:length]
    engine = ScriptedEngine(pace=0.0)
    await engine.start()
    hub = Hub(RoomHost(engine, limits))
    request = ConnectRequest(room="meeting", targets=("de", "fr", "es"), view="final")
    session = hub.open(request)
    room = session.room
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        n = 0
        while room.log.oldest == 1 or n % 50:
            hub.receive(session, json.dumps({"type": "say", "text": f"{n} {text}"}))
            await until(lambda: not session.member.in_flight.utterances)
            session.outbox.take()
            n += 1
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.9 < held / hub.fleet.space.bytes < 1.1
    assert 0.9 < hub.fleet.space.bytes / limits.memory_bytes < 1.05
    hub.close(session)
