"""The spans of utterances, as the SDK's exporter in memory has them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from gateway.core.session.connect_request import ConnectRequest
from gateway.core.session.session import Session
from gateway.engines.base.engine import Engine
from gateway.engines.scripted import ScriptedEngine
from gateway.errors import EngineFault, ErrorCode
from gateway.job import Job
from gateway.limits import Limits
from gateway.protocol.messages import ServerMessage
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.room_host import RoomHost
from gateway.server.telemetry import tracing
from gateway.server.telemetry.tracing import UtteranceTracer
from tests.server.test_private import SAID
from tests.support.live import until

TRACE = "0af7651916cd43dd8448eb211c80319c"
HEADERS = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


class Traced:
    """A hub whose utterances are traced into memory."""

    def __init__(
        self, engine: Engine | None = None, provider: TracerProvider | None = None
    ) -> None:
        self.exporter = InMemorySpanExporter()
        provider = provider or TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.engine = engine or ScriptedEngine()
        self.hub = Hub(RoomHost(self.engine, Limits(rate=1e6, burst=10**6), observe=self.observe))
        self.tracer = UtteranceTracer(provider.get_tracer("test"), self.hub)

    def observe(self, room: str, event: ServerMessage, now: float) -> None:
        self.tracer.observe(room, event, now)

    def enter(self, *langs: str, headers: dict[str, str] | None = None, **more: object) -> Session:
        request = ConnectRequest(room="board", source="en", targets=langs, **more)  # type: ignore[arg-type]
        session = self.hub.open(request)
        self.tracer.connected(session.id, headers or {}, once=request.once)
        return session

    def say(self, session: Session, text: str = "Good morning.", **fields: object) -> None:
        said = {"type": "say", "id": "u1", "text": text, **fields}
        self.hub.receive(session, json.dumps(said))

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    async def roots(self, count: int) -> None:
        """Wait until so many traces have ended."""
        await until(lambda: sum(span.parent is None for span in self.spans) >= count)

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found


@pytest.fixture
async def traced() -> Traced:
    made = Traced()
    await made.engine.start()
    return made


def within(inner: ReadableSpan, outer: ReadableSpan) -> bool:
    """Tell whether a span lies inside another, in time and in the tree."""
    assert inner.start_time and inner.end_time and outer.start_time and outer.end_time
    assert inner.parent is not None and outer.context is not None
    return (
        inner.parent.span_id == outer.context.span_id
        and outer.start_time <= inner.start_time <= inner.end_time <= outer.end_time
    )


async def test_an_utterance_is_a_trace_of_speech_queue_engine_and_fan_out(traced: Traced) -> None:
    session = traced.enter("de")
    traced.say(session)
    await traced.roots(1)
    root, speech, caption, queue, engine, fan_out = map(
        traced.one, ("utterance", "speech", "caption", "queue", "engine", "fan-out")
    )
    assert len(traced.spans) == 6
    assert within(speech, root) and within(caption, root)
    assert all(within(part, caption) for part in (queue, engine, fan_out))
    assert (queue.end_time, engine.end_time) == (engine.start_time, fan_out.start_time)
    (first,) = engine.events
    assert first.name == "first delta"
    assert engine.start_time and engine.end_time
    assert engine.start_time <= first.timestamp <= engine.end_time
    assert root.attributes == {
        "gateway.room": "board",
        "gateway.session": session.id,
        "gateway.utterance": "u1",
        "gateway.source_lang": "en",
        "gateway.engine": "scripted",
        "gateway.characters": 13,
    }
    assert caption.attributes == {
        "gateway.target_lang": "de",
        "gateway.outcome": "final",
        "gateway.by": "mt",
    }


async def test_every_language_of_an_utterance_is_a_caption_of_its_one_trace(
    traced: Traced,
) -> None:
    traced.say(traced.enter("de", "en", "fr"))
    await traced.roots(1)
    captions = [span for span in traced.spans if span.name == "caption"]
    assert {(c.attributes or {})["gateway.target_lang"] for c in captions} == {"de", "en", "fr"}
    assert all(within(caption, traced.one("utterance")) for caption in captions)
    # The original itself has waited for no engine.
    assert sum(span.name == "engine" for span in traced.spans) == 2


async def test_the_trace_of_growing_speech_begins_with_its_first_frame(traced: Traced) -> None:
    session = traced.enter("de")
    traced.say(session, "Good", rev=1, final=False)
    assert traced.spans == ()
    began = traced.hub.rooms["board"].utterances.by_id["u1"].began
    traced.say(session, "Good morning.", rev=2)
    await traced.roots(1)
    offset = traced.hub.wall() - traced.hub.now()
    start = traced.one("utterance").start_time
    assert start is not None and abs(start / 1e9 - (began + offset)) < 0.1
    assert traced.one("speech").start_time == start


async def test_an_utterance_that_nobody_reads_ends_with_its_speech(traced: Traced) -> None:
    traced.say(traced.enter())
    await traced.roots(1)
    assert {span.name for span in traced.spans} == {"utterance", "speech"}


async def test_a_failed_caption_has_the_code_of_its_failure() -> None:
    def fail(job: Job, piece: int) -> None:
        raise EngineFault("It broke.", ErrorCode.TIMEOUT)

    traced = Traced(ScriptedEngine(fault=fail))
    await traced.engine.start()
    traced.say(traced.enter("de"))
    await traced.roots(1)
    caption = traced.one("caption")
    assert caption.status.status_code is StatusCode.ERROR
    assert (caption.attributes or {})["error.type"] == "timeout"
    assert not traced.one("engine").events, "no text came"


async def test_a_cancelled_utterance_ends_all_its_captions(traced: Traced) -> None:
    traced.engine.hold()  # type: ignore[attr-defined]
    session = traced.enter("de", "fr")
    traced.say(session)
    traced.hub.receive(session, '{"type":"cancel","id":"u1"}')
    await traced.roots(1)
    captions = [span.attributes or {} for span in traced.spans if span.name == "caption"]
    assert {caption["gateway.target_lang"] for caption in captions} == {"de", "fr"}
    assert {caption["gateway.outcome"] for caption in captions} == {"cancelled"}


async def test_speech_that_is_cancelled_before_its_end_is_a_trace(traced: Traced) -> None:
    session = traced.enter("de")
    traced.say(session, "Good", final=False)
    traced.hub.receive(session, '{"type":"cancel","id":"u1"}')
    await traced.roots(1)
    assert "speech" not in {span.name for span in traced.spans}


async def test_a_caption_for_readers_who_came_later_is_a_trace_of_its_own(traced: Traced) -> None:
    session = traced.enter("de")
    traced.say(session)
    await traced.roots(1)
    traced.hub.receive(session, '{"type":"want","langs":["fr"]}')
    await traced.roots(2)
    backfill = traced.one("backfill")
    assert (backfill.attributes or {})["gateway.utterance"] == "u1"
    assert backfill.start_time is not None and traced.one("utterance").end_time is not None


async def test_the_trace_of_a_socket_is_a_link_and_that_of_a_request_is_the_parent(
    traced: Traced,
) -> None:
    traced.say(traced.enter("de", headers=HEADERS))
    await traced.roots(1)
    (link,) = traced.one("utterance").links
    assert f"{link.context.trace_id:032x}" == TRACE
    assert traced.one("utterance").parent is None
    traced.exporter.clear()
    session = traced.enter("de", headers=HEADERS, once=True)
    traced.say(session, id="u2")
    await until(lambda: any(span.name == "utterance" for span in traced.spans))
    root = traced.one("utterance")
    assert root.parent is not None and root.context is not None
    assert f"{root.context.trace_id:032x}" == TRACE
    assert not root.links


@pytest.mark.parametrize(
    "value", ["", "00-zz", f"00-{'0' * 32}-b7ad6b7169203331-01", "日本語" * 99]
)
async def test_a_wrong_trace_context_is_ignored(traced: Traced, value: str) -> None:
    traced.say(traced.enter("de", headers={"traceparent": value}))
    await traced.roots(1)
    assert not traced.one("utterance").links


async def test_trace_contexts_of_closed_sessions_are_dropped(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "SPARE", 3)
    for _ in range(20):
        traced.hub.close(traced.enter("de", headers=HEADERS))
    kept = traced.enter("de", headers=HEADERS)
    assert kept.id in traced.tracer._connections
    assert len(traced.tracer._connections) <= 6


async def test_traces_that_never_end_are_bounded_and_ended_oldest_first(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "OPEN", 2)
    traced.engine.hold()  # type: ignore[attr-defined]
    session = traced.enter("de")
    for number in range(4):
        traced.say(session, id=f"u{number}")
    ended = [span.attributes or {} for span in traced.spans if span.name == "utterance"]
    assert [span["gateway.utterance"] for span in ended] == ["u0", "u1"]
    traced.tracer.end_all()
    assert sum(span.name == "utterance" for span in traced.spans) == 4


async def test_an_utterance_that_is_not_sampled_has_no_spans() -> None:
    traced = Traced(provider=TracerProvider(ALWAYS_OFF, shutdown_on_exit=False))
    await traced.engine.start()
    session = traced.enter("de")
    traced.say(session)
    await until(lambda: session.member.finals == 1)
    await asyncio.sleep(0)
    assert traced.spans == () and not traced.tracer._open


async def test_a_fault_of_the_tracer_ends_no_caption(
    traced: Traced, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "Guten Tag"

    def fail(*_: object) -> None:
        raise RuntimeError(secret)

    monkeypatch.setattr(UtteranceTracer, "_add", fail)
    session = traced.enter("de")
    traced.say(session)
    await until(lambda: session.member.finals == 1)
    assert "could not be traced" in caplog.text and secret not in caplog.text


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield


@pytest.mark.parametrize("text", SAID.values(), ids=SAID)
async def test_no_text_speaker_or_glossary_is_in_a_span(traced: Traced, text: str) -> None:
    session = traced.enter("de", "fr", speaker=text[:9])
    terms = {
        "type": "set",
        "context": text,
        "glossary": {text[:12]: text[2:14]},
        "speaker": text[:9],
    }
    traced.hub.receive(session, json.dumps(terms))
    traced.say(session, text[:14], rev=1, final=False, speaker=text[:9])
    traced.say(session, text, rev=2)
    await traced.roots(1)
    edit = {"type": "edit", "id": "u1", "lang": "de", "text": text}
    traced.hub.receive(session, json.dumps(edit))
    whole = "".join(span.to_json() for span in traced.spans)
    for part in (text[at : at + 5] for at in range(len(text) - 4)):
        assert part not in whole and json.dumps(part)[1:-1] not in whole
