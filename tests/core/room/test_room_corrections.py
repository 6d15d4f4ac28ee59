"""Cancelled, edited and retracted utterances."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gateway.auth.permissions import Role
from gateway.errors import ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import Cancelled, Edited, Failed, Final, Retracted
from tests.support.meeting import Meeting, Peer, assert_error, meeting, names, one, only

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
    room.room.captioner.finished(job.id, room.now)
    assert peer.events() == []
    assert not peer.session.member.in_flight.utterances


def test_a_cancel_of_what_waits_says_so() -> None:
    room = Meeting(capacity=1)
    peer = room.enter("de")
    peer.say("first")
    peer.say("second")
    assert one(Cancelled, peer.send("cancel", id="u2")).was == "queued"
    assert not room.aborted
    assert room.scheduler.queued == 0


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


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        ({"type": "cancel"}, "cancel"),
        ({"type": "edit", "lang": "de", "text": "hallo"}, "correct"),
        ({"type": "retract"}, "retract"),
    ],
)
def test_another_speaker_is_told_who_can_do_it(frame: dict[str, str], what: str) -> None:
    room, peer = meeting("de")
    peer.say("hello", id="a")
    error = assert_error(room.enter().send(**frame, id="a"), ErrorCode.FORBIDDEN)
    assert error.hint == f"Only its speaker and moderators can {what} it."


def test_a_cancel_of_what_never_was_has_the_ref_of_its_request() -> None:
    _, peer = meeting("de")
    assert one(Cancelled, peer.send("cancel", id="none", ref="r")).ref == "r"


def test_a_correction_of_a_caption_in_progress_answers_its_request() -> None:
    room, peer = meeting("de")
    peer.say("hello", id="a")
    final = one(Final, peer.send("edit", id="a", lang="de", text="hallo", ref="r"))
    assert (final.text, final.by, final.ref) == ("hallo", "human", "r")


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
    assert not peer.session.member.in_flight.utterances


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


def test_an_utterance_is_cancelled_only_by_its_speaker_and_moderators() -> None:
    room, peer = meeting("de")
    other, moderator = room.enter("de"), room.enter(role=Role.MODERATE)
    peer.say("hello")
    other.events()
    moderator.events()
    assert_error(other.send("cancel", id="u1"), ErrorCode.FORBIDDEN)
    assert one(Cancelled, moderator.send("cancel", id="u1", langs=["de"], ref="m")).ref == "m"
    assert not peer.session.member.in_flight.utterances


def test_a_cancel_of_several_languages_tells_of_each() -> None:
    room, peer = meeting("de", "fr", "es")
    peer.say("hello")
    answers = only(Cancelled, peer.send("cancel", id="u1", langs=["de", "fr"]))
    assert [(c.lang, c.was) for c in answers] == [("de", "running"), ("fr", "running")]


# --- edit ---------------------------------------------------------------------------------------


def ended(*langs: str, **limits: Any) -> tuple[Meeting, Peer]:
    """Return a meeting where ``hello`` was said as ``x`` and translated."""
    room, peer = meeting(*langs, **limits)
    peer.say("hello", id="x")
    room.finish_all()
    peer.events()
    return room, peer


def test_a_caption_is_corrected_and_those_who_read_it_are_told() -> None:
    room, peer = ended("de")
    german, french = room.enter("de"), room.enter("fr")
    room.finish_all()
    for reader in (german, french):
        reader.events()
    edited = Edited(seq=4, id="x", rev=1, ord=1, lang="de", text="hallo", by="human")
    assert peer.send("edit", id="x", lang="de", text=" hallo\n", ref="e") == [
        replace(edited, ref="e")
    ]
    assert german.events() == [edited]
    assert french.events() == []
    line = room.room.snapshots.snapshot("x").lines[0]
    assert (line.lang, line.text, line.by) == ("de", "hallo", "human")


def test_a_correction_is_answered_in_a_language_that_its_author_does_not_read() -> None:
    room, peer = ended()
    room.enter("de-AT")
    room.finish_all()
    assert one(Edited, peer.send("edit", id="x", lang="de", text="hallo")).lang == "de"


def test_a_correction_under_another_tag_is_answered_under_both_tags() -> None:
    room, peer = ended("de-AT")
    events = only(Edited, peer.send("edit", id="x", lang="de", text="hallo", ref="e"))
    assert [(event.lang, event.ref) for event in events] == [("de-AT", None), ("de", "e")]
    assert peer.screen["x", "de-AT"].text == "hallo"


def test_a_caption_that_is_being_made_is_written_by_whoever_corrects_it() -> None:
    room, peer = meeting("de")
    reader = room.enter("de")
    peer.say("hello", id="x")
    room.feed(room.job("de"), "hal", flags=["numbers"])
    reader.events()
    reader.screen.strict = True
    final = one(Final, peer.send("edit", id="x", lang="de", text="guten Tag"))
    assert (final.text, final.by, final.flags) == ("guten Tag", "human", ())
    assert not room.jobs
    assert names(reader.events()) == ["delta", "final"]
    assert not peer.session.member.in_flight.utterances


def test_a_correction_that_goes_on_from_what_is_shown_takes_nothing_back() -> None:
    room, peer = meeting("de")
    peer.say("hello", id="x")
    room.feed(room.job("de"), "hal")
    peer.events()
    assert names(peer.send("edit", id="x", lang="de", text="hallo")) == ["final"]


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_failed_and_cancelled_captions_can_be_corrected(end: str) -> None:
    room, peer = meeting("de")
    peer.say("hello", id="x")
    if end == "failed":
        room.fail(room.job("de"))
    else:
        peer.send("cancel", id="x")
    assert one(Edited, peer.send("edit", id="x", lang="de", text="hallo")).text == "hallo"
    assert room.room.snapshots.snapshot("x").lines[0].state == "final"


def test_the_original_is_corrected_for_everybody_and_translated_anew() -> None:
    room, peer = ended("de")
    reader = room.enter("fr")
    room.finish_all()
    reader.events()
    edited = one(Edited, peer.send("edit", id="x", lang="en", text="hello you", ref="e"))
    assert (edited.lang, edited.text, edited.by, edited.ref) == ("en", "hello you", "human", "e")
    assert one(Edited, reader.events()).lang == "en"
    room.finish_all()
    new = one(Edited, reader.events())
    assert (new.lang, new.text, new.by) == ("fr", "[fr] hello you", "mt")
    peer.events()
    assert peer.screen["x", "de"].text == "[de] hello you"
    assert room.room.snapshots.snapshot("x").text == "hello you"


def test_a_new_translation_is_shown_when_it_is_complete_and_is_of_its_last_attempt() -> None:
    room, peer = ended("de")
    peer.send("edit", id="x", lang="en", text="hello you")
    job = room.job("de")
    room.feed(job, "Sure!")
    room.feed(job, "hallo", reset=True)
    assert peer.events() == []
    room.finish(job, " du")
    assert one(Edited, peer.events()).text == "hallo du"


def test_a_new_translation_that_fails_leaves_the_old_one() -> None:
    room, peer = ended("de")
    peer.send("edit", id="x", lang="en", text="hello you")
    room.fail(room.job("de"))
    assert peer.events() == []
    assert room.room.snapshots.snapshot("x").lines[0].text == "[de] hello"
    assert not room.room.captioner.jobs


def test_a_revised_caption_without_a_place_in_the_queue_keeps_its_old_text() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=1))
    peer = room.enter("de")
    peer.say("hello", id="x")
    room.finish_all()
    peer.say("one")
    peer.say("two")
    peer.events()
    assert names(peer.send("edit", id="x", lang="en", text="hello you")) == ["edited"]
    room.finish_all()
    assert room.room.snapshots.snapshot("x").lines[0].text == "[de] hello"


def test_captions_that_people_wrote_stay_when_the_original_is_corrected() -> None:
    room, peer = ended("de", "fr")
    peer.send("edit", id="x", lang="de", text="hallo")
    peer.send("edit", id="x", lang="en", text="hello you")
    assert [job.target for job in room.jobs.values()] == ["fr"]


def test_a_corrected_caption_is_not_replaced_by_a_running_translation() -> None:
    room, peer = ended("de")
    peer.send("edit", id="x", lang="en", text="hello you")
    peer.send("edit", id="x", lang="de", text="hallo du")
    assert not room.jobs
    assert room.room.snapshots.snapshot("x").lines[0].text == "hallo du"


def test_the_last_of_two_corrections_of_the_original_is_translated() -> None:
    room, peer = ended("de")
    peer.send("edit", id="x", lang="en", text="hello you")
    first = room.job("de")
    peer.send("edit", id="x", lang="en", text="hello all")
    assert room.aborted == [first.id]
    room.finish_all()
    assert one(Edited, only(Edited, peer.events())[-1:]).text == "[de] hello all"


def test_a_translation_that_is_being_made_is_made_of_the_corrected_original() -> None:
    room, peer = meeting("de")
    peer.say("hello", id="x")
    room.feed(room.job("de"), "hal")
    peer.send("edit", id="x", lang="en", text="bye")
    assert len(room.aborted) == 1
    assert room.job("de").text == "bye"
    peer.screen.strict = True
    room.finish(room.job("de"), "tschüss")
    assert one(Final, peer.events()).text == "tschüss"


def test_an_unfinished_caption_without_a_place_in_the_queue_fails_visibly() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=1))
    peer = room.enter("de")
    peer.say("hello", id="x")
    peer.say("one")
    peer.events()
    events = peer.send("edit", id="x", lang="en", text="bye")
    assert one(Failed, events).code == ErrorCode.BUSY
    assert "x" not in peer.session.member.in_flight.utterances


def test_readers_of_the_original_have_the_corrected_one() -> None:
    room, peer = ended("en")
    reader = room.enter("en-GB")
    reader.events()
    peer.send("edit", id="x", lang="en-US", text="hello you")
    assert [(event.lang, event.by) for event in only(Edited, reader.events())] == [
        ("en", "human"),
        ("en-GB", "same"),
    ]
    assert reader.screen["x", "en-GB"].text == "hello you"


def test_a_growing_utterance_is_corrected_by_its_next_revision() -> None:
    room, peer = meeting("de")
    peer.say("hello", id="x", final=False)
    for lang in ("en", "de"):
        assert_error(peer.send("edit", id="x", lang=lang, text="bye"), ErrorCode.STALE)
    assert len(room.jobs) == 1


def test_a_language_that_nobody_reads_has_nothing_to_correct() -> None:
    room, peer = ended("de")
    assert_error(peer.send("edit", id="x", lang="fr", text="salut"), ErrorCode.NOT_FOUND)
    assert_error(peer.send("edit", id="y", lang="de", text="hallo"), ErrorCode.NOT_FOUND)


def test_an_utterance_is_corrected_only_by_its_speaker_and_moderators() -> None:
    room, peer = ended("de")
    other, moderator = room.enter("de"), room.enter(role=Role.MODERATE)
    other.events()
    assert_error(other.send("edit", id="x", lang="de", text="hallo"), ErrorCode.FORBIDDEN)
    assert_error(other.send("retract", id="x"), ErrorCode.FORBIDDEN)
    for lang in ("de", "en"):
        assert one(Edited, moderator.send("edit", id="x", lang=lang, text="!")).lang == lang
    assert one(Retracted, moderator.send("retract", id="x")).id == "x"


# --- retract ------------------------------------------------------------------------------------


def test_a_retracted_utterance_is_erased_for_everybody() -> None:
    room, peer = ended("de")
    reader = room.enter("fr")
    reader.events()
    assert peer.send("retract", id="x", ref="r") == [
        Cancelled(seq=3, id="x", rev=1, was="running"),
        Retracted(seq=4, id="x", ord=1, ref="r"),
    ]
    assert names(reader.events()) == ["cancelled", "retracted"]
    for type in ("get", "retract"):
        assert_error(peer.send(type, id="x"), ErrorCode.NOT_FOUND)
    assert_error(peer.send("edit", id="x", lang="de", text="hallo"), ErrorCode.NOT_FOUND)
    utterance, speech = room.room.utterances.by_id["x"], room.room.utterances.speeches["x"]
    assert utterance.text == speech.text == ""
    assert [caption.stable for caption in utterance.captions.values()] == ["", ""]


def test_an_ended_utterance_is_retracted_without_a_cancel() -> None:
    room, peer = ended("de")
    assert names(peer.send("retract", id="x")) == ["retracted"]


def test_a_growing_utterance_is_cancelled_before_it_is_retracted() -> None:
    room, peer = meeting("de")
    peer.say("hello", id="x", final=False)
    assert names(peer.send("retract", id="x")) == ["cancelled", "retracted"]
    assert not room.jobs
    assert_error(peer.say("hello you", id="x"), ErrorCode.STALE)
    assert one(Cancelled, peer.send("cancel", id="x")).was == "done"


def test_a_corrected_original_that_is_taken_back_is_not_translated() -> None:
    room, peer = ended("de")
    peer.send("edit", id="x", lang="en", text="hello you")
    peer.send("retract", id="x")
    assert not room.jobs
    assert not room.room.captioner.jobs


def test_moderators_correct_and_retract_utterances_of_a_restored_room() -> None:
    room, peer = ended("de")
    again = Meeting(log=room.room.log)
    assert_error(again.enter("de", id="another").send("retract", id="x"), ErrorCode.FORBIDDEN)
    moderator = again.enter("de", role=Role.MODERATE)
    assert_error(moderator.say("more", id="x"), ErrorCode.STALE)
    assert one(Edited, moderator.send("edit", id="x", lang="de", text="hallo")).seq == 3
    assert one(Retracted, moderator.send("retract", id="x")).seq == 4
