"""Events of a log as a reader is sent them."""

from __future__ import annotations

from tests.support.meeting import names_and_langs, three_utterances


def test_recent_events_are_those_of_the_last_utterances_once_under_each_tag() -> None:
    view = three_utterances().room.log_view
    assert names_and_langs(view.recent(("de", "de-AT"), 1)) == [
        ("source", "en"),
        ("final", "de"),
        ("final", "de-AT"),
    ]
    assert len(view.recent((), 2)) == 2 and view.recent(("de",), 0) == []


def test_retracted_utterances_are_neither_shown_nor_counted() -> None:
    room = three_utterances()
    room.peers[0].send("retract", id="u3")
    events = [envelope.message for envelope in room.room.log_view.recent(("de",), 2)]
    assert {getattr(event, "id", None) for event in events} == {"u1", "u2"}


def test_only_the_events_of_a_reader_s_languages_are_counted() -> None:
    room = three_utterances()
    room.room.captioner.decline(room.room.utterances.by_id["u1"], "es", room.now)
    for tags, count in (((), 3), (("de",), 6), (("es",), 4), (("de", "es"), 7)):
        assert room.room.log_view.count(tags, 0) == count


def test_missed_events_are_numbered_and_counted_as_the_reader_was_sent_them() -> None:
    view = three_utterances().room.log_view
    missed = view.missed(("de",), 0, 4)
    assert missed is not None
    assert [(seq, len(envelopes)) for seq, envelopes in missed] == [(1, 1), (2, 1), (3, 0), (4, 1)]
    rest = view.missed(("de",), 0, 100)
    assert rest is not None
    assert sum(len(envelopes) for _, envelopes in rest) == view.count(("de",), 0) == 6


def test_events_that_the_log_has_dropped_are_not_missed_but_unknown() -> None:
    room = three_utterances().room
    room.shed(room.log.bytes)
    assert room.log_view.missed(("de",), 0, 10) is None
