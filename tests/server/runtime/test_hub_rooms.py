"""Rooms that a gateway keeps, and rooms that it evicts if there are too many."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gateway.core.history.event_log import AUTHOR_BYTES, cost
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.session import Session
from gateway.core.utterances.collection import UTTERANCE_BYTES
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.protocol.messages import Cancelled, Source
from gateway.server.routes.oneshot import OneShot, OneShotRequest, read
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost
from tests.support.live import until


def hub(**limits: Any) -> Hub:
    return Hub(RoomHost(ScriptedEngine(), Limits(**limits)))


def come(made: Hub, room: str | None, *texts: str) -> Session:
    """Connect a client and let it send texts that nobody reads."""
    session = made.open(ConnectRequest(room=room))
    for text in texts:
        made.receive(session, json.dumps({"type": "say", "text": text}))
    return session


def go(made: Hub, session: Session) -> None:
    made.leave(session, lost=True)
    made.close(session)


async def test_a_room_is_kept_for_a_time_after_its_last_socket_was_lost() -> None:
    now = [1000.0]
    made = Hub(RoomHost(ScriptedEngine(), Limits(room_s=60.0), clock=lambda: now[0]))
    for name in ("a", None):
        go(made, come(made, name, "one"))
    now[0] += 60.0
    made.sweep()
    assert len(made.rooms) == 2
    now[0] += 1.0
    made.sweep()
    assert not made.rooms


async def test_a_private_room_ends_when_its_client_leaves_or_if_it_is_empty() -> None:
    made = hub()
    go(made, come(made, None))
    assert not made.rooms
    session = come(made, None, "one")
    made.leave(session)
    assert not made.rooms


async def test_over_the_limit_private_rooms_are_evicted_first_then_the_longest_empty() -> None:
    made = hub(rooms=3)
    for name in ("a", "b", None):
        go(made, come(made, name, "one"))
    come(made, "c")
    assert list(made.rooms) == ["a", "b", "c"]
    come(made, "d")
    assert list(made.rooms) == ["b", "c", "d"]


async def test_over_the_memory_limit_empty_rooms_are_evicted_before_logs_are_cut() -> None:
    said = Source(seq=1, id="u1", rev=1, ord=1, lang="en", text="one")
    made = hub(memory_bytes=20 * (cost(said) + AUTHOR_BYTES + UTTERANCE_BYTES))
    for name in ("a", "b", None):
        go(made, come(made, name, *["one"] * 8))
    made.sweep()
    assert list(made.rooms) == ["a", "b"]
    stay = [come(made, name, *["one"] * 40) for name in ("b", "c")]
    go(made, come(made, "d", "one"))
    made.sweep()
    assert list(made.rooms) == ["b", "c"]
    assert made.fleet.space.bytes <= made.limits.memory_bytes
    for session in stay:
        assert len(session.room.log) >= 5 and session.room.log.oldest > 1


async def test_the_memory_limit_holds_while_rooms_grow_between_two_sweeps() -> None:
    made = hub(memory_bytes=400_000, rate=1e6, burst=10**6)
    stay = [come(made, name) for name in ("a", "b")]
    for n in range(400):
        for session in stay:
            made.receive(session, f"{n} " + "one " * 100)
        await asyncio.sleep(0)
        assert made.fleet.space.bytes <= 1.05 * made.limits.memory_bytes
    assert made.fleet.space.bytes >= 0.9 * made.limits.memory_bytes


async def test_rooms_that_have_nothing_to_give_are_left_as_they_are() -> None:
    made = hub(memory_bytes=1)
    session = come(made, "a", "one")
    made.receive(session, '{"type":"say","id":"x","text":"two","final":false}')
    made.sweep()
    assert len(session.room.log) == 0 and list(made.rooms) == ["a"]


async def test_a_request_over_http_has_no_token_and_leaves_no_room() -> None:
    made = hub()
    await made.engine.start()
    asked = OneShotRequest(("good morning",), "en", "de")
    shot = OneShot(made, asked, await read(made, asked))
    assert not made.resumed
    (room,) = made.rooms.values()
    assert room.temporary
    assert [final.text for final in await shot.finals()] == ["[de] good morning"]
    assert not made.rooms


async def test_speakers_who_are_away_during_a_drain_get_their_captions() -> None:
    engine = ScriptedEngine()
    await engine.start()
    engine.hold()
    made = Hub(RoomHost(engine, Limits()))
    rooms = []
    for name in ("before", "after"):
        session = made.open(ConnectRequest(room=name, targets=("de",)))
        for id, final in (("said", True), ("growing", False)):
            say = {"type": "say", "id": id, "text": "so we met", "final": final}
            made.receive(session, json.dumps(say))
        rooms.append(session.room)
        if name == "before":
            go(made, session)
    await until(lambda: engine.unfinished == 2)
    draining = asyncio.create_task(made.drain(5.0))
    await until(made.stopping)
    go(made, session)
    for room in rooms:
        events = [entry.event for entry in room.log.entries()]
        assert [type(event) for event in events] == [Source, Cancelled]
        assert getattr(events[1], "id", None) == "growing"
    engine.release()
    await draining
    for room in rooms:
        assert [entry.event.__struct_config__.tag for entry in room.log.entries()][2:] == ["final"]


async def test_the_newest_alarm_of_a_room_replaces_the_earlier_one() -> None:
    hub = Hub(RoomHost(ScriptedEngine(), Limits()))
    hub.host.set_alarm("gone", hub.now() + 3600)
    earlier = hub.host._alarms["gone"]
    hub.host.set_alarm("gone", hub.now() - 1)  # a time in the past rings in the next turn
    assert earlier.cancelled()
    await until(lambda: not hub.host._alarms)
