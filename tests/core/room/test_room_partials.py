"""The text of a growing utterance that is translated, and the part of it that stays."""

from __future__ import annotations

import pytest

from gateway.auth.permissions import Role
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.errors import ErrorCode
from gateway.job import Chunk
from gateway.protocol.messages import Cancelled, Delta, Failed, Final
from tests.support.meeting import Meeting, Peer, meeting, one, only

# --- what is agreed -----------------------------------------------------------------------------

WORDS = "we met in march and it was cold".split()


CAREFUL = StreamingOptions(
    pace=PartialTiming(interval=0.3, words=3, first=2, step=1, stall=0.8, repeats=2)
)


def said(count: int) -> str:
    return " ".join(WORDS[:count])


def test_text_is_translated_once_two_partials_agree_on_it() -> None:
    room, peer = meeting("de", options=CAREFUL)
    peer.say(said(2), id="x", final=False)
    assert not room.jobs
    peer.say("we met at", id="x", final=False)
    assert (room.job("de").text, room.job("de").partial) == ("we met", True)


def test_text_that_has_not_changed_for_a_while_is_translated() -> None:
    room, peer = meeting("de", options=CAREFUL)
    peer.say(said(2), id="x", final=False)
    room.wait(0.7)
    assert not room.jobs
    room.wait(0.1)
    assert room.job("de").text == "we met"


def test_a_few_new_words_wait_for_the_interval() -> None:
    room, peer = meeting("de", options=CAREFUL)
    for count in (2, 3, 4):
        peer.say(said(count), id="x", final=False)
    room.finish(room.job("de"))
    assert not room.jobs
    room.wait(0.3)
    assert room.job("de").text == said(3)


def test_the_pace_is_that_of_each_utterance() -> None:
    room, peer = meeting("de", options=CAREFUL)
    peer.say(said(2), id="x", final=False)
    room.wait(0.5)
    peer.say("so then", id="y", final=False)
    room.wait(0.3)
    assert room.job("de").text == said(2)
    room.wait(0.5)
    assert sorted(job.text for job in room.jobs.values()) == ["so then", "we met"]


def test_a_room_that_is_woken_for_nothing_does_nothing() -> None:
    room, peer = meeting("de", options=CAREFUL)
    peer.say(said(2), id="x", final=False)
    peer.say("done")
    room.finish_all()
    room.room.on_timer(room.now + 0.1)
    room.act()
    assert not room.jobs


def test_a_language_that_was_cancelled_before_anything_was_agreed_on_stays_so() -> None:
    room, peer = meeting("de", "fr", options=CAREFUL)
    peer.say(said(2), id="x", final=False)
    assert one(Cancelled, peer.send("cancel", id="x", langs=["de"])).seq == 1
    peer.say(said(3), id="x")
    assert [job.target for job in room.jobs.values()] == ["fr"]


def test_readers_of_the_speakers_language_see_every_partial_as_it_comes() -> None:
    room, peer = meeting("en-GB", options=CAREFUL)
    for partial in ("we", "we met", "wet"):
        assert one(Delta, peer.say(partial, id="x", final=False)).draft == partial
    assert only(Delta, peer.say("wet", id="x", final=False)) == []


# --- what is committed --------------------------------------------------------------------------


def test_text_that_two_translations_agree_on_is_forced_on_the_next() -> None:
    room, peer = meeting("de")
    peer.say("one two", id="x", final=False)
    room.finish(room.job("de"), "eins zwei")
    peer.say("one two three", id="x", final=False)
    room.finish(room.job("de"), "eins zwei drei")
    assert peer.events()[-1] == Delta(
        id="x", rev=2, lang="de", add="eins zwei", draft=" drei", n=len("eins zwei")
    )
    peer.say("one two three four", id="x", final=False)
    job = room.job("de")
    assert job.prefix == "eins zwei"
    room.finish(job, " drei vier")
    peer.events()
    shown = peer.screen["x", "de"]
    assert (shown.stable, shown.draft) == ("eins zwei drei", " vier")


def committed(room: Meeting, peer: Peer) -> None:
    """Commit ``eins zwei`` of an utterance ``x``, with ``drei`` as its draft."""
    for text, made in (("one two", "eins zwei"), ("one two three", "eins zwei drei")):
        peer.say(text, id="x", final=False)
        (job,) = room.jobs.values()
        room.hear(job, Chunk(made, ids=tuple(range(len(made.split())))))
        room.finish(job)
    peer.events()


def test_the_engine_is_told_the_token_ids_of_the_translation_before() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("one two three four", id="x", final=False)
    assert room.job("de").prefix_ids == (0, 1, 2)


def test_the_last_translation_is_a_draft_for_the_engine_with_a_bias_while_text_grows() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("one two three four", id="x", final=False)
    job = room.job("de")
    assert (job.prefix, job.draft, job.draft_bias) == ("eins zwei", " drei", 0.2)
    room.finish(job, " drei vier")
    peer.say("One two three four.", id="x")
    job = room.job("de")
    assert (job.prefix, job.draft, job.draft_bias) == ("", "eins zwei drei vier", 0.0)


def test_a_draft_stays_one_when_its_source_was_corrected() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("nine two three four", id="x", final=False)
    peer.say("nine two three four five", id="x", final=False)
    job = room.job("de")
    assert (job.prefix, job.draft) == ("", "eins zwei drei")


def test_a_reader_of_the_stable_view_is_sent_what_is_committed_and_no_draft() -> None:
    room, peer = meeting("de")
    reader = room.enter("de", view="stable")
    committed(room, peer)
    assert only(Delta, reader.events()) == [
        Delta(id="x", rev=2, lang="de", add="eins zwei", n=len("eins zwei"))
    ]


def test_a_final_is_translated_freely_and_goes_on_from_what_was_committed() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("one two three four", id="x")
    job = room.job("de")
    assert (job.partial, job.prefix, job.draft) == (False, "", "eins zwei drei")
    room.feed(job, "eins", " zwei", " drei")
    assert only(Delta, peer.events()) == []
    room.feed(job, " vier")
    assert only(Delta, peer.events()) == [
        Delta(id="x", rev=3, lang="de", draft=" drei vier", n=len("eins zwei"))
    ]
    room.finish(job, " fünf")
    assert one(Final, peer.events()).text == "eins zwei drei vier fünf"


def test_a_final_that_contradicts_stable_text_is_made_again_with_it_as_its_prefix() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("one two three four", id="x")
    free = room.job("de")
    room.feed(free, "Eins")
    room.act()
    assert room.aborted == [free.id]
    forced = room.job("de")
    assert (forced.partial, forced.prefix, forced.prefix_ids) == (False, "eins zwei", (0, 1, 2))
    assert (forced.draft, forced.draft_bias) == (" drei", 0.0)
    room.finish(forced, " drei vier")
    events = peer.events()
    assert not any(delta.reset for delta in only(Delta, events))
    assert one(Final, events).text == "eins zwei drei vier"
    assert not peer.session.member.in_flight.utterances


def test_a_final_that_ends_before_the_committed_text_is_made_again() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("one two three four", id="x")
    room.finish(room.job("de"), "eins")
    assert not only(Final, peer.events())
    room.finish(room.job("de"), " drei vier")
    assert one(Final, peer.events()).text == "eins zwei drei vier"


def test_a_forced_final_that_fails_is_made_freely_and_stable_text_is_retracted() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("one two three four", id="x")
    room.feed(room.job("de"), "Eins")
    room.act()
    room.fail(room.job("de"), ErrorCode.REJECTED)
    free = room.job("de")
    assert free.prefix == ""
    room.finish(free, "Eins, zwei, drei, vier")
    events = peer.events()
    assert [delta.reset for delta in only(Delta, events)] == [True]
    assert one(Final, events).text == "Eins, zwei, drei, vier"


@pytest.mark.parametrize("code", [ErrorCode.REJECTED, ErrorCode.TIMEOUT])
def test_a_free_final_that_fails_has_failed(code: ErrorCode) -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("one two three four", id="x")
    room.feed(room.job("de"), "Eins")
    room.act()
    for _ in ("forced", "free"):
        room.fail(room.job("de"), code)
    assert one(Failed, peer.events()).code == code


def test_a_source_that_is_changed_under_it_takes_stable_text_back() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("ten two three", id="x", final=False)
    job = room.job("de")
    assert job.prefix == ""
    room.finish(job, "zehn zwei drei")
    assert one(Delta, peer.events()).reset
    assert peer.screen["x", "de"].text == "zehn zwei drei"


def test_a_change_that_the_translation_does_not_show_takes_nothing_back() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("one too three four", id="x", final=False)
    room.finish(room.job("de"), "eins zwei drei vier")
    peer.say("one too three four five", id="x", final=False)
    assert room.job("de").prefix == "eins zwei"
    assert not any(delta.reset for delta in only(Delta, peer.events()))


def test_a_final_shorter_than_what_was_shown_of_another_source_takes_it_back_first() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.say("one", id="x")
    room.finish(room.job("de"), "eins")
    delta, final = peer.events()[-2:]
    assert delta == Delta(id="x", rev=3, lang="de", add="eins", draft="", reset=True, n=4)
    assert isinstance(final, Final) and final.text == "eins"


def test_the_first_of_two_attempts_was_only_a_draft() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    peer.screen.strict = True
    peer.say("one two three four", id="x")
    job = room.job("de")
    room.feed(job, "eins zwei drei hundert")
    peer.events()
    assert peer.screen["x", "de"].draft == " drei hundert"
    room.feed(job, "eins zwei", reset=True)
    room.finish(job, " drei vier")
    assert not any(delta.reset for delta in only(Delta, peer.events()))
    assert peer.screen["x", "de"].text == "eins zwei drei vier"


# --- the language of a speaker who was taken for another ----------------------------------------


def test_a_translation_into_the_language_that_is_spoken_makes_way_for_the_original() -> None:
    room, peer = meeting("de")
    committed(room, peer)
    events = peer.say("eins zwei drei", id="x", final=False, lang="de")
    assert only(Delta, events) == [
        Delta(id="x", rev=3, lang="de", draft="eins zwei drei", reset=True, n=0)
    ]
    assert one(Final, peer.say("eins zwei drei", id="x", lang="de")).by == "same"


def test_a_job_into_the_language_that_is_spoken_is_aborted() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    peer.say("good gut", id="x", final=False, lang="de")
    assert len(room.aborted) == 1
    assert peer.screen["x", "de"].text == "good gut"


def test_a_caption_from_a_text_in_another_language_is_replaced_by_the_original_too() -> None:
    room, peer = meeting("de", options=CAREFUL)
    for count in (2, 3):
        peer.say(said(count), id="x", final=False)
    room.finish(room.job("de"))
    peer.say(said(4), id="x", final=False, lang="fr")
    room.enter("en", role=Role.VIEW)
    assert room.job("en")
    final = one(Final, peer.say(said(4), id="x", lang="de"))
    assert (final.by, final.lang) == ("same", "de")
    assert [job.target for job in room.jobs.values()] == ["en"]
