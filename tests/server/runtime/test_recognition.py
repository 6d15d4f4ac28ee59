"""Speech over real sockets, decoded and recognised."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from gateway.engines.scripted import ScriptedEngine, ScriptedRecogniser
from gateway.errors import EngineFault, JobFault
from gateway.job import RecognitionJob
from gateway.limits import Limits
from gateway.server.runtime.recognition import RecognitionRunner
from tests.support.hearing import Loudness, hearing, packets, pieces, tone
from tests.support.live import Live, running, until

Event = dict[str, Any]


async def client(live: Live, **query: str) -> ClientConnection:
    asked = {"from": "en", "to": "en,de", **query}
    text = "&".join(f"{key}={value}" for key, value in asked.items())
    socket = await connect(f"{live.socket}?{text}")
    await wait_for(socket, "welcome")
    return socket


async def wait_for(socket: ClientConnection, type: str, **fields: object) -> Event:
    """Return the next event of a type with these fields; others are passed over."""
    async for frame in socket:
        event: Event = json.loads(frame)
        if event["type"] == type and fields.items() <= event.items():
            return event
    raise AssertionError(f"closed before {type}: {socket.close_code} {socket.close_reason}")


async def begin(socket: ClientConnection, **audio: object) -> None:
    await socket.send(json.dumps({"type": "audio", "codec": "pcm_s16le", **audio}))
    await wait_for(socket, "audio")


async def end(socket: ClientConnection) -> None:
    await socket.send('{"type":"audio","codec":"none"}')


async def test_speech_becomes_captions() -> None:
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live) as runner:
        speaker, reader = await client(live, room="m"), await client(live, room="m", to="de")
        await begin(speaker, t0=10.0)
        for frame in pieces(tone(2.0)):
            await speaker.send(frame)
        await end(speaker)
        heard = await wait_for(speaker, "heard", final=True)
        assert heard["text"].startswith("We meet again on")
        assert 9.5 < heard["t0"] < heard["t1"] < 12.5
        source = await wait_for(reader, "source")
        assert (source["text"], source["t0"]) == (heard["text"], heard["t0"])
        final = await wait_for(reader, "final", lang="de")
        assert (final["t0"], final["t1"]) == (source["t0"], source["t1"])
        done = await wait_for(speaker, "audio", codec="none")
        assert done["seconds"] == pytest.approx(2.0, abs=0.1)
        assert (runner.jobs["done"] > 0, runner.words) == (True, 5)
        assert sum(runner.delays) == 1
        assert runner.streams == {} and runner.undecoded_s == 0
        await speaker.close()
        await reader.close()


@pytest.mark.parametrize("codec", ["opus", "pcm_s16le"])
async def test_every_codec_is_heard_alike(codec: str) -> None:
    sound = tone(2.0, 48_000)
    frames = packets(sound) if codec == "opus" else list(pieces(sound, 0.02, 48_000))
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live):
        socket = await client(live)
        await begin(socket, codec=codec, rate=48_000)
        for frame in frames:
            await socket.send(frame)
        await socket.send('{"type":"bye"}')
        assert (await wait_for(socket, "source"))["text"].startswith("We meet again on")
        await wait_for(socket, "stats")
        await socket.wait_closed()
        assert socket.close_code == 1000


async def test_audio_in_messagepack() -> None:
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live):
        protocol = Subprotocol("gw.v1.msgpack")
        async with connect(f"{live.socket}?from=en&to=de", subprotocols=[protocol]) as socket:
            await socket.send(msgspec.msgpack.encode({"type": "audio", "codec": "pcm_s16le"}))
            for frame in pieces(tone(1.5)):
                await socket.send(msgspec.msgpack.encode({"type": "chunk", "data": frame}))
            await socket.send(msgspec.msgpack.encode({"type": "bye"}))
            frames = [frame async for frame in socket]
            types = [msgspec.msgpack.decode(f)["type"] for f in frames if isinstance(f, bytes)]
            assert {"audio", "heard", "source", "final", "stats"} <= set(types)
            assert "error" not in types


async def test_a_burst_is_bounded_and_hurts_nobody() -> None:
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live) as runner:
        flood, other = await client(live), await client(live, room="m")
        await begin(flood)
        await begin(other)
        sound = tone(0.1)
        for _ in range(600):
            await flood.send(sound)
        error = await wait_for(flood, "error")
        assert error["code"] == "audio_too_fast"
        for frame in pieces(tone(1.5)):
            await other.send(frame)
        await end(other)
        await wait_for(other, "final", lang="de")
        assert runner.audio_s < 60 / 2
        await flood.close()
        await other.close()
        await until(lambda: not runner.streams)


async def test_a_late_recogniser_does_not_delay_typed_text() -> None:
    recogniser = ScriptedRecogniser()
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live, recogniser) as runner:
        recogniser.hold()
        speaker, writer = await client(live), await client(live)
        await begin(speaker)
        for frame in pieces(tone(1.5)):
            await speaker.send(frame)
        await until(lambda: len(runner.running) == 1)
        await writer.send("hello")
        await wait_for(writer, "final", lang="de")
        recogniser.release()
        await end(speaker)
        await wait_for(speaker, "final", lang="de")
        await speaker.close()
        await writer.close()


async def test_rooms_and_tenants_share_the_recogniser_by_seconds_of_audio() -> None:
    recogniser = ScriptedRecogniser(capacity=1)
    async with running() as live, hearing(live, recogniser) as runner:
        recogniser.hold()
        worker = Ignoring()
        audio = bytes(32_000)
        order = [("a", "x", 4), ("b", "x", 1), ("c", "y", 1), ("d", "x", 1)]
        for id, tenant, seconds in [("first", "x", 1), *order]:
            job = RecognitionJob(id=id, room=id, tenant=tenant, audio=audio * seconds, final=False)
            runner.submit(job, worker)  # type: ignore[arg-type]  # only ``answered`` is called
        last = RecognitionJob(id="end", room="a", tenant="x", audio=audio, final=True)
        runner.submit(last, worker)  # type: ignore[arg-type]
        assert runner.queued == 5
        recogniser.release()
        await until(lambda: not runner.running)
        # The end of an utterance first; then tenant y, which has had less than x.
        assert [job.id for job in recogniser.jobs][:2] == ["first", "end"]
        assert [job.id for job in recogniser.jobs][2:] == ["a", "c", "b", "d"]


class Ignoring:
    """A worker that nobody listens to."""

    def answered(self, job: object, result: object) -> None:
        pass


async def test_a_client_that_leaves_stops_its_job_and_frees_its_place() -> None:
    recogniser = ScriptedRecogniser(capacity=1)
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live, recogniser) as runner:
        recogniser.hold()
        sockets = [await client(live) for _ in range(3)]
        for socket in sockets:
            await begin(socket)
            for frame in pieces(tone(1.5)):
                await socket.send(frame)
        await until(lambda: runner.queued == 2 and len(runner.running) == 1)
        for socket in sockets:
            await socket.close()
        await until(lambda: not runner.streams and not runner.running)
        assert runner.queued == 0
        # A job that is replaced in the turn in which it was given out never reaches the recogniser.
        assert runner.jobs["cancelled"] >= len(recogniser.cancelled) > 0


@pytest.mark.parametrize("fault", [JobFault("no"), EngineFault("dead"), ValueError("a bug")])
async def test_a_recogniser_that_fails_once_loses_only_time(fault: Exception) -> None:
    faults = [fault]

    def fail(job: RecognitionJob) -> None:
        if faults:
            raise faults.pop()

    recogniser = ScriptedRecogniser(fault=fail)
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live, recogniser) as runner:
        socket = await client(live)
        await begin(socket)
        for frame in pieces(tone(2.0)):
            await socket.send(frame)
        await end(socket)
        await wait_for(socket, "source")
        assert runner.jobs.total() - runner.jobs["done"] - runner.jobs["cancelled"] == 1
        await socket.close()


async def test_a_job_that_takes_too_long_is_ended() -> None:
    recogniser = ScriptedRecogniser()
    limits = Limits(job_s=0.05)
    async with running(limits=limits) as live, hearing(live, recogniser) as runner:
        recogniser.hold()
        socket = await client(live)
        await begin(socket)
        for frame in pieces(tone(1.0)):
            await socket.send(frame)
        await until(lambda: runner.jobs["timeout"] > 0)
        recogniser.release()
        await socket.close()


async def test_audio_is_refused_while_the_recogniser_is_gone() -> None:
    recogniser = ScriptedRecogniser()
    async with running() as live, hearing(live, recogniser):
        recogniser.die()
        socket = await client(live)
        await socket.send('{"type":"audio","codec":"opus"}')
        error = await wait_for(socket, "error")
        assert (error["code"], error["retry"]) == ("engine_unavailable", True)
        await socket.close()


async def test_a_gateway_is_ready_once_its_recogniser_is_and_stays_so() -> None:
    async with running() as live, httpx.AsyncClient(base_url=live.http) as http:
        recogniser = ScriptedRecogniser()
        live.hub.recognition = RecognitionRunner(live.hub.host, recogniser, Loudness)
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "starting")
        assert answer.json()["recogniser"] == {"name": "scripted", "status": "starting"}
        await recogniser.start()
        assert (await http.get("/readyz")).status_code == 200
        recogniser.die()
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["recogniser"]["status"]) == (200, "dead")
        await live.hub.recognition.aclose()


async def test_a_fault_of_the_gateways_own_code_ends_only_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live) as runner:
        socket = await client(live)
        await begin(socket)
        (worker,) = runner.streams.values()
        monkeypatch.setattr(worker, "_voice", None)
        await socket.send(tone(0.1))
        assert (await wait_for(socket, "error"))["code"] == "internal"
        await socket.send(tone(0.1))
        assert (await wait_for(socket, "error"))["code"] == "audio_off"
        await begin(socket)
        (worker,) = runner.streams.values()
        monkeypatch.setattr(worker._stream, "decoded", None)
        await socket.send(tone(0.1))
        assert (await wait_for(socket, "error"))["code"] == "internal"
        await socket.send("typed text still works")
        await wait_for(socket, "final", lang="de")
        await socket.close()


async def test_a_broken_packet_counts_as_silence() -> None:
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live):
        socket = await client(live)
        await begin(socket, codec="opus")
        await socket.send(b"\xfe\xfb\xff\x00")
        assert (await wait_for(socket, "error"))["code"] == "audio_broken"
        for packet in packets(tone(1.5, 48_000)):
            await socket.send(packet)
        await end(socket)
        await wait_for(socket, "source")
        await socket.close()


async def test_packets_that_are_larger_than_their_frames_can_be_take_no_memory() -> None:
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live) as runner:
        runner.decoding.add = lambda _: None  # type: ignore[method-assign,assignment]  # it is late
        socket = await client(live)
        await begin(socket, codec="opus")
        for _ in range(50):
            await socket.send(b"\x80" + bytes(60_000))  # a frame of 2.5 ms
        await socket.send(b"\x80" + bytes(1_275))
        assert (await wait_for(socket, "error"))["code"] == "audio_broken"
        await until(lambda: runner.audio_s > 0)
        assert runner.audio_s == 0.0025 and runner.undecoded_bytes < 2_000
        await socket.close()


async def test_a_gateway_that_stops_hears_the_rest() -> None:
    async with running(ScriptedEngine(pace=0.0)) as live, hearing(live) as runner:
        socket = await client(live, room="m")
        await begin(socket)
        for frame in pieces(tone(2.0)):
            await socket.send(frame)
        await until(lambda: runner.audio_s > 1.99)
        draining = asyncio.create_task(live.hub.drain(5))
        await wait_for(socket, "goaway")
        await wait_for(socket, "source")
        await wait_for(socket, "final", lang="de")
        await socket.close()
        await draining


async def test_ten_minutes_of_speech_through_a_socket_leave_nothing_behind() -> None:
    """A short form of `benchmarks.speech.memory`."""
    limits = Limits(audio_rate=1_000.0, audio_burst=700.0)
    sentence = tone(4.0) + bytes(2 * 16_000)
    async with running(ScriptedEngine(pace=0.0), limits=limits) as live, hearing(live) as runner:
        socket = await client(live)
        await begin(socket)
        worker = next(iter(runner.streams.values()))
        stream = worker._stream
        assert stream is not None
        settled = 0.0
        for sent in range(5, 605, 5):
            for frame in pieces(sentence, 2.0):
                await socket.send(frame)
            while sent - settled > 30:
                event = await wait_for(socket, "audio")
                settled = event["seconds"]
                assert event.get("lost", 0) == 0
            assert runner.undecoded_s <= 35
            assert len(stream._speech._audio._pcm) <= 60 * 32_000
            assert len(stream._arrivals) <= 60 / 0.1 and len(stream._offsets) == 1
        await end(socket)
        assert (await wait_for(socket, "audio", codec="none"))["seconds"] == pytest.approx(
            600, abs=0.1
        )
        assert runner.words == 600 / 5 * 4.0 / 0.4
        assert runner.streams == {} and runner.running == {} and runner.queued == 0
        await socket.close()
