"""Utterances that grow: the revisions that are translated, and the text that is shown."""

from __future__ import annotations

import pytest

from gateway.engines.profiles import Profile
from gateway.errors import ErrorCode
from gateway.job import Priority
from gateway.limits import Limits
from gateway.protocol.messages import Ack, Delta, Final
from tests.support.meeting import Meeting, assert_error, meeting, names, one, only

# --- revisions ----------------------------------------------------------------------------------


def test_a_growing_utterance_shows_drafts_and_has_no_source_yet() -> None:
    room, peer = meeting("de")
    assert names(peer.say("good", id="x", final=False)) == ["ack"]
    job = room.job("de")
    assert (job.partial, job.priority) == (True, Priority.PARTIAL)
    room.finish(job, "gut")
    assert peer.events() == [Delta(id="x", rev=1, lang="de", draft="gut", n=0)]
    assert "x" in peer.session.member.in_flight.utterances


def test_readers_learn_the_speaker_before_the_utterance_ends() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False, speaker="Åsa 山田")
    room.finish(room.job("de"), "gut")
    assert [delta.speaker for delta in peer.events() if isinstance(delta, Delta)] == ["Åsa 山田"]
    late = room.enter("de", greeted=False)
    assert [delta.speaker for delta in late.events() if isinstance(delta, Delta)] == ["Åsa 山田"]


def test_a_delta_that_continues_stable_text_does_not_repeat_the_speaker() -> None:
    room, peer = meeting("de")
    peer.say("good morning", id="x", speaker="Ann")
    job = room.job("de")
    peer.events()
    room.feed(job, "Guten")
    assert one(Delta, peer.events()).speaker == "Ann"
    room.feed(job, " Morgen")
    assert one(Delta, peer.events()).speaker is None


def test_a_growing_utterance_that_nobody_reads_is_still_growing() -> None:
    _, peer = meeting()
    peer.say("good", id="x", final=False)
    assert "x" in peer.session.member.in_flight.utterances


def test_a_revision_that_extends_the_source_lets_the_running_job_end_first() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    first = room.job("de")
    peer.say("good morning", id="x", final=False)
    peer.say("good morning all", id="x", final=False)
    assert list(room.jobs.values()) == [first]
    room.finish(first, "gut")
    assert room.job("de").text == "good morning all"
    assert not room.aborted


def test_a_revision_that_contradicts_the_source_aborts_the_running_job() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    first = room.job("de")
    peer.say("food", id="x", final=False)
    assert room.aborted == [first.id]
    assert room.job("de").text == "food"


def test_a_final_revision_aborts_what_runs_and_starts_at_once() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    first = room.job("de")
    peer.say("good morning", id="x")
    assert room.aborted == [first.id]
    assert room.job("de").priority is Priority.FINAL


def test_a_newer_revision_replaces_the_one_that_waits() -> None:
    room = Meeting(capacity=1)
    peer = room.enter("de")
    peer.say("first")
    peer.say("good", id="x", final=False)
    peer.say("good morning", id="x", final=False)
    assert room.scheduler.queued == 1
    room.finish(room.job("de", "first"), "erst")
    assert room.job("de").text == "good morning"


def test_late_output_of_a_superseded_job_is_not_heard() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    first = room.job("de")
    peer.say("good morning", id="x")
    peer.events()
    room.feed(first, "spät")
    room.room.captioner.finished(first.id, room.now)
    room.room.captioner.failed(first.id, ErrorCode.TIMEOUT, room.now)
    room.room.captioner.started(first.id, room.now)
    assert peer.events() == []


def test_a_partial_is_shown_in_one_step_when_its_job_ends() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    room.feed(room.job("de"), "guten", " Tag")
    assert peer.events() == []
    room.finish(room.job("de"))
    assert peer.events() == [Delta(id="x", rev=1, lang="de", draft="guten Tag", n=0)]


def test_a_partial_that_repeats_the_beginning_of_the_shown_text_takes_nothing_away() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    room.finish(room.job("de"), "guten Tag")
    peer.say("good morning", id="x", final=False)
    room.finish(room.job("de"), "guten")
    peer.events()
    assert peer.screen["x", "de"].text == "guten Tag"


def test_a_partial_that_fails_is_not_shown_and_waits_for_the_next_revision() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    room.fail(room.job("de"))
    assert peer.events() == []
    peer.say("good morning", id="x", final=False)
    assert room.job("de").text == "good morning"


def test_a_partial_that_fails_makes_way_for_the_revision_that_waits() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    peer.say("good morning", id="x", final=False)
    room.feed(room.job("de"), "Sure!")
    room.fail(room.job("de"), ErrorCode.REJECTED)
    assert not only(Delta, peer.events())
    assert room.job("de").text == "good morning"


def test_the_draft_of_a_growing_utterance_in_its_own_language_is_its_text() -> None:
    _, peer = meeting("en")
    peer.say("good", id="x", final=False)
    assert peer.screen["x", "en"].draft == "good"
    peer.say("goo", id="x", final=False)
    assert peer.screen["x", "en"].draft == "goo"
    assert one(Final, peer.say("good morning", id="x")).by == "same"


def test_the_same_revision_said_again_is_acknowledged_and_nothing_else_happens() -> None:
    room, peer = meeting("de")
    peer.say("hello", id="x", rev=1)
    assert names(peer.say("hello", id="x", rev=1, ref="again")) == ["ack"]
    assert len(room.jobs) == 1
    room.finish_all()
    peer.events()
    assert names(peer.say("hello", id="x", rev=1)) == ["ack"]


@pytest.mark.parametrize("change", [{"text": "bye"}, {"text": "hello", "final": False}])
def test_another_text_under_the_same_revision_is_not_silently_lost(
    change: dict[str, object],
) -> None:
    _, peer = meeting("de")
    peer.say("hello", id="x", rev=1)
    assert_error(peer.send("say", id="x", rev=1, **change), ErrorCode.STALE)


def test_a_rev_that_goes_backwards_is_stale_and_changes_nothing() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", rev=5, final=False)
    error = assert_error(peer.say("goo", id="x", rev=4), ErrorCode.STALE)
    assert error.id == "x"
    assert room.job("de").text == "good"


def test_an_utterance_that_was_said_to_its_end_takes_no_more_revisions() -> None:
    _, peer = meeting("de")
    peer.say("hello", id="x")
    assert_error(peer.say("hello you", id="x"), ErrorCode.STALE)


def test_a_revision_may_skip_numbers_and_counts_on_where_it_has_none() -> None:
    _, peer = meeting()
    peer.say("a", id="x", rev=7, final=False)
    assert one(Ack, peer.say("a b", id="x", final=False)).rev == 8


def test_an_id_belongs_to_who_said_it_first_even_after_it_left() -> None:
    room, peer = meeting("de")
    other = room.enter("de")
    peer.say("hello", id="x", final=False)
    assert_error(other.say("mine", id="x"), ErrorCode.FORBIDDEN)
    peer.close()
    other.events()
    assert_error(other.say("mine", id="x"), ErrorCode.FORBIDDEN)


def test_the_server_makes_no_id_that_a_client_has_used() -> None:
    _, peer = meeting()
    peer.say("a", id="u2")
    peer.say("b", id="u3")
    assert one(Ack, peer.say("c")).id == "u4"
    peer.say("d", id="u6")
    assert one(Ack, peer.say("e")).id == "u5"
    assert one(Ack, peer.say("f")).id == "u7"


def test_the_language_of_an_utterance_may_change_with_a_revision() -> None:
    room, peer = meeting("de")
    peer.say("hallo", id="x", final=False)
    final = one(Final, peer.say("hallo zusammen", id="x", lang="de"))
    assert (final.by, final.text) == ("same", "hallo zusammen")
    assert len(room.aborted) == 1


# --- one job, and the newest text ---------------------------------------------------------------


def test_a_job_that_waits_is_given_the_newest_text_and_keeps_its_place() -> None:
    room = Meeting(capacity=1)
    peer = room.enter("de")
    peer.say("first")
    peer.say("good", id="x", final=False)
    peer.say("other", id="y", final=False)
    peer.say("good morning", id="x", final=False)
    room.finish(room.job("de", "first"))
    assert room.job("de").text == "good morning"
    room.finish(room.job("de"), "guten Morgen")
    assert one(Delta, peer.events()).rev == 2


def test_a_job_that_was_given_to_the_engine_is_left_alone_though_it_has_not_begun() -> None:
    room = Meeting(lazy=True)
    peer = room.enter("de")
    peer.say("good", id="x", final=False)
    peer.say("good morning", id="x", final=False)
    (job,) = room.given.values()
    assert job.text == "good"
    room.begin(job)
    room.finish(job, "gut")
    (job,) = room.given.values()
    assert job.text == "good morning"


def test_a_pair_that_becomes_impossible_leaves_the_job_that_waits_as_it_is() -> None:
    pairs = (("pt-BR", "de"), ("pt-PT", "fr"), ("en", "de"))
    profile = Profile(
        name="odd", kind="raw", languages=("pt-BR", "pt-PT", "en", "de", "fr"), pairs=pairs
    )
    room = Meeting(model=profile, capacity=1)
    peer = room.enter("de", lang="pt-BR")
    peer.say("first", lang="en")
    peer.say("bom", id="x", final=False)
    peer.say("bom dia", id="x", final=False, lang="pt-PT")
    room.finish(room.job("de", "first"))
    assert room.job("de").text == "bom"
    room.finish(room.job("de"), "gut")
    assert not room.jobs


def test_a_partial_without_a_place_in_the_queue_is_tried_again_with_the_next_one() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=1))
    peer = room.enter("de")
    peer.say("good", id="x", final=False)
    peer.say("good morning", id="x", final=False)
    peer.say("first")
    room.finish(room.job("de", "good"), "gut")
    room.finish(room.job("de"), "erst")
    assert not room.jobs
    peer.say("good morning", id="x", final=False)
    assert room.job("de").text == "good morning"
