"""The languages that members read, from their first reader to their last."""

from __future__ import annotations

from gateway.auth.permissions import Role
from gateway.engines.profiles import Profile
from gateway.protocol.messages import Cancelled, Delta, Final
from tests.support.meeting import NOW, Meeting, meeting, one, only
from tests.support.typed import current

# --- views --------------------------------------------------------------------------------------


def test_each_view_gets_what_it_asked_for() -> None:
    room, live = meeting("de")
    stable, final = room.enter("de", view="stable"), room.enter("de", view="final")
    other = room.enter("de", view="stable")
    live.say("good", id="x", final=False)
    room.finish(room.job("de"), "gut", "er")
    assert [delta.draft for delta in only(Delta, live.events())] == ["guter"]
    assert not only(Delta, [*stable.events(), *other.events(), *final.events()])
    live.say("good morning", id="x", final=False)
    room.finish(room.job("de"), "guter Morgen")
    for reader in (stable, other):
        assert only(Delta, reader.events()) == [Delta(id="x", rev=2, lang="de", add="guter", n=5)]
    assert [(d.add, d.draft) for d in only(Delta, live.events())] == [("guter", " Morgen")]
    live.say("good morning all", id="x")
    room.feed(room.job("de"), "guter Morgen alle")
    assert [delta.draft for delta in only(Delta, live.events())] == [" Morgen alle"]
    assert not only(Delta, [*stable.events(), *other.events(), *final.events()])
    room.finish(room.job("de"), " zusammen")
    for reader in (live, stable, other, final):
        reader.events()
        assert reader.screen["x", "de"].text == "guter Morgen alle zusammen"


def test_text_that_comes_complete_is_stable_at_once() -> None:
    room, live = meeting("de")
    stable, final = room.enter("de", view="stable"), room.enter("de", view="final")
    live.say("good morning")
    room.feed(room.job("de"), "guten")
    for reader in (live, stable):
        assert only(Delta, reader.events()) == [Delta(id="u1", rev=1, lang="de", add="guten", n=5)]
    assert not only(Delta, final.events())


# --- who reads ----------------------------------------------------------------------------------


def test_the_work_of_a_member_ends_when_it_leaves() -> None:
    room, peer = meeting("de")
    reader = room.enter("de")
    peer.say("hello")
    peer.say("good", id="x", final=False)
    peer.close()
    assert len(room.aborted) == 2
    assert [c.id for c in only(Cancelled, reader.events())] == ["u1", "x"]
    assert room.scheduler.running == room.scheduler.queued == 0


def test_a_language_nobody_reads_any_more_is_aborted_after_a_while() -> None:
    room, peer = meeting(linger_s=30.0)
    german, french = room.enter("de"), room.enter("fr")
    peer.say("hello")
    room.feed(room.job("fr"), "bon")
    german.close()
    room.wait(29.9)
    assert {job.target for job in room.jobs.values()} == {"de", "fr"}
    room.wait(0.1)
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
    room, peer = meeting("de", "fr", linger_s=0.0)
    room.enter("fr")
    peer.say("hello")
    peer.send("want", langs=[])
    assert [job.target for job in room.jobs.values()] == ["fr"]


def test_a_reader_who_changes_language_gets_the_sentence_in_flight_in_the_new_one() -> None:
    room, peer = meeting("de", linger_s=0.0)
    peer.say("good morning")
    room.job("de")
    dropped = peer.send("want", langs=["fr"])
    assert dropped == []
    room.finish(room.job("fr"), "Bonjour")
    assert one(Final, peer.events()).text == "Bonjour"
    assert {line.lang: line.state for line in room.room.snapshots.snapshot("u1").lines} == {
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


def test_a_new_language_is_made_for_what_is_in_flight_before_what_has_ended() -> None:
    room = Meeting(capacity=3)
    peer = room.enter("de")
    peer.say("before")
    room.finish_all()
    peer.say("growing", id="x", final=False)
    peer.say("running")
    peer.send("want", langs=["de", "fr"])
    made = {job.text: job for job in room.jobs.values() if job.target == "fr"}
    assert list(made) == ["running"]
    room.finish(made["running"])
    assert room.job("fr").text == "growing"
    room.finish(room.job("fr"))
    assert room.job("fr").text == "before"


def test_a_reader_that_begins_in_the_middle_is_shown_the_caption_so_far() -> None:
    room, peer = meeting("de")
    peer.say("good", id="x", final=False)
    room.finish(room.job("de"), "gut und mehr")
    peer.say("good morning", id="x")
    room.feed(room.job("de"), "gut")
    late = room.enter("de", greeted=False)
    assert only(Delta, late.events()) == [
        Delta(id="x", rev=2, lang="de", draft="gut und mehr", reset=True, n=0)
    ]
    room.finish(room.job("de"), "en")
    late.events()
    assert late.screen["x", "de"].text == "guten"


def test_a_reader_that_joins_late_is_shown_the_stable_text_of_a_complete_utterance() -> None:
    room, peer = meeting("de")
    peer.say("hello")
    room.feed(room.job("de"), "hal")
    late = room.enter("de", view="stable", greeted=False)
    assert only(Delta, late.events()) == [
        Delta(id="u1", rev=1, lang="de", add="hal", reset=True, n=3)
    ]


def test_a_reader_that_changes_its_view_is_shown_what_it_missed() -> None:
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


# --- a language outlives its last reader --------------------------------------------------------


def test_a_reader_that_is_back_in_time_has_missed_nothing() -> None:
    room, peer = meeting(linger_s=30.0)
    reader = room.enter("de")
    peer.say("one")
    reader.close()
    peer.say("two")
    room.finish_all()
    room.wait(29.0)
    back = room.enter("de", greeted=False)
    assert [final.text for final in only(Final, back.events())] == ["[de] one", "[de] two"]
    room.wait(60.0)
    assert room.room.subscribers.wanted == {"de"}


def test_after_that_nothing_is_made_in_it_any_more() -> None:
    room, peer = meeting(linger_s=30.0)
    room.enter("de").close()
    assert room.room.subscribers.wanted == {"de"}
    room.wait(30.0)
    peer.say("hello")
    assert not room.jobs


def test_a_growing_utterance_is_not_made_any_more_either() -> None:
    room, peer = meeting(linger_s=30.0)
    reader = room.enter("de")
    peer.say("good", id="x", final=False)
    room.finish(room.job("de"), "gut")
    reader.close()
    room.wait(30.0)
    peer.say("good morning", id="x", final=False)
    assert not room.jobs
    assert [line.state for line in room.room.snapshots.snapshot("x").lines] == ["cancelled"]


def test_nothing_is_translated_in_an_empty_room() -> None:
    room, peer = meeting("de", linger_s=30.0)
    reader = room.enter("fr", role=Role.VIEW)
    peer.say("hello")
    room.finish_all()
    peer.send("want", langs=["de", "es"])
    assert [job.target for job in room.jobs.values()] == ["es"]
    peer.close()
    assert room.jobs
    reader.close()
    assert not room.jobs
    assert room.room.subscribers.wanted == set()


# --- one language, several tags -----------------------------------------------------------------


def test_tags_that_one_language_serves_share_a_job_and_each_reader_gets_its_own() -> None:
    room, peer = meeting()
    german, austrian = room.enter("de"), room.enter("de-AT")
    peer.say("hello")
    room.finish(room.job("de"), "hallo")
    for reader, tag in ((german, "de"), (austrian, "de-AT")):
        events = reader.events()
        assert {event.lang for event in events if isinstance(event, Delta | Final)} == {tag}
        assert one(Final, events).text == "hallo"


def test_a_reader_of_two_tags_is_sent_both() -> None:
    room, peer = meeting("de", "de-AT")
    peer.say("hello")
    room.finish(room.job("de"), "hallo")
    assert [final.lang for final in only(Final, peer.events())] == ["de", "de-AT"]


def test_a_language_is_cancelled_for_all_its_tags_and_each_reader_sees_its_own_tag() -> None:
    room, peer = meeting("de-AT")
    reader = room.enter("de")
    peer.say("hello")
    reader.events()
    answer = one(Cancelled, peer.send("cancel", id="u1", langs=["de-AT"], ref="c"))
    assert (answer.lang, answer.was, answer.ref) == ("de-AT", "running", "c")
    assert one(Cancelled, reader.events()).lang == "de"


def test_a_cancel_under_another_tag_is_answered_under_both_tags() -> None:
    room, peer = meeting("de-AT")
    peer.say("hello")
    events = only(Cancelled, peer.send("cancel", id="u1", langs=["de"], ref="c"))
    assert [(event.lang, event.ref) for event in events] == [("de-AT", None), ("de", "c")]


def test_a_tag_that_no_language_serves_is_a_language_of_its_own() -> None:
    profile = Profile(name="one-way", kind="raw", languages=("de", "en"), pairs=(("de", "en"),))
    peer = Meeting(model=profile).enter("de-AT", lang="de")
    assert one(Final, peer.say("hallo")).lang == "de-AT"


def test_an_empty_room_says_since_when() -> None:
    room, peer = meeting()
    assert current(room.room.empty_since) is None
    room.now += 5
    peer.close()
    assert current(room.room.empty_since) == NOW + 5
    room.enter()
    assert room.room.empty_since is None
