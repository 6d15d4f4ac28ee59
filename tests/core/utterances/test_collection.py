"""The utterances that a room keeps and forgets, and their ids."""

from __future__ import annotations

import pytest

from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.collection import (
    CAPTION_BYTES,
    NEAR,
    UTTERANCE_BYTES,
    Utterances,
)
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from tests.support.meeting import NOW


def memory(most: int = 100) -> Utterances:
    return Utterances("meeting", StreamingOptions(), Limits(utterances=most))


def say(made: Utterances, id: str | None = None, *, final: bool = True) -> Utterance:
    """Say an utterance, complete if ``final``."""
    utterance = made.begin(id, "s1", NOW).open
    utterance.final = final
    return utterance


def ids(utterances: list[Utterance]) -> list[str]:
    return [utterance.id for utterance in utterances]


def test_ended_utterances_that_the_log_has_dropped_are_forgotten() -> None:
    made = memory()
    for seq in range(1, 6):
        say(made, f"u{seq}").seq = seq
    made.by_id["u2"].final = False
    made.forget(1)
    assert len(made) == 5
    made.forget(4)
    assert list(made.by_id) == list(made.speeches) == ["u2", "u4", "u5"]


def test_utterances_and_their_captions_are_counted_as_memory() -> None:
    made = memory()
    said = [say(made), say(made)]
    said[0].captions["de"] = Caption("u1", "de", StabilityRules())
    assert made.bytes == 2 * UTTERANCE_BYTES + CAPTION_BYTES
    for seq, utterance in enumerate(said, 1):
        utterance.seq, utterance.captions = seq, {}
    made.forget(3)
    assert made.bytes == 0


# --- ids ----------------------------------------------------------------------------------------


def test_an_utterance_without_an_id_gets_an_unused_one() -> None:
    made = memory()
    assert [say(made, id).id for id in (None, "u2", None, "mine", None)] == [
        "u1",
        "u2",
        "u3",
        "mine",
        "u5",
    ]


def test_an_id_is_in_use_while_a_part_of_what_was_said_under_it_is_remembered() -> None:
    made = memory(2)
    speech = made.begin("u4", "s1", NOW)
    speech.open.final = True
    made.add_part(speech, NOW)
    say(made, "x")
    assert list(made.by_id) == ["u4.2", "x"]
    assert say(made).id == "u5"
    assert made.speeches["u4"] is speech


def test_utterances_are_numbered_in_the_order_in_which_they_began() -> None:
    made = memory()
    first, second = say(made, "b", final=False), say(made, "a")
    assert (first.ord, second.ord, first.began, first.author) == (1, 2, NOW, "s1")


def test_a_part_is_an_utterance_of_its_own_under_the_same_root() -> None:
    made = memory()
    say(made, "u1.2")
    speech = made.begin("u1", "s1", NOW)
    part = made.add_part(speech, NOW + 5)
    assert (part.id, part.root, part.ord, part.began) == ("u1.3", "u1", 3, NOW + 5)
    assert speech.open is part
    assert ids(made.parts("u1")) == ["u1", "u1.3"]
    assert ids(made.parts("u1.3")) == ["u1.3"]
    assert made.parts("u1.4") == []


def test_ids_of_this_and_of_earlier_processes_are_known() -> None:
    made = memory()
    say(made, "here")
    made.restore(Utterance("before", 7, "", NOW))
    assert [made.knows(id) for id in ("here", "before", "never", None)] == [
        True,
        True,
        False,
        False,
    ]


def test_forgotten_unknown_and_retracted_utterances_are_not_found() -> None:
    made = memory()
    say(made, "gone").erase()
    assert made.known(say(made, "x").id).id == "x"
    for id in ("gone", "never"):
        with pytest.raises(ClientFault) as raised:
            made.known(id)
        assert raised.value.code is ErrorCode.NOT_FOUND
        assert "'meeting'" in str(raised.value)


# --- earlier translations -----------------------------------------------------------------------


def spoken(made: Utterances, count: int) -> list[Utterance]:
    """Say ``count`` English utterances, one a second, each with a German caption."""
    said = []
    for n in range(count):
        utterance = made.begin(f"x{n}", "s1", NOW + n).open
        utterance.final, utterance.lang, utterance.text = True, "en", f"text {n}"
        utterance.at = NOW + n
        caption = utterance.captions["de"] = Caption(utterance.id, "de", StabilityRules())
        caption.edit(f"Text {n}", "mt")
        said.append(utterance)
    return said


def test_the_translations_before_an_utterance_are_of_the_last_ones_oldest_first() -> None:
    made = Utterances("meeting", StreamingOptions(), Limits(context=5, context_s=60.0))
    said = spoken(made, NEAR + 2)
    pairs = (("text 2", "Text 2"), ("text 3", "Text 3"))
    assert made.translated_before(said[4], "de") == pairs
    assert made.translated_before(said[1], "de") == ()


def test_earlier_translations_are_bounded_in_number_and_in_age() -> None:
    said = spoken(made := Utterances("meeting", StreamingOptions(), Limits(context=2)), 6)
    assert [text for text, _ in made.translated_before(said[5], "de")] == ["text 3", "text 4"]
    said = spoken(
        made := Utterances("meeting", StreamingOptions(), Limits(context=5, context_s=2)), 6
    )
    assert [text for text, _ in made.translated_before(said[5], "de")] == ["text 3", "text 4"]
    limits = Limits(context=5, context_s=1.5)
    said = spoken(made := Utterances("meeting", StreamingOptions(), limits), 6)
    assert [text for text, _ in made.translated_before(said[5], "de")] == ["text 4"]


def test_earlier_translations_are_complete_captions_of_the_same_pair_of_languages() -> None:
    made = Utterances("meeting", StreamingOptions(), Limits(context=5))
    first, second, third, last = spoken(made, 4)
    second.lang = "fr"
    third.captions["de"] = Caption(third.id, "de", StabilityRules())
    assert made.translated_before(last, "de") == (("text 0", "Text 0"),)
    assert made.translated_before(last, "fr") == ()
    assert first.lang == "en"


# --- what is forgotten --------------------------------------------------------------------------


def test_the_oldest_that_has_ended_is_forgotten_first() -> None:
    made = memory(2)
    say(made, "growing", final=False)
    for id in ("a", "b", "c"):
        say(made, id)
    assert list(made.by_id) == list(made.speeches) == ["growing", "c"]
    assert len(made) == 2


def test_the_oldest_utterances_over_the_bound_are_forgotten() -> None:
    made = memory(2)
    growing = [say(made, f"{n}", final=False) for n in range(5)]
    assert len(made) == 5
    for utterance in growing:
        utterance.final = True
    say(made, "last")
    assert list(made.by_id) == ["4", "last"]


def test_a_speech_is_forgotten_with_its_last_part() -> None:
    made = memory(2)
    speech = made.begin("u1", "s1", NOW)
    speech.open.final = True
    made.add_part(speech, NOW)
    say(made, "x")
    assert ids(made.parts("u1")) == ["u1.2"]
    assert made.speeches["u1"].growing
    speech.open.final = True
    say(made, "y")
    assert list(made.by_id) == ["x", "y"]
    assert list(made.speeches) == ["x", "y"]


def test_a_cancelled_last_part_that_is_forgotten_first_does_not_grow_again() -> None:
    made = memory(2)
    speech = made.begin("u1", "s1", NOW)
    speech.open.final = True
    speech.open.captions["de"] = Caption("u1", "de", StabilityRules())
    made.add_part(speech, NOW).cancelled = True
    say(made, "x")
    assert list(made.by_id) == ["u1", "x"]
    assert not made.speeches["u1"].growing


def test_restored_utterances_are_remembered_and_numbers_go_on() -> None:
    made = memory(2)
    for ord in (3, 5, 9):
        utterance = Utterance(f"u{ord}", ord, "")
        utterance.final = True
        made.restore(utterance)
    assert list(made.by_id) == ["u5", "u9"]
    assert ids(made.parts("u9")) == ["u9"]
    assert say(made).ord == 10


def restored(id: str, ord: int, root: str) -> Utterance:
    utterance = Utterance(id, ord, "")
    utterance.final, utterance.root = True, root
    return utterance


def test_restored_parts_are_meant_by_the_id_of_their_utterance() -> None:
    made = memory()
    for id, ord, root in (("u1", 1, "u1"), ("u2", 2, "u2"), ("u1.2", 3, "u1")):
        made.restore(restored(id, ord, root))
    assert ids(made.parts("u1")) == ["u1", "u1.2"]
    assert ids(made.parts("u1.2")) == ["u1.2"]
    assert ids(made.parts("u2")) == ["u2"]


def test_a_restored_part_is_forgotten_whoever_has_taken_the_id_of_its_utterance() -> None:
    made = memory(2)
    for id, ord in (("u1", 1), ("u1.2", 2)):
        made.restore(restored(id, ord, "u1"))
    say(made, "x")
    say(made, "u1")
    assert list(made.by_id) == ["x", "u1"]
    assert ids(made.parts("u1")) == ["u1"]
