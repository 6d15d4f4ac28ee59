"""OpenAI's chat completions, used by OpenAI's own client and by hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.engines.scripted import ScriptedEngine, failing
from gateway.errors import EngineGone
from gateway.limits import Limits
from tests.server.access.credentials import SPEAKER, VIEWER, running_with_keys
from tests.support.live import Live, browse, running, until

openai = pytest.importorskip("openai")

SAID = "Good morning, everyone. We meet again."
TRANSLATED = "[de] Good morning, everyone. [de] We meet again."
HELLO: list[Any] = [{"role": "user", "content": SAID}]
MODEL = "translate-en-to-de"


def client(live: Live, key: str = "none") -> Any:
    return openai.AsyncOpenAI(base_url=f"{live.http}/v1", api_key=key, max_retries=0)


def test_the_synchronous_client_of_openai_translates_and_lists_models(live: Live) -> None:
    with openai.OpenAI(base_url=f"{live.http}/v1", api_key="none") as sync:
        answer = sync.chat.completions.create(model=MODEL, messages=HELLO)
        assert answer.choices[0].message.content == TRANSLATED
        assert answer.model == MODEL and answer.usage is None
        names = [model.id for model in sync.models.list()]
        assert {"translate", "translate-de", "translate-zh"} <= set(names)
        for name in ("translate", "translate-de", "translate-de-AT", MODEL):
            assert sync.models.retrieve(name).id == name
        with pytest.raises(openai.NotFoundError):
            sync.models.retrieve("gpt-4o")
        with pytest.raises(openai.NotFoundError):
            sync.models.retrieve("translate-cy")


async def test_the_asynchronous_client_streams_a_chat_completion() -> None:
    async with running() as live, client(live) as api:
        stream = await api.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(texts) == TRANSLATED
        assert len(texts) > 5, "the text comes word by word"


async def test_the_helper_of_openai_for_streams_collects_the_whole_text() -> None:
    async with running() as live, client(live) as api:
        async with api.chat.completions.stream(model=MODEL, messages=HELLO) as stream:
            whole = await stream.get_final_completion()
        assert whole.choices[0].message.content == TRANSLATED


async def test_a_field_names_the_target_for_any_model() -> None:
    async with running() as live, client(live) as api:
        answer = await api.chat.completions.create(
            model="gpt-4o", messages=HELLO, extra_body={"target_lang": "es", "source_lang": "en"}
        )
        assert answer.model == "translate-en-to-es"


async def test_without_a_source_the_language_is_detected() -> None:
    async with running() as live, client(live) as api:
        talk = [{"role": "user", "content": "Guten Morgen zusammen, wie geht es?"}]
        answer = await api.chat.completions.create(model="translate-en", messages=talk)
        assert answer.model == "translate-de-to-en"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_ends_its_job_in_the_engine(stream: bool) -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with browse(engine) as (http, live):
        body = {"model": MODEL, "messages": HELLO, "stream": stream}
        asking = asyncio.create_task(http.post("/v1/chat/completions", json=body))
        await until(lambda: len(engine.started) == 2)
        asking.cancel()
        await until(lambda: not live.hub.sessions)
        assert len(engine.aborted) == 2


async def test_a_stream_that_the_client_closes_ends_its_job_in_the_engine() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with running(engine) as live, client(live) as api:
        asking = asyncio.create_task(
            api.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        )
        await engine.step()
        stream = await asking
        await stream.close()
        await until(lambda: not live.hub.sessions)
        assert len(engine.aborted) == 2


async def test_refusals_have_the_errors_and_statuses_of_openai() -> None:
    async with running(limits=Limits(frame=65_536)) as live, client(live) as api:
        create = api.chat.completions.create
        with pytest.raises(openai.BadRequestError) as refused:
            await create(model="gpt-4o", messages=HELLO)
        assert refused.value.code == "bad_frame" and refused.value.type == "invalid_request_error"
        assert "translate-de" in refused.value.body["message"]
        with pytest.raises(openai.BadRequestError) as refused:
            await create(model="translate-tlh-nonsense-x", messages=HELLO)
        assert refused.value.code == "lang_unsupported"
        for broken in ("", "[]", "{", '{"messages": 7}', '{"model":"translate-de"}'):
            answer = await api._client.post(
                f"{live.http}/v1/chat/completions", content=broken.encode()
            )
            assert answer.status_code == 400
            assert "messages" in answer.json()["error"]["message"], answer.text
        with pytest.raises(openai.APIStatusError) as refused:
            await create(model=MODEL, messages=[{"role": "user", "content": "字" * 10_001}])
        assert refused.value.status_code == 413


async def test_keys_are_checked_as_openai_clients_send_them() -> None:
    async with running_with_keys() as (live, _):
        async with client(live, SPEAKER) as api:
            await api.chat.completions.create(model=MODEL, messages=HELLO)
        async with client(live, VIEWER) as api:
            assert await api.models.list()
            with pytest.raises(openai.PermissionDeniedError):
                await api.chat.completions.create(model=MODEL, messages=HELLO)
        async with client(live, "wrong") as api:
            with pytest.raises(openai.AuthenticationError) as refused:
                await api.models.list()
            assert refused.value.code == "unauthenticated"


async def test_a_failure_before_the_first_text_of_a_stream_has_a_status() -> None:
    async with running(ScriptedEngine(fault=failing(EngineGone("Gone."), times=9))) as live:
        async with client(live) as api:
            with pytest.raises(openai.InternalServerError) as failed:
                await api.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
            assert failed.value.status_code == 503
        assert not live.hub.sessions


async def test_a_failure_after_the_first_text_of_a_stream_is_its_last_event() -> None:
    engine = ScriptedEngine(fault=failing(EngineGone("Gone."), at=2, times=9))
    async with running(engine) as live, client(live) as api:
        stream = await api.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        with pytest.raises(openai.APIError, match="could not be translated"):
            async for _ in stream:
                pass


async def test_a_stream_of_chat_completions_ends_as_openai_ends_it() -> None:
    async with browse() as (http, _):
        body = {"model": MODEL, "messages": HELLO, "stream": True}
        answer = await http.post("/v1/chat/completions", json=body)
        assert answer.headers["content-type"].startswith("text/event-stream")
        *events, done, rest = answer.text.split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        assert all(json.loads(event.removeprefix("data: "))["id"] for event in events)
