"""Revisions of an utterance: which are accepted, and which are refused without a change."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gateway.core.streaming.segmentation import SegmentLengths
from gateway.errors import ErrorCode
from gateway.protocol.messages import Ack, Source
from tests.support.meeting import EAGER, Meeting, assert_error, meeting, names, one, only

SHORT = replace(EAGER, lengths=SegmentLengths(least=2, clause=2, most=4, hard=6, behind=1))


def test_a_revision_without_a_number_follows_the_one_before() -> None:
    _, peer = meeting("de")
    peer.say("one", id="x", final=False)
    assert one(Ack, peer.say("one two", id="x", final=False)).rev == 2


@pytest.mark.parametrize("rev", [1, 3])
def test_a_revision_that_is_not_newer_is_stale(rev: int) -> None:
    _, peer = meeting("de")
    peer.say("one", id="x", rev=3, final=False)
    assert_error(peer.say("another", id="x", rev=rev, final=False), ErrorCode.STALE)


def test_a_repeated_revision_with_the_same_text_is_acknowledged_and_changes_nothing() -> None:
    room, peer = meeting("de")
    peer.say("one", id="x", rev=3, final=False)
    jobs = dict(room.jobs)
    assert names(peer.say("one", id="x", rev=3, final=False)) == ["ack"]
    assert room.jobs == jobs


def test_nothing_is_added_to_an_utterance_that_has_ended() -> None:
    _, peer = meeting("de")
    peer.say("one", id="x")
    assert_error(peer.say("one two", id="x"), ErrorCode.STALE)


def test_an_utterance_is_revised_by_its_own_speaker_only() -> None:
    room, peer = meeting("de")
    peer.say("one", id="x", final=False)
    assert_error(room.enter("de").say("two", id="x", final=False), ErrorCode.FORBIDDEN)


def test_a_part_cannot_be_said_under_its_own_id() -> None:
    _, peer = meeting(options=SHORT)
    words = "So we met. It was cold.".split()
    for count in range(1, len(words) + 1):
        peer.say(" ".join(words[:count]), id="x", final=False)
    error = assert_error(peer.say("new", id="x.2"), ErrorCode.STALE)
    assert "is a part of 'x'" in error.msg


def test_the_name_of_who_speaks_stays_in_the_translations_of_the_room() -> None:
    room, peer = meeting("de")
    peer.say("hello")
    assert not room.room.translation_context.names
    peer.say("hello", speaker="Ada")
    assert list(room.room.translation_context.names) == ["Ada"]
    peer.say("ask Ada")
    assert room.job("de", "ask Ada").glossary == (("Ada", "Ada"),)


def test_an_original_is_published_once_with_the_last_text() -> None:
    _, peer = meeting("de")
    peer.say("one", id="x", final=False)
    events = peer.say("one two", id="x")
    assert one(Source, events).text == "one two" and only(Source, peer.events()) == []


def test_an_utterance_that_finds_the_queue_full_is_refused_whole() -> None:
    room, peer = meeting("de", "fr", queue=1)
    room.scheduler.capacity = 0
    assert_error(peer.say("one", id="x"), ErrorCode.BUSY)
    assert not room.room.utterances.by_id and not peer.session.member.in_flight.utterances


def test_a_revision_that_finds_the_queue_full_leaves_the_one_before() -> None:
    room = Meeting(capacity=0)
    peer = room.enter("de")
    room.scheduler.depth = 1
    peer.say("one", id="x", final=False)
    room.enter("fr")
    assert_error(peer.say("one two", id="x"), ErrorCode.BUSY)
    assert room.room.utterances.speeches["x"].text == "one"
