"""Durable events are numbered, logged and sent to the members they concern."""

from __future__ import annotations

from gateway.auth.permissions import Role
from gateway.core.delivery.outbox import Outbox
from gateway.core.history.event_log import EventLog
from gateway.core.history.publisher import Publisher
from gateway.core.members.member import Member, Reply
from gateway.core.members.subscribers import Subscribers
from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.errors import ErrorCode
from gateway.job import Job
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.fields import Statement
from gateway.protocol.messages import (
    Cancelled,
    Edited,
    Failed,
    Final,
    Retracted,
    ServerMessage,
    Set,
    Settings,
    Source,
    Timing,
)
from tests.support.meeting import NOW, blank, names, one, only, read


class Stage:
    """A publisher, its log, and two members who read ``de`` and ``de-AT``."""

    def __init__(self) -> None:
        self.log = EventLog("epoch", Limits(), began=NOW)
        self.subscribers = Subscribers(("en", "de", "fr"), 30.0)
        self.seen: list[ServerMessage] = []
        self.publisher = Publisher(self.log, self.subscribers, self.observe)
        self.german, self.austrian = self.reader("g", "de"), self.reader("a", "de-AT")

    def observe(self, event: ServerMessage, now: float) -> None:
        assert now == NOW
        self.seen.append(event)

    def reader(self, id: str, lang: str) -> Member:
        member = Member(id, Role.SPEAK, Outbox(Codec.JSON, Limits()))
        member.langs = (lang,)
        self.subscribers.join(member)
        return member


def heard(member: Member) -> list[ServerMessage]:
    return [read(frame) for frame in member.outbox.take()]


def utterance() -> Utterance:
    made = Utterance("u1", 1, "s1", NOW)
    made.text, made.lang, made.rev = "hello", "en", 1
    caption = made.captions["de"] = Caption("u1", "de", StabilityRules())
    caption.edit("hallo", "mt")
    return made


def test_an_original_goes_to_everybody_and_gives_the_utterance_its_first_number() -> None:
    stage, said = Stage(), utterance()
    stage.publisher.source(said, NOW)
    assert said.seq == 1 and names(stage.seen) == ["source"]
    assert stage.log.since(0) == stage.seen == heard(stage.german) == heard(stage.austrian)


def test_an_original_has_all_that_is_known_of_what_was_said() -> None:
    stage, said = Stage(), utterance()
    said.statement = Statement(speaker="Ada", t0=1.5, t1=2.5)
    stage.publisher.source(said, NOW)
    assert stage.seen == [
        Source(
            seq=1,
            id="u1",
            rev=1,
            ord=1,
            lang="en",
            text="hello",
            speaker="Ada",
            t0=1.5,
            t1=2.5,
        )
    ]


def test_a_failure_goes_to_the_readers_of_its_language_under_their_own_tags() -> None:
    stage = Stage()
    stage.publisher.failed(utterance(), "de", ErrorCode.TIMEOUT, NOW)
    assert one(Failed, heard(stage.german)).lang == "de"
    assert one(Failed, heard(stage.austrian)).lang == "de-AT"
    stage.publisher.failed(utterance(), "fr", ErrorCode.TIMEOUT, NOW)
    assert heard(stage.german) == [] and stage.log.seq == 2


def test_the_reference_and_the_tag_of_a_request_go_to_the_member_that_asked() -> None:
    stage, said = Stage(), utterance()
    reply = Reply(stage.german, "r1", "de-CH")
    stage.publisher.edited(said, said.captions["de"], NOW, reply)
    edits = {event.lang: event.ref for event in heard(stage.german) if isinstance(event, Edited)}
    assert edits == {"de": None, "de-CH": "r1"}
    assert one(Edited, heard(stage.austrian)).ref is None


def test_whoever_asked_in_its_own_language_is_answered_once() -> None:
    stage, said = Stage(), utterance()
    stage.publisher.edited(said, said.captions["de"], NOW, Reply(stage.german, "r1", "de"))
    assert one(Edited, heard(stage.german)).ref == "r1"


def test_every_kind_of_event_answers_its_request() -> None:
    stage, said = Stage(), utterance()
    caption, ms = said.captions["de"], Timing(queue=0, first=0, total=0)
    reply = Reply(stage.german, "r")
    stage.publisher.final(said, caption, ms, NOW, Reply(stage.german, "r", "de"))
    stage.publisher.original(said, NOW, reply)
    stage.publisher.retracted(said, NOW, reply)
    events = heard(stage.german)
    assert names(events) == ["final", "edited", "retracted"]
    assert [getattr(event, "ref", None) for event in events] == ["r", "r", "r"]
    assert [getattr(event, "ref", None) for event in heard(stage.austrian)] == [None] * 3


def test_a_caption_and_its_cancel_go_to_the_readers_of_the_language_alone() -> None:
    stage, said = Stage(), utterance()
    french = stage.reader("f", "fr")
    ms = Timing(queue=0, first=0, total=0)
    stage.publisher.final(said, said.captions["de"], ms, NOW)
    stage.publisher.cancelled(said, "de", "queued", NOW, None)
    assert heard(french) == []
    assert [event.lang for event in only(Cancelled, heard(stage.austrian))] == ["de-AT"]
    assert stage.seen[1] == Cancelled(seq=2, id="u1", rev=1, lang="de", was="queued")


def test_the_first_event_about_an_utterance_gives_it_its_number() -> None:
    stage, said = Stage(), utterance()
    stage.publisher.cancelled(said, None, "queued", NOW, None)
    assert said.seq == 1
    stage.publisher.cancelled(said, None, "queued", NOW, None)
    stage.publisher.source(said, NOW)
    assert said.seq == 1


def test_an_answer_without_a_tag_is_sent_once() -> None:
    stage = Stage()
    stage.publisher.cancelled(utterance(), None, "queued", NOW, Reply(stage.german, "r2"))
    assert one(Cancelled, heard(stage.german)).ref == "r2"
    assert one(Cancelled, heard(stage.austrian)).ref is None


def test_a_corrected_original_concerns_everybody_and_a_corrected_caption_its_readers() -> None:
    stage, said = Stage(), utterance()
    reader = stage.reader("f", "fr")
    stage.publisher.original(said, NOW, Reply(stage.german, None))
    assert names(heard(reader)) == ["edited"] and stage.log.originals == {1}
    stage.publisher.edited(said, said.captions["de"], NOW)
    assert heard(reader) == [] and stage.log.originals == {1}


def test_a_retraction_erases_the_texts_of_the_log() -> None:
    stage, said = Stage(), utterance()
    stage.publisher.source(said, NOW)
    stage.publisher.retracted(said, NOW, Reply(stage.german, None))
    assert stage.log.since(0) == [blank(stage.seen[0]), stage.seen[1]]
    assert stage.seen[1] == Retracted(seq=2, id="u1", ord=1)


def test_a_change_of_settings_names_its_version_and_session() -> None:
    stage = Stage()
    stage.publisher.settings(Set(style="formal", ref="r3"), 4, NOW, stage.german)
    event = one(Settings, heard(stage.german))
    assert (event.version, event.style, event.session, event.ref) == (4, "formal", "g", "r3")


def test_a_change_of_settings_has_all_that_was_changed() -> None:
    stage = Stage()
    change = Set(from_="fr", speaker="Ada", context="a court", glossary={"a": "b"}, style="formal")
    stage.publisher.settings(change, 4, NOW, stage.german)
    event = one(Settings, heard(stage.austrian))
    assert (event.from_, event.speaker, event.context) == ("fr", "Ada", "a court")
    assert (event.glossary, event.style) == ({"a": "b"}, "formal")


def test_a_final_has_the_flags_and_the_times_of_its_caption() -> None:
    stage, said = Stage(), utterance()
    caption = Caption("u1", "de", StabilityRules())
    caption.queue(Job(id="j1", text="hello", source="en", target="de"), said, NOW)
    caption.start(NOW + 0.1)
    timing = caption.finish("hallo", "mt", NOW + 0.3)
    caption.flags, caption.p = ("glossary",), 0.123
    stage.publisher.final(said, caption, timing, NOW)
    event = one(Final, heard(stage.german))
    assert (event.text, event.by, event.flags) == ("hallo", "mt", ("glossary",))
    assert event.p == 0.12
    assert (event.ms.queue, event.ms.total) == (100, 300)
    caption.p = 1.0
    stage.publisher.final(said, caption, timing, NOW)
    assert one(Final, heard(stage.german)).p is None, "the engine says nothing"
