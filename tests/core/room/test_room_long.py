"""Long speech is cut into utterances of readable length, and earlier ones are context."""

from __future__ import annotations

from msgspec.structs import replace

from gateway.auth.permissions import Role
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.errors import ErrorCode
from gateway.protocol.messages import Ack, Cancelled, Delta, Final, Retracted, Source
from tests.support.meeting import EAGER, Meeting, Peer, assert_error, meeting, names, one, only

SHORT = replace(EAGER, lengths=SegmentLengths(least=2, clause=2, most=4, hard=6, behind=1))
FIRST, SECOND, THIRD = "So we met.", "It was cold.", "Then on"


def monologue(peer: Peer, upto: int = 3, **fields: object) -> None:
    """Say the first sentences, word by word, under the id ``u1``."""
    words = " ".join((FIRST, SECOND, THIRD)[:upto]).split()
    for count in range(1, len(words) + 1):
        peer.say(" ".join(words[:count]), id="u1", final=False, **fields)


# --- parts --------------------------------------------------------------------------------------


def test_the_complete_beginning_of_a_long_text_becomes_an_utterance_of_its_own() -> None:
    room, peer = meeting("de", options=SHORT)
    monologue(peer)
    assert [(s.id, s.ord, s.text) for s in only(Source, room.log)] == [
        ("u1", 1, FIRST),
        ("u1.2", 2, SECOND),
    ]
    peer.say(f"{FIRST} {SECOND} {THIRD}.", id="u1")
    room.finish_all()
    assert {final.id: final.text for final in only(Final, room.log)} == {
        "u1": f"[de] {FIRST}",
        "u1.2": f"[de] {SECOND}",
        "u1.3": f"[de] {THIRD}.",
    }
    assert not peer.session.member.in_flight.utterances


def test_an_acknowledgement_keeps_the_id_and_tells_the_position_of_the_growing_part() -> None:
    room, peer = meeting(options=SHORT)
    monologue(peer, 2)
    ack = one(Ack, peer.say(f"{FIRST} {SECOND} Then", id="u1", final=False))
    assert (ack.id, ack.ord) == ("u1", 2)
    ack = one(Ack, peer.say(f"{FIRST} {SECOND} Then on", id="u1", final=False))
    assert (ack.id, ack.ord) == ("u1", 3)


def test_each_part_is_translated_while_it_grows_and_has_a_draft_of_its_own() -> None:
    room, peer = meeting("de", "en", options=SHORT)
    monologue(peer, 1)
    room.finish(room.job("de"), "So trafen")
    peer.say(f"{FIRST} It", id="u1", final=False)
    assert {(job.text, job.partial) for job in room.jobs.values()} == {
        (FIRST, False),
        ("It", True),
    }
    assert peer.screen["u1", "en"].text == FIRST
    assert peer.screen["u1.2", "en"].draft == "It"


def test_a_text_that_comes_at_once_is_cut_as_often_as_it_has_to_be() -> None:
    room, peer = meeting("de", options=SHORT)
    peer.say(f"{FIRST} {SECOND} {THIRD}", id="u1", final=False)
    assert [source.id for source in only(Source, room.log)] == ["u1", "u1.2"]
    assert sorted(peer.session.member.in_flight.utterances) == ["u1", "u1.2", "u1.3"]


def committed(*langs: str) -> tuple[Meeting, Peer]:
    """Return a meeting where ``So trafen`` is committed for more words than the first part has."""
    room, peer = meeting(*langs, options=replace(SHORT, lengths=replace(SHORT.lengths, behind=2)))
    for text, made in (("So we met", "So trafen wir"), (f"{FIRST} It", "So trafen wir. Es")):
        peer.say(text, id="u1", final=False)
        room.finish(room.job("de"), made)
    peer.events()
    return room, peer


def test_a_cut_is_no_change_of_the_source_and_takes_nothing_back() -> None:
    room, peer = committed("de")
    peer.say(f"{FIRST} It was", id="u1", final=False)
    free = room.job("de", FIRST)
    room.feed(free, "Da")
    room.act()
    assert room.aborted == [free.id]
    room.finish(room.job("de", FIRST), " wir uns.")
    events = peer.events()
    assert one(Final, events).text == "So trafen wir uns."
    assert not any(delta.reset for delta in only(Delta, events))


def test_a_change_of_the_source_takes_back_what_was_made_of_it_though_it_is_cut() -> None:
    room, peer = committed("de")
    peer.say("No we met. It was", id="u1", final=False)
    room.finish(room.job("de", "No we met."), "Nein, wir trafen uns.")
    events = peer.events()
    assert one(Final, events).text == "Nein, wir trafen uns."
    assert [delta.reset for delta in only(Delta, events)] == [True]


def test_times_and_speaker_are_those_of_the_part() -> None:
    room, peer = meeting(options=SHORT)
    for words, t1 in ((2, 1.0), (3, 2.0), (4, 3.0), (6, 5.0), (7, 6.0)):
        text = " ".join(f"{FIRST} {SECOND} {THIRD}".split()[:words])
        peer.say(text, id="u1", final=False, t0=0.5, t1=t1, speaker="Ada")
    assert [(s.id, s.t0, s.t1, s.speaker) for s in only(Source, room.log)] == [
        ("u1", 0.5, 3.0, "Ada"),
        ("u1.2", 3.0, 6.0, "Ada"),
    ]


def test_silence_is_a_good_place_to_cut() -> None:
    lengths = replace(SHORT.lengths, least=2, most=4, hard=20)
    flow = StreamingOptions(pace=PartialTiming(interval=60.0, words=60, repeats=1), lengths=lengths)
    for clock in (True, False):
        room, peer = meeting(options=flow)
        for count, at in ((1, 0.4), (2, 0.8), (3, 4.0), (4, 4.4), (5, 4.8)):
            text = " ".join("one two three four five".split()[:count])
            room.now = 1000.0 if clock else 1000.0 + at
            peer.say(text, id="u1", final=False, **({"t1": at} if clock else {}))
        assert [source.text for source in only(Source, room.log)] == ["one two"]


def test_ids_that_were_used_for_something_else_are_passed_over() -> None:
    room, peer = meeting("de", options=SHORT)
    peer.say("mine", id="u1.2")
    monologue(peer)
    assert [source.id for source in only(Source, room.log)] == ["u1.2", "u1", "u1.3"]


def test_nothing_is_said_under_the_id_of_a_part() -> None:
    room, peer = meeting("de", options=SHORT)
    monologue(peer, 2)
    error = assert_error(peer.say("more", id="u1.2"), ErrorCode.STALE)
    assert "'u1'" in error.msg


def test_a_last_part_that_turned_out_to_be_nothing_is_cancelled() -> None:
    room, peer = meeting("de", options=SHORT)
    monologue(peer, 2)
    peer.say(FIRST, id="u1")
    assert [(event.id, event.lang) for event in only(Cancelled, room.log)] == [("u1.2", None)]
    room.finish_all()
    assert not peer.session.member.in_flight.utterances
    peer.events()
    assert_error(peer.say(f"{FIRST} It", id="u1"), ErrorCode.STALE)


def test_recognition_may_take_back_all_of_the_part_that_grows() -> None:
    room, peer = meeting("de", "en", options=SHORT)
    monologue(peer, 2)
    peer.say(FIRST, id="u1", final=False)
    assert peer.screen["u1.2", "en"].text == ""
    peer.say(f"{FIRST} Or", id="u1", final=False)
    assert peer.screen["u1.2", "en"].text == "Or"


def test_parts_are_no_more_utterances_in_flight_than_one() -> None:
    room, peer = meeting("de", options=SHORT, inflight=2)
    monologue(peer)
    assert len(peer.session.member.in_flight.utterances) == 3
    assert names(peer.say(f"{FIRST} {SECOND} {THIRD}.", id="u1")) == ["ack", "source"]
    assert_error(peer.say("another"), ErrorCode.BUSY)


def test_a_room_settles_when_the_last_part_has_ended() -> None:
    room, peer = meeting(options=SHORT)
    peer.say("So we", id="u1", final=False)
    peer.session.drain()
    monologue(peer)
    assert not room.room.settled
    peer.say(f"{FIRST} {SECOND} {THIRD}.", id="u1")
    assert room.room.settled


def test_each_part_of_a_long_utterance_is_ended_once_by_a_stop() -> None:
    room, peer = meeting("de", options=SHORT)
    monologue(peer)
    peer.events()
    room.room.stop(room.now)
    room.act()
    ended = only(Cancelled, peer.events())
    assert len({event.id for event in ended}) == len(ended) == 3
    assert all(event.seq is not None for event in ended)
    assert room.room.settled and not room.jobs


def test_a_cancel_of_the_id_is_one_of_all_its_parts() -> None:
    room, peer = meeting("de", options=SHORT)
    monologue(peer)
    room.finish(room.job("de", FIRST))
    peer.events()
    answers = only(Cancelled, peer.send("cancel", id="u1", ref="c"))
    assert [(c.id, c.was, c.ref) for c in answers] == [
        ("u1", "done", "c"),
        ("u1.2", "running", "c"),
        ("u1.3", "running", "c"),
    ]
    assert not room.jobs
    assert_error(peer.say(f"{FIRST} {SECOND} {THIRD} and", id="u1"), ErrorCode.STALE)


def test_later_parts_that_have_ended_are_not_named_in_the_answer() -> None:
    room, peer = meeting("de", options=SHORT)
    monologue(peer)
    for text in (FIRST, SECOND):
        room.finish(room.job("de", text))
    peer.events()
    answers = only(Cancelled, peer.send("cancel", id="u1"))
    assert [(c.id, c.was) for c in answers] == [("u1", "done"), ("u1.3", "running")]


def test_a_cancel_of_a_part_leaves_the_others_and_the_speaker_goes_on() -> None:
    room, peer = meeting("de", options=SHORT)
    monologue(peer)
    assert one(Cancelled, peer.send("cancel", id="u1.2")).id == "u1.2"
    peer.say(f"{FIRST} {SECOND} {THIRD} and", id="u1")
    room.finish_all()
    assert [final.id for final in only(Final, peer.events())] == ["u1", "u1.3"]


def test_a_retraction_of_the_id_is_one_of_all_its_parts() -> None:
    room, peer = meeting("de", options=SHORT)
    monologue(peer)
    events = peer.send("retract", id="u1", ref="r")
    assert [(event.id, event.ref) for event in only(Retracted, events)] == [
        ("u1", "r"),
        ("u1.2", "r"),
        ("u1.3", "r"),
    ]
    assert_error(peer.say(f"{FIRST} {SECOND} {THIRD} and", id="u1"), ErrorCode.STALE)


def test_a_retraction_of_a_part_leaves_the_others() -> None:
    room, peer = meeting("de", options=SHORT)
    monologue(peer)
    assert one(Retracted, peer.send("retract", id="u1.2")).id == "u1.2"
    assert_error(peer.send("get", id="u1.2"), ErrorCode.NOT_FOUND)
    assert names(peer.send("get", id="u1")) == ["snapshot"]
    assert [event.id for event in only(Retracted, peer.send("retract", id="u1"))] == ["u1", "u1.3"]


def test_the_parts_of_who_leaves_are_aborted() -> None:
    room, peer = meeting("de", options=SHORT)
    reader = room.enter("de", role=Role.VIEW)
    monologue(peer)
    reader.events()
    peer.close()
    assert not room.jobs
    assert [c.id for c in only(Cancelled, reader.events())] == ["u1", "u1.2", "u1.3"]


def test_readers_of_every_view_end_with_the_same_parts() -> None:
    room, peer = meeting("de", options=SHORT)
    stable, final = room.enter("de", view="stable"), room.enter("de", view="final")
    words = f"{FIRST} {SECOND} {THIRD}".split()
    for count in range(1, len(words) + 1):
        peer.say(" ".join(words[:count]), id="u1", final=count == len(words))
        for job in list(room.jobs.values()):
            rest = f"[{job.target}] {job.text}".removeprefix(job.prefix)
            room.finish(job, rest)
    assert not only(Delta, final.events())
    stable.events()
    peer.events()
    for id in ("u1", "u1.2", "u1.3"):
        texts = {p.screen[id, "de"].text for p in (peer, stable, final)}
        assert len(texts) == 1 and "" not in texts


# --- context ------------------------------------------------------------------------------------


def test_a_job_is_told_what_was_said_before_with_its_translation_oldest_first() -> None:
    room, peer = meeting("de", "fr", context=2)
    for text in ("one", "two", "three"):
        peer.say(text)
        room.finish_all()
    peer.say("four")
    assert room.job("de").context == (("two", "[de] two"), ("three", "[de] three"))
    assert room.job("fr").context == (("two", "[fr] two"), ("three", "[fr] three"))


def test_utterances_long_before_are_no_context() -> None:
    room, peer = meeting("de", context_s=30.0)
    peer.say("one")
    room.finish_all()
    room.wait(30.0)
    peer.say("two")
    assert room.job("de").context == (("one", "[de] one"),)
    room.finish_all()
    room.wait(30.1)
    peer.say("three")
    assert room.job("de").context == ()


def test_utterances_without_caption_or_in_another_language_are_no_context() -> None:
    room, peer = meeting("de", context=5)
    peer.say("failed")
    room.fail(room.job("de"))
    peer.say("une", lang="fr")
    room.finish_all()
    peer.say("retracted", id="x")
    room.finish_all()
    peer.send("retract", id="x")
    peer.say("running")
    peer.say("one", lang="en-GB")
    room.finish(room.job("de", "one"), "eins")
    peer.say("two")
    assert room.job("de", "two").context == (("one", "eins"),)


def test_the_context_of_a_caption_stays_the_same_while_it_grows() -> None:
    room, peer = meeting("de")
    peer.say("one")
    peer.say("two", id="x", final=False)
    room.finish(room.job("de", "two"), "zwei")
    room.finish(room.job("de", "one"), "eins")
    peer.say("two three", id="x", final=False)
    assert room.job("de").context == ()


def test_a_backfilled_caption_has_the_context_of_its_own_time() -> None:
    room, peer = meeting("de")
    peer.say("one")
    peer.say("two")
    room.finish_all()
    room.enter("fr", role=Role.VIEW)
    room.finish(room.job("fr", "two"))
    assert room.job("fr", "one").context == ()


def test_a_corrected_translation_is_context_as_it_was_corrected() -> None:
    room, peer = meeting("de")
    peer.say("one", id="x")
    room.finish_all()
    peer.send("edit", id="x", lang="de", text="eins")
    peer.say("two")
    assert room.job("de").context == (("one", "eins"),)
