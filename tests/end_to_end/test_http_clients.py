"""APIs of other services over HTTP, used by the clients that people have, unmodified."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.server.access.credentials import SPEAKER, requiring_keys
from tests.support.live import Live, in_thread

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


def test_the_client_of_deepl_translates_texts_and_is_refused_pages(live: Live) -> None:
    import deepl

    with closing(deepl.DeepLClient("any", server_url=live.http)) as api:
        answer = api.translate_text([SAID, "Good night."], target_lang="DE", source_lang="EN")
        assert isinstance(answer, list)
        assert [one.text for one in answer] == [TRANSLATED, "[de] Good night."]
        one = api.translate_text("Guten Morgen zusammen", target_lang="FR")
        assert not isinstance(one, list)
        assert (one.text, one.detected_source_lang) == ("[fr] Guten Morgen zusammen", "DE")
        with pytest.raises(deepl.DeepLException, match="plain text only"):
            api.translate_text("<b>Hi</b>", target_lang="DE", tag_handling="html")
        assert "DE" in [one.code for one in api.get_source_languages()]
        assert "DE" in [one.code for one in api.get_target_languages()]
        assert not api.get_usage().any_limit_reached


def test_the_client_of_deepl_presents_its_key() -> None:
    import deepl

    with in_thread(authenticator=requiring_keys()) as live:
        with closing(deepl.DeepLClient(SPEAKER, server_url=live.http)) as api:
            answer = api.translate_text(SAID, target_lang="DE", source_lang="EN")
            assert str(answer) == TRANSLATED
        with closing(deepl.DeepLClient("wrong", server_url=live.http)) as api:
            with pytest.raises(deepl.AuthorizationException):
                api.translate_text(SAID, target_lang="DE")
