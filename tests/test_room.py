"""One meeting: who reads what, what becomes of it, and the log of it."""

from __future__ import annotations

import pytest

from gateway.codec import Codec
from gateway.errors import ErrorCode
from gateway.job import Priority
from gateway.limits import Limits
from gateway.member import Role
from gateway.messages import (
    Ack,
    Cancelled,
    Delta,
    Failed,
    Final,
    Settings,
    Snapshot,
    Source,
)
from gateway.profiles import Profile
from tests.helpers import NOW, Meeting, Peer, assert_error, names, one, only


def meeting(*langs: str, **limits: float) -> tuple[Meeting, Peer]:
    """A meeting and its first member, who speaks English and reads ``langs``."""
    made = Meeting(limits=Limits(**limits))  # type: ignore[arg-type]
    return made, made.enter(*langs)


# --- an utterance and its end -------------------------------------------------------------------


def test_a_line_becomes_ack_source_deltas_and_final() -> None:
    room, peer = meeting("de")
    assert names(peer.say("good morning")) == ["ack", "source"]
    job = room.job("de")
    assert (job.text, job.source, job.target, job.partial) == ("good morning", "en", "de", False)
    room.feed(job, "Guten")
    assert peer.events() == [Delta(id="u1", rev=1, lang="de", add="Guten", n=5)]
    room.finish(job, " Morgen")
    delta, final = peer.events()
    assert delta == Delta(id="u1", rev=1, lang="de", add=" Morgen", n=12)
    assert isinstance(final, Final)
    assert (final.seq, final.ord, final.text, final.by) == (2, 1, "Guten Morgen", "mt")


def test_the_ack_echoes_ref_and_gives_the_position() -> None:
    _, peer = meeting()
    peer.say("one")
    assert one(Ack, peer.say("two", ref="r2")) == Ack(id="u2", rev=1, ord=2, ref="r2")


def test_the_source_carries_what_was_said_with_it() -> None:
    _, peer = meeting()
    events = peer.say("hello", id="x", rev=3, speaker="Ada", t0=1.5, t1=2.5)
    assert one(Source, events) == Source(
        seq=1, id="x", rev=3, ord=1, lang="en", text="hello", speaker="Ada", t0=1.5, t1=2.5
    )


def test_every_language_that_is_read_gets_one_job() -> None:
    room, peer = meeting("de", "fr")
    room.enter("de")
    peer.say("hello")
    assert sorted(job.target for job in room.jobs.values()) == ["de", "fr"]


def test_an_utterance_that_nobody_reads_costs_nothing_and_ends_at_once() -> None:
    room, peer = meeting()
    peer.say("hello")
    assert not room.jobs
    assert not peer.session.inflight


def test_one_slow_sentence_holds_up_no_other() -> None:
    room, peer = meeting("de")
    peer.say("slow")
    peer.say("fast")
    room.finish(room.job("de", "fast"), "schnell")
    assert [final.id for final in only(Final, peer.events())] == ["u2"]


def test_one_language_that_fails_leaves_the_others_alone() -> None:
    room, peer = meeting("de", "fr")
    peer.say("hello")
    room.fail(room.job("de"), ErrorCode.TIMEOUT)
    room.finish(room.job("fr"), "bonjour")
    events = peer.events()
    assert one(Failed, events) == Failed(
        seq=2, id="u1", rev=1, ord=1, lang="de", code="timeout", retry=True
    )
    assert one(Final, events).lang == "fr"


def test_a_reader_gets_its_own_language_only() -> None:
    room, speaker = meeting()
    german, french = room.enter("de"), room.enter("fr")
    speaker.say("hello")
    room.finish(room.job("de"), "hallo")
    room.finish(room.job("fr"), "bonjour")
    for reader, lang in ((german, "de"), (french, "fr")):
        shown = [event for event in reader.events() if isinstance(event, Delta | Final)]
        assert {event.lang for event in shown} == {lang}
    assert only(Final, speaker.events()) == []


def test_a_reader_of_the_speakers_language_costs_no_engine_time() -> None:
    room, peer = meeting("en")
    final = one(Final, peer.say("good morning"))
    assert (final.text, final.by, final.ms.total) == ("good morning", "same", 0)
    assert not room.jobs


def test_a_reader_of_another_region_reads_the_same_language() -> None:
    _, peer = meeting("en-GB")
    assert one(Final, peer.say("hello")).by == "same"


def test_no_source_text_is_passed_off_as_a_translation() -> None:
    profile = Profile(name="one-way", kind="raw", languages=("en", "de", "fr"), pairs="english")
    room = Meeting(profile=profile)
    peer = room.enter("de", lang="fr")
    failed = one(Failed, peer.say("bonjour"))
    assert (failed.code, failed.retry) == ("pair_unsupported", False)
    assert not peer.session.inflight


def test_a_growing_utterance_in_an_impossible_pair_waits_for_its_end_to_say_so() -> None:
    profile = Profile(name="one-way", kind="raw", languages=("en", "de", "fr"), pairs="english")
    peer = Meeting(profile=profile).enter("de", lang="fr")
    assert names(peer.say("bon", id="x", final=False)) == ["ack"]
    assert one(Failed, peer.say("bonjour", id="x")).rev == 2


def test_a_client_that_ignores_what_is_ephemeral_ends_with_the_same_text() -> None:
    room, live = meeting("de")
    finals = room.enter("de", view="final")
    live.say("good", id="x", final=False)
    room.finish(room.job("de"), "gut")
    live.say("good morning", id="x")
    room.feed(room.job("de"), "Sure!")
    room.feed(room.job("de"), "Guten", reset=True)
    room.finish(room.job("de"), " Morgen")
    live.events()
    assert not only(Delta, finals.events())
    assert live.screen["x", "de"].text == finals.screen["x", "de"].text == "Guten Morgen"


def test_what_a_guard_flagged_goes_out_with_the_final() -> None:
    room, peer = meeting("de")
    peer.say("seven")
    room.feed(room.job("de"), "acht", flags=["numbers"])
    room.finish(room.job("de"))
    assert one(Final, peer.events()).flags == ("numbers",)


# --- views --------------------------------------------------------------------------------------


def test_each_view_gets_what_it_asked_for() -> None:
    room, live = meeting("de")
    stable, final = room.enter("de", view="stable"), room.enter("de", view="final")
    other = room.enter("de", view="stable")
    live.say("good", id="x", final=False)
    room.finish(room.job("de"), "gut", "er")
    assert [delta.draft for delta in only(Delta, live.events())] == ["guter"]
    assert not only(Delta, [*stable.events(), *other.events(), *final.events()])
    live.say("good morning", id="x")
    room.finish(room.job("de"), "guten Morgen")
    for reader in (stable, other):
        assert only(Delta, reader.events()) == [
            Delta(id="x", rev=2, lang="de", add="guten Morgen", n=12)
        ]
    assert not only(Delta, final.events())
    assert live.screen["x", "de"].text == "guter"
    live.events()
    for reader in (live, stable, final):
        assert reader.screen["x", "de"].text == "guten Morgen"


# --- revisions ----------------------------------------------------------------------------------


def test_a_growing_utterance_shows_drafts_and_has_no_source_yet() -> None:
    room, peer = meeting("de")
    assert names(peer.say("good", id="x", final=False)) == ["ack"]
    job = room.job("de")
    assert (job.partial, job.priority) == (True, Priority.PARTIAL)
    room.finish(job, "gut")
    assert peer.events() == [Delta(id="x", rev=1, lang="de", draft="gut", n=0)]
    assert "x" in peer.session.inflight


def test_a_growing_utterance_that_nobody_reads_is_still_growing() -> None:
    _, peer = meeting()
    peer.say("good", id="x", final=False)
    assert "x" in peer.session.inflight


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
    assert room.dispatch.queued == 1
    room.finish(room.job("de", "first"), "erst")
    assert room.job("de").text == "good morning"


def test_late_output_of_a_superseded_job_is_not_heard() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    first = room.job("de")
    peer.say("good morning", id="x")
    peer.events()
    room.feed(first, "spät")
    room.room.finished(first.id, room.now)
    room.room.failed(first.id, ErrorCode.TIMEOUT, room.now)
    room.room.started(first.id, room.now)
    assert peer.events() == []


def test_a_revision_that_turned_out_shorter_is_shown_so_when_its_job_ends() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    room.finish(room.job("de"), "guten Tag")
    peer.say("good morning", id="x", final=False)
    room.feed(room.job("de"), "guten")
    peer.events()
    assert peer.screen["x", "de"].text == "guten Tag"
    room.finish(room.job("de"))
    peer.events()
    assert peer.screen["x", "de"].text == "guten"


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
    assert peer.events()[-1] == Delta(id="x", rev=1, lang="de", draft="", n=0)
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


# --- cancel -------------------------------------------------------------------------------------


def test_a_cancel_stops_what_runs_and_nothing_comes_after_it() -> None:
    room, peer = meeting("de", "fr")
    peer.say("hello")
    job = room.job("de")
    room.feed(job, "hal")
    peer.events()
    assert peer.send("cancel", id="u1", ref="c") == [
        Cancelled(seq=2, id="u1", rev=1, was="running", ref="c")
    ]
    assert len(room.aborted) == 2
    room.feed(job, "lo")
    room.room.finished(job.id, room.now)
    assert peer.events() == []
    assert not peer.session.inflight


def test_a_cancel_of_what_waits_says_so() -> None:
    room = Meeting(capacity=1)
    peer = room.enter("de")
    peer.say("first")
    peer.say("second")
    assert one(Cancelled, peer.send("cancel", id="u2")).was == "queued"
    assert not room.aborted
    assert room.dispatch.queued == 0


def test_a_cancel_of_an_utterance_that_waits_and_runs_says_that_it_ran() -> None:
    room = Meeting(capacity=1)
    peer = room.enter("de", "fr")
    peer.say("hello")
    assert one(Cancelled, peer.send("cancel", id="u1")).was == "running"


def test_a_cancel_of_what_has_ended_is_answered_and_decides_nothing() -> None:
    room, peer = meeting("de")
    peer.say("hello")
    room.finish_all()
    peer.events()
    assert peer.send("cancel", id="u1", ref="c") == [Cancelled(id="u1", rev=1, was="done", ref="c")]
    assert one(Cancelled, peer.send("cancel", id="u1", langs=["de"])).was == "done"
    assert room.room.log.seq == 2


def test_a_cancel_of_what_never_was_is_answered() -> None:
    _, peer = meeting("de")
    assert peer.send("cancel", id="nope") == [Cancelled(id="nope", rev=0, was="none")]
    assert peer.send("cancel", id="nope", langs=["de", "fr"]) == [
        Cancelled(id="nope", rev=0, lang="de", was="none"),
        Cancelled(id="nope", rev=0, lang="fr", was="none"),
    ]


def test_a_cancel_of_a_language_that_is_not_made_is_answered() -> None:
    _, peer = meeting("de")
    peer.say("hello")
    for lang in ("fr", "klingon!"):
        answer = one(Cancelled, peer.send("cancel", id="u1", langs=[lang]))
        assert (answer.seq, answer.lang, answer.was) == (None, lang, "none")


def test_a_cancel_of_one_language_leaves_the_others_running() -> None:
    room, peer = meeting("de", "fr")
    peer.say("hello")
    cancelled = one(Cancelled, peer.send("cancel", id="u1", langs=["DE"]))
    assert (cancelled.lang, cancelled.was) == ("de", "running")
    room.finish(room.job("fr"), "bonjour")
    assert one(Final, peer.events()).lang == "fr"
    assert not peer.session.inflight


def test_a_cancel_that_names_no_language_is_one_of_the_whole_utterance() -> None:
    room, peer = meeting("de")
    peer.say("hello")
    assert one(Cancelled, peer.send("cancel", id="u1", langs=[])).lang is None
    assert not room.jobs


def test_a_growing_utterance_that_was_cancelled_takes_no_more_revisions() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    room.finish(room.job("de"), "gut")
    peer.events()
    assert one(Cancelled, peer.send("cancel", id="x")).was == "none"
    assert_error(peer.say("good morning", id="x"), ErrorCode.STALE)
    assert one(Cancelled, peer.send("cancel", id="x")).was == "done"


def test_a_language_that_was_cancelled_stays_so_while_the_utterance_grows() -> None:
    room, peer = meeting("de", "fr")
    peer.say("good", id="x", final=False)
    peer.send("cancel", id="x", langs=["de"])
    peer.say("good morning", id="x")
    assert [job.target for job in room.jobs.values()] == ["fr"]


def test_everybody_learns_of_a_cancel_of_the_whole_utterance() -> None:
    room, peer = meeting("de")
    reader = room.enter("fr")
    peer.say("hello")
    peer.send("cancel", id="u1", ref="mine")
    cancelled = one(Cancelled, reader.events())
    assert (cancelled.lang, cancelled.ref) == (None, None)


def test_only_its_speaker_and_moderators_cancel_an_utterance() -> None:
    room, peer = meeting("de")
    other, moderator = room.enter("de"), room.enter(role=Role.MODERATE)
    peer.say("hello")
    other.events()
    moderator.events()
    assert_error(other.send("cancel", id="u1"), ErrorCode.FORBIDDEN)
    assert one(Cancelled, moderator.send("cancel", id="u1", langs=["de"], ref="m")).ref == "m"
    assert not peer.session.inflight


# --- who reads ----------------------------------------------------------------------------------


def test_who_leaves_takes_its_work_along() -> None:
    room, peer = meeting("de")
    reader = room.enter("de")
    peer.say("hello")
    peer.say("good", id="x", final=False)
    peer.close()
    assert len(room.aborted) == 2
    assert [c.id for c in only(Cancelled, reader.events())] == ["u1", "x"]
    assert room.dispatch.running == room.dispatch.queued == 0


def test_a_language_nobody_reads_any_more_is_aborted() -> None:
    room, peer = meeting()
    german, french = room.enter("de"), room.enter("fr")
    peer.say("hello")
    room.feed(room.job("fr"), "bon")
    german.close()
    assert [job.target for job in room.jobs.values()] == ["fr"]
    room.finish(room.job("fr"), "jour")
    assert one(Final, french.events()).text == "bonjour"


def test_a_language_somebody_still_reads_goes_on() -> None:
    room, peer = meeting("de")
    reader = room.enter("de")
    peer.say("hello")
    reader.close()
    assert not room.aborted


def test_wanting_nothing_aborts_what_only_this_socket_read() -> None:
    room, peer = meeting("de", "fr")
    room.enter("fr")
    peer.say("hello")
    peer.send("want", langs=[])
    assert [job.target for job in room.jobs.values()] == ["fr"]


def test_a_reader_who_changes_language_gets_the_sentence_in_flight_in_the_new_one() -> None:
    room, peer = meeting("de")
    peer.say("good morning")
    room.job("de")
    dropped = peer.send("want", langs=["fr"])
    assert dropped == []
    room.finish(room.job("fr"), "Bonjour")
    assert one(Final, peer.events()).text == "Bonjour"
    assert {line.lang: line.state for line in room.room.snapshot("u1").lines} == {
        "de": "cancelled",
        "fr": "final",
    }


def test_wanting_the_same_again_changes_nothing() -> None:
    room, peer = meeting("de")
    peer.say("hello")
    room.feed(room.job("de"), "hal")
    peer.events()
    assert peer.send("want", langs=["de"]) == []
    assert peer.send("want", langs=["de", "DE"], view="live") == []
    assert len(room.jobs) == 1


def test_a_new_language_is_made_for_what_is_in_flight_and_not_for_what_has_ended() -> None:
    room, peer = meeting("de")
    peer.say("before")
    room.finish_all()
    peer.say("growing", id="x", final=False)
    peer.say("running")
    peer.send("want", langs=["de", "fr"])
    assert sorted(j.text for j in room.jobs.values() if j.target == "fr") == ["growing", "running"]
    room.finish_all()
    assert sum(event.lang == "fr" for event in only(Final, peer.events())) == 1


def test_who_begins_to_read_in_the_middle_is_told_what_it_missed() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    room.finish(room.job("de"), "gut und mehr")
    peer.say("good morning", id="x")
    room.feed(room.job("de"), "gut")
    late = room.enter("de", greeted=False)
    assert only(Delta, late.events()) == [
        Delta(id="x", rev=2, lang="de", add="gut", draft=" und mehr", reset=True, n=3)
    ]
    room.finish(room.job("de"), "en")
    late.events()
    assert late.screen["x", "de"].text == "guten"


def test_who_asks_to_see_more_is_told_what_it_missed() -> None:
    room, peer = meeting("de")
    reader = room.enter("de", view="final")
    peer.say("hello")
    room.feed(room.job("de"), "hal")
    reader.events()
    assert only(Delta, reader.send("want", langs=["de"], view="stable")) == [
        Delta(id="u1", rev=1, lang="de", add="hal", reset=True, n=3)
    ]
    room.feed(room.job("de"), "lo")
    reader.events()
    assert reader.screen["u1", "de"].stable == "hallo"


def test_an_empty_room_says_since_when() -> None:
    room, peer = meeting()
    assert room.room.empty_since is None
    room.now += 5
    peer.close()
    assert room.room.empty_since == NOW + 5
    room.enter()
    assert room.room.empty_since is None


# --- bounds -------------------------------------------------------------------------------------


def test_a_full_queue_refuses_an_utterance_before_anything_of_it_is_accepted() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=2))
    peer = room.enter("de", "fr")
    peer.say("one")
    error = assert_error(peer.say("two", ref="r"), ErrorCode.BUSY)
    assert (error.retry_ms, error.ref) == (1000, "r")
    assert room.room.log.seq == 1
    room.finish_all()
    peer.events()
    assert names(peer.say("two")) == ["ack", "source"]


def test_a_revision_may_take_the_place_of_its_own_job_in_a_full_queue() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=1))
    peer = room.enter("de")
    peer.say("one")
    peer.say("two", id="x", final=False)
    assert names(peer.say("two more", id="x")) == ["ack", "source"]
    assert room.dispatch.queued == 1


def test_a_new_reader_cannot_fill_the_queue_beyond_its_depth() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=2))
    peer = room.enter("de")
    for text in ("one", "two", "three"):
        peer.say(text)
    peer.events()
    events = peer.send("want", langs=["de", "fr"])
    assert [failed.code for failed in only(Failed, events)] == ["busy"] * 3
    assert room.dispatch.queued == 2


def test_a_growing_utterance_that_found_no_place_in_the_queue_waits_for_one() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=1))
    peer = room.enter("de")
    peer.say("good", id="x", final=False)
    peer.say("other")
    peer.events()
    peer.send("want", langs=["de", "fr"])
    assert room.dispatch.queued == 1
    room.finish_all()
    peer.events()
    peer.send("want", langs=["de", "fr"])
    assert room.job("fr").text == "good"


def test_the_room_forgets_the_oldest_utterances_that_have_ended() -> None:
    room, peer = meeting("de", utterances=2)
    peer.say("kept", id="growing", final=False)
    for n in range(5):
        peer.say("hello", id=f"x{n}")
        room.finish(room.job("de", "hello"), "hallo")
    assert list(room.room._utterances) == ["growing", "x4"]
    peer.events()
    assert_error(peer.send("get", id="x3"), ErrorCode.NOT_FOUND)


def test_what_is_in_flight_is_never_forgotten() -> None:
    room, peer = meeting("de", utterances=1)
    for n in range(4):
        peer.say("hello", id=f"x{n}")
    assert len(room.room._utterances) == 4
    peer.close()
    assert room.dispatch.running == 0


def test_a_job_that_waited_too_long_ends_visibly() -> None:
    room = Meeting(capacity=1)
    peer = room.enter("de")
    peer.say("one")
    peer.say("two")
    peer.events()
    for job in room.dispatch.overdue(NOW + 100, 30):
        room.room.failed(job.id, ErrorCode.TIMEOUT, NOW + 100)
    assert one(Failed, peer.events()).id == "u2"


# --- the log ------------------------------------------------------------------------------------


def test_the_log_has_no_holes_and_can_be_read_from_anywhere() -> None:
    room, peer = meeting("de", "en")
    for _ in range(3):
        peer.say("hello")
    peer.send("set", context="a stand-up")
    peer.send("cancel", id="u3")
    room.finish_all()
    log = room.room.log.since(0)
    assert log == room.log
    assert [getattr(event, "seq", None) for event in log] == list(range(1, room.room.log.seq + 1))
    assert room.room.log.since(4) == log[4:]
    assert room.room.log.since(room.room.log.seq) == []
    assert room.room.log.since(room.room.log.seq + 1) is None


def test_a_log_that_does_not_reach_back_says_so_instead_of_showing_a_part() -> None:
    room, peer = meeting(log=3)
    for _ in range(5):
        peer.say("hello")
    assert room.room.log.since(1) is None
    assert [getattr(event, "seq", None) for event in room.room.log.since(2) or ()] == [3, 4, 5]


def test_an_empty_log_reaches_back_to_the_beginning() -> None:
    room, _ = meeting()
    assert room.room.log.since(0) == []
    assert room.room.log.since(-1) is None


def test_the_log_is_bounded_in_bytes_whatever_they_are_of() -> None:
    room, peer = meeting(log_bytes=10_000)
    for _ in range(50):
        peer.say("x" * 1_000)
        peer.send("set", context="x" * 1_000, glossary={"y" * 100: "z" * 100})
    assert 0 < room.room.log._bytes <= 10_000
    assert len(room.room.log) < 10
    assert room.room.log.seq == 100


# --- settings -----------------------------------------------------------------------------------


def test_everybody_is_told_a_change_of_settings_and_its_version() -> None:
    room, peer = meeting()
    reader = room.enter(role=Role.VIEW)
    answer = one(Settings, peer.send("set", context="a stand-up", style="formal", ref="r"))
    assert (answer.version, answer.context, answer.style) == (1, "a stand-up", "formal")
    assert (answer.ref, answer.session) == ("r", peer.session.id)
    told = one(Settings, reader.events())
    assert (told.seq, told.ref) == (1, None)
    assert one(Settings, peer.send("set", context="")).version == 2


def test_settings_go_along_with_every_job() -> None:
    room, peer = meeting("de")
    peer.send("set", context="a stand-up", style="formal", glossary={"sprint": "Sprint"})
    peer.say("the Sprint ends")
    job = room.job("de")
    assert (job.topic, job.style, job.glossary) == (
        "a stand-up",
        "formal",
        (("sprint", "Sprint"),),
    )
    peer.send("set", style="", glossary={})
    peer.say("another sprint")
    job = room.job("de", "another sprint")
    assert (job.topic, job.style, job.glossary) == ("a stand-up", None, ())


# --- snapshots ----------------------------------------------------------------------------------


def test_a_snapshot_shows_an_utterance_as_it_stands() -> None:
    room, peer = meeting("de", "en")
    peer.say("good", id="x", final=False, speaker="Ada")
    room.finish(room.job("de"), "gut")
    peer.events()
    snapshot = one(Snapshot, peer.send("get", id="x", ref="r"))
    assert (snapshot.rev, snapshot.ord, snapshot.text, snapshot.final) == (1, 1, "good", False)
    assert (snapshot.speaker, snapshot.ref, snapshot.lang) == ("Ada", "r", "en")
    assert {(line.lang, line.state, line.text, line.draft) for line in snapshot.lines} == {
        ("de", "open", "", "gut"),
        ("en", "open", "", "good"),
    }


def test_a_snapshot_in_the_middle_and_the_deltas_after_it_make_the_whole_text() -> None:
    room, peer = meeting("de")
    peer.say("hello")
    room.feed(room.job("de"), "hal")
    peer.send("get", id="u1")
    room.feed(room.job("de"), "lo")
    peer.events()
    assert peer.screen["u1", "de"].text == "hallo"


def test_both_encodings_tell_the_same() -> None:
    room, speaker = meeting()
    peers = [room.enter("de", codec=codec) for codec in (Codec.JSON, Codec.MSGPACK)]
    speaker.say("hello")
    room.finish_all()
    assert peers[0].events() == peers[1].events()


def test_a_room_can_be_read_in_a_log() -> None:
    room, peer = meeting("de")
    peer.say("secret")
    assert repr(room.room) == "<Room meeting seq 1, 1 members, 1 utterances, 1 jobs>"
