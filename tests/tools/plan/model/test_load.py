"""The work that speech is for an engine."""

from __future__ import annotations

from random import Random

import pytest

from caption_tools.loadtest.model.script import Send
from caption_tools.plan.model.load import (
    GrowingTranslation,
    MeetingLoad,
    SourceText,
    caption_work,
    texts,
)
from caption_tools.speech import text

LINES = text.lines()


def test_a_growing_text_is_translated_when_enough_new_words_are_agreed() -> None:
    said = "we meet again on monday at nine".split()
    sends = [Send(0.3 * at, "u", at, " ".join(said[:at])) for at in range(1, 7)]
    found = list(texts([*sends, Send(2.1, "u", 7, "We meet again on Monday at nine.", True)]))
    assert [(one.words, one.final) for one in found] == [(2, False), (5, False), (7, True)]
    assert found[0].due == pytest.approx(0.9)  # the third update agrees with the second


def test_a_long_text_is_cut_into_captions_that_are_translated_one_by_one() -> None:
    said = "so " + "we met them again " * 8 + "and then we left " + "for the next town " * 3
    words = said.split()
    sends = [Send(0.3 * at, "u", at, " ".join(words[: 3 * at])) for at in range(1, 16)]
    found = list(texts([*sends, Send(5.0, "u", 99, said, True)]))
    finals = [one for one in found if one.final]
    assert [one.id for one in finals] == ["u", "u.2"]
    assert {one.root for one in found} == {"u"}
    assert " ".join(one.text for one in finals) == said.strip()


def test_a_text_whose_parts_have_all_ended_has_nothing_left_to_translate() -> None:
    said = " ".join(f"word{at}" for at in range(60))
    sends = [Send(0.3 * at, "u", at, said) for at in range(1, 4)]
    cut = [one for one in texts(sends) if one.final][0]
    found = list(texts([*sends, Send(2.0, "u", 9, cut.text, True)]))
    assert [one.text for one in found if one.final] == [cut.text]


def test_a_growing_text_is_translated_from_what_is_stable_to_what_is_shown() -> None:
    translation = GrowingTranslation()
    made = []
    for words in (3, 10, 15, 20, 25):
        text = SourceText(0.0, "u", "word " * words, final=False)
        made.append(translation.made(text))
        translation.add(text)
    # 2, 3, 7, 11 and 15 words are wanted. Two translations in a row make all but the last stable.
    assert made == [2, 3, 6, 9, 9]
    assert translation.made(SourceText(1.0, "u", "word " * 26, final=True)) == 26


def test_a_growing_text_is_more_work_than_a_whole_one() -> None:
    growing = caption_work(MeetingLoad(), LINES, Random(0))
    whole = caption_work(MeetingLoad(growing=False), LINES, Random(0))
    assert whole.partials == 0
    assert whole.made == whole.words
    assert growing.partials > 1
    assert growing.made > 1.5 * growing.words
    assert growing.typical < growing.words < growing.long


def test_the_work_of_a_load_does_not_depend_on_the_number_of_its_speakers() -> None:
    one, many = (MeetingLoad(speakers=speakers) for speakers in (1, 9))
    assert caption_work(one, LINES, Random(0)) == caption_work(many, LINES, Random(0))


def test_a_possible_load_is_taken_as_it_is() -> None:
    assert MeetingLoad().checked() == MeetingLoad()


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (MeetingLoad(talk=0.0), "--talk must be above 0"),
        (MeetingLoad(pace=1.0), "--pace 1 is too slow"),
    ],
)
def test_an_impossible_load_is_refused_with_the_flag_to_change(load: MeetingLoad, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        load.checked()
