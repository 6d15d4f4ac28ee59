"""Bounds on WebSocket clients that do not read, do not answer, or flood."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import resource
import socket
import struct
import sys
from collections.abc import Callable

import msgspec
import pytest
import uvloop
from websockets.asyncio.client import connect
from websockets.http11 import Request

from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.protocol.messages import Final, Timing
from gateway.server.process import listener
from gateway.server.process.listener import listen
from gateway.server.uvicorn import websocket as module
from gateway.server.uvicorn.http import SPARE
from gateway.server.uvicorn.websocket import (
    FLOOD,
    FRAGMENTS,
    SLICE,
    WRITE_BYTES,
    WebSocketProtocol,
    without_client_mistakes,
)
from gateway.settings.catalogue import Settings
from tests.server.wire import HANDSHAKE, Client, dial
from tests.support.hearing import hearing
from tests.support.live import Live, running, until
from tests.support.talk import talk

MASK = b"\0\0\0\0"
SMALL = 4096
QUICK = Settings(ping_s=0.2, loop="asyncio")
CALM = Settings(ping_s=0)


def frame(first: int, payload: bytes = b"") -> bytes:
    """Return a client's frame, masked with zeros. ``first`` is FIN and the opcode."""
    size = len(payload)
    head = bytes((first, 0x80 | size)) if size < 126 else bytes((first, 0xFE)) + size.to_bytes(2)
    return head + MASK + payload


TEXT, CONT, BEGIN, PING, PONG, CLOSE = 0x81, 0x00, 0x01, 0x89, 0x8A, 0x88


async def enter(live: Live, client: Client, query: str = "") -> WebSocketProtocol:
    """Open a session, and return the server's protocol object."""
    before = set(live.server.server_state.connections)
    count = len(live.hub.sessions)
    await client.send(HANDSHAKE % (b"/v1/ws" + query.encode()))
    await until(lambda: len(live.hub.sessions) > count)
    found = {
        c for c in live.server.server_state.connections if isinstance(c, WebSocketProtocol)
    } - before
    (connection,) = found
    return connection


def port(live: Live) -> int:
    return int(live.ws.rpartition(":")[2])


async def closing(client: Client) -> int | None:
    """Read to the end. Return the code of the close frame, or None after a reset."""
    data = await client.read()
    if data.endswith(b"[reset]"):
        return None
    data = data.removesuffix(b"[end]")
    at = data.rindex(b"\x88")
    return int.from_bytes(data[at + 2 : at + 4])


def flood(live: Live, size: int) -> None:
    """Send ``size`` bytes of finals to every session."""
    ms = Timing(queue=0, first=0, total=0)
    for n in range(size // 500):
        final = Final(seq=n, id=f"u{n}", rev=1, ord=1, lang="de", text="x" * 400, by="mt", ms=ms)
        for session in list(live.hub.sessions.values()):
            session.outbox.send(final, live.hub.now())


# --- handshakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "answer"),
    [
        (WebSocketProtocol.shutdown, b"HTTP/1.1 500 "),
        (lambda protocol: protocol.transport.close(), b"[end]"),
    ],
    ids=["the server shuts down", "the client ends"],
)
async def test_an_end_before_the_handshake_is_answered_is_no_error_of_the_gateway(
    end: Callable[[WebSocketProtocol], None],
    answer: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    begin = WebSocketProtocol.handle_connect
    ended = []

    def begin_and_end(protocol: WebSocketProtocol, request: Request) -> None:
        begin(protocol, request)
        end(protocol)  # before the task of the application has run
        ended.append(protocol)

    monkeypatch.setattr(WebSocketProtocol, "handle_connect", begin_and_end)
    async with running() as live, dial(port(live)) as client:
        await live.hub.drain(0)  # a client that is refused gets a message first
        await client.send(HANDSHAKE % b"/v1/ws")
        assert (await client.read()).startswith(answer)
        await until(lambda: not live.server.server_state.tasks)
        assert ended
        assert live.hub.sessions == {}
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


# --- floods -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece",
    [frame(TEXT, b"x"), frame(PING), frame(PONG), frame(0x82, b"\xc0"), frame(PING, b"p" * 125)],
    ids=["text", "ping", "pong", "binary", "long ping"],
)
async def test_a_flood_of_frames_of_any_kind_closes_4400(piece: bytes) -> None:
    limits = Limits(burst=10, audio_burst=0.1)
    async with running(limits=limits) as live, dial(port(live)) as client:
        await enter(live, client)
        try:
            await client.send(piece * (5 * FLOOD * limits.burst))
        except ConnectionError:
            pass  # the gateway has closed the connection before all was sent
        assert await closing(client) in (CloseCode.PROTOCOL_ERROR, None)
        await until(lambda: not live.hub.sessions)


@pytest.mark.parametrize("seconds", [0.01, 0.0025])
@pytest.mark.parametrize("codec", ["pcm_s16le", "opus"])
async def test_audio_within_the_burst_is_no_flood_however_small_its_frames_are(
    codec: str, seconds: float
) -> None:
    piece = bytes(round(32_000 * seconds))
    if codec == "opus":
        piece = b"\xf0\xff\xfe" if seconds == 0.01 else b"\xe0\xff\xfe"
    begin = b'{"type":"audio","codec":"%s","ref":"begin"}' % codec.encode()
    count = round(10.0 / seconds) - 1
    async with running() as live, hearing(live) as runner, dial(port(live)) as client:
        await enter(live, client)
        await client.send(frame(TEXT, begin))
        await client.read(b'"ref":"begin"')
        await client.send(frame(0x82, piece) * count)
        await client.send(frame(TEXT, b'{"type":"stats","ref":"last"}'))
        seen = await client.read(b'"ref":"last"')
        assert b'"errors":0' in seen
        assert runner.audio_s == pytest.approx(10.0 - seconds)


async def test_realtime_audio_within_the_burst_is_no_flood() -> None:
    piece = base64.b64encode(bytes(480)).decode()
    event = {"type": "input_audio_buffer.append", "audio": piece}
    text = json.dumps(event).encode()
    async with (
        running(ScriptedEngine(pace=0.0)) as live,
        hearing(live) as runner,
        connect(f"{live.ws}/v1/realtime?from=en") as client,
    ):
        await client.recv()
        client.transport.write(frame(TEXT, text) * 1_500)  # at once, as after a pause
        await until(lambda: runner.audio_s > 14.99)
        assert runner.audio_s == pytest.approx(15.0)


async def test_a_flooding_client_that_reads_sees_the_close_code() -> None:
    limits = Limits(burst=10)
    async with running(limits=limits) as live, dial(port(live)) as client:
        await enter(live, client)
        await client.send(frame(PONG) * (FLOOD * limits.burst + 1))
        assert await closing(client) == CloseCode.PROTOCOL_ERROR


async def test_too_many_fragments_of_a_message_close_4400() -> None:
    async with running() as live, dial(port(live)) as client:
        await enter(live, client)
        await client.send(frame(BEGIN) + frame(CONT) * FRAGMENTS)
        assert await closing(client) == CloseCode.PROTOCOL_ERROR


async def test_a_message_in_fragments_is_one_message() -> None:
    async with running() as live, dial(port(live)) as client:
        await enter(live, client)
        await client.send(frame(BEGIN, b'{"type":"help"') + frame(CONT) + frame(PING, b"between"))
        await client.send(frame(0x80, b',"ref":"whole"}'))
        assert b"between" in await client.read(b'"ref":"whole"')


async def test_many_frames_in_one_read_are_handled_in_slices() -> None:
    async with running() as live, talk(live) as client:
        await client.until("welcome")
        (connection,) = live.server.server_state.connections
        assert isinstance(connection, WebSocketProtocol)
        connection.data_received(frame(0x82) * 40_000)  # as one read of the network
        left = len(connection._unread)
        await asyncio.sleep(0)
        assert left - len(connection._unread) == SLICE, "one slice in each turn"
        await until(lambda: not connection._unread)
        # The socket was closed after the first slices, and the rest was not parsed.
        assert connection._frames <= connection.max_frames + connection.max_audio + 1_000
        assert (await client.closed())[0] == CloseCode.PROTOCOL_ERROR


async def test_a_frame_larger_than_a_slice_is_one_frame() -> None:
    async with running() as live, talk(live) as client:
        await client.send({"type": "help", "ref": "a", "filling": "x" * 60_000})
        assert (await client.until("help"))[-1]["ref"] == "a"


async def test_only_the_newest_pong_is_kept_for_a_client_that_does_not_read() -> None:
    async with (
        running(limits=Limits(burst=1_000_000), settings=CALM) as live,
        dial(port(live), receive=SMALL) as client,
    ):
        connection = await enter(live, client)
        size = connection.transport.get_write_buffer_size
        for n in range(100):
            await client.send(frame(PING, b"%03d" % n * 40) * 100)
            assert size() <= WRITE_BYTES + SLICE
        await until(lambda: connection._pong != b"" or not size())
        await client.send(frame(PING, b"the very last"))
        await client.read(b"the very last")


# --- ends ---------------------------------------------------------------------------------------


async def test_a_client_that_does_not_read_or_answer_pings_is_reset() -> None:
    async with (
        running(settings=QUICK) as live,
        dial(port(live), receive=SMALL) as client,
    ):
        connection = await enter(live, client)
        flood(live, 400_000)
        assert connection.transport.get_write_buffer_size() > 0
        await until(lambda: not live.hub.sessions and not live.server.server_state.connections)
        await until(lambda: not held(client))
        assert (await client.read()).endswith(b"[reset]")


def held(client: Client) -> bool:
    """Tell whether the kernel still has the server's side of a connection."""
    if not sys.platform.startswith("linux"):
        return False
    theirs = [f":{client.peer.getsockname()[1]:04X}", f":{client.port:04X}"]
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = (line.split() for line in list(table)[1:])
        return any(state != "06" and [b[-5:], a[-5:]] == theirs for _, a, b, state, *_ in rows)


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_a_client_that_closes_and_does_not_read_is_reset(
    loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.2)

    async def main() -> None:
        for bye in (frame(CLOSE, b"\x03\xe8"), b""):
            async with (
                running(settings=CALM) as live,
                dial(port(live), receive=SMALL) as client,
            ):
                await enter(live, client)
                flood(live, 400_000)
                await client.send(bye)
                client.peer.shutdown(socket.SHUT_WR)
                await until(lambda: not live.server.server_state.connections)
                await until(lambda: not live.hub.sessions)
                await until(lambda: not held(client))

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def test_a_client_that_does_not_answer_a_close_is_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 0.2)

    async with running() as live, dial(port(live)) as client:
        await enter(live, client)
        await client.send(frame(TEXT, b'{"type":"bye"}'))
        await client.read(b"\x88")
        await until(lambda: not live.server.server_state.connections)
        assert (await client.read()).endswith(b"[reset]")


async def test_a_slow_reader_that_reads_again_sees_its_close_code() -> None:
    limits = Limits(outbox_bytes=100_000)
    async with (
        running(limits=limits, settings=CALM) as live,
        dial(port(live), receive=SMALL) as client,
    ):
        await enter(live, client)
        flood(live, 400_000)
        await until(lambda: not live.hub.sessions)
        data = await client.read(CloseCode.TOO_SLOW.to_bytes(2))
        assert not data.endswith((b"[end]", b"[reset]")), "it ended without a close frame"


async def test_frames_after_a_close_frame_are_ignored() -> None:
    async with running() as live, dial(port(live)) as client:
        await enter(live, client)
        (session,) = live.hub.sessions.values()
        await client.send(frame(CLOSE, b"\x03\xe8") + frame(TEXT, b"too late") * 50)
        assert await closing(client) in (1000, None)
        await until(lambda: not live.hub.sessions)
        assert session.frames_in == 0


async def test_a_prompt_client_is_closed_without_a_reset() -> None:
    async with running() as live, talk(live) as client:
        await client.send({"type": "bye"})
        assert (await client.closed())[0] == CloseCode.DONE
        await until(lambda: not live.server.server_state.connections)


# --- bounds -------------------------------------------------------------------------------------


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's own counters")
async def test_a_client_that_does_not_read_holds_little_kernel_memory() -> None:
    limits = Limits(outbox_s=1000)
    async with (
        running(limits=limits, settings=CALM) as live,
        dial(port(live), receive=SMALL) as client,
    ):
        connection = await enter(live, client)
        (session,) = live.hub.sessions.values()
        while not len(session.outbox):
            flood(live, 20_000)
            await asyncio.sleep(0)
        flood(live, 300_000)
        peer = connection.transport.get_extra_info("socket")
        meminfo = peer.getsockopt(socket.SOL_SOCKET, 55, 36)  # SO_MEMINFO
        read, _, write, _, forward, queued, *_ = struct.unpack("9I", meminfo)
        assert 0 < read + max(write, queued) + forward <= 262_144
        assert connection.transport.get_write_buffer_size() <= 2 * WRITE_BYTES
        assert session.outbox.bytes <= limits.outbox_bytes


def test_the_limits_of_the_settings_reach_the_protocol() -> None:
    kind = module.websocket_protocol(msgspec.structs.replace(Limits(), burst=7))
    assert kind.max_frames == 7 * FLOOD


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has it")
@pytest.mark.parametrize(
    ("settings", "silent"),
    [(Settings(), 41_000), (Settings(ping_s=2), 5_000), (CALM, 0)],
)
def test_the_kernel_ends_a_silent_connection_later_than_the_gateway_would(
    settings: Settings, silent: int
) -> None:
    with listen("127.0.0.1", 0, settings=settings) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == silent


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_the_limit_of_connections_is_at_most_the_limit_of_open_files(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = [1024, 10_000]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(files))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: files.__setitem__(0, new[0]))
    assert listener.descriptors(Limits(sessions=500)) == 500 + SPARE
    assert listener.descriptors(Limits(sessions=5_000)) == 5_000 + SPARE
    assert files[0] == 5_000 + SPARE + listener.FILES and not caplog.records
    assert listener.descriptors(Limits(sessions=50_000)) == 10_000 - listener.FILES
    assert "10000 files" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "Invalid HTTP request received.",
        "Unsupported upgrade request.",
        "ASGI callable returned without completing handshake.",
    ],
)
def test_mistakes_of_clients_are_not_logged(text: str) -> None:
    for said, kept in ((text, False), ("Something else.", True)):
        assert without_client_mistakes(logging.makeLogRecord({"msg": said})) is kept
