"""WebSockets of a gateway on a real port."""

from __future__ import annotations

import asyncio
import json
import socket as sockets
from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from gateway.engines.base.engine import Sink
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import CloseCode
from gateway.job import Job
from gateway.limits import Limits
from tests.server.wire import HANDSHAKE
from tests.support.live import running, until
from tests.support.talk import DEADLINE_S, talk

# --- the handshake ------------------------------------------------------------------------------


async def test_compression_is_not_offered_so_that_a_small_message_cannot_expand() -> None:
    async with running() as live, talk(live, compression="deflate") as client:
        assert client.ws.protocol.extensions == []


async def test_the_first_frame_is_a_welcome_that_names_limits_and_languages() -> None:
    async with running() as live, talk(live, "?room=demo&to=de") as client:
        welcome = await client.next()
        assert welcome["type"] == "welcome"
        assert welcome["v"] == 1
        assert welcome["room"] == "demo"
        assert welcome["seq"] == 0
        assert welcome["limits"]["frame"] == 65_536
        assert "de" in welcome["languages"]


async def test_a_socket_without_languages_is_told_how_to_request_one() -> None:
    async with running() as live, talk(live) as client:
        assert "to=de" in (await client.next())["hint"]


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["gw.v1.json"], "gw.v1.json"),
        (["gw.v1.msgpack"], "gw.v1.msgpack"),
        (["gw.v9", "gw.v1.msgpack", "gw.v1.json"], "gw.v1.msgpack"),
        (None, None),
    ],
)
async def test_the_first_known_subprotocol_is_echoed(
    offered: list[str] | None, chosen: str | None
) -> None:
    async with running() as live, talk(live, subprotocols=offered) as client:
        assert client.ws.subprotocol == chosen
        assert (await client.next())["type"] == "welcome"


@pytest.mark.parametrize(
    "query",
    ["?room=a/b", "?room=" + "x" * 65, "?role=king", "?view=loud", "?hb=0", "?hb=nan", "?from=tlh"],
)
async def test_a_bad_query_is_answered_on_the_open_socket_and_closed_with_4400(query: str) -> None:
    async with running() as live, talk(live, query) as client:
        error = await client.next()
        assert error["type"] == "error"
        assert error["fatal"] is True and "retry_ms" not in error
        assert error["msg"] and error["hint"]
        assert (await client.closed())[0] == CloseCode.PROTOCOL_ERROR


async def test_an_unknown_language_in_the_query_is_reported_and_the_known_ones_are_used() -> None:
    async with running() as live, talk(live, "?to=de,tlh") as client:
        assert (await client.next())["type"] == "welcome"
        error = await client.next()
        assert error["code"] == "lang_unsupported"
        assert "tlh" in error["msg"] and "fr" in error["hint"]
        await client.send("hello")
        assert (await client.until("final"))[-1]["lang"] == "de"


async def test_a_socket_over_the_limit_is_closed_with_4029() -> None:
    async with running(limits=Limits(sessions=1)) as live, talk(live) as first:
        await first.next()
        async with talk(live) as second:
            error = await second.next()
            assert error["code"] == "busy" and error["retry"] is True
            assert error["retry_ms"] == 1000, "the time until a place is free is not known"
            assert (await second.closed())[0] == CloseCode.TOO_MANY


async def test_empty_rooms_are_dropped_for_new_ones_at_the_limit() -> None:
    async with running(limits=Limits(rooms=2)) as live:
        for room in ("a", "b"):
            async with talk(live, f"?room={room}") as client:
                await client.next()
            await until(lambda: not live.hub.sessions)
        async with talk(live, "?room=c") as client, talk(live) as other:
            assert (await client.next())["type"] == "welcome"
            assert (await other.next())["type"] == "welcome"
            async with talk(live, "?room=d") as third:
                assert (await third.next())["code"] == "busy"


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [("?to=" + "de," * 10_000, {}, 414), ("", {"Cookie": "x" * 9_000}, 431)],
)
async def test_a_handshake_that_is_too_long_is_refused_with_an_answer(
    query: str, headers: dict[str, str], status: int
) -> None:
    async with running() as live:
        with pytest.raises(InvalidStatus) as refused:
            await connect(live.socket + query, additional_headers=headers)
        assert refused.value.response.status_code == status


async def test_a_bad_query_is_answered_in_the_codec_of_the_query() -> None:
    async with running() as live, connect(live.socket + "?plain=1&role=king") as ws:
        assert str(await asyncio.wait_for(ws.recv(), DEADLINE_S)).startswith("! 'king' is not")


# --- typing lines -------------------------------------------------------------------------------


async def test_a_typed_line_is_answered_with_a_streamed_caption_in_each_language() -> None:
    async with running() as live, talk(live, "?from=en&to=de,fr") as client:
        await client.until("welcome")
        await client.send("good morning everybody")
        events = await client.until("final")
        events += await client.until("final")
        assert [e["type"] for e in events[:2]] == ["ack", "source"]
        for lang in ("de", "fr"):
            text = "".join(e["add"] for e in events if e.get("lang") == lang and "add" in e)
            final = next(e for e in events if e["type"] == "final" and e["lang"] == lang)
            assert final["text"] == text == f"[{lang}] good morning everybody"
        durable = [e["seq"] for e in events if "seq" in e]
        assert durable == [1, 2, 3]


async def test_plain_mode_answers_in_lines_and_sends_finals_only() -> None:
    engine = ScriptedEngine({("hello", "de"): ["Hal", "lo"]})
    async with running(engine) as live, connect(live.socket + "?to=de&plain=1") as ws:
        await ws.send("hello")
        assert await asyncio.wait_for(ws.recv(), DEADLINE_S) == "[de] Hallo"
        await ws.send("  ")
        assert str(await asyncio.wait_for(ws.recv(), DEADLINE_S)).startswith("! ")


async def test_binary_frames_are_messagepack_and_text_frames_json_on_either_subprotocol() -> None:
    async with (
        running() as live,
        talk(live, "?to=de", subprotocols=["gw.v1.msgpack"]) as client,
    ):
        await client.until("welcome")
        await client.send(msgspec.msgpack.encode({"type": "say", "text": "one", "id": "a"}))
        assert (await client.until("final"))[-1]["text"] == "[de] one"
        await client.send({"type": "say", "text": "two", "id": "b"})
        assert (await client.until("final"))[-1]["text"] == "[de] two"


async def test_a_socket_with_a_heartbeat_gets_ticks() -> None:
    async with running() as live, talk(live, "?hb=1") as client:
        assert (await client.until("tick"))[-1] == {"type": "tick", "seq": 0}


# --- stopping -----------------------------------------------------------------------------------


async def test_a_cancel_reaches_the_engine_before_the_event_loop_turns() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine) as live, talk(live, "?to=de,fr") as client:
        await client.until("welcome")
        await client.send({"type": "say", "id": "a", "text": "one two three"})
        await until(lambda: engine.unfinished == 2)
        (session,) = live.hub.sessions.values()
        live.hub.receive(session, '{"type":"cancel","id":"a"}')
        assert engine.unfinished == 0  # nothing was awaited in between
        cancelled = (await client.until("cancelled"))[-1]
        assert cancelled["id"] == "a" and cancelled["was"] == "running"
        await until(lambda: live.hub.scheduler.running == 0)


async def test_a_closed_socket_aborts_its_jobs_in_the_engine() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine) as live:
        async with talk(live, "?to=de,fr,es") as client:
            await client.send("one two three")
            await until(lambda: engine.unfinished == 3)
        await until(lambda: engine.unfinished == 0)
        assert len(engine.aborted) == 3
        await until(lambda: live.hub.scheduler.running == 0 and not live.hub.rooms)


async def test_a_connection_that_is_reset_aborts_its_jobs_in_the_engine() -> None:
    engine = ScriptedEngine()
    engine.hold()
    limits = Limits(grace_s=0.05)  # its jobs go on for as long as the client may come back
    async with running(engine, limits) as live, connect(live.socket + "?to=de") as ws:
        await ws.send("one two three")
        await until(lambda: engine.unfinished == 1)
        raw = ws.transport.get_extra_info("socket")
        raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        ws.transport.abort()  # a reset, not a close
        await until(lambda: engine.unfinished == 0)


async def test_a_new_final_aborts_the_job_of_the_older_revision_in_the_engine() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine) as live, talk(live, "?to=de") as client:
        await client.until("welcome")
        await client.send({"type": "say", "id": "a", "rev": 1, "final": False, "text": "one"})
        await until(lambda: engine.unfinished == 1)
        await client.send({"type": "say", "id": "a", "rev": 2, "text": "one two"})
        await until(lambda: len(engine.started) == 2)
        assert len(engine.aborted) == 1 and engine.unfinished == 1
        engine.release()
        final = (await client.until("final"))[-1]
        assert final["rev"] == 2 and final["text"] == "[de] one two"


async def test_a_slow_language_does_not_delay_another() -> None:
    waiting: list[Callable[[], None]] = []

    class Halting(ScriptedEngine):
        def submit(self, job: Job, sink: Sink) -> None:
            if job.target == "fr":
                waiting.append(partial(super().submit, job, sink))
            else:
                super().submit(job, sink)

    async with running(Halting()) as live, talk(live, "?to=de,fr") as client:
        await client.send("hi")
        assert (await client.until("final"))[-1]["lang"] == "de"
        for submit in waiting:
            submit()
        assert (await client.until("final"))[-1]["lang"] == "fr"


async def test_bye_finishes_what_is_in_flight_sends_stats_and_closes_1000() -> None:
    async with running() as live, talk(live, "?to=de") as client:
        await client.send("hello there")
        await client.send({"type": "bye", "ref": "x"})
        stats = (await client.until("stats"))[-1]
        assert stats["said"] == 1 and stats["finals"] == 1 and stats["ref"] == "x"
        assert (await client.closed())[0] == CloseCode.DONE


# --- bad input ----------------------------------------------------------------------------------


async def test_a_frame_over_the_limit_closes_1009() -> None:
    async with running() as live, talk(live) as client:
        await client.send("x" * 65_537)
        assert (await client.closed())[0] == CloseCode.TOO_BIG


async def test_invalid_utf8_closes_1007() -> None:
    async with running() as live, talk(live) as client:
        await client.ws.send(b"\xff\xfe", text=True)
        assert (await client.closed())[0] == CloseCode.INVALID_DATA


async def test_ten_unreadable_frames_in_a_row_close_4400() -> None:
    async with running() as live, talk(live) as client:
        await client.until("welcome")
        for _ in range(10):
            await client.send("{")
        for _ in range(10):
            assert (await client.next())["code"] == "bad_frame"
        assert (await client.closed())[0] == CloseCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "bad_frame"),
        ('{"type":"zap"}', "unknown_type"),
        ('{"type":"sync","epoch":"e"}', "bad_frame"),
        ('{"type":"say"}', "bad_frame"),
        ('{"type":"say","text":7}', "bad_frame"),
        ('{"type":"say","text":" \\u200b "}', "empty_text"),
        ('{"type":"say","text":"hi","lang":"tlh"}', "lang_unsupported"),
        ('{"type":"get","id":"nobody"}', "not_found"),
        (b"\xc1", "bad_frame"),
        (b"\x91" * 5000, "bad_frame"),
        ('{"a":' * 10_000, "bad_frame"),
        (json.dumps({"type": "say", "text": "x" * 2001}), "too_long"),
        (json.dumps({"type": "want", "langs": ["de"] * 10_000}), "too_many_targets"),
        (json.dumps({"type": "say", "id": "a", "rev": 1, "text": "older"}), "stale"),
    ],
)
async def test_a_bad_frame_gets_its_error_and_other_utterances_continue(
    frame: str | bytes, code: str
) -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine) as live, talk(live, "?to=de") as client:
        await client.until("welcome")
        await client.send({"type": "say", "id": "a", "rev": 2, "text": "hello"})
        await client.until("source")
        await client.send(frame)
        error = (await client.until("error"))[-1]
        assert error["code"] == code and error["msg"] and error["fatal"] is False
        engine.release()
        assert (await client.until("final"))[-1]["text"] == "[de] hello"


async def test_the_event_loop_turns_between_two_frames_of_a_flood() -> None:
    async with running() as live:
        host, port = live.ws.removeprefix("ws://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(HANDSHAKE % b"/v1/ws")
        await until(lambda: bool(live.hub.sessions))
        (session,) = live.hub.sessions.values()
        writer.write(b"\x81\x81\0\0\0\0x" * 500)
        while not session.frames_in:  # noqa: ASYNC110  # looks in every turn of the loop
            await asyncio.sleep(0)
        assert session.frames_in < 100
        writer.transport.abort()


async def test_bad_utf8_while_captions_stream_is_not_logged_as_a_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as live, talk(live) as client:
        await client.until("welcome")
        (session,) = live.hub.sessions.values()
        (connection,) = live.server.server_state.connections
        # In one turn of the loop: the writer is scheduled, and uvicorn closes before it runs.
        session.tick(live.hub.now())
        connection.data_received(b"\x81\x82\0\0\0\0\xff\xfe")
        assert (await client.closed())[0] == CloseCode.INVALID_DATA
        await until(lambda: not live.hub.sessions)
    assert not [r for r in caplog.records if r.name.startswith("gateway") and r.levelno > 30]


# --- slow readers -------------------------------------------------------------------------------


async def test_a_client_that_does_not_read_is_closed_without_delaying_others() -> None:
    long = ["word " * 20] * 100
    engine = ScriptedEngine({("go", "de"): long})
    limits = Limits(outbox_bytes=65_536, rate=10_000, burst=10_000)
    async with running(engine, limits) as live:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(live.ws.rpartition(":")[2]))
        writer.write(HANDSHAKE % b"/v1/ws?room=r&role=view&to=de")
        await until(lambda: len(live.hub.sessions) == 1)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        async with talk(live, "?room=r&to=de") as client:
            for _ in range(200):
                await client.send("go")
                await client.until("final")
                if len(live.hub.sessions) == 1:
                    break
            await until(lambda: len(live.hub.sessions) == 1)
        writer.transport.abort()


# --- the end ------------------------------------------------------------------------------------


async def test_a_drain_lets_captions_in_flight_finish_and_refuses_new_ones() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine) as live, talk(live, "?to=de") as client:
        await client.send("hello there")
        await until(lambda: engine.unfinished == 1)
        live.server.should_exit = True
        goaway = (await client.until("goaway"))[-1]
        assert goaway["in_ms"] == 5000
        await client.send("too late")
        assert (await client.until("error"))[-1]["code"] == "busy"
        engine.release()
        assert (await client.until("final"))[-1]["text"] == "[de] hello there"
        assert (await client.closed())[0] == CloseCode.GOAWAY


async def test_captions_that_outlast_the_drain_are_reported_as_ended() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine, drain_s=0.05) as live, talk(live, "?to=de") as client:
        await client.send({"type": "say", "id": "a", "text": "hello there"})
        await until(lambda: engine.unfinished == 1)
        live.server.should_exit = True
        assert (await client.until("cancelled"))[-1]["id"] == "a"
        assert (await client.closed())[0] == CloseCode.GOAWAY
        assert engine.unfinished == 0
