"""Tests of the start of the OpenAI engine, and of its requests for each kind of server."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse

from gateway.engines.openai.engine import OpenAIEngine
from gateway.errors import EngineFault, EngineGone
from gateway.job import Job
from tests.engines import reading
from tests.engines.openai_factory import CHAT, RAW, serving
from tests.engines.openai_server import Script, Server
from tests.engines.reading import read

SECRET = "sk-very-secret"


def job(id: str = "j1", text: str = "Good morning!", **fields: Any) -> Job:
    return reading.job(id, text, **fields)


# --- starting -------------------------------------------------------------------------------------


async def start(settings: dict[str, Any], **options: Any) -> OpenAIEngine:
    """Start an engine on a new server, and close it. Returns it for its properties."""
    listing = options.pop("listing", None)
    engine: OpenAIEngine

    with Server(**options) as server:
        server.listing = listing
        engine = OpenAIEngine(**{"url": server.url, **settings})
        try:
            await engine.start()
        finally:
            await engine.aclose()
    return engine


@pytest.mark.parametrize(
    ("settings", "options", "says"),
    [
        ({"url": "http://127.0.0.1:9"}, {}, "No model server answers at http://127.0.0.1:9/v1 .*"),
        ({}, {"api_key": SECRET}, "wants an API key .401.: set openai_api_key"),
        ({"api_key": "other"}, {"api_key": SECRET}, "does not accept the API key .401."),
        ({"model": "b"}, {"models": ["a", "c"]}, "has no b, but a, c"),
        ({}, {"models": ["a", "c"]}, "Name the model: .* has a, c"),
        ({}, {"models": []}, "names no model"),
        ({}, {"listing": HTMLResponse("<html>")}, "not a list of models"),
        ({}, {"listing": JSONResponse({"data": [{}]})}, "not a list of models"),
        ({}, {"listing": PlainTextResponse("", 404)}, "names no model .status 404."),
        ({"model": "a"}, {"listing": PlainTextResponse("", 503)}, "names no model .status 503."),
        ({"profile": RAW, "api": "chat"}, {}, "not for a chat model"),
        ({"url": "127.0.0.1:8000"}, {}, "must look like http"),
        ({"url": "ftp://models"}, {}, "must look like http"),
        ({"url": "http://[::"}, {}, "is malformed"),
        ({"api_key": "sk-\n-key"}, {}, "characters that no key has"),
        ({"api_key": "schlüssel"}, {}, "characters that no key has"),
    ],
)
async def test_a_start_that_fails_says_what_to_do(
    settings: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(EngineFault, match=says) as caught:
        await start(settings, **options)
    assert settings.get("api_key") is None or settings["api_key"] not in str(caught.value)


async def test_without_a_model_name_the_only_model_is_used_and_decides_the_profile() -> None:
    engine = await start({}, models=["ByteDance-Seed/Seed-X-PPO-7B"])
    assert engine.name == "openai:ByteDance-Seed/Seed-X-PPO-7B"
    assert engine.profile.name == RAW.name


async def test_a_model_without_a_profile_is_prompted_as_a_chat_model() -> None:
    assert (await start({}, models=["my-own-model"])).profile.name == CHAT.name


async def test_a_model_name_without_the_tag_of_ollama_is_found() -> None:
    assert (await start({"model": "qwen3"}, models=["qwen3:latest", "b"])).name == "openai:qwen3"


async def test_a_server_without_a_list_of_models_is_used_with_the_given_name() -> None:
    engine = await start({"model": "a"}, listing=PlainTextResponse("", 404))
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
async def test_the_url_may_lack_v1_and_its_password_is_not_shown(url: str, says: str) -> None:
    with pytest.raises(EngineGone, match=rf"answers at {says} \("):
        await start({"url": url})


# --- the request ----------------------------------------------------------------------------------


async def sent(profile: Any, task: Job, **options: Any) -> dict[str, Any]:
    """Return the body that arrives at the server for ``task``."""
    body: dict[str, Any] = {}

    async with serving(profile=profile, **options) as (server, engine):
        server.script(Script(pieces=[f"{task.prefix} folgt"]))
        await read(engine, task)
        body.update(server.received[0].body)
        body["path"] = server.received[0].path
    return body


async def test_a_chat_profile_sends_messages() -> None:
    body = await sent(CHAT, job())
    assert body["path"] == "/v1/chat/completions"
    assert body["model"] == "test-model"
    assert body["stream"] is True
    assert body["temperature"] == 0.0
    assert "Good morning!" in body["messages"][-1]["content"]


async def test_a_raw_profile_sends_its_prompt_as_text() -> None:
    body = await sent(RAW, job())
    assert body["path"] == "/v1/completions"
    assert "Good morning!" in body["prompt"]


@pytest.mark.parametrize("options", [{"owner": "vllm"}, {"vllm_extras": True}])
async def test_vllm_gets_its_fields_if_its_list_or_the_settings_name_it(
    options: dict[str, Any],
) -> None:
    assert "top_k" in await sent(CHAT, job(), **options)


@pytest.mark.parametrize("options", [{}, {"owner": "vllm", "vllm_extras": False}])
async def test_other_servers_get_no_fields_of_vllm_nor_does_vllm_if_switched_off(
    options: dict[str, Any],
) -> None:
    assert "top_k" not in await sent(CHAT, job(), **options)


async def test_the_prefix_is_removed_from_the_output_of_other_servers() -> None:
    async with serving() as (server, engine):
        server.script(Script(pieces=["Gut", "en Mor", "gen!"]))
        assert await read(engine, job(prefix="Guten")) == " Morgen!"
        assert server.received[0].body["messages"][-1]["role"] == "user"


@pytest.mark.parametrize("pieces", [["Schönen", " Tag!"], ["Gut"]])
async def test_an_output_without_the_prefix_is_a_fault(pieces: list[str]) -> None:
    async with serving() as (server, engine):
        server.script(Script(pieces=pieces))
        with pytest.raises(EngineFault, match="changed the text"):
            await read(engine, job(prefix="Guten"))
