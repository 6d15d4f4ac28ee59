"""Detection of the language of a text."""

from __future__ import annotations

import pytest
from py3langid import langid

from benchmarks.detection import MANY, SIX, beginning, count, lines, recognised
from gateway.engines.base.language_detection import SURE, Detector
from tests.text.test_letters import GREETINGS

LINES = lines()


@pytest.mark.parametrize(("tags", "open"), [(SIX, 3), (MANY, 19)])
def test_nearly_every_line_of_a_meeting_is_detected_and_none_wrongly(
    tags: tuple[str, ...], open: int
) -> None:
    counts = count(Detector(tags), LINES)
    assert counts["wrong"] == 0 and counts["open"] <= open
    assert counts.total() == 600


@pytest.mark.parametrize(("tags", "wrong", "open"), [(SIX, 1, 1), (MANY, 2, 12)])
def test_lines_without_capitals_and_punctuation_are_detected_as_well(
    tags: tuple[str, ...], wrong: int, open: int
) -> None:
    counts = count(Detector(tags), [(lang, recognised(line)) for lang, line in LINES])
    assert counts["wrong"] <= wrong and counts["open"] <= open


@pytest.mark.parametrize(("words", "wrong", "open"), [(4, 1, 4), (3, 3, 10), (2, 11, 50)])
@pytest.mark.parametrize("written", [True, False])
def test_most_texts_of_two_to_four_words_are_detected_and_few_wrongly(
    words: int, wrong: int, open: int, written: bool
) -> None:
    texts = [(lang, beginning(lang, line, words)) for lang, line in LINES]
    if not written:
        texts = [(lang, recognised(text)) for lang, text in texts]
    counts = count(Detector(SIX), texts)
    assert counts["wrong"] <= wrong and counts["open"] <= open


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("ar", "صباح الخير جميعا"),
        ("el", "Καλημέρα σε όλους"),
        ("he", "בוקר טוב לכולם"),
        ("ja", "おはようございます"),
        ("ko", "여러분 안녕하세요"),
        ("ru", "доброе утро всем"),
        ("uk", "доброго ранку всім"),
        ("zh", "大家早上好"),
    ],
)
def test_languages_in_other_scripts_are_detected(tag: str, text: str) -> None:
    assert Detector(MANY)(text) == tag


@pytest.mark.parametrize(
    "text",
    [
        *("", "123", "12:30", "3,5 %", "!?", "...", "\u200b", "\U0001f600", "\U0001f44d\U0001f3fd"),
        *("OK", "Anna", "Microsoft", "John", "GmbH", "São Paulo", "iPhone 15 Pro"),
        *("https://example.com/a", "anna@example.com", "aaa", "asdf jkl"),
    ],
)
def test_numbers_emoji_single_names_and_addresses_are_not_detected(text: str) -> None:
    assert Detector(SIX)(text) is None


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        *GREETINGS.items(),
        ("uk", "Доброго ранку всім"),
        ("fa", "سلام حال شما چطور است"),
        ("ru", "Привет"),
        ("it", "Ciao come stai oggi"),
        ("nl", "Goedemorgen allemaal, hoe gaat het"),
        ("pl", "Gdzie jest dworzec?"),
        ("vi", "Xin chào mọi người"),
    ],
)
def test_text_that_is_surely_in_a_language_that_is_not_offered_is_detected(
    tag: str, text: str
) -> None:
    detect = Detector(SIX)
    assert detect(text) == tag
    assert detect.instead(text, "en") == detect.instead(text, "de") == tag
    assert detect.instead(text, tag) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "42", "OK", "Um.", "ah ah ah ah ah", "ha ha ha ha", "Buongiorno!", "Ciao Giovanni"),
        *("Giovanni Rossi, Maria Bianchi, Luca Ferrari", "Jan Kowalski, Anna Nowak"),
        *("https://example.com/a/b/c/d", "import numpy as np", "asdf qwer zxcv yuio"),
        *("Let's meet in 東京 tomorrow", "Bonjour everybody and welcome", "WO IST DER BAHNHOF"),
    ],
)
def test_names_sounds_addresses_and_mixed_lines_are_not_in_another_language(text: str) -> None:
    assert Detector(SIX).instead(text, "en") is None


@pytest.mark.parametrize(("tag", "line"), LINES)
def test_no_line_of_a_meeting_is_taken_for_one_in_another_language(tag: str, line: str) -> None:
    detect = Detector(SIX)
    assert detect.instead(line, tag) is None
    assert detect.instead(recognised(line), tag) is None


def test_a_language_that_the_model_does_not_know_is_judged_by_its_script_alone() -> None:
    detect = Detector(("ceb", "en"))
    assert detect.instead("Good morning everybody, can you hear me?", "ceb") is None
    assert detect.instead("Привет, как дела?", "ceb") == "ru"


def test_without_a_model_a_script_has_its_likeliest_language(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    detect = Detector(SIX)
    monkeypatch.setattr(detect, "_model", lambda: None)
    assert detect("Доброго ранку всім") == "ru"
    assert detect("Good morning, can you hear me?") is None


def test_a_language_that_is_not_among_those_named_is_never_detected() -> None:
    detect = Detector(MANY)
    text = "Jeg vil gerne have en kop kaffe, tak"
    assert detect(text) == "da"
    assert detect(text, ("da", "de")) == "da"
    assert detect(text, ("nb", "de")) != "da"
    assert detect("Guten Morgen zusammen", ("en", "de-AT")) == "de-AT"
    assert detect("Привет, как дела?", ("en", "de")) is None


@pytest.mark.parametrize("text", ["你好", "大家好", "谢谢", "你好吗"])
def test_short_chinese_is_not_taken_for_cantonese_unless_that_is_offered(text: str) -> None:
    assert Detector(SIX)(text) == "zh" and Detector(SIX).instead(text, "en") == "zh"
    assert Detector(("en", "yue"))("我哋今日去邊度食飯") == "yue"


def test_text_without_letters_has_no_ranks() -> None:
    assert Detector(("en",)).rank("42") == []


def test_ranks_contain_the_offered_languages_likeliest_first() -> None:
    ranks = Detector(("zh-Hans", "de", "pt-BR")).rank("Guten Morgen zusammen, wie geht es?")
    assert ranks[0][0] == "de" and ranks[0][1] >= SURE
    assert {tag for tag, _ in ranks} == {"zh-Hans", "de", "pt-BR"}
    assert [p for _, p in ranks] == sorted((p for _, p in ranks), reverse=True)


def test_only_the_beginning_of_a_long_text_is_examined() -> None:
    detect = Detector(("de", "en"))
    assert detect("Guten Morgen zusammen. " * 20 + "good morning everybody " * 2000) == "de"


def test_an_engine_of_one_language_needs_no_guess() -> None:
    assert Detector(("en",))("good morning") == "en"


def test_languages_with_another_label_in_the_model_are_detected() -> None:
    assert Detector(("nb", "en"))("God morgen alle sammen, kan dere høre meg?") == "nb"
    assert Detector(("fil", "en"))("Magandang umaga sa inyong lahat, naririnig ba ninyo ako?") == (
        "fil"
    )


def test_languages_that_the_model_does_not_know_are_not_detected() -> None:
    assert Detector(("tlh", "bo"))("Good morning, can you hear me?") is None


def test_a_detector_that_cannot_be_loaded_logs_it_once_and_detects_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(langid.LanguageIdentifier, "from_model_file", fail)
    detect = Detector(("en", "br"))
    detect.load()
    assert detect("Good morning, can you hear me?") is None
    assert [record.levelname for record in caplog.records] == ["ERROR"]
