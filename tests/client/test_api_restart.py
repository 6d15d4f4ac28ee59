"""Reconnecting to another process of the gateway."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.client import Captions, Disconnected, NotTranslated, Refused, connect
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.protocol.messages import Cancelled, Welcome
from gateway.storage.sqlite.store import SqliteStore
from tests.support.live import Live, running, until
from tests.support.proxy import Proxy, behind
from tests.support.returning import Notes, decided, reader, texts

pytestmark = pytest.mark.usefixtures("impatient")


def place(live: Live) -> tuple[str, int]:
    return "127.0.0.1", int(live.ws.rpartition(":")[2])


def move(proxy: Proxy, live: Live) -> None:
    """Route new connections to another gateway."""
    proxy.target = place(live)


async def test_before_a_planned_restart_the_next_socket_is_opened_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine()
    old, new = (SqliteStore(tmp_path / "rooms.db", Limits()) for _ in range(2))
    notes = Notes()
    async with (
        running(engine, store=old, drain_s=20.0) as first,
        running(ScriptedEngine(), store=new) as second,
        behind(first) as (proxy, bad),
        reader(bad.ws, room="r", to=("de", "fr"), notice=notes.append) as events,
        connect(bad.ws, room="r", source="en", to=("de",), notice=notes.append) as client,
    ):
        session = client.welcome.session
        await client.caption(await client.say("before"), "de")
        engine.hold()
        during = await client.say("during it")
        await until(lambda: engine.unfinished == 2)
        move(proxy, second)
        first.server.should_exit = True
        await until(lambda: client._tracker.connection.draining)
        after = asyncio.create_task(client.say("after"))
        await until(lambda: proxy.count == 4)  # both have a second socket now
        assert not after.done()
        engine.release()
        assert (await client.caption(during, "de")).text == "[de] during it"
        assert (await client.caption(await after, "de")).text == "[de] after"
        assert client.welcome.session == session
        await until(lambda: len(texts(events)) == 6)
        log = second.hub.rooms["r"].log
        assert decided(events) == log.since(0)
        assert notes.resumed == [True, True]
        assert not any(isinstance(note, Disconnected) for note in notes)
        assert not any(isinstance(event, Cancelled) for event in events)


async def test_without_a_store_captions_in_flight_end_on_the_old_socket_first() -> None:
    engine = ScriptedEngine()
    engine.hold()
    notes = Notes()
    async with (
        running(engine, drain_s=20.0) as first,
        running() as second,
        behind(first) as (proxy, bad),
        connect(bad.ws, room="r", source="en", to=("de",), notice=notes.append) as client,
    ):
        id = await client.say("hello")
        move(proxy, second)
        first.server.should_exit = True
        await until(lambda: proxy.count == 2)
        engine.release()
        assert (await client.caption(id, "de")).text == "[de] hello"
        new = await client.say("again")
        assert (await client.caption(new, "de")).text == "[de] again"
        assert notes.resumed == [False]
        assert len(second.hub.rooms["r"].utterances.by_id) == 1


async def test_after_a_crash_undecided_utterances_are_repeated() -> None:
    engine = ScriptedEngine()
    engine.hold()
    notes = Notes()
    async with (
        running(engine) as first,
        running() as second,
        behind(first) as (proxy, bad),
        connect(bad.ws, room="r", source="en", to=("de",), notice=notes.append) as client,
    ):
        decided = await client.say("decided")  # its original is, its captions are not
        growing = await client.say("it grows", final=False)
        waiting = [asyncio.create_task(client.caption(id, "de")) for id in (decided, growing)]
        captions = Captions()
        await until(lambda: len(client._tracker.pending.all_frames()) == 1)
        move(proxy, second)
        proxy.cut()
        with pytest.raises(NotTranslated, match="outcome is unknown") as caught:
            await waiting[0]
        assert isinstance(caught.value.event, Welcome)
        await client.say("it grows no more", id=growing)
        assert (await waiting[1]).text == "[de] it grows no more"
        assert notes.resumed == [False]
        await client.bye()
        async for event in client:
            captions.fold(event)
        assert captions[growing, "de"].state == "final"


async def test_a_repeated_utterance_is_retried_while_the_gateway_is_busy() -> None:
    first_engine, second_engine = ScriptedEngine(), ScriptedEngine(capacity=1)
    first_engine.hold()
    second_engine.hold()
    async with (
        running(first_engine) as first,
        running(second_engine, Limits(queue=1)) as second,
        behind(first) as (proxy, bad),
        connect(second.ws, room="x", source="en", to=("de",)) as rival,
        connect(bad.ws, room="r", source="en", to=("de",)) as client,
    ):
        id = await client.say("it grows", final=False)
        for n in range(2):  # one runs, one waits
            await rival.say(f"line {n}")
        move(proxy, second)
        proxy.cut()
        await until(lambda: "r" in second.hub.rooms)
        waiting = asyncio.create_task(client.say("it grows no more", id=id))
        second_engine.release()
        try:
            await waiting
        except Refused as refused:
            assert refused.error.code == "busy"
            await client.say("it grows no more", id=id)
        assert (await client.caption(id, "de")).text == "[de] it grows no more"


async def test_a_lost_private_room_is_replaced_by_another() -> None:
    notes = Notes()
    async with (
        running() as first,
        running() as second,
        behind(first) as (proxy, bad),
        connect(bad.ws, source="en", to=("de",), notice=notes.append) as client,
    ):
        room = client.welcome.room
        move(proxy, second)
        proxy.cut()
        id = await client.say("hello")
        assert (await client.caption(id, "de")).text == "[de] hello"
        assert client.welcome.room not in (room, None)
        assert notes.resumed == [False]
