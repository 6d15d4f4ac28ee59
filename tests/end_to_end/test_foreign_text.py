"""Text in a language that was not stated or that the model does not have, with that model.

It goes over real sockets and HTTP. Such text once came back as its own translation.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2 as httpx
import pytest
from websockets.asyncio.client import connect

from gateway.engines.registry import build
from gateway.settings.catalogue import Settings
from gateway.text.languages import name
from tests.support.live import Live, running
from tests.text.test_letters import GREETINGS

pytestmark = pytest.mark.timeout(120)

UNKNOWN = sorted(set(GREETINGS) - {"ja", "zh"})
"""Languages of `GREETINGS` that the included model does not have."""
TARGETS = ("de", "en")


async def test_text_in_another_language_never_passes_as_a_translation() -> None:
    async with running(build(Settings())) as live:
        for lang in UNKNOWN:
            events = await said(live, f"to={','.join(TARGETS)}", GREETINGS[lang])
            assert events[0]["lang"] == lang
            msg = f"The text looks like {name(lang)}, which this gateway cannot translate."
            assert ended(events) == dict.fromkeys(TARGETS, ("failed", "lang_unsupported", msg))
        for lang, text in GREETINGS.items():
            events = await said(live, f"to={','.join(TARGETS)}&from=en", text)
            msg = f"The text looks like {name(lang)}, but English was stated."
            assert ended(events) == dict.fromkeys(TARGETS, ("failed", "lang_mismatch", msg))
        for lang in ("ja", "zh"):
            events = await said(live, f"to={','.join(TARGETS)}", GREETINGS[lang])
            assert ended(events).keys() == set(TARGETS)
            assert all(event["type"] == "final" for event in events[1:])
        async with httpx.AsyncClient(base_url=live.http) as client:
            for lang in UNKNOWN:
                await refused(client, GREETINGS[lang])
            await kept(client)


async def said(live: Live, query: str, text: str) -> list[dict[str, Any]]:
    """Say a text on a new socket; return its ``source`` and the end of each caption."""
    async with connect(f"{live.socket}?{query}&view=final") as socket:
        await socket.recv()
        await socket.send(json.dumps({"type": "say", "text": text}))
        events = list[dict[str, Any]]()
        while len(events) < 1 + len(TARGETS):
            event = json.loads(await socket.recv())
            if event["type"] in ("source", "final", "failed", "cancelled"):
                events.append(event)
        return events


def ended(events: list[dict[str, Any]]) -> dict[str, tuple[str, str, str]]:
    """Return type, code and message of the end of each caption, by language."""
    return {
        event["lang"]: (event["type"], event.get("code", ""), event.get("msg", ""))
        for event in events[1:]
    }


async def refused(client: httpx.AsyncClient, text: str) -> None:
    """Check that every kind of request for a translation of the text fails with a reason."""
    for stated, code in (("en", "lang_mismatch"), ("auto", "lang_unsupported")):
        body = {"text": text, "source_lang": stated, "target_lang": "de"}
        answer = await client.post("/v1/translate", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, code)
        same = await client.post("/v1/translate", json=body | {"target_lang": "en"})
        assert (same.status_code, same.json()["code"]) == (400, code)
        libre = await client.post("/translate", json={"q": text, "source": stated, "target": "de"})
        assert libre.status_code == 400 and "looks like" in libre.json()["error"]
        source = {} if stated == "auto" else {"source_lang": stated}
        deepl = await client.post(
            "/v2/translate", json={"text": [text], "target_lang": "DE"} | source
        )
        assert deepl.status_code == 400 and "looks like" in deepl.json()["message"]
        model = "translate-de" if stated == "auto" else f"translate-{stated}-to-de"
        chat = {"model": model, "messages": [{"role": "user", "content": text}]}
        openai = await client.post("/v1/chat/completions", json=chat)
        assert openai.status_code == 400 and openai.json()["error"]["code"] == code
    stream = body | {"source_lang": "en", "stream": True}
    events = (await client.post("/v1/translate", json=stream)).text
    assert events.startswith("event: error") and "lang_mismatch" in events


async def kept(client: httpx.AsyncClient) -> None:
    """Check that a longer text keeps its quotes in another language."""
    body = {"text": "Good morning. Привет, как дела?", "source_lang": "en", "target_lang": "de"}
    answer = (await client.post("/v1/translate", json=body)).json()
    assert answer["translation"] == "Guten Morgen. Привет, как дела?"
    assert answer["flags"] == ["kept"]
