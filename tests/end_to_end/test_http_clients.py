"""APIs of other services over HTTP, used by the clients that people have, unmodified."""

from __future__ import annotations

import pytest

from tests.support.live import Live

pytestmark = pytest.mark.clients

SAID = "Good morning, everyone."
TRANSLATED = "[de] Good morning, everyone."


def test_libretranslatepy_translates_detects_and_lists_languages(live: Live) -> None:
    from libretranslatepy import LibreTranslateAPI

    api = LibreTranslateAPI(live.http)
    assert api.translate(SAID, "en", "de") == TRANSLATED
    assert api.detect("Guten Morgen zusammen")[0]["language"] == "de"
    assert {"code", "name", "targets"} == set(api.languages()[0])


def test_deep_translator_translates_as_with_libretranslate(live: Live) -> None:
    from deep_translator import LibreTranslator

    api = LibreTranslator(source="en", target="de", api_key="any", custom_url=f"{live.http}/")
    assert api.translate(SAID) == TRANSLATED
    assert api.translate_batch(["one", "two"]) == ["[de] one", "[de] two"]
