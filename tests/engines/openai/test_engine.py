"""Tests of streaming by the OpenAI engine, with a real HTTP server (``openai_server.py``).

To test with a real vLLM, llama.cpp or Ollama set GATEWAY_TEST_OPENAI_URL, as
docs/design/openai.md describes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import aclosing
from typing import Any

import pytest

from gateway.engines.base.engine import Aborted
from gateway.engines.base.service import Health
from gateway.engines.openai import server as model_server
from gateway.engines.openai.completions import EVENT_LIMIT
from gateway.engines.openai.engine import OUTPUT_LIMIT, BrokenResponse, OpenAIEngine
from gateway.engines.profiles import load
from gateway.errors import EngineFault, EngineGone, JobFault, Overloaded
from gateway.job import Chunk, Job
from tests.engines import reading
from tests.engines.openai_factory import CHAT, RAW, serving
from tests.engines.openai_server import Script, event
from tests.engines.reading import chunks, read

SECRET = "sk-very-secret"
URL = os.environ.get("GATEWAY_TEST_OPENAI_URL")


def job(id: str = "j1", text: str = "Good morning!", **fields: Any) -> Job:
    return reading.job(id, text, **fields)


# --- what a stream gives --------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [CHAT, RAW], ids=["chat", "completions"])
async def test_the_pieces_of_the_stream_are_the_translation(profile: Any) -> None:
    async with serving(profile=profile) as (server, engine):
        assert await read(engine, job()) == "Guten Morgen!"


async def test_a_character_split_between_two_writes_arrives_complete() -> None:
    async with serving() as (server, engine):
        sent = event({"choices": [{"delta": {"content": "Grüße, 日本 👋"}}]})
        server.script(Script(pieces=[sent[n : n + 1] for n in range(len(sent))]))
        assert await read(engine, job()) == "Grüße, 日本 👋"


async def test_roles_reasoning_and_empty_deltas_make_no_chunk() -> None:
    async with serving() as (server, engine):
        silent = [
            event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
            event({"choices": [{"delta": {"reasoning_content": "The user wants"}}]}),
            event({"choices": [], "usage": {"completion_tokens": 3}}),
            b": still here\n\n",
        ]
        server.script(Script(pieces=[*silent, "Hallo"]))
        async with aclosing(engine.translate(job())) as chunks:
            assert [chunk.text async for chunk in chunks] == ["Hallo"]


async def test_tokens_are_counted_if_the_server_reports_them() -> None:
    async with serving() as (server, engine):
        server.script(Script(pieces=["a", "", "b"], usage=True), Script())
        async with aclosing(engine.translate(job())) as chunks:
            assert sum([chunk.tokens async for chunk in chunks]) == 3
        async with aclosing(engine.translate(job())) as chunks:
            assert sum([chunk.tokens async for chunk in chunks]) == 0


async def test_the_events_of_one_read_from_the_network_become_one_chunk() -> None:
    async with serving() as (server, engine):
        events = [event({"choices": [{"delta": {"content": text}}]}) for text in "bc"]
        server.script(Script(pieces=["a", b"".join(events)]))
        async with aclosing(engine.translate(job())) as chunks:
            assert [chunk async for chunk in chunks] == [Chunk("a", 0), Chunk("bc", 0)]


async def test_the_text_before_a_fault_in_the_same_read_is_delivered() -> None:
    async with serving() as (server, engine):
        text = event({"choices": [{"delta": {"content": "a"}}]})
        server.script(Script(pieces=[text + event({"error": {"code": 500}})]))
        async with aclosing(engine.translate(job())) as chunks:
            assert await anext(chunks) == Chunk("a", 0)
            with pytest.raises(EngineFault, match="500"):
                await anext(chunks)


async def test_the_length_limit_is_a_normal_end() -> None:
    async with serving() as (server, engine):
        server.script(Script(finish="length"))
        assert await read(engine, job()) == "Guten Morgen!"


async def test_a_stream_that_stays_open_after_the_text_does_not_delay_its_end() -> None:
    async with serving() as (server, engine):
        end = event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        server.script(Script(pieces=["Hallo", end, "never"], hold=2))
        assert await read(engine, job()) == "Hallo"


async def test_a_connection_lost_after_the_end_of_the_text_does_no_harm() -> None:
    async with serving() as (server, engine):
        end = event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        server.script(Script(pieces=["Hallo", end, "never"], cut=2))
        assert await read(engine, job()) == "Hallo"


async def test_jobs_one_after_another_use_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_server, "KEEPALIVE_TIMEOUT", 30.0)  # machines of CI stop for seconds
    async with serving() as (server, engine):
        for n in range(3):
            await read(engine, job(f"j{n}"))
        assert len(server.clients) == 1


# --- ends that are faults -------------------------------------------------------------------------


GARBAGE = Script(pieces=[b"data: {not json}\n\n"])
BROKEN = Script(pieces=[b'data: {"choices":[{"text":"\xff"}]}\n\n'])
ENDLESS = Script(pieces=["a" * 1000] * (OUTPUT_LIMIT // 1000 + 1))
HUGE = Script(pieces=[b"data: " + b"a" * EVENT_LIMIT])


def oops(error: Any) -> Script:
    return Script(pieces=[event({"error": error})])


def refused(status: int, body: Any) -> Script:
    return Script(status=status, body=body)


TOO_LONG = {"message": "This model's maximum context length is 512 tokens.", "code": 400}


@pytest.mark.parametrize(
    ("script", "kind", "says"),
    [
        (Script(finish="abort"), BrokenResponse, "with abort, which was not asked for"),
        (Script(finish="tool_calls"), EngineGone, "with tool_calls"),
        (Script(finish="Guten Morgen"), EngineGone, "with another reason, which was not"),
        (Script(finish=None), BrokenResponse, "before the end of the text"),
        (Script(finish=None, done=False), BrokenResponse, "before the end of the text"),
        (Script(pieces=()), None, ""),
        (
            Script(pieces=["Gut", "en"], cut=1),
            BrokenResponse,
            "connection to the model server broke",
        ),
        (Script(finish="content_filter"), JobFault, "content filter"),
        (oops({"message": "out of memory", "code": 500}), EngineFault, "the job .500..$"),
        (oops({"message": "queue", "code": 503}), Overloaded, "full .503..$"),
        (oops({"message": "too long", "code": 400}), JobFault, "the job .400..$"),
        (oops("model runner has stopped"), EngineFault, "the job .500..$"),
        (GARBAGE, EngineFault, "could not be read"),
        (BROKEN, EngineFault, "could not be read"),
        (HUGE, EngineFault, "could not be read"),
        (ENDLESS, JobFault, "far more text"),
        (Script(type="text/html"), EngineFault, "did not answer with a stream"),
        (refused(429, {"error": "slow down"}), Overloaded, "full .429..$"),
        (refused(503, {"message": "queue"}), Overloaded, "full .503..$"),
        (refused(500, {"detail": "oops"}), EngineFault, "the job .500..$"),
        (refused(404, {"detail": "no such model"}), EngineFault, "the job .404..$"),
        (refused(502, b"<html>nginx"), EngineGone, "no model behind .* .502..$"),
        (refused(400, {"error": TOO_LONG}), JobFault, "refused the job .400..$"),
        (refused(413, b"x" * 200_000), JobFault, "refused the job .413..$"),
        (refused(422, {"detail": "no such field"}), JobFault, "refused the job .422..$"),
        (refused(401, {"error": "no"}), EngineFault, "wants an API key .401."),
    ],
)
async def test_every_other_end_is_a_fault_that_says_why(
    script: Script, kind: type[EngineFault] | None, says: str
) -> None:
    async with serving() as (server, engine):
        server.default = lambda body: script  # also for a job that is sent again
        if kind is None:
            assert await read(engine, job()) == ""
            return
        with pytest.raises(EngineFault, match=says) as caught:
            await read(engine, job())
        assert type(caught.value) is kind
        assert engine.health is Health.READY
        server.default = lambda body: Script()
        assert await read(engine, job()) == "Guten Morgen!"


async def test_text_before_a_fault_is_delivered_first() -> None:
    async with serving() as (server, engine):
        server.script(Script(pieces=["Gut", oops("model runner has stopped").pieces[0]]))
        async with aclosing(engine.translate(job())) as chunks:
            assert (await anext(chunks)).text == "Gut"
            with pytest.raises(EngineFault):
                await anext(chunks)


async def shown(engine: OpenAIEngine, job: Job) -> list[str]:
    """Return the text that a reader of the caption sees after each chunk."""
    seen = [""]
    for chunk in await chunks(engine, job):
        seen.append(chunk.text if chunk.reset else seen[-1] + chunk.text)
    return seen[1:]


LOST = [
    Script(pieces=["Gut", "en"], cut=1),
    Script(pieces=["Gut"], finish=None),
    Script(pieces=["Gut"], finish=None, done=False),
    Script(pieces=["Gut"], finish="abort"),
]


@pytest.mark.parametrize("lost", LOST)
async def test_a_job_whose_response_broke_is_sent_again_and_no_text_is_doubled(
    lost: Script,
) -> None:
    async with serving() as (server, engine):
        server.script(lost, Script(pieces=["Guten", " Tag"]))
        assert (await shown(engine, job()))[-3:] == ["Gut", "Guten", "Guten Tag"]
        assert len(server.received) == 2
        assert server.received[0].body == server.received[1].body


async def test_a_response_that_broke_before_any_text_is_followed_by_plain_chunks() -> None:
    async with serving() as (server, engine):
        server.script(Script(finish=None, pieces=()))
        assert not any(chunk.reset for chunk in await chunks(engine, job()))


async def test_a_second_response_without_text_voids_the_text_of_the_first() -> None:
    async with serving() as (server, engine):
        server.script(LOST[0], Script(pieces=()))
        assert (await shown(engine, job())) == ["Gut", ""]


async def test_a_job_is_sent_twice_at_most() -> None:
    async with serving() as (server, engine):
        server.default = lambda body: LOST[0]
        async with aclosing(engine.translate(job())) as stream:
            assert await anext(stream) == Chunk("Gut", 0)
            assert await anext(stream) == Chunk("Gut", 0, reset=True)
            with pytest.raises(EngineGone):
                await anext(stream)
        assert len(server.received) == 2


async def test_a_job_that_is_aborted_during_its_second_response_ends() -> None:
    async with serving() as (server, engine):
        server.script(LOST[0], Script(hold=0))
        reading = asyncio.create_task(read(engine, job()))
        await server.wait(lambda server: len(server.received) == 2)
        engine.abort("j1")
        with pytest.raises(Aborted):
            await reading
        await server.wait(lambda server: server.unfinished == 0)
        assert len(server.received) == 2


async def test_a_silent_server_is_left_after_the_read_timeout() -> None:
    async with serving(read_timeout=0.1) as (server, engine):
        server.script(Script(hold=1))
        with pytest.raises(EngineGone, match=r"sent nothing for 0\.1 s"):
            await read(engine, job())
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone


async def test_neither_the_key_nor_the_text_is_in_any_message_or_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    private = "Wir entlassen Müller."

    with caplog.at_level(logging.DEBUG):
        async with serving(server_key=SECRET, api_key=f"{SECRET}\n") as (server, engine):
            quoting = f"'input': {private!r} and {ascii(private)} with key {SECRET}"
            server.script(
                refused(400, {"error": {"message": quoting}}), refused(401, {}), oops(quoting)
            )
            for _ in range(3):
                with pytest.raises(EngineFault) as caught:
                    await read(engine, job(context=[(private, private)], text=private[4:]))
                assert SECRET not in str(caught.value)
                assert "entlassen" not in str(caught.value)
            assert SECRET not in repr(engine) + repr(vars(engine)["_client"])
    assert caplog.records
    assert SECRET not in caplog.text
    assert "entlassen" not in caplog.text


# --- a real server --------------------------------------------------------------------------------


@pytest.mark.external
@pytest.mark.skipif(
    not URL,
    reason="set GATEWAY_TEST_OPENAI_URL to a running OpenAI-compatible server",
)
async def test_a_real_server_translates_continues_and_aborts() -> None:
    profile = os.environ.get("GATEWAY_TEST_OPENAI_PROFILE")
    engine = OpenAIEngine(
        URL or "",
        os.environ.get("GATEWAY_TEST_OPENAI_MODEL"),
        api_key=os.environ.get("GATEWAY_TEST_OPENAI_KEY"),
        profile=load(profile) if profile else None,
    )
    await engine.start()
    whole = await read(engine, job("whole"))
    assert whole
    first = whole.split()[0]
    rest = await read(engine, job("continued", prefix=first))
    assert rest
    assert not rest.startswith(first)
    long = " ".join(["We will meet again on Monday to talk about the budget."] * 8)
    async with aclosing(engine.translate(job("aborted", long))) as chunks:
        await anext(chunks)
        engine.abort("aborted")
        with pytest.raises(Aborted):
            await anext(chunks)
    assert engine.unfinished == 0
    assert await read(engine, job("after")) == whole
    await engine.aclose()
