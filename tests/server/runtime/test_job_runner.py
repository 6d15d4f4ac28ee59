"""Jobs of the engine: their text, their end, and their time limit."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.core.captions.captioner import Captioner, CaptionSink
from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.session import Session
from gateway.engines.base.engine import Sink
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineGone, ErrorCode
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.protocol.messages import Delta, Failed, Final, ServerMessage
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost, TextOptions
from tests.support.live import until
from tests.support.meeting import names, only, read


class ByHand(ScriptedEngine):
    """An engine whose output the test writes; aborted jobs end when the test ends them."""

    def __init__(self) -> None:
        super().__init__()
        self.sinks: dict[str, Sink] = {}

    def submit(self, job: Job, sink: Sink) -> None:
        self.sinks[job.text] = sink

    def abort(self, job_id: str) -> None:
        self.aborted.append(job_id)


async def opened(
    engine: ScriptedEngine, limits: Limits | None = None, *, coalesce_s: float = 0.05
) -> tuple[Hub, Session]:
    """Return a hub, and a session that speaks English and reads German."""
    await engine.start()
    hub = Hub(RoomHost(engine, limits or Limits(), text=TextOptions(coalesce_s=coalesce_s)))
    return hub, hub.open(ConnectRequest(room="r", source="en", targets=("de",)))


def heard(session: Session) -> list[ServerMessage]:
    """Return the messages sent to a session since the last call."""
    return [read(frame) for frame in session.outbox.take()]


def say(hub: Hub, session: Session, text: str) -> None:
    hub.receive(session, json.dumps({"type": "say", "id": text, "text": text}))


def busy(hub: Hub) -> None:
    """Let the hub measure full load, so that it coalesces text."""
    hub.jobs.coalescing.poll(1.0, 10_000, 0.0)
    assert hub.jobs.coalescing.interval == pytest.approx(0.05)


async def test_engine_output_is_in_the_outbox_when_the_call_returns() -> None:
    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    heard(session)
    engine.sinks["one"].chunk(Chunk("eins"))
    (delta,) = heard(session)
    assert isinstance(delta, Delta) and delta.add == "eins"
    engine.sinks["one"].end(None)
    (final,) = only(Final, heard(session))
    assert final.text == "eins"
    assert (hub.jobs.runs, hub.scheduler.running, hub.jobs.tokens) == ({}, 0, 1)


async def test_a_job_is_stopped_in_the_turn_of_the_frame_and_its_slot_is_free_at_its_end() -> None:
    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    sink = engine.sinks["one"]
    hub.receive(session, '{"type":"cancel","id":"one"}')
    assert len(engine.aborted) == 1
    assert hub.scheduler.running == 1
    sink.chunk(Chunk("eins"))
    sink.end(EngineGone("It ended otherwise."))
    assert hub.scheduler.running == 0
    assert only(Delta, heard(session)) == []


async def test_a_fault_of_the_room_ends_only_the_job_it_happened_in_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(line: CaptionSink, chunk: Chunk, now: float) -> None:
        if chunk.text == "bad":
            raise ZeroDivisionError
        add_output(line, chunk, now)

    add_output = CaptionSink.add_output
    monkeypatch.setattr(CaptionSink, "add_output", broken)

    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    say(hub, session, "two")
    engine.sinks["one"].chunk(Chunk("bad"))
    engine.sinks["two"].chunk(Chunk("gut"))
    engine.sinks["two"].end(None)
    events = heard(session)
    (failed,) = only(Failed, events)
    assert (failed.id, failed.code) == ("one", ErrorCode.INTERNAL)
    assert [final.id for final in only(Final, events)] == ["two"]
    assert len(engine.aborted) == 1
    engine.sinks["one"].end(None)
    assert heard(session) == []
    assert "ZeroDivisionError" in caplog.text


async def test_a_room_that_breaks_at_the_end_of_a_job_does_not_keep_its_slot(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(captioner: Captioner, job_id: str, now: float) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Captioner, "finished", broken)

    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    engine.sinks["one"].end(None)
    assert hub.scheduler.running == 0
    assert "ZeroDivisionError" in caplog.text


async def test_a_job_that_the_engine_does_not_accept_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(ScriptedEngine):
        def submit(self, job: Job, sink: Sink) -> None:
            raise ZeroDivisionError

    hub, session = await opened(Broken())
    say(hub, session, "one")
    (failed,) = only(Failed, heard(session))
    assert failed.code == ErrorCode.INTERNAL
    assert hub.scheduler.running == 0
    assert "ZeroDivisionError" in caplog.text


async def test_a_job_over_its_time_limit_fails_even_if_the_engine_hangs() -> None:
    engine = ByHand()
    hub, session = await opened(engine, Limits(job_s=0.05))
    say(hub, session, "one")
    say(hub, session, "two")
    await until(lambda: not hub.scheduler.running)
    failed = only(Failed, heard(session))
    assert [(each.id, each.code) for each in failed] == [
        ("one", ErrorCode.TIMEOUT),
        ("two", ErrorCode.TIMEOUT),
    ]
    assert len(engine.aborted) == 2
    engine.sinks["one"].chunk(Chunk("eins"))
    engine.sinks["one"].end(None)
    assert heard(session) == []


async def test_a_stopped_job_whose_engine_never_ends_it_does_not_keep_its_slot_for_ever() -> None:
    engine = ByHand()
    hub, session = await opened(engine, Limits(job_s=0.05))
    say(hub, session, "one")
    hub.receive(session, '{"type":"cancel","id":"one"}')
    assert hub.scheduler.running == 1
    await until(lambda: not hub.scheduler.running)
    assert only(Failed, heard(session)) == []


async def test_only_jobs_over_their_time_limit_are_ended() -> None:
    now = [0.0]
    engine = ByHand()
    await engine.start()
    hub = Hub(RoomHost(engine, Limits(job_s=30), clock=lambda: now[0]))
    session = hub.open(ConnectRequest(room="r", source="en", targets=("de",)))
    for at, text in ((0.0, "one"), (10.0, "two")):
        now[0] = at
        say(hub, session, text)
    for at, left in ((29.9, ["one", "two"]), (30.0, ["two"]), (39.9, ["two"]), (40.0, [])):
        now[0] = at
        hub.jobs.end_overdue()
        assert [run.job.text for run in hub.jobs.runs.values()] == left


async def test_a_drain_fails_the_jobs_that_the_engine_still_has() -> None:
    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    hub.leave(session, lost=True)
    hub.hurry()
    await hub.drain(0)
    assert (hub.jobs.runs, hub.scheduler.running) == ({}, 0)
    assert len(engine.aborted) >= 1


# --- coalescing -----------------------------------------------------------------------------------


async def test_under_load_chunks_are_coalesced_except_the_first() -> None:
    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    say(hub, session, "two")
    heard(session)
    busy(hub)
    for n in range(4):
        engine.sinks["one"].chunk(Chunk(f"{n} "))
        engine.sinks["two"].chunk(Chunk(f"{n} "))
    assert [(d.id, d.add) for d in only(Delta, heard(session))] == [
        ("one", "0 "),
        ("two", "0 "),
    ]
    await until(lambda: session.outbox.bytes > 0)
    deltas = only(Delta, heard(session))
    assert [(d.id, d.add) for d in deltas] == [("one", "1 2 3 "), ("two", "1 2 3 ")]
    assert (hub.jobs.chunks, hub.jobs.merged, hub.jobs.tokens) == (8, 4, 8)


async def test_tokens_of_drafts_are_counted_apart_from_those_that_were_made() -> None:
    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    engine.sinks["one"].chunk(Chunk("Guten", 2, drafted=7, accepted=5))
    engine.sinks["one"].chunk(Chunk(" Tag"))
    assert (hub.jobs.tokens, hub.jobs.drafted, hub.jobs.accepted) == (3, 7, 5)


async def test_the_end_of_a_job_shows_held_text_first() -> None:
    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    busy(hub)
    for n in range(3):
        engine.sinks["one"].chunk(Chunk(f"{n} "))
    heard(session)
    engine.sinks["one"].end(None)
    assert names(heard(session))[:2] == ["delta", "final"]
    await asyncio.sleep(0.06)  # the timer finds nothing
    assert heard(session) == []


async def test_a_chunk_that_replaces_all_text_is_shown_at_once() -> None:
    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    busy(hub)
    engine.sinks["one"].chunk(Chunk("Guten"))
    engine.sinks["one"].chunk(Chunk(" Mor"))
    (delta,) = only(Delta, heard(session))
    assert delta.add == "Guten"
    engine.sinks["one"].chunk(Chunk("Eins", reset=True))
    (delta,) = only(Delta, heard(session))
    assert (delta.add, delta.reset) == ("Eins", True)
    engine.sinks["one"].chunk(Chunk("Zwei", reset=True))
    (delta,) = only(Delta, heard(session))
    assert (delta.add, delta.reset) == ("Zwei", True)


@pytest.mark.parametrize("end", ["cancel", "fault"])
async def test_held_text_is_dropped_by_a_cancel_and_shown_before_a_failure(end: str) -> None:
    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    busy(hub)
    engine.sinks["one"].chunk(Chunk("Guten"))
    engine.sinks["one"].chunk(Chunk(" Morgen"))
    heard(session)
    if end == "cancel":
        hub.receive(session, '{"type":"cancel","id":"one"}')
        assert names(heard(session)) == ["cancelled"]
    else:
        engine.sinks["one"].end(EngineGone("It died."))
        assert names(heard(session)) == ["delta", "failed"]


async def test_no_text_is_held_if_coalescing_is_off() -> None:
    engine = ByHand()
    hub, session = await opened(engine, coalesce_s=0)
    say(hub, session, "one")
    hub.jobs.coalescing.poll(1.0, 10_000, 0.0)
    heard(session)
    for n in range(3):
        engine.sinks["one"].chunk(Chunk(f"{n} "))
    assert hub.jobs.merged == 0
    assert hub.jobs.coalescing.interval == 0


async def test_housekeeping_measures_the_load_of_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[tuple[float, float, float]] = []

    engine = ScriptedEngine()
    hub, session = await opened(engine)
    monkeypatch.setattr(hub.jobs.coalescing, "poll", lambda *values: looks.append(values))
    say(hub, session, "one two three")
    await until(lambda: not hub.jobs.runs)
    hub.sweep()
    hub.sweep()
    (share, rate, merged), (_, *nothing) = looks
    assert share >= 0
    assert rate > 0
    assert merged == 0
    assert nothing == [0, 0]


async def test_housekeeping_measures_the_part_of_the_chunks_that_was_merged() -> None:
    engine = ByHand()
    hub, session = await opened(engine)
    say(hub, session, "one")
    hub.sweep()
    busy(hub)
    looks: list[tuple[float, ...]] = []
    hub.jobs.coalescing.poll = lambda *values: looks.append(values)  # type: ignore[method-assign]
    for n in range(4):
        engine.sinks["one"].chunk(Chunk(f"{n} "))
    hub.sweep()
    assert [merged for _, _, merged in looks] == [0.5]


async def test_a_fault_of_the_engine_fails_the_caption_with_its_code() -> None:
    engine = ScriptedEngine(fault=failing(EngineGone("It died.")))
    hub, session = await opened(engine)
    say(hub, session, "one")
    await until(lambda: not hub.jobs.runs)
    (failed,) = only(Failed, heard(session))
    assert failed.code == ErrorCode.ENGINE_UNAVAILABLE
