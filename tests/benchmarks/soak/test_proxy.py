"""The proxy does to a connection as it is told, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from benchmarks.soak.proxy import End, Faults, Proxy, State
from tests.support.live import running, until
from tests.support.proxy import behind
from tests.support.stream_server import StreamServer
from tests.support.talk import talk
from tests.support.typed import current

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Far:
    """A server that keeps all bytes, and the streams of its clients."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.got = bytearray()
        self.segments: list[int] = []
        self.ended: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.streams.append((reader, writer))
        try:
            while data := await reader.read(65_536):
                self.got += data
                self.segments.append(len(data))
            self.ended.append("fin")
        except ConnectionResetError:
            self.ended.append("rst")


@asynccontextmanager
async def line(seed: int = 0) -> AsyncIterator[tuple[Far, Proxy]]:
    far = Far()
    async with (
        StreamServer(far.serve) as server,
        Proxy("127.0.0.1", server.port, seed=seed) as proxy,
    ):
        yield far, proxy


async def dial(proxy: Proxy) -> Stream:
    count = proxy.count
    stream = await asyncio.open_connection("127.0.0.1", proxy.port)
    await until(lambda: count in proxy.wires)
    return stream


async def ending(reader: asyncio.StreamReader) -> str:
    try:
        while await reader.read(65_536):
            pass
    except ConnectionResetError:
        return "rst"
    return "fin"


async def test_without_faults_the_proxy_passes_on_everything_and_the_end_of_file() -> None:
    async with line() as (far, proxy):
        reader, writer = await dial(proxy)
        writer.write(b"up" * 50_000)
        await until(lambda: len(far.got) == 100_000)
        far.streams[0][1].write(b"down")
        assert await reader.readexactly(4) == b"down"
        assert (proxy.newest.up.passed, proxy.newest.down.passed) == (100_000, 4)
        writer.close()
        await until(lambda: far.ended == ["fin"])
        await until(lambda: not proxy.wires)


@pytest.mark.parametrize("reset", [True, False])
async def test_a_cut_is_seen_at_both_ends(reset: bool) -> None:
    async with line() as (far, proxy):
        reader, writer = await dial(proxy)
        await until(lambda: bool(far.streams))
        wire = proxy.newest
        wire.cut(reset=reset)
        wire.cut()  # there is nothing left to cut
        how = "rst" if reset else "fin"
        assert await ending(reader) == how
        await until(lambda: far.ended == [how])
        assert wire.state is State.CUT
        writer.close()


async def test_a_cut_at_one_end_is_hidden_from_the_other_until_it_is_cut_too() -> None:
    async with line() as (far, proxy):
        for end, left in ((End.CLIENT, End.SERVER), (End.SERVER, End.CLIENT)):
            reader, writer = await dial(proxy)
            wire = proxy.newest
            await until(lambda: len(far.streams) == proxy.count)
            before = list(far.ended)
            wire.cut(end=end)
            assert current(wire.state) is State.LOOSE
            if end is End.CLIENT:
                assert await ending(reader) == "rst"
                far.streams[-1][1].write(b"x")
                assert far.ended == before
            else:
                await until(lambda: far.ended == [*before, "rst"])  # noqa: B023
                writer.write(b"x")
            assert (wire.up.passed, wire.down.passed) == (0, 0)
            wire.cut(end=left)
            assert wire.state is State.CUT
            await until(lambda: not proxy.wires)
            writer.close()


async def test_a_stalled_wire_passes_nothing_on_until_it_flows() -> None:
    async with line() as (far, proxy):
        reader, writer = await dial(proxy)
        wire = proxy.newest
        wire.stall()
        assert wire.up.stalled
        writer.write(b"one")
        await until(lambda: bool(far.streams))
        far.streams[0][1].write(b"two")
        other = await dial(proxy)  # what goes through it comes after the bytes that stall
        other[1].write(b"!")
        await until(lambda: bytes(far.got) == b"!")
        assert (wire.up.passed, wire.down.passed) == (0, 0)
        wire.flow()
        assert await reader.readexactly(3) == b"two"
        await until(lambda: bytes(far.got) == b"!one")
        for stream in (writer, other[1]):
            stream.close()


async def test_a_lane_cuts_and_stalls_after_the_given_number_of_bytes() -> None:
    async with line() as (far, proxy):
        proxy.up = Faults(cut_at=5)
        reader, writer = await dial(proxy)
        writer.write(b"0123456789")
        assert await ending(reader) == "rst"
        await until(lambda: bool(far.ended))
        assert bytes(far.got) in (b"01234", b"")  # a reset may overtake what it follows
        writer.close()
        proxy.up = Faults(stall_at=4)
        far.got.clear()
        reader, writer = await dial(proxy)
        wire = proxy.newest
        writer.write(b"0123456789")
        await until(lambda: wire.up.stalled)
        await until(lambda: bytes(far.got) == b"0123")
        wire.flow()
        await until(lambda: bytes(far.got) == b"0123456789")
        writer.close()


async def test_a_lane_splits_segments_without_changing_the_bytes() -> None:
    async with line() as (far, proxy):
        proxy.up = Faults(split=1, delay=0.001)
        _, writer = await dial(proxy)
        text = bytes(range(256))
        writer.write(text)
        await until(lambda: bytes(far.got) == text)
        assert len(far.segments) > 1
        writer.close()


async def test_the_same_seed_corrupts_the_same_bytes() -> None:
    text = b"a" * 1000
    seen = []
    for seed in (1, 1, 2):
        async with line(seed) as (far, proxy):
            proxy.up = Faults(corrupt=0.1)
            _, writer = await dial(proxy)
            writer.write(text)
            await until(lambda: len(far.got) == len(text))
            seen.append(bytes(far.got))
            writer.close()
    assert seen[0] == seen[1] != seen[2]
    assert 40 < sum(byte != 97 for byte in seen[0]) < 200


async def test_a_network_that_is_down_resets_new_connections() -> None:
    async with line() as (_, proxy):
        proxy.refuse = True
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await ending(reader) == "rst"
        proxy.refuse = False
        proxy.target = ("127.0.0.1", 1)  # and so does one behind which nobody listens
        other, second = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await ending(other) == "rst"
        for stream in (writer, second):
            stream.close()
        with pytest.raises(LookupError):
            proxy.newest  # noqa: B018


async def test_a_meeting_through_single_bytes_is_the_same_meeting() -> None:
    async with running() as live, behind(live) as (proxy, far):
        proxy.up = proxy.down = Faults(split=1)
        async with talk(far, "?from=en&to=de") as client:
            await client.send("good morning everybody")
            assert (await client.until("final"))[-1]["text"] == "[de] good morning everybody"
