"""The headers of all answers, and the secrets that none of them shows."""

from __future__ import annotations

import pytest

from gateway.engines.scripted import ScriptedEngine, failing
from tests.server.access.credentials import MODERATOR, bearer, running_with_keys
from tests.support.live import browse
from tests.support.talk import talk


async def test_every_answer_carries_the_security_headers() -> None:
    async with browse() as (client, _):
        for path in ("/", "/healthz", "/v1/nothing"):
            headers = (await client.get(path)).headers
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert headers["x-content-type-options"] == "nosniff"
            assert len(headers.get_list("content-security-policy")) == 1
            assert headers["cross-origin-resource-policy"] == "same-origin"


async def test_only_a_page_may_load_anything() -> None:
    async with browse() as (client, _):
        page = (await client.get("/")).headers
        kept = await client.get("/", headers={"if-none-match": page["etag"]})
        script = (await client.get("/static/any/web_demo/main.js")).headers
    assert "script-src 'self'" in page["content-security-policy"]
    assert kept.status_code == 304
    assert kept.headers["content-security-policy"] == page["content-security-policy"]
    assert page["cross-origin-opener-policy"] == "same-origin"
    assert "microphone=(self)" in page["permissions-policy"]
    assert script["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


@pytest.mark.parametrize(
    ("host", "sources"),
    [
        ("127.0.0.1:8000", "'self' ws://127.0.0.1:8000 wss://127.0.0.1:8000"),
        ("localhost", "'self' ws://localhost wss://localhost"),
        *((host, "'self'") for host in ("[::1]:8000", "")),
        *((host, None) for host in ("*", "a; script-src *", "a b")),  # refused: no page
    ],
)
async def test_a_page_may_connect_to_the_gateway_that_served_it_and_to_no_other(
    host: str, sources: str | None
) -> None:
    async with browse() as (client, _):
        answer = await client.get("/", headers={"host": host})
    rules = answer.headers["content-security-policy"].split("; ")
    connections = [rule for rule in rules if "connect" in rule or "ws" in rule]
    assert connections == ([f"connect-src {sources}"] if sources else [])
    assert sum("script-src" in rule for rule in rules) == (1 if sources else 0)
    assert rules[0] == "default-src 'none'"


async def test_no_answer_sets_a_cookie_and_none_is_read_as_a_key() -> None:
    async with running_with_keys() as (_, client):
        for path in ("/", "/join.html", "/healthz", "/v1/languages", "/metrics", "/v1/nothing"):
            cookies = (f"authorization=Bearer {MODERATOR}", f"key={MODERATOR}; ticket={MODERATOR}")
            for headers in ({}, bearer(MODERATOR), *({"cookie": one} for one in cookies)):
                answer = await client.get(path, headers=headers)
                assert "set-cookie" not in answer.headers
                if path == "/metrics":
                    assert answer.status_code == (200 if headers == bearer(MODERATOR) else 401)


async def test_the_metrics_contain_no_room_and_no_text() -> None:
    secret = "canary"
    async with browse() as (client, live):
        query = f"?room={secret}&from=en&to=de&speaker={secret}"
        async with talk(live, query) as speaker:
            await speaker.send({"type": "set", "glossary": {secret: secret}, "context": secret})
            await speaker.send({"type": "say", "text": f"{secret} one"})
            await speaker.until("final")
            shown = (await client.get("/metrics")).text
    assert "gateway_captions" in shown
    assert secret not in shown


async def test_the_answer_500_carries_the_security_headers_too() -> None:
    async with browse(ScriptedEngine(fault=failing(ValueError("a bug")))) as (client, live):
        live.state.metrics = None  # a use of it raises
        answer = await client.get("/metrics")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "NoneType" not in answer.text
