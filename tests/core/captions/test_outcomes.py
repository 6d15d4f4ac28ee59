"""Every caption ends once, and its speaker is told when all of an utterance has ended."""

from __future__ import annotations

import pytest

from gateway.auth.permissions import Role
from gateway.core.base.transitions import IllegalTransition
from gateway.core.captions.outcomes import CaptionOutcomes
from gateway.core.delivery.outbox import Outbox
from gateway.core.history.event_log import EventLog
from gateway.core.history.publisher import Publisher
from gateway.core.members.attendance import Attendance
from gateway.core.members.member import Member, Reply
from gateway.core.members.subscribers import Subscribers
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.caption_state import CaptionState
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.errors import ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Cancelled, Delta, ServerMessage
from tests.support.meeting import NOW, names, one, read
from tests.support.typed import current


class Listener:
    """A session that counts the ends it is told."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def charge(self, now: float) -> None:
        raise AssertionError("nothing new is said here")

    def ended(self, now: float) -> None:
        self.ends.append(now)


class Stage:
    """An utterance of `s1`, who reads ``de`` and ``fr``, with a caption in each."""

    def __init__(self) -> None:
        subscribers = Subscribers(("en", "de", "fr"), 30.0)
        utterances = Utterances("meeting", StreamingOptions(), Limits())
        self.attendance = Attendance(subscribers.members, utterances)
        self.log = EventLog("epoch", Limits(), began=NOW)
        publisher = Publisher(self.log, subscribers, lambda *_: None)
        self.outcomes = CaptionOutcomes(publisher, subscribers, self.attendance)
        self.listener = Listener()
        self.speaker = Member("s1", Role.SPEAK, Outbox(Codec.JSON, Limits()), self.listener)
        self.speaker.langs = ("de", "fr")
        subscribers.join(self.speaker)
        self.said: Utterance = utterances.begin("u1", "s1", NOW).open
        self.speaker.in_flight.utterances.add("u1")
        for lang in ("de", "fr"):
            self.said.captions[lang] = Caption("u1", lang, StabilityRules())

    def heard(self) -> list[ServerMessage]:
        return [read(frame) for frame in self.speaker.outbox.take()]


def test_the_end_of_speech_publishes_the_original() -> None:
    stage = Stage()
    stage.outcomes.end_speech(stage.said, "hello", NOW + 1)
    assert (stage.said.text, stage.said.final, stage.said.at) == ("hello", True, NOW + 1)
    assert stage.said.text_number == 1 and names(stage.heard()) == ["source"]


def test_a_caption_that_does_not_continue_what_was_shown_is_corrected_before_its_end() -> None:
    stage = Stage()
    caption = stage.said.captions["de"]
    caption.stable = "Guten"
    stage.outcomes.finish(stage.said, caption, "Hallo", "human", NOW)
    events = stage.heard()
    assert names(events) == ["delta", "final"]
    assert one(Delta, events).reset


@pytest.mark.parametrize("again", ["finish", "fail", "cancel"])
def test_a_caption_cannot_end_twice(again: str) -> None:
    stage = Stage()
    caption = stage.said.captions["de"]
    stage.outcomes.fail(stage.said, caption, ErrorCode.TIMEOUT, NOW)
    with pytest.raises(IllegalTransition):
        if again == "finish":
            stage.outcomes.finish(stage.said, caption, "hallo", "mt", NOW)
        elif again == "fail":
            stage.outcomes.fail(stage.said, caption, ErrorCode.TIMEOUT, NOW)
        else:
            stage.outcomes.cancel(stage.said, [caption], "de", None, NOW, None)


def test_a_language_is_cancelled_for_itself_and_an_utterance_as_a_whole() -> None:
    stage = Stage()
    german = stage.outcomes.unfinished(stage.said, "de")
    assert [caption.lang for caption in german] == ["de"]
    stage.outcomes.cancel(stage.said, german, "de", "running", NOW, None)
    assert german[0].state is CaptionState.CANCELLED and not current(stage.said.cancelled)
    rest = stage.outcomes.unfinished(stage.said, None)
    assert [caption.lang for caption in rest] == ["fr"]
    stage.outcomes.cancel(stage.said, rest, None, None, NOW, None)
    assert stage.said.cancelled and stage.said.ended
    assert [(event.lang, event.was) for event in stage.heard() if isinstance(event, Cancelled)] == [
        ("de", "running"),
        (None, "none"),
    ]


@pytest.mark.parametrize(("tag", "was"), [("de", "done"), (None, "done"), ("es", "none")])
def test_a_cancel_of_what_has_ended_is_answered_and_not_logged(tag: str | None, was: str) -> None:
    stage = Stage()
    stage.said.cancelled = True
    for caption in stage.said.active:
        caption.cancel()
    reply = Reply(stage.speaker, "r1")
    stage.outcomes.cancel(stage.said, [], tag, None, NOW, reply)
    answer = one(Cancelled, stage.heard())
    assert (answer.lang, answer.was, answer.ref, answer.seq) == (tag, was, "r1", None)
    assert stage.log.seq == 0


def test_a_speaker_is_told_once_when_all_of_an_utterance_has_ended() -> None:
    stage = Stage()
    stage.said.final = True
    for lang in ("de", "fr"):
        stage.outcomes.settle(stage.said, NOW)
        assert stage.listener.ends == []
        stage.outcomes.fail(stage.said, stage.said.captions[lang], ErrorCode.TIMEOUT, NOW)
    for _ in range(2):
        stage.outcomes.settle(stage.said, NOW + 1)
    assert stage.listener.ends == [NOW + 1] and not stage.speaker.in_flight


def test_an_absent_speaker_is_waited_for_until_its_last_utterance_has_ended() -> None:
    stage = Stage()
    absent = Member("s2", Role.SPEAK, Outbox(Codec.JSON, Limits()))
    absent.in_flight.utterances.add("u1")
    stage.said.author, stage.said.cancelled = "s2", True
    for caption in stage.said.active:
        caption.cancel()
    stage.attendance.wait_for(absent, NOW + 5)
    stage.outcomes.settle(stage.said, NOW)
    assert not stage.attendance.away and stage.attendance.deadline is None
