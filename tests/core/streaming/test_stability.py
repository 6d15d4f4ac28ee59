"""Stability of growing captions: committed text and shown text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.streaming.stability import Agreement, StabilityRules
from gateway.text import word_units
from tests.support.typed import current

BARE = StabilityRules(hold=0, mask=0, early=0, agree=2)


def agreement(*hypotheses: str, lang: str = "de", **numbers: int) -> Agreement:
    """Return the agreement of these hypotheses, with rules that are 0 unless given."""
    rules = {"hold": 0, "mask": 0, "early": 0, "agree": 2, **numbers}
    made = Agreement(lang, StabilityRules(**rules))
    for text in hypotheses:
        made.add(text)
    return made


# --- committed text -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hypotheses", "committed"),
    [
        ([], ""),
        (["Guten Morgen"], ""),
        (["Guten Morgen", "Guten Morgen zusammen"], "Guten Morgen"),
        (["Guten Tag", "Guten Morgen"], "Guten"),
        (["Hallo", "Guten Morgen", "Hallo"], ""),
        (["Guten Mor", "Guten Morgen"], "Guten"),
        (["Guten Morgen zusammen", "Guten"], "Guten"),
    ],
)
def test_the_common_beginning_of_two_hypotheses_in_a_row_is_committed(
    hypotheses: list[str], committed: str
) -> None:
    assert agreement(*hypotheses).committed == committed


def test_the_last_words_of_a_hypothesis_are_not_committed_even_if_agreed() -> None:
    four = "eins zwei drei vier"
    assert agreement(four, four, hold=1).committed == "eins zwei drei"
    assert agreement(four, four, hold=2).committed == "eins zwei"
    assert agreement(four, four, hold=4).committed == ""


@pytest.mark.parametrize("lang", ["de", "zh", "th"])
@pytest.mark.parametrize("count", range(8))
def test_a_hypothesis_shorter_than_the_hold_commits_nothing(lang: str, count: int) -> None:
    text = " x" * count if lang == "de" else "字" * count
    made = agreement(text, text, lang=lang, hold=8)
    assert made.committed == ""


def test_in_scripts_without_spaces_hold_counts_several_characters_per_word() -> None:
    text = "今天天气很好我们去公园"
    assert agreement(text, text, lang="zh", hold=2, dense=3).committed == text[:-6]


def test_committed_text_is_returned_once() -> None:
    made = Agreement("de", BARE)
    assert made.add("Guten Morgen") == ""
    assert made.add("Guten Morgen zusammen") == "Guten Morgen"
    assert made.add("Guten Morgen zusammen, alle") == ""
    assert made.add("Guten Morgen zusammen, alle da") == " zusammen, alle"


def test_a_hypothesis_that_does_not_begin_with_what_is_committed_commits_nothing() -> None:
    made = agreement("Guten Morgen", "Guten Morgen")
    assert made.add("Hallo zusammen da") == made.add("Hallo zusammen da") == ""
    assert made.committed == "Guten Morgen"


def test_commit_restores_text_and_later_agreement_continues_it() -> None:
    made = agreement("Guten Morgen", "Guten Morgen")
    made.reset()
    assert made.committed == ""
    made.commit("Guten Morgen")
    assert made.add("Guten Morgen zusammen") == ""
    assert made.add("Guten Morgen zusammen da") == " zusammen"


def test_as_many_translations_in_a_row_have_to_agree_as_the_rules_say() -> None:
    made = agreement("Guten Morgen", "Guten Morgen", agree=3)
    assert current(made.committed) == ""
    assert made.add("Guten Morgen allen") == "Guten Morgen"
    assert made.add("Guten Morgen allen") == ""
    assert made.add("Guten Morgen allen") == " allen"


def test_one_other_translation_delays_the_agreement() -> None:
    made = agreement("Guten Morgen", "Guten Tag", "Guten Morgen", agree=3)
    assert current(made.committed) == "Guten"
    assert made.add("Guten Morgen") == ""
    assert made.add("Guten Morgen") == " Morgen"


def test_after_a_reset_text_has_to_be_agreed_on_again() -> None:
    made = agreement("Guten Morgen", "Guten Morgen")
    made.reset()
    assert made.add("Guten Morgen") == ""
    assert made.add("Guten Morgen") == "Guten Morgen"


def test_the_token_ids_are_those_of_the_last_hypothesis() -> None:
    made = Agreement("de", BARE)
    made.add("Guten", (1,))
    made.add("Guten Morgen", (1, 2))
    assert current(made.ids) == (1, 2)
    made.add("Guten Tag")
    assert current(made.ids) == ()


def test_the_draft_is_the_last_hypothesis_without_a_prefix_that_it_begins_with() -> None:
    made = agreement("Guten Morgen", "Guten Tag allen")
    assert made.draft("") == "Guten Tag allen"
    assert made.draft("Guten") == " Tag allen"
    assert made.draft("Gute Nacht") == ""


def test_the_last_hypothesis_is_still_the_draft_after_its_source_has_changed() -> None:
    made = Agreement("de", BARE)
    made.add("Guten Tag", (1, 3))
    made.reset()
    assert (made.draft(""), made.ids) == ("Guten Tag", (1, 3))


# --- shown text ---------------------------------------------------------------------------------


def test_words_joined_by_a_dash_are_one_word_of_the_mask() -> None:
    assert agreement(mask=1).visible("Guten Tag—alle") == "Guten"


def test_there_are_no_token_ids_before_the_first_hypothesis() -> None:
    assert agreement().ids == ()


def test_the_last_words_of_a_hypothesis_are_not_shown() -> None:
    assert agreement(mask=1).visible("eins zwei drei") == "eins zwei"
    assert agreement(mask=2).visible("eins zwei drei") == "eins"
    assert agreement(mask=5).visible("eins zwei drei") == ""


def test_the_first_words_are_shown_in_spite_of_the_mask() -> None:
    made = agreement(mask=2, early=1)
    assert [made.visible(text) for text in ("", "eins", "eins zwei", "eins zwei drei vier")] == [
        "",
        "eins",
        "eins",
        "eins zwei",
    ]


def test_in_scripts_without_spaces_the_mask_counts_several_characters_per_word() -> None:
    text = "今天天气很好"
    assert agreement(lang="zh", mask=1, dense=3).visible(text) == text[:3]
    assert agreement(lang="zh", mask=2, early=1, dense=2).visible(text) == text[:2]


def test_the_early_words_of_a_script_without_spaces_are_as_long_as_its_words() -> None:
    text = "今天天气很好"
    assert agreement(lang="zh", mask=2, early=1, dense=4).visible(text) == text[:2]
    assert agreement(lang="th", mask=2, early=1, dense=4).visible("กขคงจ") == "กขค"


def test_words_before_a_predicted_end_are_shown_if_they_are_complete_there() -> None:
    made = agreement(mask=2)
    assert made.visible("Guten Morgen zusam", 14) == "Guten Morgen"
    assert made.visible("Guten Morgen zusam", 13) == "Guten Morgen"
    assert made.visible("Guten Morgen zusam", 12) == "Guten"
    assert agreement(mask=2, lang="zh").visible("今天天气", 4) == "今天天"


def test_a_hypothesis_that_is_shorter_than_predicted_is_masked() -> None:
    assert agreement(mask=2).visible("Guten Morgen zusammen", 22) == "Guten"


def test_a_hypothesis_that_is_longer_than_predicted_shows_what_the_mask_leaves() -> None:
    assert agreement(mask=2).visible("Guten Morgen zusammen und willkommen", 6) == (
        "Guten Morgen zusammen"
    )


def test_words_behind_a_predicted_end_count_as_held() -> None:
    made = agreement(hold=3, mask=2)
    made.add("eins zwei drei vier", needed=19)
    made.add("eins zwei drei vier fünf", needed=20)
    assert made.committed == "eins zwei drei"
    made = agreement(hold=1, mask=2)
    made.add("eins zwei dre", needed=10)
    made.add("eins zwei drei", needed=13)
    assert made.committed == "eins zwei"


def test_committed_text_is_always_shown() -> None:
    made = agreement("eins zwei drei", "eins zwei drei", mask=2)
    assert made.visible("eins zwei drei") == "eins zwei drei"
    assert made.visible("etwas ganz anderes, und länger") == "eins zwei drei"


# --- properties ---------------------------------------------------------------------------------

hypotheses = st.lists(
    st.lists(st.sampled_from(["a", " b", " c", "字", "\u0301", " "]), max_size=8).map("".join),
    max_size=10,
)
rules = st.builds(
    StabilityRules,
    hold=st.integers(0, 3),
    mask=st.integers(0, 3),
    early=st.integers(0, 2),
    dense=st.integers(1, 3),
)


@given(hypotheses, rules, st.sampled_from(["de", "zh", "th"]))
def test_committed_text_only_grows_and_two_hypotheses_contain_it(
    texts: list[str], rules: StabilityRules, lang: str
) -> None:
    made = Agreement(lang, rules)
    spaced = word_units.spaced(lang)
    last = ""
    for text in texts:
        before = made.committed
        added = made.add(text)
        assert made.committed == before + added
        if added:
            assert text.startswith(made.committed)
            assert last.startswith(made.committed)
            held = len(word_units.split(text, spaced)) - len(
                word_units.split(made.committed, spaced)
            )
            assert held >= rules.hold * (1 if spaced else rules.dense)
        last = text


@given(hypotheses, rules, st.sampled_from(["de", "zh", "th"]))
def test_shown_text_begins_with_committed_text(
    texts: list[str], rules: StabilityRules, lang: str
) -> None:
    made = Agreement(lang, rules)
    for text in texts:
        made.add(text)
        shown = made.visible(text)
        assert shown.startswith(made.committed)
        assert text.startswith(shown) or shown == made.committed
