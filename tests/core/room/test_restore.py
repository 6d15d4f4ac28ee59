"""A room restored from the log of an earlier process."""

from __future__ import annotations

from msgspec.structs import replace

from gateway.auth.permissions import Role
from gateway.core.base.translation_context import TranslationContext
from gateway.core.history.event_log import EventLog, StreamPosition
from gateway.core.room import restore
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.core.utterances.caption_state import CaptionState
from gateway.errors import ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import Ack, Cancelled, Edited, Final, Retracted, Settings, Source
from tests.support.history import History
from tests.support.meeting import EAGER, NOW, Meeting, Peer, assert_error, meeting, names, one, only


def again(room: Meeting, limits: Limits | None = None) -> Meeting:
    """Return a meeting in another process, with the events of the log."""
    log = EventLog("another", limits if limits is not None else Limits(), began=NOW - 500)
    log.restore(room.room.log.entries(), room.room.log.authors)
    return Meeting(log=log, limits=limits)


def conversation() -> tuple[Meeting, Peer]:
    """Return a meeting with utterances that ended in every way, under ids that say how."""
    room, peer = meeting("de", "en")
    for id in ("final", "failed", "cancelled", "whole", "edited", "original", "retracted"):
        peer.say(id, id=id, speaker="Ada", t0=1.0, t1=2.0)
    room.fail(room.job("de", "failed"))
    peer.send("cancel", id="cancelled", langs=["de"])
    peer.send("cancel", id="whole")
    room.finish_all()
    peer.send("edit", id="edited", lang="de", text="besser")
    peer.send("edit", id="original", lang="en", text="better")
    room.finish_all()
    peer.send("retract", id="retracted")
    peer.say("not yet", id="growing", final=False)
    return room, peer


def test_a_restored_utterance_has_its_text_and_captions() -> None:
    room, _ = conversation()
    restored = again(room)
    for id in ("final", "failed", "cancelled", "edited", "original"):
        assert restored.room.snapshots.snapshot(id) == room.room.snapshots.snapshot(id)
    assert restored.room.snapshots.snapshot("original").text == "better"
    assert [line.text for line in restored.room.snapshots.snapshot("original").lines] == [
        "[de] better",
        "better",
    ]


def test_an_utterance_that_was_cancelled_as_a_whole_has_no_captions() -> None:
    room, _ = conversation()
    restored = again(room)
    whole = restored.room.utterances.by_id["whole"]
    assert (whole.cancelled, whole.ended, whole.text) == (True, True, "whole")
    assert [line.lang for line in restored.room.snapshots.snapshot("whole").lines] == ["en"]


def test_a_language_that_was_cancelled_while_it_was_being_said_stays_so() -> None:
    room, peer = meeting("de", "fr")
    peer.say("hel", id="x", final=False)
    peer.send("cancel", id="x", langs=["de"])
    peer.say("hello", id="x")
    room.finish_all()
    restored = again(room)
    assert restored.room.snapshots.snapshot("x") == room.room.snapshots.snapshot("x")
    restored.enter("de")
    assert not restored.jobs


def test_an_id_may_have_been_that_of_another_before() -> None:
    room, peer = meeting("de", utterances=1)
    peer.say("one", id="x")
    room.finish_all()
    peer.say("between")
    other = room.enter()
    other.say("two", id="x", final=False)
    other.send("cancel", id="x", langs=["de"])
    restored = again(room)
    assert restored.room.snapshots.snapshot("x").text == "one"
    other.say("two", id="x")
    restored = again(room)
    assert restored.room.snapshots.snapshot("x").text == "two"
    assert [line.state for line in restored.room.snapshots.snapshot("x").lines] == ["cancelled"]


def test_a_retracted_utterance_stays_retracted() -> None:
    room, _ = conversation()
    restored = again(room)
    moderator = restored.enter(role=Role.MODERATE)
    assert_error(moderator.send("get", id="retracted"), ErrorCode.NOT_FOUND)
    assert restored.room.utterances.by_id["retracted"].text == ""


def test_an_utterance_that_still_grew_is_lost() -> None:
    room, _ = conversation()
    restored = again(room)
    moderator = restored.enter(role=Role.MODERATE)
    assert_error(moderator.send("get", id="growing"), ErrorCode.NOT_FOUND)


def test_numbers_go_on() -> None:
    room, peer = meeting("de")
    for text in ("one", "two"):
        peer.say(text)
    room.finish_all()
    restored = again(room)
    events = restored.enter("de").say("three")
    assert one(Ack, events) == Ack(id="u3", rev=1, ord=3)
    assert one(Source, events).seq == 5


def test_a_new_reader_is_sent_the_events_before_the_restart() -> None:
    room, peer = meeting("de")
    for text in ("one", "two"):
        peer.say(text)
    room.finish_all()
    restored = again(room)
    german = restored.enter("de", greeted=False)
    assert names(german.events()) == ["welcome", "source", "source", "final", "final"]
    french = restored.enter("fr", role=Role.VIEW)
    restored.finish_all()
    assert {final.text for final in only(Final, french.events())} == {"[fr] one", "[fr] two"}


def test_utterances_before_the_restart_are_context_of_the_next() -> None:
    room, peer = meeting("de")
    room.wait(490.0)
    peer.say("one")
    room.finish_all()
    restored = again(room)
    restored.enter("de").say("two")
    assert restored.job("de").context == (("one", "[de] one"),)
    restored.wait(60.0)
    restored.finish_all()
    restored.peers[0].say("three")
    assert restored.job("de").context == ()


def test_settings_are_those_of_the_last_version() -> None:
    room, peer = meeting("de")
    peer.send("set", context="a stand-up", style="formal", glossary={"sprint": "Sprint"})
    peer.send("set", speaker="Bob")
    peer.send("set", context="a review", style="")
    peer.say("we met", speaker="Ada")
    restored = again(room)
    brief = restored.room.translation_context
    assert (brief.version, brief.topic, brief.style) == (3, "a review", None)
    assert brief.terms("the Sprint of Ada and Bob", "de") == (
        ("sprint", "Sprint"),
        ("Bob", "Bob"),
        ("Ada", "Ada"),
    )


def test_a_speaker_who_comes_back_to_a_restored_room_owns_what_it_has_said() -> None:
    room, peer = conversation()
    restored = again(room)
    speaker = restored.enter("de", id=peer.session.id)
    assert one(Edited, speaker.send("edit", id="final", lang="de", text="x")).text == "x"
    assert names(speaker.send("retract", id="edited")) == ["retracted"]
    assert_error(speaker.say("more", id="final"), ErrorCode.STALE)


def test_an_utterance_whose_speaker_an_older_release_has_not_kept_is_acknowledged() -> None:
    room, peer = conversation()
    room.room.log.authors.clear()
    restored = again(room)
    speaker = restored.enter("de", id=peer.session.id)
    assert one(Ack, speaker.say("final", id="final")).id == "final"
    assert_error(speaker.send("retract", id="final"), ErrorCode.FORBIDDEN)


def test_only_its_speaker_and_moderators_correct_a_restored_utterance() -> None:
    room, _ = conversation()
    restored = again(room)
    speaker = restored.enter("de", id="another")
    speaker.events()
    assert_error(speaker.send("edit", id="final", lang="de", text="x"), ErrorCode.FORBIDDEN)
    assert_error(speaker.say("more", id="final"), ErrorCode.STALE)
    moderator = restored.enter(role=Role.MODERATE)
    assert names(moderator.send("retract", id="final")) == ["retracted"]
    assert one(Cancelled, moderator.send("cancel", id="edited")).was == "done"


def test_the_bound_on_utterances_holds_for_restored_ones() -> None:
    room, peer = meeting("de")
    for n in range(5):
        peer.say(f"{n}")
    room.finish_all()
    assert list(again(room, Limits(utterances=2)).room.utterances.by_id) == ["u4", "u5"]


def test_captions_of_what_the_log_has_given_up_are_passed_over() -> None:
    room, peer = meeting("de")
    for n in range(3):
        peer.say(f"{n}")
    room.finish_all()
    restored = again(room, Limits(log=4))
    assert list(restored.room.utterances.by_id) == ["u3"]
    assert restored.enter().say("next")
    assert restored.room.utterances.by_id["u4"].ord == 4


def test_settings_that_the_log_has_lost_are_told_beside_it() -> None:
    room, peer = meeting("de")
    peer.send("set", style="informal")
    made = TranslationContext()
    room.room.log.settings = Settings(seq=1, version=7, context="a review", glossary={"a": "A"})
    restore.settings(room.room.log, made)
    assert (made.version, made.topic, made.style) == (7, "a review", "informal")
    assert made.terms("a b", "de") == (("a", "A"),)


def test_a_cancel_of_an_unfinished_utterance_does_not_concern_the_next_of_its_id() -> None:
    room, peer = meeting("de", utterances=1)
    peer.say("on", id="x", final=False)
    peer.send("cancel", id="x", langs=["de"])
    peer.send("cancel", id="x")
    peer.say("between")
    room.finish_all()
    peer.say("two", id="x")
    room.finish_all()
    restored = again(room)
    assert restored.room.snapshots.snapshot("x") == room.room.snapshots.snapshot("x")


def test_a_room_can_always_be_restored_whatever_its_ids_were_used_for() -> None:
    room, _ = meeting("de", utterances=1)
    for _ in range(2):
        peer = room.enter("de")
        peer.say("on", id="x", final=False)
        peer.send("cancel", id="x", langs=["de"])
        peer.send("cancel", id="x")
        peer.say("between")
        room.finish_all()
    source = one(Source, room.enter().say("two", id="x"))
    room.finish_all()
    # The beginning of a log may lack the events that explain the rest.
    for first in range(source.seq):
        log = EventLog("another", room.limits)
        log.restore(room.room.log.entries(first), room.room.log.authors)
        assert Meeting(log=log).room.snapshots.snapshot("x").lines[0].text == "[de] two"


def test_a_long_utterance_has_its_parts_again() -> None:
    lengths = SegmentLengths(least=2, clause=2, most=4, hard=6, behind=1)
    room = Meeting(options=replace(EAGER, lengths=lengths))
    peer = room.enter("de", speaker="Ada")
    text = "We go home now. It is very late. The bus is gone already."
    peer.say(text, id="s", final=False)
    peer.say(text, id="s")
    for id, speaker in (("s.9", "Bob"), ("u.2", "Ada"), ("u", "Ada")):
        peer.say("hello", id=id, speaker=speaker)
    room.finish_all()
    restored = again(room)
    roots = {id: u.root for id, u in restored.room.utterances.by_id.items()}
    assert roots == {id: u.root for id, u in room.room.utterances.by_id.items()}
    moderator = restored.enter(role=Role.MODERATE)
    taken = only(Retracted, moderator.send("retract", id="s"))
    assert [event.id for event in taken] == ["s", "s.2", "s.3"]
    assert one(Retracted, moderator.send("retract", id="u.2")).id == "u.2"


def test_a_corrected_caption_is_restored_though_nothing_else_of_it_is_left() -> None:
    past = History()
    past.say("u1", "Good morning.")
    past.edit("u1", "de", "Guten Morgen.")
    caption = Meeting(log=past.log).room.utterances.by_id["u1"].captions["de"]
    assert (caption.id, caption.lang, caption.stable) == ("u1", "de", "Guten Morgen.")
    assert (caption.state, caption.by, caption.partial) == (CaptionState.FINAL, "human", False)


def test_a_correction_replaces_the_caption_that_was_made() -> None:
    past = History()
    past.say("u1", "Good morning.")
    past.caption("u1", "de", "Guten Tag.")
    past.edit("u1", "de", "Guten Morgen.")
    captions = Meeting(log=past.log).room.utterances.by_id["u1"].captions
    assert [caption.stable for caption in captions.values()] == ["Guten Morgen."]


def test_settings_that_a_later_change_does_not_name_stay() -> None:
    room, peer = meeting("de")
    peer.send("set", style="formal", context="a court", glossary={"a": "b"})
    peer.send("set", speaker="Ada")
    context = again(room).room.translation_context
    assert (context.style, context.topic, context.version) == ("formal", "a court", 2)
    assert context.terms("a", "de") == (("a", "b"),)
    assert list(context.names) == ["Ada"]


def test_a_cancelled_utterance_leaves_no_cancelled_language_to_the_next_of_its_id() -> None:
    past = History()
    past.cancel("u1", "de")
    past.cancel("u1")
    past.say("u1", "Good morning.")
    assert not Meeting(log=past.log).room.utterances.by_id["u1"].captions


def test_an_utterance_that_was_retracted_after_a_crash_is_not_translated() -> None:
    room = Meeting()
    room.enter("de").say("good", id="x")
    log = EventLog("epoch", room.limits)
    log.restore(room.room.log.entries(), room.room.log.authors)
    log.before = StreamPosition(log.epoch, log.seq)
    after = Meeting(log=log)
    after.enter(role=Role.MODERATE).send("retract", id="x")
    after.enter("fr")
    assert not after.jobs
