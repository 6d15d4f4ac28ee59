"""What many readers saw of one room tells what one of them was not told."""

from __future__ import annotations

from gateway.soak.ledger import EXAMPLES, Event, Faults, Kind, Reader, Room, conclude


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
        self.readers.append(reader)
        return reader

    def conclude(self, *langs: str) -> Faults:
        conclude(self.room, langs, self.readers)
        return self.faults


def test_readers_who_were_told_all_of_their_languages_have_no_complaint() -> None:
    case = Case()
    one, two = case.reader("de"), case.reader("fr")
    for event in (said(1), end(2, "de"), Event(4, None, Kind.OTHER, "", "")):
        one.hear(event)
    for event in (said(1), end(3, "fr"), Event(4, None, Kind.OTHER, "", "")):
        two.hear(event)
    assert not case.conclude("de", "fr")


def test_a_caption_that_ends_twice_is_told() -> None:
    case = Case()
    one = case.reader("de")
    for event in (said(1), end(2), end(3)):
        one.hear(event)
    assert case.conclude("de").ended_twice == 1


def test_what_one_was_told_and_another_of_that_language_was_not_is_lost() -> None:
    case = Case()
    one, two = case.reader("de"), case.reader("de", "fr")
    for event in (said(1), end(2), said(3, "b")):
        one.hear(event)
    two.hear(said(1))
    two.hear(said(3, "b"))
    assert case.conclude().lost == 1
    assert case.faults.examples == ["r1 was not told 2 of demo/e"]


def test_what_comes_after_its_last_event_is_lost_only_once_it_had_to_catch_up() -> None:
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


def test_the_same_event_told_again_is_a_duplicate_but_not_what_was_before_it_came() -> None:
    case = Case()
    one = case.reader("de", seq=5)
    one.hear(said(4))
    one.hear(end(5))
    one.hear(said(6, "b"))
    one.hear(said(6, "b"))
    assert case.conclude().duplicated == 1
    assert case.faults.lost == 0


def test_one_number_with_two_events_is_a_contradiction() -> None:
    case = Case()
    one, two = case.reader("de"), case.reader("de")
    one.hear(end(1, text="Text"))
    two.hear(end(1, text="Anders"))
    assert case.conclude().contradicted == 1


def test_whoever_resumes_is_promised_all_since_and_whoever_is_told_of_a_gap_is_not() -> None:
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
    gap.hear(end(4, id="b"))
    case.conclude()
    assert case.faults.examples == [
        "r1 was not told 2 of demo/e",
        "r1 was not told 3 of demo/e",
    ]


def test_a_new_epoch_goes_on_where_the_reader_was_and_what_it_took_back_is_not_missed() -> None:
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


def test_what_was_said_and_never_ended_is_told_for_the_last_epoch() -> None:
    case = Case()
    one = case.reader("de")
    for event in (said(1), end(2), said(3, "b"), end(4, None, "b"), said(5, "c")):
        one.hear(event)
    assert case.conclude("de").unended == 1
    assert case.faults.examples == ["demo/e: c in de never ended"]


def test_a_reader_that_never_came_and_a_room_that_never_was_lack_nothing() -> None:
    case = Case()
    never = Reader("never", case.room, ("de",), case.faults)
    case.readers.append(never)
    never.catch_up()
    assert never.cursor is None
    assert never.behind == 0
    never.enter("e", 3, resumed=True)  # a promise to somebody who had nothing is none
    assert never.cursor == ("e", 3)
    assert not Case().conclude("de")
    assert not case.conclude("de")


def test_only_the_first_faults_are_told_one_by_one() -> None:
    case = Case()
    one = case.reader("de")
    for _ in range(EXAMPLES + 5):
        one.hear(said(1))
    assert case.faults.duplicated == EXAMPLES + 4
    assert len(case.faults.examples) == EXAMPLES
