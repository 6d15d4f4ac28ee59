"""The files of a replay: what they may leave out, and what they are refused for."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from caption_tools.replay.meeting import script
from caption_tools.replay.meeting.script import (
    RecogniserUpdate,
    ScriptUtterance,
    ShownCaption,
    columns,
    faster,
    parse,
)
from tests.support.typed import near

QUALITY = Path(__file__).parents[3] / "quality" / "meeting100.tsv"


def lines(*utterances: object) -> list[ScriptUtterance]:
    text = "\n".join(msgspec.json.encode(one).decode() for one in utterances)
    return parse(text, Random(0))


def one(**fields: object) -> ScriptUtterance:
    (found,) = lines({"lang": "en", **fields})
    return found


# --- JSON lines ----------------------------------------------------------------------------------


def test_the_example_of_the_documentation_is_read_as_it_stands() -> None:
    doc = script.__doc__ or ""
    example = doc[doc.index("{") : doc.rindex("}") + 1]
    (found,) = parse(" ".join(example.split()), Random(0))
    assert found == ScriptUtterance(
        id="7",
        speaker="Anna",
        lang="en",
        text="Good morning, Ben.",
        t0=12.0,
        t1=14.1,
        updates=(
            RecogniserUpdate(12.6, "good"),
            RecogniserUpdate(13.2, "good morning"),
            RecogniserUpdate(13.5, "good morning then"),
        ),
        references={"de": "Guten Morgen, Ben."},
        shown={
            "de": (
                ShownCaption(13.3, "", "Guten Morgen"),
                ShownCaption(14.3, "Guten Morgen, Ben.", "", True),
            )
        },
    )


def test_a_text_alone_is_spoken_at_the_usual_pace() -> None:
    found = one(text="Hello there, everybody.")
    assert (found.id, found.t0, found.t1) == ("1", 0.0, near(1.2))
    assert found.updates[0].at == pytest.approx(0.6)


def test_utterances_without_times_follow_each_other_after_a_pause() -> None:
    first, second = lines({"lang": "en", "text": "One two."}, {"lang": "en", "text": "Three."})
    assert second.t0 == pytest.approx(first.t1 + 0.6)


def test_utterances_with_times_come_in_their_order() -> None:
    found = lines(
        {"lang": "en", "text": "Second.", "t0": 5}, {"lang": "de", "text": "Erst.", "t0": 1}
    )
    assert [utterance.text for utterance in found] == ["Erst.", "Second."]


def test_words_with_times_make_the_text_and_its_updates() -> None:
    found = one(words=[["Good", 3.1], ["morning", 3.6]])
    assert (found.text, found.t1) == ("Good morning", 3.6)
    assert found.t0 == pytest.approx(2.8)
    assert [update.text for update in found.updates] == ["good", "good"]
    assert one(words=[["お", 3.0], ["茶", 3.2]], lang="ja").text == "お茶"


def test_recorded_updates_are_not_replaced_by_simulated_ones() -> None:
    found = one(text="Good morning.", updates=[[7.0, "good"], [7.5, "good morning"]])
    assert found.updates == (RecogniserUpdate(7.0, "good"), RecogniserUpdate(7.5, "good morning"))
    assert (found.t0, found.t1) == (near(6.7), 7.5)


def test_an_utterance_without_sound_is_said_in_no_time() -> None:
    assert (one(text="–").t1, one(text="–").updates) == (0.0, ())


def test_tags_are_spelt_as_the_gateway_spells_them() -> None:
    found = one(
        lang="EN_us", text="Hi.", references={"DE": "Hallo.", "fr": ""}, shown={"zh-cn": [[1, "a"]]}
    )
    assert (found.lang, found.references) == ("en-US", {"de": "Hallo."})
    assert found.shown == {"zh-CN": (ShownCaption(1, "a"),)}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"lang": "en"}, "neither text nor words"),
        ({"lang": "en", "text": " "}, "neither text nor words"),
        ({"text": "Hi."}, "missing required field `lang`"),
        ({"lang": "english", "text": "Hi."}, "not a language"),
        ({"lang": "en", "text": "Hi.", "t0": 3, "t1": 2}, "times do not rise"),
        ({"lang": "en", "text": "Hi.", "t0": -1}, "times do not rise"),
        ({"lang": "en", "text": "Hi.", "updates": [[2, "a"], [1, "b"]]}, "times do not rise"),
        ({"lang": "en", "words": [["a", 1], ["b", 2]], "t1": 1.5}, "times do not rise"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(line: object, says: str) -> None:
    with pytest.raises(ValueError, match=r"^Line 2: .*\.$") as caught:
        lines({"lang": "en", "text": "Fine."}, line)
    assert says in str(caught.value)


def test_a_line_that_is_not_json_is_named() -> None:
    with pytest.raises(ValueError, match=r"^Line 3: Input data was truncated."):
        parse('\n{"lang":"en","text":"Hi."}\n{', Random(0))


def test_an_id_is_used_once() -> None:
    with pytest.raises(ValueError, match="Two utterances have the id '2'"):
        lines({"lang": "en", "text": "A.", "id": "2"}, {"lang": "en", "text": "B."})


def test_a_written_meeting_is_read_back_unchanged() -> None:
    found = parse('{"lang":"en","text":"Good morning all.","speaker":"Anna"}', Random(3))
    assert parse(msgspec.json.encode(found[0]).decode(), Random(4)) == found


# --- columns -------------------------------------------------------------------------------------


def test_the_usual_six_columns_need_no_names() -> None:
    found = columns(QUALITY.read_text("utf-8"), QUALITY.name, Random(0))
    assert len(found) == 100
    assert (found[1].lang, found[1].text) == ("en", "Yes, loud and clear.")
    assert found[1].references["zh"] == "能，听得很清楚。"


def test_two_columns_are_named_by_the_file() -> None:
    (found,) = columns("Hi.\tSalut.\r\n", "talk.en-fr.tsv", Random(0))
    assert (found.lang, found.references) == ("en", {"fr": "Salut."})


def test_columns_without_a_language_are_ignored() -> None:
    (found,) = columns("Hi.\tSalut.\tdialogue 7", "talk.en-fr.tsv", Random(0))
    assert found.references == {"fr": "Salut."}


def test_any_column_can_be_the_spoken_one() -> None:
    (found,) = columns("Hi.\t你好。", "a.tsv", Random(0), langs=("en", "zh"), source="ZH")
    assert (found.lang, found.text, found.references) == ("zh", "你好。", {"en": "Hi."})


def test_an_empty_file_has_no_utterances() -> None:
    assert columns("\n \n", "a.tsv", Random(0)) == []
    assert parse("", Random(0)) == []


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("a\tb", {}, "Say e.g. --columns en,de"),
        ("a\tb\nc", {"langs": ("en", "de")}, "Line 2: it has 1 columns, not 2"),
        ("a\tb", {"langs": ("en", "de"), "source": "fr"}, "No column is in fr"),
        ("a\tb\n \tc", {"langs": ("en", "de")}, "Line 2: nothing is said"),
        ("a\tb", {"langs": ("en", "tlhx")}, "is not a language"),
    ],
)
def test_columns_that_make_no_sense_are_named(text: str, options: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        columns(text, "talk.tsv", Random(0), **options)


def test_the_same_seed_makes_the_same_meeting() -> None:
    text = QUALITY.read_text("utf-8")
    same, again, other = (columns(text, QUALITY.name, Random(seed)) for seed in (1, 1, 2))
    assert same == again
    assert same != other


# --- speed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", [0.1, 0.7, 1, 3, 10])
def test_a_faster_meeting_has_the_same_texts_in_less_time(speed: float) -> None:
    (said,) = lines(
        {"lang": "en", "text": "One.", "t0": 1, "t1": 3, "updates": [[2, "o"]],
         "shown": {"de": [[3, "Eins."]]}}
    )  # fmt: skip
    (found,) = faster([said], speed)
    assert (found.t0, found.t1, found.updates) == (
        1 / speed,
        3 / speed,
        (RecogniserUpdate(2 / speed, "o"),),
    )
    assert (found.text, found.shown) == ("One.", {})
