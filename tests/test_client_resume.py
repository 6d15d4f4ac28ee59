"""A client that comes back: through a bad network, to another process, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection

from gateway import recovery
from gateway.client import Broken, Captions, Client, Lost, NotTranslated, Refused, connect
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.messages import (
    DURABLE,
    Cancelled,
    Delta,
    Final,
    Goaway,
    Resumed,
    ServerMessage,
    Source,
    Welcome,
)
from gateway.sqlite import SqliteStore
from tests.fake import WELCOME, ask, fake, send
from tests.live import Live, running, until
from tests.proxy import End, Proxy, behind
from tests.talk import run


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "BASE_S", 0.005)
    monkeypatch.setattr(recovery, "CAP_S", 0.05)


class Notes(list[Broken | Welcome]):
    """What a program was told of its connection."""

    @property
    def resumed(self) -> list[bool]:
        """Whether each other socket went on where the one before had ended."""
        welcomes = (note for note in self if isinstance(note, Welcome))
        return [note.resumed is not None and note.resumed.ok for note in welcomes]


def decided(events: list[ServerMessage]) -> list[ServerMessage]:
    """The durable ones, as everybody is told them."""
    found = [event for event in events if isinstance(event, DURABLE)]
    return [msgspec.structs.replace(event, ref=None) if hasattr(event, "ref") else event
            for event in found]  # fmt: skip


async def gather(client: Client, events: list[ServerMessage]) -> None:
    """Take what comes, for as long as it comes."""
    with contextlib.suppress(Lost):
        async for event in client:
            events.append(event)  # noqa: PERF401  # they are looked at meanwhile


@asynccontextmanager
async def reader(url: str, **options: object) -> AsyncIterator[list[ServerMessage]]:
    """What a reader of a room is told meanwhile."""
    events: list[ServerMessage] = []
    async with connect(url, role="view", **options) as client:  # type: ignore[arg-type]
        task = asyncio.create_task(gather(client, events))
        yield events
    await task


def originals(live: Live) -> list[Source]:
    """What the room decided that was said."""
    return [e for e in live.hub.rooms["r"].log.since(0) or () if isinstance(e, Source)]


def texts(events: list[ServerMessage]) -> list[tuple[str, str, str]]:
    return [(e.id, e.lang, e.text) for e in events if isinstance(e, Final)]


# --- a bad network --------------------------------------------------------------------------------


def test_a_connection_that_breaks_in_mid_caption_goes_on_and_every_event_comes_once() -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        engine.hold()
        notes = Notes()
        async with (
            running(engine) as live,
            behind(live) as (proxy, bad),
            reader(live.ws, room="r", to=("de", "fr")) as steady,
            reader(bad.ws, room="r", to=("de", "fr"), notice=notes.append) as shaken,
            connect(bad.ws, room="r", source="en", to=("de",)) as client,
        ):
            id = await client.say("one two three")
            await engine.step()
            await until(lambda: any(isinstance(event, Delta) for event in shaken))
            proxy.cut()
            engine.release()
            assert (await client.caption(id, "de")).text == "[de] one two three"
            assert (await client.caption(await client.say("four"), "de")).text == "[de] four"
            await until(lambda: len(texts(steady)) == len(texts(shaken)) == 4)
            assert decided(shaken) == decided(steady)
            assert isinstance(notes[0], Broken) and notes[0].code == 1006
            assert notes.resumed == [True]
            assert len(live.hub.sessions) == 3

    run(test)


def test_what_was_said_on_a_connection_that_broke_is_said_once() -> None:
    async def test() -> None:
        async with (
            running() as live,
            behind(live) as (proxy, bad),
            connect(bad.ws, room="r", source="en", to=("de",)) as client,
        ):
            for lane in ("down", "up"):  # the answer is lost, or the frame
                getattr(proxy.newest, lane).stall()
                saying = asyncio.create_task(client.say(f"hello {lane}"))
                if lane == "down":
                    await until(lambda: bool(live.hub.rooms["r"].memory.speeches))
                else:
                    await asyncio.sleep(0)
                proxy.cut()
                text = (await client.caption(await saying, "de")).text
                assert text == f"[de] hello {lane}"
            assert len(live.hub.rooms["r"].memory.utterances) == 2
            assert len(client._exchange._ledger) == 0

    run(test)


def test_what_is_asked_while_there_is_no_connection_waits_for_the_next_one() -> None:
    async def test() -> None:
        async with (
            running() as live,
            behind(live) as (proxy, bad),
            connect(bad.ws, room="r", source="en", to=("de",)) as client,
        ):
            proxy.refuse = True
            proxy.cut()
            await until(lambda: not client._exchange.link.ready)
            said = [asyncio.create_task(client.say(f"line {n}")) for n in range(5)]
            settings = asyncio.create_task(client.set(context="a meeting"))
            await asyncio.sleep(0)
            proxy.refuse = False
            ids = await asyncio.gather(*said)
            assert (await settings).context == "a meeting"
            heard = [source.text for source in originals(live)]
            assert heard == [f"line {n}" for n in range(5)]
            await asyncio.gather(*(client.caption(id, "de") for id in ids))

    run(test)


def test_an_utterance_that_grows_goes_on_after_a_cut() -> None:
    async def test() -> None:
        async with (
            running() as live,
            behind(live) as (proxy, bad),
            connect(bad.ws, room="r", source="en", to=("de",)) as client,
        ):
            words = "we meet again on Thursday at nine".split()
            for count in range(1, len(words)):
                await client.say(" ".join(words[:count]), id="x", final=False)
                proxy.cut()
            await client.say(" ".join(words), id="x")
            assert (await client.caption("x", "de")).text == "[de] " + " ".join(words)
            assert [source.text for source in originals(live)] == [" ".join(words)]

    run(test)


def test_a_half_open_socket_is_taken_over() -> None:
    async def test() -> None:
        notes = Notes()
        async with (
            running() as live,
            behind(live) as (proxy, bad),
            connect(bad.ws, room="r", source="en", to=("de",), notice=notes.append) as client,
        ):
            proxy.cut(end=End.CLIENT)
            await client.say("hello")
            assert notes.resumed == [True]
            assert len(live.hub.sessions) == 1
            assert list(live.hub.sessions) == [client.welcome.session]

    run(test)


def test_what_a_client_reads_and_speaks_by_now_holds_on_the_next_socket() -> None:
    async def test() -> None:
        async with (
            running() as live,
            behind(live) as (proxy, bad),
            connect(bad.ws, room="r", source="en", to=("de",), speaker="Ann") as client,
        ):
            await client.want("fr", view="final")
            await client.set(source="es", speaker="Eve")
            proxy.cut()
            id = await client.say("hola")
            assert (await client.caption(id, "fr")).text == "[fr] hola"
            (session,) = live.hub.sessions.values()
            assert (session.langs, session.view) == (("fr",), "final")
            source = next(
                e for e in live.hub.rooms["r"].log.since(0) or () if isinstance(e, Source)
            )
            assert (source.lang, source.speaker) == ("es", "Eve")
            await client.want()
            proxy.cut()
            await client.stats()
            (session,) = live.hub.sessions.values()
            assert session.langs == ()

    run(test)


def test_who_reads_a_language_under_two_tags_has_each_caption_under_both() -> None:
    async def test() -> None:
        async with (
            running() as live,
            behind(live) as (proxy, bad),
            connect(bad.ws, room="r", source="en", to=("de", "de-AT")) as client,
        ):
            for text in ("one", "two"):
                id = await client.say(text)
                assert (await client.caption(id, "de-AT")).text == f"[de] {text}"
                assert (await client.caption(id, "de")).text == f"[de] {text}"
                proxy.cut()

    run(test)


@pytest.mark.parametrize("seed", range(4))
def test_cut_anywhere_any_number_of_times_everybody_reads_the_same(seed: int) -> None:
    async def test() -> None:
        chance = random.Random(seed)
        engine = ScriptedEngine(pace=0.001)
        async with (
            running(engine, Limits(rate=1e6, burst=10**6)) as live,
            behind(live, seed) as (proxy, bad),
            reader(live.ws, room="r", to=("de", "fr", "de-AT")) as steady,
            reader(bad.ws, room="r", to=("de", "fr", "de-AT")) as shaken,
            connect(bad.ws, room="r", source="en", to=("de",)) as client,
        ):
            ids = []
            for n in range(30):
                wires = list(proxy.wires.values())
                if wires and chance.random() < 0.7:
                    chance.choice(wires).cut(reset=chance.random() < 0.5)
                text = f"sentence number {n}"
                for size in range(2, len(text), 6):
                    await client.say(text[:size], id=f"s{n}", final=False)
                ids.append(await client.say(text, id=f"s{n}"))
            for n, id in enumerate(ids):
                assert (await client.caption(id, "de")).text == f"[de] sentence number {n}"
            await until(lambda: len(texts(steady)) == 90 == len(texts(shaken)))
            assert decided(shaken) == decided(steady)
            assert proxy.count > 10

    run(test)


# --- another process ------------------------------------------------------------------------------


def place(live: Live) -> tuple[str, int]:
    return "127.0.0.1", int(live.ws.rpartition(":")[2])


def move(proxy: Proxy, live: Live) -> None:
    """Whoever connects now gets there."""
    proxy.target = place(live)


def test_before_a_planned_restart_the_next_socket_is_open_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    async def test() -> None:
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
            await until(lambda: client._exchange.link.going)
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
            assert not any(isinstance(note, Broken) for note in notes)
            assert not any(isinstance(event, Cancelled) for event in events)

    run(test)


def test_without_a_store_what_is_in_flight_ends_on_the_old_socket_first() -> None:
    async def test() -> None:
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
            assert len(second.hub.rooms["r"].memory.utterances) == 1

    run(test)


def test_after_a_crash_what_is_not_decided_is_said_again_and_what_was_is_void() -> None:
    async def test() -> None:
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
            await until(lambda: len(client._exchange._ledger) == 1)
            move(proxy, second)
            proxy.cut()
            with pytest.raises(NotTranslated, match="not known what became of it") as caught:
                await waiting[0]
            assert isinstance(caught.value.event, Welcome)
            await client.say("it grows no more", id=growing)
            assert (await waiting[1]).text == "[de] it grows no more"
            assert notes.resumed == [False]
            await client.bye()
            async for event in client:
                captions.fold(event)
            assert captions[growing, "de"].state == "final"

    run(test)


def test_a_gateway_that_is_full_when_something_is_said_again_is_asked_until_it_is_not() -> None:
    async def test() -> None:
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

    run(test)


def test_a_private_room_that_is_gone_is_followed_by_another() -> None:
    async def test() -> None:
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

    run(test)


# --- the end --------------------------------------------------------------------------------------


def test_a_room_that_has_ended_is_the_end() -> None:
    async def test() -> None:
        async with running() as live, connect(live.ws, room="r") as client:
            await live.hub.forget("r")
            for again in (anext(aiter(client)), client.stats(), client.caption("a", "de")):
                with pytest.raises(Lost, match="4410"):
                    await again

    run(test)


def test_who_takes_the_place_of_a_client_from_elsewhere_keeps_it() -> None:
    async def test() -> None:
        async with running() as live, connect(live.ws, room="r") as client:
            token = client.welcome.resume
            async with connect(f"{live.socket}?resume={token}") as other:
                assert other.welcome.session == client.welcome.session
                with pytest.raises(Lost, match="4409"):
                    await anext(aiter(client))
                await other.stats()

    run(test)


def test_patience_ends() -> None:
    async def test() -> None:
        async with (
            running() as live,
            behind(live) as (proxy, bad),
            connect(bad.ws, patience_s=0.1) as client,
        ):
            proxy.refuse = True
            proxy.cut()
            with pytest.raises(Lost, match="1006"):
                await client.stats()

    run(test)


def test_leaving_does_not_wait_for_a_gateway_that_is_gone() -> None:
    async def test() -> None:
        async with (
            running() as live,
            behind(live) as (proxy, bad),
            connect(bad.ws) as client,
        ):
            proxy.refuse = True
            proxy.cut()
            await until(lambda: not client._exchange.link.ready)

    run(test)


def test_a_gateway_that_turns_it_away_for_good_is_the_end() -> None:
    answers = iter(("cut", "busy", "unauthenticated", "unauthenticated"))

    async def handler(socket: ServerConnection) -> None:
        match next(answers):
            case "cut":
                await send(socket, msgspec.structs.replace(WELCOME, resume="token"))
                socket.transport.abort()
            case code:
                error = {"type": "error", "code": code, "fatal": True, "retry": code == "busy"}
                await send(socket, error | {"msg": "No."})
                await socket.close(4029 if code == "busy" else 4401)

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            with pytest.raises(Lost, match=r"4401.*No\."):
                await client.stats()
            assert next(answers, None) is None

    run(test)


def test_a_socket_that_is_closed_for_good_at_once_is_the_end() -> None:
    codes = iter((1012, 4029, 4403))

    async def handler(socket: ServerConnection) -> None:
        code = next(codes)
        if code == 1012:
            await send(socket, WELCOME)
        await socket.close(code)

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            with pytest.raises(Lost, match="4403"):
                await client.stats()

    run(test)


def test_a_broken_event_is_a_broken_connection() -> None:
    sockets = []

    async def handler(socket: ServerConnection) -> None:
        sockets.append(socket)
        await send(socket, WELCOME)
        if len(sockets) == 1:
            await socket.send('{"type":"tick","seq":')
        else:
            request = await ask(socket)
            stats = dict.fromkeys(
                ("said", "finals", "failed", "cancelled", "errors", "frames_in", "frames_out",
                 "bytes_out", "merged", "inflight", "seconds"), 0,
            )  # fmt: skip
            await send(socket, {"type": "stats", "ref": request["ref"], **stats})
        await socket.wait_closed()

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            assert (await client.stats()).said == 0
        assert len(sockets) == 2

    run(test)


def test_a_goaway_of_a_gateway_that_has_no_successor_is_survived_by_trying() -> None:
    sockets: list[ServerConnection] = []

    async def handler(socket: ServerConnection) -> None:
        sockets.append(socket)
        if len(sockets) == 1:
            await send(socket, WELCOME, Goaway(in_ms=10, why="Stop."))
            await until(lambda: len(sockets) > 3)
            await socket.close(4001)
        elif len(sockets) < 6:
            error = {"type": "error", "code": "busy", "fatal": True, "retry": True, "msg": "No."}
            await send(socket, error)
            await socket.close(4001)
        else:
            resumed = Resumed(ok=True, replayed=0)
            await send(socket, msgspec.structs.replace(WELCOME, resumed=resumed))
            request = await ask(socket)
            ack = {"type": "ack", "id": request["id"], "rev": 1, "ord": 1, "ref": request["ref"]}
            await send(socket, ack)
            await socket.wait_closed()

    async def test() -> None:
        async with fake(handler) as url, connect(url) as client:
            await until(lambda: client._exchange.link.going)
            assert await client.say("hello", id="x") == "x"

    run(test)


def test_a_fault_of_the_program_in_a_notice_ends_the_client_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        def notice(_: object) -> None:
            raise ValueError("a bug")

        async with running() as live, behind(live) as (proxy, bad):
            async with connect(bad.ws, notice=notice) as client:
                proxy.cut()
                with pytest.raises(Lost, match="fault"):
                    await client.stats()

    run(test)
    assert "a bug" in caplog.text
