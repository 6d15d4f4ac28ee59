"""What a room remembers, under which ids, and what it forgets."""

from __future__ import annotations

import pytest

from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.target import StabilityRules
from gateway.core.utterance import Caption, Utterance
from gateway.core.utterances import NEAR, Utterances
from gateway.errors import ClientFault, ErrorCode
from tests.support.meeting import NOW


def memory(most: int = 100) -> Utterances:
    return Utterances("meeting", StreamingOptions(), most)


def say(made: Utterances, id: str | None = None, *, final: bool = True) -> Utterance:
    """Something is said, to its end or not."""
    utterance = made.begin(id, "s1", NOW).open
    utterance.final = final
    return utterance


def ids(utterances: list[Utterance]) -> list[str]:
    return [utterance.id for utterance in utterances]


def test_what_the_log_has_dropped_is_forgotten_once_it_has_ended() -> None:
    made = memory()
    for seq in range(1, 6):
        say(made, f"u{seq}").seq = seq
    made.utterances["u2"].final = False
    made.forget(1)
    assert len(made) == 5
    made.forget(4)
    assert list(made.utterances) == list(made.speeches) == ["u2", "u4", "u5"]


# --- ids ----------------------------------------------------------------------------------------


def test_what_is_said_without_an_id_gets_one_that_nobody_has_used() -> None:
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
    made.part(speech, NOW)
    say(made, "x")
    assert list(made.utterances) == ["u4.2", "x"]
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
    part = made.part(speech, NOW + 5)
    assert (part.id, part.root, part.ord, part.began) == ("u1.3", "u1", 3, NOW + 5)
    assert speech.open is part
    assert ids(made.parts("u1")) == ["u1", "u1.3"]
    assert ids(made.parts("u1.3")) == ["u1.3"]
    assert made.parts("u1.4") == []


def test_what_is_known_is_what_was_said_here_or_to_an_earlier_process() -> None:
    made = memory()
    say(made, "here")
    made.restore(Utterance("before", 7, "", NOW))
    assert [made.knows(id) for id in ("here", "before", "never", None)] == [
        True,
        True,
        False,
        False,
    ]


def test_what_was_forgotten_never_was_or_was_taken_back_is_not_found() -> None:
    made = memory()
    say(made, "gone").erase()
    assert made.known(say(made, "x").id).id == "x"
    for id in ("gone", "never"):
        with pytest.raises(ClientFault) as raised:
            made.known(id)
        assert raised.value.code is ErrorCode.NOT_FOUND
        assert "'meeting'" in str(raised.value)


# --- order --------------------------------------------------------------------------------------


def test_the_last_utterances_are_those_that_were_said_to_their_end_and_stand() -> None:
    made = memory()
    for id in ("a", "growing", "gone", "b", "cancelled", "c"):
        utterance = say(made, id, final=id != "growing")
        utterance.cancelled = id == "cancelled"
        if id == "gone":
            utterance.erase()
    assert ids(made.last(10)) == ["c", "b", "a"]
    assert ids(made.last(2)) == ["c", "b"]
    assert made.last(0) == []


def test_before_an_utterance_is_what_began_earlier_of_the_last_ones() -> None:
    made = memory()
    said = [say(made, f"x{n}") for n in range(NEAR + 2)]
    assert ids(list(made.before(said[4]))) == ["x3", "x2"]
    assert list(made.before(said[1])) == []


# --- what is forgotten --------------------------------------------------------------------------


def test_the_oldest_that_has_ended_is_forgotten_first() -> None:
    made = memory(2)
    say(made, "growing", final=False)
    for id in ("a", "b", "c"):
        say(made, id)
    assert list(made.utterances) == list(made.speeches) == ["growing", "c"]
    assert len(made) == 2


def test_as_many_are_forgotten_as_there_are_too_many() -> None:
    made = memory(2)
    growing = [say(made, f"{n}", final=False) for n in range(5)]
    assert len(made) == 5
    for utterance in growing:
        utterance.final = True
    say(made, "last")
    assert list(made.utterances) == ["4", "last"]


def test_a_speech_is_forgotten_with_its_last_part() -> None:
    made = memory(2)
    speech = made.begin("u1", "s1", NOW)
    speech.open.final = True
    made.part(speech, NOW)
    say(made, "x")
    assert ids(made.parts("u1")) == ["u1.2"]
    assert made.speeches["u1"].growing
    speech.open.final = True
    say(made, "y")
    assert list(made.utterances) == ["x", "y"]
    assert list(made.speeches) == ["x", "y"]


def test_a_cancelled_last_part_that_is_forgotten_first_does_not_grow_again() -> None:
    made = memory(2)
    speech = made.begin("u1", "s1", NOW)
    speech.open.final = True
    speech.open.captions["de"] = Caption("u1", "de", StabilityRules())
    made.part(speech, NOW).cancelled = True
    say(made, "x")
    assert list(made.utterances) == ["u1", "x"]
    assert not made.speeches["u1"].growing


def test_restored_utterances_are_remembered_and_numbers_go_on() -> None:
    made = memory(2)
    for ord in (3, 5, 9):
        utterance = Utterance(f"u{ord}", ord, "")
        utterance.final = True
        made.restore(utterance)
    assert list(made.utterances) == ["u5", "u9"]
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
    assert list(made.utterances) == ["x", "u1"]
    assert ids(made.parts("u1")) == ["u1"]
