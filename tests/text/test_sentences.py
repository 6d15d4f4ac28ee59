"""Cutting longer texts into sentences and joining their translations."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.text.sentences import ends, join, split

SCRIPTS = "abAB ÀÉß Привет Ωμέγα مرحبا שלום नमस्ते สวัสดี 안녕 今日は 你好 ｶﾅ \U0001f600\u200d\u0301"
MARKS = ".,!?…。！？｡،؟।;:'\"“”„‟«»「」『』()[]（）0123456789 \n\t\u00a0\u202f\u2028\u3000\x1f"


def pieces(text: str, lang: str = "en", limit: int = 1000) -> list[str]:
    return [piece for piece, _ in split(text, limit, lang)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello.", ["Hello."]),
        ("Hello. How are you? Fine!", ["Hello.", "How are you?", "Fine!"]),
        ("He said “Stop.” Then he left.", ["He said “Stop.”", "Then he left."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("What?! Really? Yes!!", ["What?!", "Really?", "Yes!!"]),
        ("Well… Then we go. And... So it is.", ["Well… Then we go.", "And...", "So it is."]),
        ("Well... maybe. It is so.", ["Well... maybe.", "It is so."]),
        ("Mr. Smith met Dr. Jones. They spoke.", ["Mr. Smith met Dr. Jones.", "They spoke."]),
        ("J. S. Bach wrote it.", ["J. S. Bach wrote it."]),
        ("At 3 p.m. Eastern we start.", ["At 3 p.m. Eastern we start."]),
        ("The U.S. economy grew.", ["The U.S. economy grew."]),
        ("He lives in the U.S. He is fine.", ["He lives in the U.S.", "He is fine."]),
        ("We meet on Jan. 5 at noon.", ["We meet on Jan. 5 at noon."]),
        ("No. 5 is alive. No. That is wrong.", ["No. 5 is alive.", "No.", "That is wrong."]),
        ("It costs 3.50 euros. Cheap.", ["It costs 3.50 euros.", "Cheap."]),
        ("It is version 2.5. Then it ends.", ["It is version 2.5.", "Then it ends."]),
        ("see www.example.com today", ["see www.example.com today"]),
        ("the class gateway.Hub is new", ["the class gateway.Hub is new"]),
        ("one\ntwo\n\nthree", ["one", "two", "three"]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_a_text_is_cut_where_a_sentence_or_a_line_ends(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


@pytest.mark.parametrize(
    ("lang", "text", "expected"),
    [
        ("de", "Am 13. Oktober treffen wir uns.", ["Am 13. Oktober treffen wir uns."]),
        ("de", "Am 3. Mai kam er.", ["Am 3. Mai kam er."]),
        ("de-AT", "Am 3. Mai kam er.", ["Am 3. Mai kam er."]),
        ("de", "Das ist die 2. Version. Sie ist gut.", ["Das ist die 2. Version.", "Sie ist gut."]),
        ("de", "Dr. Meyer kommt. Er ist da.", ["Dr. Meyer kommt.", "Er ist da."]),
        ("de", "Es gibt z. B. Äpfel. Und mehr.", ["Es gibt z. B. Äpfel.", "Und mehr."]),
        ("de", "Es gibt z.B. Äpfel, u. a. Boskop.", ["Es gibt z.B. Äpfel, u. a. Boskop."]),
        ("de", "und so weiter. und mehr", ["und so weiter. und mehr"]),
        ("de", "Es ist so. Über uns.", ["Es ist so.", "Über uns."]),
        ("de", "Er sagte: „Ja. Gut.“ Dann ging er.", ["Er sagte: „Ja. Gut.“", "Dann ging er."]),
        ("fr", "M. Dupont et Mme Roy. Ils sont là.", ["M. Dupont et Mme Roy.", "Ils sont là."]),
        ("fr", "Le Dr. Petit vient le 3 janv. 2026.", ["Le Dr. Petit vient le 3 janv. 2026."]),
        ("fr", "Vraiment\u202f? Oui\u00a0! Bien.", ["Vraiment\u202f?", "Oui\u00a0!", "Bien."]),
        ("es", "El Sr. Ruiz vino. ¿Qué tal? ¡Bien!", ["El Sr. Ruiz vino.", "¿Qué tal?", "¡Bien!"]),
        ("zh", "你好。今天开会吗？是的。", ["你好。", "今天开会吗？", "是的。"]),
        ("zh-Hant", "你好。今天開會嗎？是的。", ["你好。", "今天開會嗎？", "是的。"]),
        ("ja", "今日は雨です。本当？！はい！", ["今日は雨です。", "本当？！", "はい！"]),
        ("ja", "「はい。」と言った。行こう。", ["「はい。」と言った。", "行こう。"]),
        ("ja", "円周率は3.14です。以上。", ["円周率は3.14です。", "以上。"]),
        ("ru", "Он ушёл. потом вернулся. Всё.", ["Он ушёл. потом вернулся.", "Всё."]),
        ("hi", "यह है। वह है।", ["यह है।", "वह है।"]),
        ("ar", "هل هذا؟ نعم.", ["هل هذا؟", "نعم."]),
    ],
)
def test_each_language_has_its_own_abbreviations_dates_and_marks(
    lang: str, text: str, expected: list[str]
) -> None:
    assert pieces(text, lang) == expected


def test_a_sentence_over_the_limit_is_cut_at_a_space() -> None:
    assert pieces("one two three four", limit=9) == ["one two", "three", "four"]
    assert pieces("a bbbb", limit=3) == ["a", "bbb", "b"]
    assert pieces("aaaaa bb", limit=4) == ["aaaa", "a bb"]
    assert split("aaaa  bbbb", 6, "en") == [("aaaa", "  "), ("bbbb", "")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two, three four five", ["one two,", "three four", "five"]),
        ("a, three four", ["a, three", "four"]),
        ("in 1,200 cases", ["in 1,200", "cases"]),
        ("今日は雨なので、家にいます", ["今日は雨なので、", "家にいます"]),
    ],
)
def test_a_sentence_over_the_limit_is_preferably_cut_behind_a_late_comma(
    text: str, expected: list[str]
) -> None:
    assert pieces(text, limit=10) == expected


def test_of_several_commas_in_the_second_half_of_the_limit_the_last_counts() -> None:
    text = "aaaaaaaaaa, bb, ccccccccc dd"
    assert pieces(text, limit=20) == ["aaaaaaaaaa, bb,", "ccccccccc dd"]
    assert pieces("aaaa, bbbb cc dd", limit=12) == ["aaaa, bbbb", "cc dd"]


def test_a_word_over_the_limit_is_cut_at_the_limit() -> None:
    assert pieces("abcdefgh", limit=3) == ["abc", "def", "gh"]


def test_joined_pieces_keep_line_breaks_and_get_the_spaces_of_their_script() -> None:
    gaps = [gap for _, gap in split("One. Two.\n\nThree.", 1000, "en")]
    assert join(list(zip(["A.", "B.", "C."], gaps, strict=True)), spaced=True) == "A. B.\n\nC."
    assert join(list(zip(["一。", "二。", "三。"], gaps, strict=True)), spaced=False) == (
        "一。二。\n\n三。"
    )


def test_a_quotation_over_the_limit_is_cut_behind_its_sentences() -> None:
    assert pieces("「今日は雨です。明日は晴れ。」", "ja", 8) == [
        "「今日は雨です。",
        "明日は晴れ。」",
    ]


def test_a_sentence_ends_behind_its_marks_and_a_line_at_its_last_letter() -> None:
    text = " One. Two \n three\n"
    assert [text[:end] for end in ends(text, "en")] == [" One.", " One. Two", " One. Two \n three"]


@example("0\x1f0", 1, "en")
@example("«\n\ufeff1M.  (A. B) \ufeff3「あ„\rA\xa0.»a1b“ ” Jan.  (", 50, "es")
@given(
    st.text(max_size=200) | st.text(SCRIPTS + MARKS, max_size=80) | st.text(MARKS, max_size=40),
    st.integers(1, 50),
    st.sampled_from(["en", "de", "es", "fr", "ja", "zh", "zh-Hant", "ar", "hi", "th", "tlh"]),
)
def test_the_pieces_joined_are_the_text_and_none_is_empty(text: str, limit: int, lang: str) -> None:
    cut = split(text, limit, lang)
    assert "".join(piece + gap for piece, gap in cut) == text.strip()
    assert all(0 < len(piece) <= limit and piece == piece.strip() for piece, _ in cut)
    assert all(not gap.strip() for _, gap in cut)
