"""Cutting a long growing text into captions, and finding the open part of a revision."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.streaming import segmentation
from gateway.core.streaming.segmentation import (
    CLAUSES,
    PauseMap,
    SegmentLengths,
    cut,
    part_id,
    remainder,
    utterance_id,
)
from gateway.text import word_units

LENGTHS = SegmentLengths()


def words(count: int, start: int = 0) -> str:
    """Return words that match no rule."""
    return " ".join(f"w{n}" for n in range(start, start + count))


def keys(text: str, lang: str = "en") -> list[str]:
    return word_units.keyed(text, word_units.spaced(lang))[0]


def head(text: str, lang: str = "en", pauses: dict[int, float] | None = None) -> str | None:
    """Return the caption that is cut off, or None."""
    at = cut(text, lang, LENGTHS, pauses or {})
    return None if at is None else text[:at]


# --- places to cut --------------------------------------------------------------------------------


def test_a_short_text_is_not_cut() -> None:
    assert head("") is None
    assert head("... ?") is None
    assert head(words(28)) is None
    assert head("今天" * 28, "zh") is None


def test_a_sentence_of_eight_words_is_cut_off_once_three_words_follow() -> None:
    sentence = words(7) + " end."
    assert head(f"{sentence} Then two") is None
    assert head(f"{sentence} Then two more") == sentence


def test_shorter_sentences_share_a_caption() -> None:
    assert head("Yes. I see. Well, it is so. Then go on with it") is None
    both = "Yes. I see. Well, it is so, I think."
    assert head(f"{both} Then go on") == both


def test_each_of_several_finished_sentences_is_a_caption() -> None:
    first, second = words(9) + " one.", "S" + words(9) + " two."
    assert head(f"{first} {second} Then go on") == first


def test_abbreviations_and_numbers_do_not_end_a_sentence() -> None:
    assert head(words(8) + " Mr. Smith was there") is None
    assert head(words(8) + " am 13. Mai war das") is None
    assert head(words(8) + " at 3.5 Million or so") is None
    assert head(words(8) + " stop. and go on") is None


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("de", "wir haben alle sehr lange auf diesen Tag im 19. Jahrhundert gewartet und"),
        ("de", "wir haben das schon sehr oft gemacht, z. B. Äpfel und Birnen gekauft"),
        ("en", "we have all been told so many times about the U.S. Senate and its"),
        ("en", "we have all been told so many times to meet on Jan. 5 and then"),
        ("fr", "nous avons tous entendu dire hier soir que le M. Dupont et sa femme"),
        ("es", "todos hemos oído decir ayer por la noche que el Sr. García y su"),
    ],
)
def test_dates_and_abbreviations_of_the_language_do_not_end_a_sentence(
    lang: str, text: str
) -> None:
    assert head(text, lang) is None
    assert head(text.replace(text.split(". ")[0] + ".", words(11) + " x?"), lang) is not None


def test_a_long_text_is_cut_behind_its_last_sentence_even_if_that_is_short() -> None:
    assert head("Yes. I see. So " + words(24)) is None
    assert head("Yes. I see. So " + words(25)) == "Yes. I see."


def test_a_long_text_without_sentences_is_cut_at_the_longest_pause() -> None:
    text = words(29)
    assert head(text, pauses={10: 0.7, 15: 0.9, 20: 0.8}) == words(15)
    assert head(text, pauses={10: 0.7, 15: 0.7}) == words(15)
    assert head("Yes. So " + text, pauses={15: 0.9}) == "Yes."


@pytest.mark.parametrize("pauses", [{7: 2.0}, {27: 2.0}, {15: 0.5}, {0: 9.0, -4: 9.0, 99: 9.0}])
def test_short_pauses_and_pauses_at_either_end_are_not_used(pauses: dict[int, float]) -> None:
    assert head(words(29), pauses=pauses) is None


def test_a_long_text_without_pauses_is_cut_before_a_conjunction_that_begins_a_clause() -> None:
    assert head(f"{words(12)} but {words(16)}") == words(12)
    assert head(f"{words(12)}, BUT {words(16)}") == words(12) + ","


def test_a_long_text_without_clauses_is_cut_before_any_conjunction() -> None:
    assert head(f"{words(12)} or {words(23)}") is None
    assert head(f"{words(12)} or {words(24)}") == words(12)
    assert head(f"{words(12)} but {words(4)} or {words(19)}") == words(12)


def test_a_pause_just_before_the_last_words_is_used() -> None:
    assert head(words(29), pauses={26: 1.0}) == words(26)
    assert head(words(29), pauses={8: 1.0}) == words(8)


def test_a_pause_is_preferred_to_a_conjunction() -> None:
    assert head(f"{words(12)} but {words(16)}", pauses={20: 0.6}) == f"{words(12)} but {words(7)}"


def test_the_last_conjunction_that_gives_a_readable_caption_is_used() -> None:
    text = f"{words(11)} but {words(11)} but {words(12)} but {words(5)}"
    assert head(text) == f"{words(11)} but {words(11)}"
    assert head(f"{words(30)} but {words(5)} but {words(3)}") == words(30)


def test_a_conjunction_is_used_at_either_end_of_the_words_between_which_a_cut_may_be() -> None:
    assert head(f"{words(10)} but {words(18)}") == words(10)
    assert head(f"{words(26)} but {words(2)}") == words(26)
    assert head(f"{words(28)} but {words(2)}") == words(28)
    assert head(f"{words(12)} but {words(15)} but {words(3)}") == f"{words(12)} but {words(15)}"


def test_a_sentence_of_one_word_is_cut_off_as_soon_as_enough_words_follow() -> None:
    short = SegmentLengths(least=1)
    assert cut("Yes. And so on", "en", short) == len("Yes.")
    assert cut("Yes. And so", "en", short) is None


def test_words_joined_by_a_dash_count_as_one() -> None:
    joined = "—".join(f"w{n}" for n in range(40))
    assert head(joined + " and so on") is None
    assert remainder("we met—really then", ["we", "met—really"], "en") == "then"


def test_a_sentence_that_ends_at_the_hard_limit_is_cut_there() -> None:
    assert head(f"{words(45)}. Then we go on") == words(45) + "."


@pytest.mark.parametrize(
    "text",
    [
        f"{words(9)} but {words(19)}",
        f"{words(27)} but w",
        f"{words(12)} button {words(16)}",
        f"{words(12)} x-but {words(16)}",
    ],
)
def test_a_conjunction_must_be_a_whole_word_with_words_on_both_sides(text: str) -> None:
    assert head(text) is None


def test_words_that_belong_to_a_conjunction_stay_with_it() -> None:
    assert head(f"{words(12)} and mainly because {words(16)}") == words(12)
    assert head(f"{words(12)} et surtout parce qu’il {words(16)}", "fr") == words(12)


def test_a_sentence_without_marks_is_cut_before_the_words_that_begin_the_next() -> None:
    assert head(f"{words(12)} okay thank you {words(16)}") == f"{words(12)} okay"
    assert head(f"{words(12)} what can i {words(16)}") == words(12)
    assert head(f"{words(12)} könnten sie {words(16)}", "de") == words(12)
    assert head(f"{words(12)} pourriez-vous {words(16)}", "fr") == words(12)
    assert head(f"{words(12)} cuándo {words(16)}", "es") == words(12)
    assert head("私" * 24 + "例えば" + "彼" * 36, "ja") == "私" * 24
    assert head("中" * 24 + "吗" + "文" * 36, "zh") == "中" * 24 + "吗"


def test_no_caption_ends_in_a_word_that_binds_to_the_next_one() -> None:
    assert head(f"{words(12)} that but {words(16)}") is None
    assert head(f"{words(43)} of the {words(6)}") == words(43)
    assert head("of " * 48) == "of " * 44 + "of"


def test_a_cut_may_leave_translated_words_behind_it_that_readers_have_not_seen() -> None:
    text = f"{words(20)} but {words(9)}"
    assert cut(text, "en", LENGTHS, since=26) is None
    assert cut(text, "en", LENGTHS, since=26, hidden=5) is None
    assert cut(text, "en", LENGTHS, since=26, hidden=6) == len(words(20))


def test_a_short_form_before_an_apostrophe_begins_a_clause() -> None:
    assert head(f"{words(12)} parce qu'elle {words(16)}", "fr") == words(12)


def test_a_conjunction_is_found_in_any_case_and_with_either_apostrophe() -> None:
    clauses = segmentation._patterns("parce qu'", "ou bien", "et")
    for text in ("parce qu'", "Parce Qu’", "et parce qu'", "ET parce qu’"):
        found = clauses.sure.search(f"avant {text} apres")
        assert found is not None and found.group(1) == text
    found = clauses.likely.search("avant OU BIEN apres")
    assert found is not None and found.group(1) == "OU BIEN"
    assert clauses.likely.search("avant parce qu' apres") is None


def test_a_japanese_condition_does_not_end_a_clause() -> None:
    before, behind = "あ" * 30, "い" * 40
    assert head(f"{before}ましたら{behind}", "ja") == f"{before}ましたら"
    assert head(f"{before}ますと{behind}", "ja") is None
    assert head(f"{before}ますけれども{behind}", "ja") == f"{before}ますけれども"
    assert head(f"{before}しかし{behind}", "ja") == before


def test_a_region_or_a_script_does_not_change_the_conjunctions() -> None:
    assert head(f"{words(12)} but {words(16)}", "en-GB") == words(12)
    assert head("中" * 24 + "因為" + "文" * 32, "zh-Hant") == "中" * 24


def test_a_language_without_conjunctions_is_cut_by_the_other_rules() -> None:
    assert head(f"{words(12)} but {words(16)}", "sw") is None
    assert head(words(46), "sw") == words(43)


def test_a_very_long_text_is_cut_behind_its_last_comma_or_at_the_limit() -> None:
    assert head(f"{words(20)}, {words(25)}") is None
    assert head(f"{words(20)}, {words(26)}") == words(20) + ","
    assert head(f"{words(20)}, {words(9)}, {words(17)}") == f"{words(20)}, {words(9)},"
    assert head(f"{words(5)}, {words(36)} 1,200 {words(2)}, {words(2)}") == (
        f"{words(5)}, {words(36)} 1,200 {words(1)}"
    )
    assert head(words(300)) == words(45)


def test_no_caption_is_longer_than_the_hard_limit_even_for_one_sentence() -> None:
    assert head(f"{words(50)}. Then go on") == words(45)
    assert head(f"{words(50)} but {words(20)}", pauses={50: 2.0}) == words(45)


def test_the_lengths_can_be_changed() -> None:
    short = SegmentLengths(least=2, clause=2, most=4, hard=6, behind=1, pause=0.2)
    assert cut("a b it. D", "en", short) == len("a b it.")
    assert cut("a b c d e", "en", short, {2: 0.3}) == len("a b")
    assert cut("a b c d or e", "en", short) == len("a b c d")
    assert cut("a b c d e f g", "en", short) == len("a b c d e f")


@pytest.mark.parametrize("lang", CLAUSES)
def test_every_language_has_both_kinds_of_clause_patterns(lang: str) -> None:
    for pattern in (CLAUSES[lang].sure, CLAUSES[lang].likely):
        assert not pattern.search(words(9))
        assert not pattern.match("")


# --- pauses ---------------------------------------------------------------------------------------


def test_silence_is_the_time_between_two_texts_minus_that_of_the_new_words() -> None:
    pauses = PauseMap()
    pauses.record(3, "en", 10.0)
    pauses.record(5, "en", 12.0)
    pauses.record(6, "en", 12.3)
    assert pauses.before == {3: pytest.approx(2.0 - 2 * PauseMap.WORD)}


def test_characters_take_less_time_than_words() -> None:
    pauses = PauseMap()
    pauses.record(3, "zh", 10.0)
    pauses.record(5, "zh", 12.0)
    assert pauses.before == {3: pytest.approx(2.0 - PauseMap.WORD)}


def test_a_text_that_does_not_grow_makes_the_pause_longer() -> None:
    pauses = PauseMap()
    pauses.record(3, "en", 10.0)
    pauses.record(2, "en", 11.0)
    pauses.record(3, "en", 11.5)
    pauses.record(4, "en", 12.0)
    assert pauses.before == {3: pytest.approx(2.0 - PauseMap.WORD)}


def test_a_pause_after_the_first_word_counts_however_short_it_is() -> None:
    pauses = PauseMap()
    pauses.record(1, "en", 0.0)
    pauses.record(2, "en", 0.5 + PauseMap.WORD)
    pauses.record(3, "en", 0.5 + 2 * PauseMap.WORD)
    assert pauses.before == {1: pytest.approx(0.5)}


def test_words_spoken_without_a_pause_leave_none() -> None:
    pauses = PauseMap()
    pauses.record(1, "en", 0.0)
    pauses.record(2, "en", PauseMap.WORD)
    assert pauses.before == {}


def test_a_pause_before_the_first_word_behind_a_cut_counts() -> None:
    pauses = PauseMap()
    pauses.record(2, "en", 0.0)
    pauses.drop(2)
    pauses.record(1, "en", 5.0)
    assert pauses.before == {0: pytest.approx(5.0 - PauseMap.WORD)}


def test_a_clock_that_goes_back_is_no_pause() -> None:
    pauses = PauseMap()
    pauses.record(3, "en", 10.0)
    pauses.record(4, "en", 1.0)
    assert pauses.before == {}


def test_after_a_cut_pauses_are_counted_from_the_cut() -> None:
    pauses = PauseMap()
    for count, at in ((2, 0.0), (5, 9.0), (8, 18.0), (9, 27.0)):
        pauses.record(count, "en", at)
    pauses.drop(5)
    assert list(pauses.before) == [3]
    pauses.record(4, "en", 27.1)
    pauses.record(5, "en", 36.0)
    assert list(pauses.before) == [3, 4]
    pauses.drop(50)
    assert pauses.before == {}
    pauses.record(1, "en", 36.1)
    assert pauses.before == {}


# --- any text ------------------------------------------------------------------------------------


@given(
    st.lists(
        st.sampled_from(["a", "b.", "But", "c,", "and", "今日は", "。", "ます"]), max_size=150
    ),
    st.sampled_from(["en", "de", "ja", "zh", "th"]),
    st.dictionaries(st.integers(0, 60), st.floats(0, 3), max_size=5),
)
def test_a_caption_never_exceeds_the_hard_limit_and_words_follow_it(
    said: list[str], lang: str, pauses: dict[int, float]
) -> None:
    text = " ".join(said)
    at = cut(text, lang, LENGTHS, pauses)
    size = word_units.density(lang)
    if at is None:
        assert len(keys(text, lang)) <= LENGTHS.hard * size
    else:
        assert 0 < len(keys(text[:at], lang)) <= LENGTHS.hard * size
        assert len(keys(text[at:], lang)) >= LENGTHS.behind * size
        assert keys(text[:at], lang) + keys(text[at:], lang) == keys(text, lang)


# --- parts ----------------------------------------------------------------------------------------


def test_the_first_part_has_the_id_of_the_utterance_and_later_parts_a_number() -> None:
    assert [part_id("u1", n) for n in (1, 2, 3)] == ["u1", "u1.2", "u1.3"]


def test_the_id_of_a_later_part_contains_the_id_of_the_utterance() -> None:
    assert [utterance_id(id) for id in ("u1.2", "a.b.10")] == ["u1", "a.b"]
    others = ("u1", "u1.1", "u1.02", "u1.", ".2", "u1.x", "u1.²", "")
    assert [utterance_id(id) for id in others] == [None] * len(others)
