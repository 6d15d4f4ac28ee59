"""Cues: lines, parts and times of captions."""

from __future__ import annotations

import pytest

from gateway.core.transcripts import cues
from gateway.core.transcripts.cues import LATE_S, LINE, LINES, READING, SHORTEST_S, CueTiming

SENTENCES = (
    "We meet again on Thursday at nine, in the large room on the second floor, and please bring "
    "the figures for the third quarter. Mr. Smith will not be there. Thank you."
)
CHINESE = (
    "我们将在星期四上午九点在二楼的大会议室再次见面，请带上第三季度的数字。史密斯先生不会在那里。"
)
JAPANESE = (
    "本日はGDPの第三四半期の数値についてお話しします。資料は「東京オフィス」から届いています。"
)
KOREAN = (
    "안녕하세요 여러분, 오늘은 3분기 수치에 대해 이야기하겠습니다. 자료는 도쿄에서 도착했습니다."
)


def lines(text: str, lang: str = "en") -> list[tuple[str, ...]]:
    return [part[0] for part in cues.lay([text], [lang])]


# --- one text -------------------------------------------------------------------------------------


def test_a_text_that_fits_stays_on_one_line() -> None:
    assert lines("x" * LINE) == [("x" * LINE,)]
    assert lines("Good morning. How are you?") == [("Good morning. How are you?",)]


def test_a_longer_text_is_cut_at_sentences_then_commas_then_spaces() -> None:
    assert lines(SENTENCES) == [
        ("We meet again on Thursday at nine,", "in the large room on the second floor,"),
        ("and please bring the figures", "for the third quarter."),
        ("Mr. Smith will not be there. Thank you.",),
    ]


def test_two_lines_have_similar_lengths() -> None:
    (one, two), *more = lines("Nobody wants to read a line of words that leaves one alone.")
    assert not more
    assert abs(len(one) - len(two)) < 10


def test_no_single_word_is_left_in_a_cue_of_its_own() -> None:
    parts = lines(" ".join(["word"] * 18))  # 89 characters: one word more than a cue holds
    assert [len(" ".join(part)) for part in parts] == [44, 44]


def test_a_full_width_line_has_sixteen_characters_and_needs_no_spaces() -> None:
    assert lines(CHINESE) == [
        ("我们将在星期四上午九点在", "二楼的大会议室再次见面，"),
        ("请带上第三季度的数字。", "史密斯先生不会在那里。"),
    ]


def test_japanese_is_cut_between_phrases_and_never_inside_latin_words() -> None:
    assert lines(JAPANESE) == [
        ("本日はGDPの第三四半期の", "数値についてお話しします。"),
        ("資料は「東京オフィス」", "から届いています。"),
    ]


def test_korean_is_cut_at_its_spaces() -> None:
    for part in lines(KOREAN):
        for line in part:
            assert all(word in KOREAN.split(" ") for word in line.split(" "))


@pytest.mark.parametrize("mark", "、。」ーっ々”！")
def test_no_full_width_line_begins_with_a_closing_mark(mark: str) -> None:
    for place in range(8, 24):
        text = "会" * place + mark + "議" * 20
        assert not any(line.startswith(mark) for part in lines(text) for line in part)


@pytest.mark.parametrize("mark", "「（“")
def test_no_full_width_line_ends_with_an_opening_mark(mark: str) -> None:
    for place in range(8, 24):
        text = "会" * place + mark + "議" * 20
        assert not any(line.endswith(mark) for part in lines(text) for line in part)


def test_a_word_longer_than_a_line_is_cut_without_losing_a_letter() -> None:
    assert lines("x" * 100) == [("x" * 42,), ("x" * 42, "x" * 16)]


def test_a_mark_stays_with_its_letter() -> None:
    text = "e\u0301" * 60
    cut = [line for part in lines(text) for line in part]
    assert "".join(cut) == text
    assert not any(line.startswith("\u0301") for line in cut)


def test_joined_emoji_are_cut_only_if_a_line_is_too_short_for_them() -> None:
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    cut = [line for part in lines(family * 8) for line in part]
    assert all(len(line) % len(family) == 0 for line in cut)
    endless = "\U0001f469\u200d" * 40
    assert all(len(line) <= 32 for part in lines(endless) for line in part)  # 16, and joiners


def test_combining_marks_have_no_width() -> None:
    assert lines("a" + "\u0301" * 500) == [("a" + "\u0301" * 500,)]


def test_white_space_and_control_characters_are_single_spaces() -> None:
    assert cues.plain(" a\r\n\tb\x00\x85c\u2028d ") == "a b c d"
    assert cues.plain("« oui\u202f!\u00a0»") == "« oui\u202f!\u00a0»"


def test_a_date_does_not_end_a_sentence() -> None:
    text = (
        "Wir treffen uns am Donnerstag, dem 13. Oktober, um neun im großen Raum im zweiten Stock "
        "mit allen, die kommen."
    )
    last = [part[-1] for part in lines(text, "de")]
    assert last == ["dem 13. Oktober,", "Stock mit allen, die kommen."]


# --- two texts ------------------------------------------------------------------------------------


def test_two_texts_share_the_lines_of_a_cue_and_have_equally_many_parts() -> None:
    german = (
        "Wir treffen uns am Donnerstag um neun im großen Raum im zweiten Stock wieder, und bringen "
        "Sie bitte die Zahlen für das dritte Quartal mit. Herr Smith kommt nicht. Vielen Dank."
    )
    parts = cues.lay([SENTENCES, german], ["en", "de"])
    assert all(len(one) == len(two) == 1 for one, two in parts)
    assert len({two for _, two in parts}) == len(parts)


def test_a_text_with_too_few_words_is_repeated_while_the_other_changes() -> None:
    long = "x" * 42 + " " + "y" * 42
    parts = cues.lay(["Yes, I think so.", long + " z z " + "w" * 42], ["en", "de"])
    assert [one for (one,), _ in parts] == ["Yes,", "Yes,", "I think", "so."]
    parts = cues.lay(["Yes.", long], ["en", "de"])
    assert [one for (one,), _ in parts] == ["Yes.", "Yes."]


# --- time -----------------------------------------------------------------------------------------


def test_full_width_characters_take_longer_to_say() -> None:
    assert cues.speaking_seconds("x" * 150) == pytest.approx(10)
    assert cues.speaking_seconds("会" * 16) == pytest.approx(42 / 15)


def test_parts_share_the_time_by_their_length() -> None:
    one, two = cues.share(10.0, 14.0, [(("x" * 30,),), (("y" * 10,),)])
    assert (one.begin, one.end) == (10_000, 13_000)
    assert (two.begin, two.end) == (13_000, 14_000)


def test_reading_time_is_that_of_the_longest_text_and_at_least_the_shortest() -> None:
    long, short = cues.share(0, 1, [(("x" * 17,), ("y" * 34,)), (("Yes.",), ("Ja.",))])
    assert long.reading == 2000
    assert short.reading == round(1000 * SHORTEST_S)


def test_parts_without_width_share_the_time_equally() -> None:
    assert [slot.end for slot in cues.share(0, 1, [(("\u200b",),), (("\u200b",),)])] == [500, 1000]


def test_a_cue_stays_until_it_has_been_read() -> None:
    assert cues.settle([CueTiming(1000, 1200, 3000)]) == [(1000, 4000)]
    assert cues.settle([CueTiming(1000, 9000, 3000)]) == [(1000, 9000)]


def test_a_cue_is_delayed_until_the_one_before_has_been_read() -> None:
    assert cues.settle([CueTiming(0, 1000, 2000), CueTiming(1000, 5000, 1000)]) == [
        (0, 2000),
        (2000, 5000),
    ]


def test_a_cue_is_never_later_than_the_limit() -> None:
    slots = [CueTiming(0, 1000, 5000), CueTiming(1000, 5000, 1000)]
    assert cues.settle(slots) == [(0, 2500), (2500, 5000)]


def test_cues_with_the_same_begin_are_shown_one_after_the_other() -> None:
    settled = cues.settle([CueTiming(0, 0, 3000)] * 4)
    assert [begin for begin, _ in settled] == [0, 1500, 2333, 3166]


def test_settle_accepts_an_empty_list() -> None:
    assert cues.settle([]) == []


def test_the_rules_are_those_of_subtitling() -> None:
    assert (LINE, LINES) == (42, 2)
    assert 15 <= READING <= 20 and 6 <= READING * 16 / 42 <= 9
    assert 0.7 <= SHORTEST_S <= 1
    assert LATE_S <= 1.5
