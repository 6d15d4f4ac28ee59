"""Losses of one reader, found from the events of many readers of a room."""

from __future__ import annotations

from benchmarks.soak.ledger import EXAMPLES, Event, Faults, Kind, Reader, Room, conclude
from tests.support.typed import current


def said(seq: int, id: str = "a") -> Event:
    return Event(seq, None, Kind.SAID, id, "text")


def end(seq: int, lang: str | None = "de", id: str = "a", text: str = "Text") -> Event:
    return Event(seq, lang, Kind.END, id, text)


class Case:
    def __init__(self) -> None:
        self.faults = Faults()
        self.room = Room("demo", self.faults)
        self.readers: list[Reader] = []

    def reader(self, *langs: str, seq: int = 0, epoch: str = "e") -> Reader:
        reader = Reader(f"r{len(self.readers)}", self.room, langs, self.faults)
        reader.enter(epoch, seq, resumed=False)
        reader.settle(seq)
        self.readers.append(reader)
        return reader

    def conclude(self, *langs: str) -> Faults:
        witness = self.readers[0] if self.readers else Reader("", self.room, langs, self.faults)
        conclude(langs, witness, self.readers)
        return self.faults


def test_readers_who_got_all_events_of_their_languages_have_no_faults() -> None:
    case = Case()
    one, two = case.reader("de"), case.reader("fr")
    for event in (said(1), end(2, "de"), Event(4, None, Kind.OTHER, "", "")):
        one.hear(event)
    for event in (said(1), end(3, "fr"), Event(4, None, Kind.OTHER, "", "")):
        two.hear(event)
    assert not case.conclude("de")


def test_a_caption_that_ends_twice_is_a_fault() -> None:
    case = Case()
    one = case.reader("de")
    for event in (said(1), end(2), end(3)):
        one.hear(event)
    assert case.conclude("de").ended_twice == 1


def test_an_event_that_only_one_of_two_readers_of_a_language_got_is_lost() -> None:
    case = Case()
    one, two = case.reader("de"), case.reader("de", "fr")
    for event in (said(1), end(2), said(3, "b")):
        one.hear(event)
    two.hear(said(1))
    two.hear(said(3, "b"))
    assert case.conclude().lost == 1
    assert case.faults.examples == ["r1 was not told 2 of demo/e"]


def test_events_after_a_readers_last_one_are_lost_only_once_it_had_to_catch_up() -> None:
    case = Case()
    one, two = case.reader("de"), case.reader("de")
    for event in (said(1), end(2)):
        one.hear(event)
    assert two.behind == 2
    case.conclude()
    assert case.faults.lost == 0
    two.catch_up()
    two.check()
    assert case.faults.lost == 2


def test_the_same_event_told_again_is_a_duplicate() -> None:
    case = Case()
    one = case.reader("de", seq=5)
    one.hear(said(6, "b"))
    one.hear(said(6, "b"))
    one.hear(end(5))
    assert case.conclude().duplicated == 2
    assert case.faults.lost == 0


def test_a_late_reader_must_get_only_events_after_its_first_number() -> None:
    case = Case()
    full = case.reader("de")
    late = Reader("late", case.room, ("de",), case.faults)
    case.readers.append(late)
    late.enter("e", 1, resumed=False)
    for event in (said(1), said(2, "b"), end(3), end(4, id="b"), said(5, "c"), end(6, id="c")):
        full.hear(event)
    late.hear(said(2, "b"))  # the last utterance it is told of; number 3 is of one before
    late.hear(end(4, id="b"))
    late.check()
    assert not case.faults
    late.settle(4)
    late.settle(9)  # it knew already
    late.hear(end(6, id="c"))
    late.check()
    assert case.faults.examples == ["late was not told 5 of demo/e"]


def test_one_number_with_two_events_is_a_contradiction() -> None:
    case = Case()
    one, two = case.reader("de"), case.reader("de")
    one.hear(end(1, text="Text"))
    two.hear(end(1, text="Anders"))
    assert case.conclude().contradicted == 1


def test_a_resumed_reader_must_get_everything_since_unless_it_was_told_of_a_gap() -> None:
    case = Case()
    full, whole, gap = case.reader("de"), case.reader("de"), case.reader("de")
    for event in (said(1), end(2), said(3, "b"), end(4, id="b")):
        full.hear(event)
    whole.hear(said(1))
    assert whole.cursor == ("e", 1)
    whole.enter("e", 3, resumed=True)
    whole.hear(end(4, id="b"))
    gap.hear(said(1))
    gap.enter("e", 3, resumed=False)
    gap.settle(3)
    gap.hear(end(4, id="b"))
    case.conclude()
    assert case.faults.examples == [
        "r1 was not told 2 of demo/e",
        "r1 was not told 3 of demo/e",
    ]


def test_a_new_epoch_continues_at_the_readers_place_without_the_events_it_dropped() -> None:
    case = Case()
    one, two = case.reader("de"), case.reader("de")
    for event in (said(1), end(2), said(3, "b")):
        one.hear(event)
    two.hear(said(1))
    two.enter("f", 2, resumed=True)  # the crash took 3 back, and gives its number to another
    two.hear(end(2))
    two.hear(said(3, "c"))
    one.enter("f", 3, resumed=False)
    assert not case.conclude()


def test_captions_without_an_end_are_faults_in_the_last_epoch_since_its_witness_came() -> None:
    case = Case()
    one = case.reader("de", seq=1)
    before = case.reader("fr")
    for event in (said(1), end(2, None, "b"), said(3, "b"), said(4, "c")):
        before.hear(event)
    one.hear(said(3, "b"))
    one.hear(said(4, "c"))
    assert case.conclude("de").unended == 1
    assert case.faults.examples[0] == "demo/e: c in de never ended"


def test_a_reader_that_never_came_and_an_empty_room_have_no_faults() -> None:
    case = Case()
    never = Reader("never", case.room, ("de",), case.faults)
    case.readers.append(never)
    never.catch_up()
    assert current(never.cursor) is None
    assert never.behind == 0
    never.enter("e", 3, resumed=True)  # a promise to somebody who had nothing is none
    assert never.cursor == ("e", 3)
    assert not Case().conclude("de")
    assert not case.conclude("de")


def test_only_the_first_faults_are_described_one_by_one() -> None:
    case = Case()
    one = case.reader("de")
    for _ in range(EXAMPLES + 5):
        one.hear(said(1))
    assert case.faults.duplicated == EXAMPLES + 4
    assert len(case.faults.examples) == EXAMPLES
