"""Events and texts that a member is sent about what happened before it came."""

from __future__ import annotations

import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import ServerMessage, Snapshot, View
from tests.support.meeting import Meeting, names


def told(envelopes: list[Envelope]) -> list[tuple[str, str | None]]:
    """Return type and language of each event."""
    messages: list[ServerMessage] = [envelope.message for envelope in envelopes]
    langs = [getattr(message, "lang", None) for message in messages]
    return list(zip(names(messages), langs, strict=True))


def three() -> Meeting:
    """Return a meeting with three utterances, captioned in ``de`` and ``fr``."""
    room = Meeting()
    peer = room.enter("de", "fr")
    for text in ("one", "two", "three"):
        peer.say(text)
        room.finish_all()
    return room


def test_recent_events_are_those_of_the_last_utterances_once_under_each_tag() -> None:
    snapshots = three().room.snapshots
    assert told(snapshots.recent(("de", "de-AT"), 1)) == [
        ("source", "en"),
        ("final", "de"),
        ("final", "de-AT"),
    ]
    assert len(snapshots.recent((), 2)) == 2 and snapshots.recent(("de",), 0) == []


def test_retracted_utterances_are_not_recent() -> None:
    room = three()
    room.peers[0].send("retract", id="u3")
    events = [envelope.message for envelope in room.room.snapshots.recent(("de",), 2)]
    assert {getattr(event, "id", None) for event in events} == {"u2"}


def test_only_the_events_of_a_reader_s_languages_are_counted() -> None:
    room = three()
    room.room.captioner.decline(room.room.utterances.by_id["u1"], "es", room.now)
    for tags, count in (((), 3), (("de",), 6), (("es",), 4), (("de", "es"), 7)):
        assert room.room.snapshots.count(tags, 0) == count


def test_missed_events_are_numbered_and_counted_as_the_reader_was_sent_them() -> None:
    snapshots = three().room.snapshots
    missed = snapshots.missed(("de",), 0, 4)
    assert missed is not None
    assert [(seq, len(envelopes)) for seq, envelopes in missed] == [(1, 1), (2, 1), (3, 0), (4, 1)]
    rest = snapshots.missed(("de",), 0, 100)
    assert rest is not None
    assert sum(len(envelopes) for _, envelopes in rest) == snapshots.count(("de",), 0) == 6


def test_events_that_the_log_has_dropped_are_not_missed_but_unknown() -> None:
    room = three().room
    room.shed(room.log.bytes)
    assert room.snapshots.missed(("de",), 0, 10) is None


def test_captions_that_are_being_made_are_shown_as_the_view_has_them() -> None:
    room = Meeting()
    peer = room.enter("de")
    peer.say("good", id="x", final=False)
    room.finish(room.job("de"), "gut")
    snapshots = room.room.snapshots
    views: dict[View, str | None] = {"live": "gut", "stable": None}
    for view, draft in views.items():
        (envelope,) = snapshots.in_flight(("de",), view)
        assert isinstance(envelope.message, Snapshot)
        assert [line.draft for line in envelope.message.lines] == [draft]
    assert snapshots.in_flight(("de",), "final") == snapshots.in_flight(("fr",), "live") == []
    assert [delta.draft for delta in snapshots.growing("de")] == ["gut"]
    assert snapshots.growing("fr") == []


def test_finished_captions_stand_newest_first_under_the_readers_tags() -> None:
    found = three().room.snapshots.finished({"de-AT": "de", "de": "de"}, 2)
    lines = [
        (shot.id, line.lang)
        for shot in (envelope.message for envelope in found)
        if isinstance(shot, Snapshot)
        for line in shot.lines
    ]
    assert lines == [("u3", "de"), ("u3", "de-AT"), ("u2", "de"), ("u2", "de-AT")]


def test_a_snapshot_of_an_unknown_utterance_is_refused() -> None:
    room = three().room
    shot = room.snapshots.snapshot("u1", "r1")
    assert (shot.text, shot.ref, [line.lang for line in shot.lines]) == ("one", "r1", ["de", "fr"])
    with pytest.raises(ClientFault) as caught:
        room.snapshots.snapshot("u9")
    assert caught.value.code is ErrorCode.NOT_FOUND
