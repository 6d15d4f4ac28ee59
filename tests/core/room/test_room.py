"""A meeting: the life of an utterance, and its log."""

from __future__ import annotations

from gateway.auth.permissions import Role
from gateway.engines.profiles import Profile
from gateway.errors import CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import (
    Ack,
    Cancelled,
    Delta,
    Failed,
    Final,
    Settings,
    Snapshot,
    Source,
)
from tests.support.meeting import NOW, Meeting, assert_error, meeting, names, one, only

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
    assert not peer.session.member.in_flight.utterances


def test_a_slow_utterance_holds_up_no_other() -> None:
    room, peer = meeting("de")
    peer.say("slow")
    peer.say("fast")
    room.finish(room.job("de", "fast"), "schnell")
    assert [final.id for final in only(Final, peer.events())] == ["u2"]


def test_a_language_that_fails_leaves_the_others_alone() -> None:
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
    room = Meeting(model=profile)
    peer = room.enter("de", lang="fr")
    failed = one(Failed, peer.say("bonjour"))
    assert (failed.code, failed.retry) == ("pair_unsupported", False)
    assert not peer.session.member.in_flight.utterances


def test_a_growing_utterance_in_an_impossible_pair_waits_for_its_end_to_say_so() -> None:
    profile = Profile(name="one-way", kind="raw", languages=("en", "de", "fr"), pairs="english")
    peer = Meeting(model=profile).enter("de", lang="fr")
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


def test_flags_of_a_guard_are_part_of_the_final() -> None:
    room, peer = meeting("de")
    peer.say("seven")
    room.feed(room.job("de"), "acht", flags=["numbers"])
    room.finish(room.job("de"))
    assert one(Final, peer.events()).flags == ("numbers",)


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
    assert room.scheduler.queued == 1


def test_a_new_reader_cannot_fill_the_queue_beyond_its_depth() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=2))
    peer = room.enter("de")
    for text in ("one", "two", "three"):
        peer.say(text)
    peer.events()
    events = peer.send("want", langs=["de", "fr"])
    assert [failed.code for failed in only(Failed, events)] == ["busy"] * 3
    assert room.scheduler.queued == 2


def test_a_growing_utterance_that_found_no_place_in_the_queue_waits_for_one() -> None:
    room = Meeting(capacity=1, limits=Limits(queue=1))
    peer = room.enter("de")
    peer.say("good", id="x", final=False)
    peer.say("other")
    peer.events()
    peer.send("want", langs=["de", "fr"])
    assert room.scheduler.queued == 1
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
    assert list(room.room.utterances.by_id) == ["growing", "x4"]
    peer.events()
    assert_error(peer.send("get", id="x3"), ErrorCode.NOT_FOUND)


def test_utterances_in_flight_are_never_forgotten() -> None:
    room, peer = meeting("de", utterances=1)
    for n in range(4):
        peer.say("hello", id=f"x{n}")
    assert len(room.room.utterances.by_id) == 4
    peer.close()
    assert room.scheduler.running == 0


def test_a_job_that_waited_too_long_ends_visibly() -> None:
    room = Meeting(capacity=1)
    peer = room.enter("de")
    peer.say("one")
    peer.say("two")
    peer.events()
    for job in room.scheduler.overdue(NOW + 100, 30):
        room.room.captioner.failed(job.id, ErrorCode.TIMEOUT, NOW + 100)
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
    assert 0 < room.room.log.bytes <= 10_000
    assert len(room.room.log) < 10
    assert room.room.log.seq == 100


def test_an_utterance_is_forgotten_when_the_log_has_dropped_what_was_decided_of_it() -> None:
    room, peer = meeting(log=3)
    for id in ("a", "b", "c", "d", "e"):
        peer.say("hello", id=id)
    assert list(room.room.utterances.by_id) == ["b", "c", "d", "e"]
    room.room.shed(room.room.log.bytes)
    assert not room.room.utterances.by_id


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


# --- other events ---------------------------------------------------------------------------------


def test_the_name_in_a_change_of_settings_stays_in_translations() -> None:
    room = Meeting()
    room.enter("de").send("set", speaker="Ada")
    assert list(room.room.translation_context.names) == ["Ada"]


def test_every_answer_of_a_room_counts_from_when_it_was_sent_if_nobody_takes_it() -> None:
    for frame in ('{"type":"cancel","id":"none"}', '{"type":"want","langs":["de","fr"]}'):
        room = Meeting()
        peer, speaker = room.enter("de"), room.enter("fr")
        speaker.say("hello")
        room.finish_all()
        late = room.now + room.limits.outbox_s + 1
        peer.session.receive(frame, late)
        assert peer.session.outbox.closing is CloseCode.TOO_SLOW


def test_a_room_takes_the_memory_of_its_log_and_of_its_utterances() -> None:
    room, peer = meeting("de")
    before = room.room.bytes
    peer.say("hello")
    assert room.room.bytes == room.room.log.bytes + room.room.utterances.bytes > before


def test_a_caption_without_words_is_cancelled_and_kept_from_those_who_come_late() -> None:
    room, peer = meeting("de")
    peer.say("um", id="x")
    room.finish(room.job("de"), "")
    end = one(Cancelled, peer.events())
    assert (end.id, end.lang, end.was, end.seq) == ("x", "de", "none", 2)
    assert not peer.session.member.in_flight.utterances
    late = room.enter("de").events()
    assert [event for event in late if isinstance(event, (Final, Failed))] == []


def test_a_corrected_original_without_words_leaves_its_old_caption() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x")
    room.finish(room.job("de"), "gut")
    assert names(peer.send("edit", id="x", lang="en", text="um"))[-1] == "edited"
    room.finish(room.job("de"), "")
    assert names(peer.events()) == []
