"""The OpenAI-compatible engine against a real HTTP server (``openai_server.py``).

Against a real vLLM, llama.cpp or Ollama: set GATEWAY_TEST_OPENAI_URL, see docs/design/openai.md.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse

from gateway.engines.base import Aborted, Health
from gateway.engines.completions import EVENT_LIMIT
from gateway.engines.openai import CROWD, OUTPUT_LIMIT, OpenAIEngine
from gateway.errors import EngineFault, EngineGone, Overloaded
from gateway.job import Chunk, Job
from gateway.profiles import load
from tests.engines.openai_server import Script, Server, event

CHAT = load("chat")
RAW = load("seed-x")
SECRET = "sk-very-secret"
URL = os.environ.get("GATEWAY_TEST_OPENAI_URL")


def job(id: str = "j1", text: str = "Good morning!", **fields: Any) -> Job:
    return Job(id=id, text=text, source="en", target="de", **fields)


async def collect(engine: OpenAIEngine, job: Job) -> str:
    async with aclosing(engine.translate(job)) as chunks:
        return "".join([chunk.text async for chunk in chunks])


async def read(engine: OpenAIEngine) -> None:
    """Return when all responses have come in, and what they said waits for its readers."""
    while engine.unfinished:  # noqa: ASYNC110
        await asyncio.sleep(0)


def run(work: Callable[..., Awaitable[None]], *args: Any) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await work(*args)

    asyncio.run(limited())


def with_engine(
    work: Callable[[Server, OpenAIEngine], Awaitable[None]],
    *,
    owner: str = "tests",
    server_key: str | None = None,
    **settings: Any,
) -> None:
    """Run ``work`` with a server and an engine started on it; afterwards nothing is left open."""

    async def main() -> None:
        with Server(owner=owner, api_key=server_key) as server:
            engine = OpenAIEngine(server.url, **{"profile": CHAT, **settings})
            await engine.start()
            try:
                await work(server, engine)
            finally:
                await engine.aclose()
            assert engine.unfinished == 0
            await server.wait(lambda server: server.unfinished == 0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main)


# What a stream gives


@pytest.mark.parametrize("profile", [CHAT, RAW], ids=["chat", "completions"])
def test_the_pieces_of_the_stream_are_the_translation(profile: Any) -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        assert await collect(engine, job()) == "Guten Morgen!"

    with_engine(work, profile=profile)


def test_a_character_cut_between_two_writes_arrives_whole() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        sent = event({"choices": [{"delta": {"content": "Grüße, 日本 👋"}}]})
        server.script(Script(pieces=[sent[n : n + 1] for n in range(len(sent))]))
        assert await collect(engine, job()) == "Grüße, 日本 👋"

    with_engine(work)


def test_roles_reasoning_and_empty_deltas_make_no_chunk() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        silent = [
            event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
            event({"choices": [{"delta": {"reasoning_content": "The user wants"}}]}),
            event({"choices": [], "usage": {"completion_tokens": 3}}),
            b": still here\n\n",
        ]
        server.script(Script(pieces=[*silent, "Hallo"]))
        async with aclosing(engine.translate(job())) as chunks:
            assert [chunk.text async for chunk in chunks] == ["Hallo"]

    with_engine(work)


def test_tokens_are_counted_where_the_server_tells() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(pieces=["a", "", "b"], usage=True), Script())
        async with aclosing(engine.translate(job())) as chunks:
            assert sum([chunk.tokens async for chunk in chunks]) == 3
        async with aclosing(engine.translate(job())) as chunks:
            assert sum([chunk.tokens async for chunk in chunks]) == 0

    with_engine(work)


def test_a_caller_who_is_late_gets_one_longer_chunk() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(pieces=["a", "b", "c"], hold=1))
        async with aclosing(engine.translate(job())) as chunks:
            assert await anext(chunks) == Chunk("a", 0)
            server.release()
            await read(engine)
            assert await anext(chunks) == Chunk("bc", 0)

    with_engine(work)


def test_the_length_limit_is_a_normal_end() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(finish="length"))
        assert await collect(engine, job()) == "Guten Morgen!"

    with_engine(work)


def test_a_stream_that_stays_open_after_the_end_of_the_text_does_not_hold_it_up() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        end = event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        server.script(Script(pieces=["Hallo", end, "never"], hold=2))
        assert await collect(engine, job()) == "Hallo"

    with_engine(work)


def test_a_connection_lost_after_the_end_of_the_text_does_no_harm() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        end = event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        server.script(Script(pieces=["Hallo", end, "never"], cut=2))
        assert await collect(engine, job()) == "Hallo"

    with_engine(work)


def test_jobs_one_after_another_use_one_connection() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        for n in range(3):
            await collect(engine, job(f"j{n}"))
        assert len(server.clients) == 1

    with_engine(work)


# Ends that are faults

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
        (Script(finish="abort"), EngineGone, "'abort', which was not asked for"),
        (Script(finish="tool_calls"), EngineGone, "'tool_calls'"),
        (Script(finish=None), EngineGone, "before the end of the text"),
        (Script(finish=None, done=False), EngineGone, "before the end of the text"),
        (Script(pieces=()), None, ""),
        (Script(pieces=["Gut", "en"], cut=1), EngineGone, "connection to the model server broke"),
        (Script(finish="content_filter"), EngineFault, "content filter"),
        (oops({"message": "out of memory", "code": 500}), EngineFault, "500.: out of memory"),
        (oops({"message": "queue", "code": 503}), Overloaded, "full .503.: queue"),
        (oops("model runner has stopped"), EngineFault, "model runner has stopped"),
        (GARBAGE, EngineFault, "could not be read"),
        (BROKEN, EngineFault, "could not be read"),
        (HUGE, EngineFault, "could not be read"),
        (ENDLESS, EngineFault, "far more text"),
        (Script(type="text/html"), EngineFault, "text/html instead of a stream"),
        (refused(429, {"error": "slow down"}), Overloaded, "full .429.: slow down"),
        (refused(503, {"message": "queue"}), Overloaded, "full .503.: queue"),
        (refused(500, {"detail": "oops"}), EngineFault, "500.: oops"),
        (refused(502, b"<html>nginx"), EngineGone, "no model behind .* .502..$"),
        (refused(400, {"error": TOO_LONG}), EngineFault, "maximum context length is 512"),
        (refused(400, {"error": {"message": "x" * 999}}), EngineFault, "x{200}…$"),
        (refused(400, b"x" * 200_000), EngineFault, "refused the job .400..$"),
        (refused(401, {"error": "no"}), EngineFault, "wants an API key .401."),
    ],
)
def test_every_other_end_is_a_fault_that_says_why(
    script: Script, kind: type[EngineFault] | None, says: str
) -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(script)
        if kind is None:
            assert await collect(engine, job()) == ""
            return
        with pytest.raises(EngineFault, match=says) as caught:
            await collect(engine, job())
        assert type(caught.value) is kind
        assert engine.health is Health.READY
        assert await collect(engine, job()) == "Guten Morgen!"

    with_engine(work)


def test_what_came_before_a_fault_is_delivered_first() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(pieces=["Gut", "en"], cut=1))
        async with aclosing(engine.translate(job())) as chunks:
            assert (await anext(chunks)).text == "Gut"
            with pytest.raises(EngineGone):
                await anext(chunks)

    with_engine(work)


def test_a_server_that_falls_silent_is_left_after_the_read_timeout() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(hold=1))
        with pytest.raises(EngineGone, match=r"sent nothing for 0\.1 s"):
            await collect(engine, job())
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone

    with_engine(work, read_timeout=0.1)


def test_neither_the_key_nor_the_text_is_in_any_message_or_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    private = "Wir entlassen Müller."

    async def work(server: Server, engine: OpenAIEngine) -> None:
        quoting = f"'input': {private!r} and {ascii(private)} with key {SECRET}"
        server.script(
            refused(400, {"error": {"message": quoting}}), refused(401, {}), oops(quoting)
        )
        for _ in range(3):
            with pytest.raises(EngineFault) as caught:
                await collect(engine, job(context=[(private, private)], text=private[4:]))
            assert SECRET not in str(caught.value)
            assert "entlassen" not in str(caught.value)
        assert SECRET not in repr(engine) + repr(vars(engine)["_client"])

    with caplog.at_level(logging.DEBUG):
        with_engine(work, server_key=SECRET, api_key=f"{SECRET}\n")
    assert caplog.records
    assert SECRET not in caplog.text
    assert "entlassen" not in caplog.text


# Stopping


def test_closing_the_stream_ends_the_request_at_the_server() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(hold=1))
        async with aclosing(engine.translate(job())) as chunks:
            await anext(chunks)
            assert (engine.unfinished, server.unfinished) == (1, 1)
        assert engine.unfinished == 0
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone

    with_engine(work)


def test_cancelling_the_reading_task_ends_the_request_at_the_server() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(hold=0))
        task = asyncio.create_task(collect(engine, job()))
        await server.wait(lambda server: server.unfinished == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert engine.unfinished == 0
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone

    with_engine(work)


def test_abort_ends_the_request_at_the_server_and_the_stream_in_aborted() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(hold=0))
        task = asyncio.create_task(collect(engine, job("j7")))
        await server.wait(lambda server: server.unfinished == 1)
        engine.abort("j7")
        engine.abort("j7")
        with pytest.raises(Aborted, match="j7"):
            await task
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone

    with_engine(work)


def test_nothing_follows_an_abort_not_even_what_has_arrived() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(pieces=["a", "b"], hold=1))
        async with aclosing(engine.translate(job())) as chunks:
            await anext(chunks)
            server.release()
            await read(engine)
            engine.abort("j1")
            with pytest.raises(Aborted):
                await anext(chunks)

    with_engine(work)


def test_abort_of_one_job_leaves_the_others_alone() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(hold=1), Script(hold=1))
        tasks = [asyncio.create_task(collect(engine, job(id))) for id in ("a", "b")]
        await server.wait(lambda server: server.unfinished == 2)
        engine.abort("a")
        engine.abort("unknown")
        with pytest.raises(Aborted):
            await tasks[0]
        server.release()
        assert await tasks[1] == "Guten Morgen!"

    with_engine(work)


def test_an_id_may_be_used_again_as_soon_as_its_job_is_aborted() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(hold=0))
        first = asyncio.create_task(collect(engine, job()))
        await server.wait(lambda server: server.unfinished == 1)
        engine.abort("j1")
        assert await collect(engine, job()) == "Guten Morgen!"
        with pytest.raises(Aborted):
            await first

    with_engine(work)


def test_a_job_can_be_aborted_before_the_server_begins_to_answer() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(late=True))
        task = asyncio.create_task(collect(engine, job()))
        await server.wait(lambda server: server.unfinished == 1)
        engine.abort("j1")
        with pytest.raises(Aborted):
            await task
        await server.wait(lambda server: server.unfinished == 0)
        assert server.received[-1].gone

    with_engine(work)


def test_jobs_cancelled_at_any_moment_leave_no_connection_behind() -> None:
    """There are no more than five; a leak takes one for ever."""

    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.default = lambda body: Script(hold=1)
        for turns in [*range(40), *range(40)]:
            tasks = [
                asyncio.create_task(collect(engine, job(f"{turns}.{n}"))) for n in range(CROWD)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(3):  # again and again, as cascading shutdowns do
                for task in tasks:
                    task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait(tasks)
            await read(engine)
        server.default = lambda body: Script()
        assert await collect(engine, job()) == "Guten Morgen!"

    with_engine(work, capacity=1)


def test_closing_the_engine_ends_its_jobs_in_engine_gone() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(hold=1))
        async with aclosing(engine.translate(job())) as chunks:
            await anext(chunks)
            await engine.aclose()
            await engine.aclose()
            assert engine.health is Health.CLOSED
            with pytest.raises(EngineGone, match="closed while the job ran"):
                await anext(chunks)
        with pytest.raises(EngineGone, match="closed"):
            await collect(engine, job("j2"))

    with_engine(work)


def test_far_more_jobs_than_its_capacity_are_refused_as_overloaded() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(*[Script(hold=0)] * CROWD)
        tasks = [asyncio.create_task(collect(engine, job(f"j{n}"))) for n in range(CROWD)]
        await server.wait(lambda server: server.unfinished == CROWD)
        assert engine.unfinished == CROWD
        assert engine.capacity == 1
        with pytest.raises(Overloaded, match="open"):
            await collect(engine, job("one too many"))
        server.release()
        assert set(await asyncio.gather(*tasks)) == {"Guten Morgen!"}

    with_engine(work, capacity=1)


# Life


def test_it_is_dead_while_the_server_is_unreachable_and_ready_when_it_is_back() -> None:
    seen: list[Health] = []

    async def main() -> None:
        with Server() as server:
            engine = OpenAIEngine(server.url, profile=CHAT, probe_every=0.01)
            await engine.start()
        both = await asyncio.gather(
            collect(engine, job("a")), collect(engine, job("b")), return_exceptions=True
        )
        for fault in both:
            assert isinstance(fault, EngineGone)
            assert "cannot be reached" in str(fault)
        seen.append(engine.health)
        with pytest.raises(EngineGone, match="dead"):
            await collect(engine, job())
        assert engine.revival is not None
        server = Server(port=server.port)
        server.listing = PlainTextResponse("still loading", 503)
        with server:
            await server.wait(lambda server: server.listed > 1)
            seen.append(engine.health)
            server.listing = None
            await engine.revival
            seen.append(engine.health)
            assert await collect(engine, job()) == "Guten Morgen!"
            await engine.aclose()

    run(main)
    assert seen == [Health.DEAD, Health.DEAD, Health.READY]


def test_closing_it_while_dead_ends_the_search_for_the_server() -> None:
    async def main() -> None:
        with Server() as server:
            engine = OpenAIEngine(server.url, profile=CHAT, probe_every=0.01)
            await engine.start()
        with pytest.raises(EngineGone):
            await collect(engine, job())
        await engine.aclose()
        assert engine.revival is not None
        assert engine.revival.cancelled()
        assert engine.health is Health.CLOSED

    run(main)


def test_a_job_before_start_is_refused() -> None:
    async def main() -> None:
        engine = OpenAIEngine("http://127.0.0.1:9", profile=CHAT)
        assert engine.health is Health.STARTING
        with pytest.raises(EngineGone, match="starting"):
            await collect(engine, job())
        await engine.aclose()

    run(main)


# Starting


def start(settings: dict[str, Any], **options: Any) -> OpenAIEngine:
    """Start an engine on a new server, and close it. Returns it for its properties."""
    listing = options.pop("listing", None)
    engine: OpenAIEngine

    async def main() -> None:
        nonlocal engine
        with Server(**options) as server:
            server.listing = listing
            engine = OpenAIEngine(**{"url": server.url, **settings})
            try:
                await engine.start()
            finally:
                await engine.aclose()

    run(main)
    return engine


@pytest.mark.parametrize(
    ("settings", "options", "says"),
    [
        ({"url": "http://127.0.0.1:9"}, {}, "No model server answers at http://127.0.0.1:9/v1 .*"),
        ({}, {"api_key": SECRET}, "wants an API key .401.: set api_key"),
        ({"api_key": "other"}, {"api_key": SECRET}, "does not accept the API key .401."),
        ({"model": "b"}, {"models": ["a", "c"]}, "has no b, but a, c"),
        ({}, {"models": ["a", "c"]}, "Name the model: .* has a, c"),
        ({}, {"models": []}, "names no model"),
        ({}, {"listing": HTMLResponse("<html>")}, "not a list of models"),
        ({}, {"listing": JSONResponse({"data": [{}]})}, "not a list of models"),
        ({}, {"listing": PlainTextResponse("", 404)}, "names no model .status 404."),
        ({"model": "a"}, {"listing": PlainTextResponse("", 503)}, "names no model .status 503."),
        ({"profile": RAW, "api": "chat"}, {}, "not one of a chat model"),
        ({"url": "127.0.0.1:8000"}, {}, "must look like http"),
        ({"url": "ftp://models"}, {}, "must look like http"),
        ({"url": "http://[::"}, {}, "cannot be read"),
        ({"api_key": "sk-\n-key"}, {}, "characters that no key has"),
        ({"api_key": "schlüssel"}, {}, "characters that no key has"),
    ],
)
def test_a_start_that_fails_says_what_to_do(
    settings: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(EngineFault, match=says) as caught:
        start(settings, **options)
    assert settings.get("api_key") is None or settings["api_key"] not in str(caught.value)


def test_without_a_name_the_only_model_is_taken_and_chooses_the_profile() -> None:
    engine = start({}, models=["ByteDance-Seed/Seed-X-PPO-7B"])
    assert engine.name == "openai:ByteDance-Seed/Seed-X-PPO-7B"
    assert engine.profile.name == RAW.name


def test_a_model_no_profile_knows_is_prompted_as_a_chat_model() -> None:
    assert start({}, models=["my-own-model"]).profile.name == CHAT.name


def test_the_name_ollama_shortens_is_found() -> None:
    assert start({"model": "qwen3"}, models=["qwen3:latest", "b"]).name == "openai:qwen3"


def test_a_server_without_a_list_is_believed_to_have_the_model_that_is_named() -> None:
    engine = start({"model": "a"}, listing=PlainTextResponse("", 404))
    assert engine.name == "openai:a"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.1:9", "http://127.0.0.1:9/v1"),
        ("http://127.0.0.1:9/", "http://127.0.0.1:9/v1"),
        ("http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1"),
        ("http://127.0.0.1:9/serve", "http://127.0.0.1:9/serve/v1"),
        ("http://127.0.0.1:9/v1beta/openai", "http://127.0.0.1:9/v1beta/openai"),
        ("http://joe:pw@127.0.0.1:9", "http://127.0.0.1:9/v1"),
    ],
)
def test_the_url_may_end_in_v1_or_not_and_a_login_in_it_is_not_repeated(
    url: str, says: str
) -> None:
    with pytest.raises(EngineGone, match=rf"answers at {says} \("):
        start({"url": url})


# The request


def sent(profile: Any, task: Job, **options: Any) -> dict[str, Any]:
    """The body that arrives at the server for ``task``."""
    body: dict[str, Any] = {}

    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(pieces=[f"{task.prefix} folgt"]))
        await collect(engine, task)
        body.update(server.received[0].body)
        body["path"] = server.received[0].path

    with_engine(work, profile=profile, **options)
    return body


def test_a_chat_profile_sends_messages() -> None:
    body = sent(CHAT, job())
    assert body["path"] == "/v1/chat/completions"
    assert body["model"] == "test-model"
    assert body["stream"] is True
    assert body["temperature"] == 0.0
    assert "Good morning!" in body["messages"][-1]["content"]


def test_a_raw_profile_sends_its_prompt_as_text() -> None:
    body = sent(RAW, job())
    assert body["path"] == "/v1/completions"
    assert "Good morning!" in body["prompt"]


@pytest.mark.parametrize("options", [{"owner": "vllm"}, {"vllm_extras": True}])
def test_vllm_gets_its_fields_when_known_by_its_list_or_told(options: dict[str, Any]) -> None:
    assert "top_k" in sent(CHAT, job(), **options)


@pytest.mark.parametrize("options", [{}, {"owner": "vllm", "vllm_extras": False}])
def test_other_servers_do_not_get_them_nor_vllm_when_told_not_to(options: dict[str, Any]) -> None:
    assert "top_k" not in sent(CHAT, job(), **options)


def test_other_servers_start_anew_and_the_prefix_is_taken_off_their_output() -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(pieces=["Gut", "en Mor", "gen!"]))
        assert await collect(engine, job(prefix="Guten")) == " Morgen!"
        assert server.received[0].body["messages"][-1]["role"] == "user"

    with_engine(work)


@pytest.mark.parametrize("pieces", [["Schönen", " Tag!"], ["Gut"]])
def test_an_output_that_does_not_keep_the_prefix_is_a_fault(pieces: list[str]) -> None:
    async def work(server: Server, engine: OpenAIEngine) -> None:
        server.script(Script(pieces=pieces))
        with pytest.raises(EngineFault, match="did not keep the text"):
            await collect(engine, job(prefix="Guten"))

    with_engine(work)


# A real server


@pytest.mark.external
@pytest.mark.skipif(
    not URL,
    reason="set GATEWAY_TEST_OPENAI_URL to a running OpenAI-compatible server",
)
def test_a_real_server_translates_continues_and_aborts() -> None:
    async def main() -> None:
        profile = os.environ.get("GATEWAY_TEST_OPENAI_PROFILE")
        engine = OpenAIEngine(
            URL or "",
            os.environ.get("GATEWAY_TEST_OPENAI_MODEL"),
            api_key=os.environ.get("GATEWAY_TEST_OPENAI_KEY"),
            profile=load(profile) if profile else None,
        )
        await engine.start()
        whole = await collect(engine, job("whole"))
        assert whole
        first = whole.split()[0]
        rest = await collect(engine, job("continued", prefix=first))
        assert rest
        assert not rest.startswith(first)
        long = " ".join(["We will meet again on Monday to talk about the budget."] * 8)
        async with aclosing(engine.translate(job("aborted", long))) as chunks:
            await anext(chunks)
            engine.abort("aborted")
            with pytest.raises(Aborted):
                await anext(chunks)
        assert engine.unfinished == 0
        assert await collect(engine, job("after")) == whole
        await engine.aclose()

    run(main)
