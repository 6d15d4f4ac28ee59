"""Events and texts that a member is sent about the time before it came."""

from __future__ import annotations

import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.messages import Snapshot, View
from tests.support.meeting import Meeting, three_utterances


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
    room = three_utterances().room
    last = list(room.utterances.by_id.values())[:0:-1]
    found = room.snapshots.finished({"de-AT": "de", "de": "de"}, last)
    lines = [
        (shot.id, line.lang)
        for shot in (envelope.message for envelope in found)
        if isinstance(shot, Snapshot)
        for line in shot.lines
    ]
    assert lines == [("u3", "de"), ("u3", "de-AT"), ("u2", "de"), ("u2", "de-AT")]


def test_a_snapshot_of_an_unknown_utterance_is_refused() -> None:
    room = three_utterances().room
    shot = room.snapshots.snapshot("u1", "r1")
    assert (shot.text, shot.ref, [line.lang for line in shot.lines]) == ("one", "r1", ["de", "fr"])
    with pytest.raises(ClientFault) as caught:
        room.snapshots.snapshot("u9")
    assert caught.value.code is ErrorCode.NOT_FOUND
