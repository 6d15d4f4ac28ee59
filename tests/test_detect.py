"""Which language a text is in."""

from __future__ import annotations

import pytest

from gateway.detect import Detector

pytest.importorskip("lingua", reason="needs the 'detect' extra (make test installs it)")

MANY = tuple("ar cs da de el en es fi fr he hu it ja ko nl pl pt ru sv tr uk zh".split())


@pytest.mark.parametrize("tags", [("de", "en", "fr"), MANY])
def test_a_sentence_is_told_among_few_languages_and_among_many(tags: tuple[str, ...]) -> None:
    detect = Detector(tags)
    assert detect("Guten Morgen zusammen, können Sie mich hören?") == "de"
    assert detect("est-ce que vous m'entendez bien ?") == "fr"


def test_what_cannot_be_told_is_not_guessed() -> None:
    detect = Detector(("de", "en"))
    assert [detect(text) for text in ("", "123", "!?", "\u200b")] == [None] * 4


def test_only_the_beginning_of_a_long_text_is_looked_at() -> None:
    detect = Detector(("de", "en"))
    assert detect("Guten Morgen zusammen. " * 20 + "good morning everybody " * 2000) == "de"


def test_an_engine_of_one_language_needs_no_guess() -> None:
    assert Detector(("en",))("good morning") == "en"


def test_a_detector_that_knows_none_of_the_languages_is_refused() -> None:
    with pytest.raises(ValueError, match="none"):
        Detector(("tlh",))
