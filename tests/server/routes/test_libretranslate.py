"""LibreTranslate's API, and the detection of a language that a text does not name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.core.base.validation import AUTO
from gateway.engines.scripted import ScriptedEngine
from tests.server.access.credentials import running_with_keys
from tests.support.live import browse


async def test_libretranslate_translates_one_text_or_a_list() -> None:
    async with browse() as (client, _):
        one = {"q": "hello", "source": "en", "target": "de", "format": "text"}
        answer = await client.post("/translate", json=one)
        assert answer.json() == {"translatedText": "[de] hello"}
        many = {"q": ["one", "", "two"], "source": "en", "target": "de"}
        answer = await client.post("/translate", json=many)
        assert answer.json() == {"translatedText": ["[de] one", "", "[de] two"]}
        answer = await client.post("/translate", data=one)
        assert answer.json() == {"translatedText": "[de] hello"}


async def test_a_list_with_one_bad_text_is_refused_and_leaves_no_session() -> None:
    engine = ScriptedEngine()
    engine.hold()
    async with browse(engine) as (client, live):
        body = {"q": ["one", "two", "x" * 10_001], "source": "en", "target": "de"}
        answer = await client.post("/translate", json=body)
        assert answer.status_code == 413
        assert not live.hub.sessions and not live.hub.rooms


async def test_other_work_has_its_turn_between_two_texts_of_a_list() -> None:
    async with browse() as (client, live):
        turn, seen = 0, list[int]()

        class Noting:
            def __call__(self, text: str, among: Sequence[str] = (), /) -> str | None:
                seen.append(turn)
                return "en"

            def rank(self, text: str) -> list[tuple[str, float]]:
                return []

            def instead(self, text: str, lang: str, /) -> str | None:
                return None

        live.hub.detect = Noting()  # type: ignore[assignment]
        body = {"q": ["one " * 300] * 3, "target": "de"}
        asked = asyncio.create_task(client.post("/translate", json=body))
        while not asked.done():
            turn += 1
            await asyncio.sleep(0)
        assert len(set(seen)) == 3
        assert asked.result().status_code == 200


@pytest.mark.parametrize("format", ["html", "markdown", ""])
async def test_any_format_but_text_is_refused_because_texts_are_plain(format: str) -> None:
    async with browse() as (client, live):
        body = {"q": "<p>Hi</p>", "source": "en", "target": "de", "format": format}
        for answer in (
            await client.post("/translate", json=body),
            await client.post("/translate", data=body),
        ):
            assert answer.status_code == 400
            assert "plain text only" in answer.json()["error"]
            assert '"format"' in answer.json()["hint"]
        assert not live.hub.sessions


async def test_a_format_that_is_no_text_is_refused_with_an_example() -> None:
    async with browse() as (client, _):
        answer = await client.post("/translate", json={"q": "hi", "target": "de", "format": 7})
        assert answer.status_code == 400 and "format" in answer.json()["error"]
        assert '"format":"text"' in answer.json()["hint"]


async def test_alternatives_are_accepted_and_none_are_made() -> None:
    async with browse() as (client, _):
        body = {"q": "hi", "source": "en", "target": "de", "alternatives": 3}
        answer = await client.post("/translate", json=body)
        assert answer.json() == {"translatedText": "[de] hi", "alternatives": []}
        answer = await client.post("/translate", json={**body, "q": ["hi", "ho"]})
        assert answer.json()["alternatives"] == [[], []]


async def test_a_page_learns_what_the_gateway_can_do() -> None:
    async with browse() as (client, _):
        settings = (await client.get("/frontend/settings")).json()
        assert settings["charLimit"] == 10_000 and settings["keyRequired"] is False
        assert settings["language"]["target"] == {"code": "de", "name": "German"}
    async with running_with_keys() as (_, client):
        assert (await client.get("/frontend/settings")).json()["keyRequired"] is True


async def test_libretranslate_languages_list_codes_names_and_targets() -> None:
    async with browse() as (client, _):
        listed = (await client.get("/languages")).json()
        assert {"code", "name", "targets"} == set(listed[0])


async def test_detection_ranks_the_languages_of_the_engine() -> None:
    async with browse() as (client, live):
        assert live.hub.lang == AUTO
        answer = await client.post("/detect", json={"q": "Guten Morgen zusammen"})
        assert answer.json()[0]["language"] == "de"
        texts = ["bonjour à tous", "guten Morgen zusammen"]
        body = {"q": texts, "source": "auto", "target": "en"}
        answer = await client.post("/translate", json=body)
        found = [entry["language"] for entry in answer.json()["detectedLanguage"]]
        assert found == ["fr", "de"]


@pytest.mark.parametrize("text", ["42", "\U0001f44d", "Anna", "OK", "3.5 %", "Microsoft"])
@pytest.mark.parametrize("target", ["en", "de"])
async def test_a_text_in_an_uncertain_language_is_refused_and_not_returned_untranslated(
    text: str, target: str
) -> None:
    async with browse() as (client, live):
        bodies: tuple[tuple[str, dict[str, Any]], ...] = (
            ("/v1/translate", {"text": text, "target_lang": target}),
            ("/v1/translate", {"text": text, "target_lang": target, "stream": True}),
            ("/translate", {"q": text, "target": target}),
            ("/translate", {"q": [text], "target": target, "source": "auto"}),
        )
        for path, body in bodies:
            answer = await client.post(path, json=body)
            assert answer.status_code == 400
            assert answer.json()["code"] == "lang_unsupported"
            assert "detected" in answer.json()["error"] and "Name it" in answer.json()["hint"]
        assert (await client.post("/detect", json={"q": "42"})).json() == []
        named = await client.post("/translate", json={"q": text, "source": "fr", "target": "es"})
        assert named.status_code == 200
        assert not live.hub.sessions


async def test_a_short_text_in_a_list_is_taken_to_be_in_the_language_of_the_list() -> None:
    async with browse() as (client, _):
        texts = ["Guten Morgen zusammen, wie geht es?", "42", "Anna", ""]
        answer = await client.post("/translate", json={"q": texts, "target": "en"})
        assert answer.json()["translatedText"] == [
            "[en] Guten Morgen zusammen, wie geht es?",
            "[en] 42",
            "[en] Anna",
            "",
        ]
        found = answer.json()["detectedLanguage"]
        assert [entry and entry["language"] for entry in found] == ["de", "de", "de", None]
        assert found[0]["confidence"] > 90 > 60 > found[2]["confidence"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/translate", {"text": "Guten Morgen zusammen", "target_lang": "en"}),
        ("/translate", {"q": "Guten Morgen zusammen", "target": "en"}),
    ],
)
async def test_without_a_detector_the_source_language_is_required(
    path: str, body: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with browse() as (client, live):
        monkeypatch.setattr(live.hub, "detect", None)
        answer = await client.post(path, json=body)
        assert answer.status_code == 400 and answer.json()["code"] == "lang_unsupported"
        assert "Name the language" in answer.json()["hint"]
        assert (await client.post("/detect", json={"q": "hello"})).json() == []
