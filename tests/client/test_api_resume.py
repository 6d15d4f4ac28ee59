"""Resuming over a bad network."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from gateway.client import Disconnected, connect
from gateway.engines.scripted import ScriptedEngine
from gateway.limits import Limits
from gateway.protocol.messages import Delta, Source
from tests.support.live import Live, running, until
from tests.support.proxy import End, behind
from tests.support.returning import Notes, decided, originals, reader, texts
from tests.support.stream_server import StreamServer

pytestmark = pytest.mark.usefixtures("impatient")


async def test_after_a_break_within_a_caption_every_event_arrives_once() -> None:
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
        assert isinstance(notes[0], Disconnected) and notes[0].code == 1006
        assert notes.resumed == [True]
        assert len(live.hub.sessions) == 3


class Queue:
    """A proxy that can hold a connection back until its client has given up."""

    def __init__(self, live: Live) -> None:
        self.hold = False
        """True if the next connection is held back."""
        self.held: list[bytes] = []
        """Data received on connections that are held back."""
        self.place = live.ws.removeprefix("ws://").split(":")
        self._writers: list[asyncio.StreamWriter] = []

    async def __call__(self, near: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await near.readuntil(b"\r\n\r\n")
        if self.hold:
            self.hold = False
            self.held.append(head)
            return
        far, other = await asyncio.open_connection(*self.place)
        self._writers += (writer, other)
        other.write(head)
        await asyncio.gather(self._pass(near, other), self._pass(far, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def read(self) -> bytes:
        """Pass the data that was held back to the gateway, and return its answer."""
        reader, writer = await asyncio.open_connection(*self.place)
        writer.write(self.held.pop())
        answer = await reader.readuntil(b'"fatal":true')
        writer.close()
        await writer.wait_closed()
        return answer


async def test_a_late_attempt_does_not_take_the_place_of_a_newer_one() -> None:
    notes = Notes()
    async with running() as live:
        queue = Queue(live)
        async with (
            StreamServer(queue) as server,
            reader(f"ws://{server.address}", room="r", to=("de",), notice=notes.append) as client,
        ):
            queue.hold = True
            queue.cut()
            await until(lambda: notes.resumed == [True])
            told = len(notes)
            assert b'"code":"busy"' in await queue.read()
            async with connect(live.ws, room="r", source="en", to=("de",)) as speaker:
                await speaker.caption(await speaker.say("one"), "de")
            await until(lambda: len(texts(client)) == 1)
            assert len(notes) == told, "no connection was lost"


async def test_an_utterance_sent_on_a_broken_connection_is_said_once() -> None:
    async with (
        running() as live,
        behind(live) as (proxy, bad),
        connect(bad.ws, room="r", source="en", to=("de",)) as client,
    ):
        for lane in ("down", "up"):  # the answer is lost, or the frame
            getattr(proxy.newest, lane).stall()
            saying = asyncio.create_task(client.say(f"hello {lane}"))
            if lane == "down":
                await until(lambda: bool(live.hub.rooms["r"].utterances.speeches))
            else:
                await asyncio.sleep(0)
            proxy.cut()
            text = (await client.caption(await saying, "de")).text
            assert text == f"[de] hello {lane}"
        assert len(live.hub.rooms["r"].utterances.by_id) == 2
        assert len(client._tracker.pending.all_frames()) == 0


async def test_a_request_without_a_connection_waits_for_the_next_one() -> None:
    async with (
        running() as live,
        behind(live) as (proxy, bad),
        connect(bad.ws, room="r", source="en", to=("de",)) as client,
    ):
        proxy.refuse = True
        proxy.cut()
        await until(lambda: not client._tracker.connection.ready)
        said = [asyncio.create_task(client.say(f"line {n}")) for n in range(5)]
        settings = asyncio.create_task(client.set(context="a meeting"))
        await asyncio.sleep(0)
        proxy.refuse = False
        ids = await asyncio.gather(*said)
        assert (await settings).context == "a meeting"
        heard = [source.text for source in originals(live)]
        assert heard == [f"line {n}" for n in range(5)]
        await asyncio.gather(*(client.caption(id, "de") for id in ids))


async def test_a_growing_utterance_continues_after_a_cut() -> None:
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


async def test_a_half_open_socket_is_replaced() -> None:
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


async def test_changed_languages_and_names_apply_to_the_next_socket() -> None:
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
        assert (session.member.langs, session.member.view) == (("fr",), "final")
        source = next(e for e in live.hub.rooms["r"].log.since(0) or () if isinstance(e, Source))
        assert (source.lang, source.speaker) == ("es", "Eve")
        await client.want()
        proxy.cut()
        await client.stats()
        (session,) = live.hub.sessions.values()
        assert session.member.langs == ()


async def test_a_reader_of_two_tags_of_a_language_gets_each_caption_under_both() -> None:
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


@pytest.mark.parametrize("seed", range(4))
async def test_readers_with_random_cuts_read_the_same_as_others(seed: int) -> None:
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
