"""What of a growing caption is committed, and what of it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.streaming.target import Agreement, StabilityRules
from gateway.text import units

BARE = StabilityRules(hold=0, mask=0, early=0)


def agreement(*hypotheses: str, lang: str = "de", **numbers: int) -> Agreement:
    """What a caption has heard so far, with these numbers; those not named are 0."""
    rules = {"hold": 0, "mask": 0, "early": 0, **numbers}
    made = Agreement(lang, StabilityRules(**rules))
    for text in hypotheses:
        made.hear(text)
    return made


# --- what is committed --------------------------------------------------------------------------


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
def test_what_two_hypotheses_in_a_row_begin_with_is_committed(
    hypotheses: list[str], committed: str
) -> None:
    assert agreement(*hypotheses).committed == committed


def test_the_last_words_of_a_hypothesis_are_held_back_though_they_were_agreed_on() -> None:
    four = "eins zwei drei vier"
    assert agreement(four, four, hold=1).committed == "eins zwei drei"
    assert agreement(four, four, hold=2).committed == "eins zwei"
    assert agreement(four, four, hold=4).committed == ""


@pytest.mark.parametrize("lang", ["de", "zh", "th"])
@pytest.mark.parametrize("count", range(8))
def test_nothing_is_committed_of_a_text_that_is_held_back_whole(lang: str, count: int) -> None:
    text = " x" * count if lang == "de" else "字" * count
    made = agreement(text, text, lang=lang, hold=8)
    assert made.committed == ""


def test_in_scripts_without_spaces_several_characters_are_held_back_for_each_word() -> None:
    text = "今天天气很好我们去公园"
    assert agreement(text, text, lang="zh", hold=2, dense=3).committed == text[:-6]


def test_what_was_committed_comes_back_once() -> None:
    made = Agreement("de", BARE)
    assert made.hear("Guten Morgen") == ""
    assert made.hear("Guten Morgen zusammen") == "Guten Morgen"
    assert made.hear("Guten Morgen zusammen, alle") == ""
    assert made.hear("Guten Morgen zusammen, alle da") == " zusammen, alle"


def test_a_hypothesis_that_does_not_begin_with_what_is_committed_commits_nothing() -> None:
    made = agreement("Guten Morgen", "Guten Morgen")
    assert made.hear("Hallo zusammen da") == made.hear("Hallo zusammen da") == ""
    assert made.committed == "Guten Morgen"


def test_a_text_that_stays_after_all_is_committed_with_what_is_agreed_behind_it() -> None:
    made = agreement("Guten Morgen", "Guten Morgen")
    made.void()
    assert made.committed == ""
    made.keep("Guten Morgen")
    assert made.hear("Guten Morgen zusammen") == ""
    assert made.hear("Guten Morgen zusammen da") == " zusammen"


def test_what_is_void_has_to_be_agreed_on_again() -> None:
    made = agreement("Guten Morgen", "Guten Morgen")
    made.void()
    assert made.hear("Guten Morgen") == ""
    assert made.hear("Guten Morgen") == "Guten Morgen"


def test_the_token_ids_are_those_of_the_last_hypothesis() -> None:
    made = Agreement("de", BARE)
    made.hear("Guten", (1,))
    made.hear("Guten Morgen", (1, 2))
    assert made.ids == (1, 2)
    made.hear("Guten Tag")
    assert made.ids == ()
    made.hear("Guten Tag", (1, 3))
    made.void()
    assert made.ids == ()


# --- what is shown ------------------------------------------------------------------------------


def test_the_last_words_of_a_hypothesis_are_not_shown() -> None:
    assert agreement(mask=1).visible("eins zwei drei") == "eins zwei"
    assert agreement(mask=2).visible("eins zwei drei") == "eins"
    assert agreement(mask=5).visible("eins zwei drei") == ""


def test_the_first_words_are_shown_whatever_the_mask() -> None:
    made = agreement(mask=2, early=1)
    assert [made.visible(text) for text in ("", "eins", "eins zwei", "eins zwei drei vier")] == [
        "",
        "eins",
        "eins",
        "eins zwei",
    ]


def test_in_scripts_without_spaces_several_characters_are_masked_for_each_word() -> None:
    text = "今天天气很好"
    assert agreement(lang="zh", mask=1, dense=3).visible(text) == text[:3]
    assert agreement(lang="zh", mask=2, early=1, dense=2).visible(text) == text[:2]


def test_what_is_committed_is_shown_whatever_the_mask_and_whatever_the_text() -> None:
    made = agreement("eins zwei drei", "eins zwei drei", mask=2)
    assert made.visible("eins zwei drei") == "eins zwei drei"
    assert made.visible("etwas ganz anderes, und länger") == "eins zwei drei"


# --- always -------------------------------------------------------------------------------------

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
def test_what_is_committed_only_grows_and_two_hypotheses_have_it_but_for_the_last_words(
    texts: list[str], rules: StabilityRules, lang: str
) -> None:
    made = Agreement(lang, rules)
    spaced = units.spaced(lang)
    last = ""
    for text in texts:
        before = made.committed
        added = made.hear(text)
        assert made.committed == before + added
        if added:
            assert text.startswith(made.committed)
            assert last.startswith(made.committed)
            held = len(units.split(text, spaced)) - len(units.split(made.committed, spaced))
            assert held >= rules.hold * (1 if spaced else rules.dense)
        last = text


@given(hypotheses, rules, st.sampled_from(["de", "zh", "th"]))
def test_what_is_shown_begins_with_what_is_committed(
    texts: list[str], rules: StabilityRules, lang: str
) -> None:
    made = Agreement(lang, rules)
    for text in texts:
        made.hear(text)
        shown = made.visible(text)
        assert shown.startswith(made.committed)
        assert text.startswith(shown) or shown == made.committed
