"""DeepL's API for texts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.access.credentials import SPEAKER, VIEWER, running_with_keys
from tests.support.live import browse

ASK: dict[str, Any] = {"text": ["Good morning."], "source_lang": "EN", "target_lang": "DE"}


async def test_deepl_translates_a_list_or_a_form_and_names_the_source() -> None:
    made = {
        "detected_source_language": "EN",
        "text": "[de] Good morning.",
        "billed_characters": 13,
    }
    async with browse() as (client, live):
        for answer in (
            await client.post("/v2/translate", json=ASK),
            await client.post("/v2/translate", data=ASK),
        ):
            assert answer.json() == {"translations": [made]}
        form = {"target_lang": "EN", "text": ["Guten Morgen zusammen", "", "Anna"]}
        answer = await client.post("/v2/translate", data=form)
        found = [one["detected_source_language"] for one in answer.json()["translations"]]
        assert found == ["DE", "", "DE"]
        assert not live.hub.sessions


async def test_deepl_requests_for_no_tag_handling_are_translated() -> None:
    async with browse() as (client, _):
        answer = await client.post("/v2/translate", json={**ASK, "tag_handling": ""})
        assert answer.json()["translations"][0]["text"] == "[de] Good morning."


async def test_deepl_lists_sources_and_targets() -> None:
    async with browse() as (client, _):
        sources = (await client.get("/v2/languages")).json()
        assert {"language": "DE", "name": "German"} in sources
        targets = (await client.get("/v2/languages", params={"type": "target"})).json()
        assert {"language": "DE", "name": "German", "supports_formality": False} in targets
        assert (await client.get("/v2/usage")).json() == {}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"glossary_id": "x"}, "glossaries"),
        ({"formality": "less"}, "formality"),
        ({"tag_handling": "html"}, "plain text only"),
        ({"tag_handling": "xml"}, "plain text only"),
        ({"target_lang": "TLH"}, "does not have"),
        ({"target_lang": None}, "target_lang"),
        ({"text": ["x"] * 51}, "text"),
    ],
)
async def test_deepl_refuses_with_a_message(change: dict[str, Any], word: str) -> None:
    async with browse() as (client, live):
        answer = await client.post("/v2/translate", json=ASK | change)
        assert answer.status_code == 400
        assert word in answer.json()["message"]
        assert not live.hub.sessions


async def test_deepl_keys_are_checked_and_a_wrong_one_is_forbidden() -> None:
    async with running_with_keys() as (_, client):
        for key, status in ((SPEAKER, 200), (VIEWER, 403), ("wrong", 403)):
            for scheme in ("DeepL-Auth-Key", "Bearer"):
                headers = {"authorization": f"{scheme} {key}"}
                answer = await client.post("/v2/translate", json=ASK, headers=headers)
                assert answer.status_code == status, (scheme, key)
