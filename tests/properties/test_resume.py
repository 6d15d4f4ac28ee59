"""Rule 7: interrupted and resumed, the durable events are the same as uninterrupted, each once."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given, note
from hypothesis import strategies as st

from gateway.auth.permissions import Role
from gateway.core.history.event_log import StreamPosition
from gateway.errors import ErrorCode
from gateway.limits import Limits
from gateway.protocol.messages import (
    DURABLE,
    Edited,
    Final,
    Resumed,
    Retracted,
    ServerMessage,
    Source,
    Synced,
    View,
    Welcome,
)
from tests.support.meeting import Meeting, Peer, blank, read

LANGS = ("de", "fr", "de-AT", "en")
STEPS = (
    *("say", "say", "grow", "grow", "finish", "finish", "finish", "fail", "cancel", "edit"),
    *("correct", "retract", "set", "wait", "cut", "cut", "read", "sync"),
)
LIMITS = Limits(outbox_bytes=8_000, burst=10_000, inflight=50, utterances=8, grace_s=1e9)


class Broken:
    """A reader whose connection breaks now and then, with some events unread.

    ``told`` are the durable events it has read since it last was told that some are missing, all of
    which came after ``start``.
    """

    def __init__(self, meeting: Meeting, langs: Sequence[str], view: View) -> None:
        self.meeting = meeting
        self.langs = langs
        self.view = view
        self.told: list[ServerMessage] = []
        self.start = 0
        self.peer = self.connect(None)

    @property
    def seq(self) -> int:
        return getattr(self.told[-1], "seq", 0) if self.told else self.start

    def connect(self, since: StreamPosition | None) -> Peer:
        id = None if since is None else self.peer.session.id
        return self.meeting.enter(
            *self.langs, role=Role.VIEW, view=self.view, id=id, since=since, greeted=False
        )

    def read(self, most: int | None = None) -> None:
        """Read the frames that were sent, or only the first of them."""
        frames = self.peer.session.outbox.take()
        for frame in frames if most is None else frames[:most]:
            message = read(frame)
            if isinstance(message, Welcome) and message.resumed is not None:
                self.welcome(message, message.resumed)
            elif isinstance(message, Synced):
                assert message.ok and message.seq == 0
                self.told, self.start = [], 0
            elif decided(message):
                self.told.append(message)
        self.meeting.act()

    def welcome(self, welcome: Welcome, resumed: Resumed) -> None:
        if not resumed.ok:
            event("the log was too short")
            assert self.seq < (resumed.from_ or 0) - 1
            self.told, self.start = [], self.meeting.room.log.seq
        else:
            event("resumed")
            assert welcome.seq == self.seq

    def cut(self, most: int) -> None:
        self.read(most)
        self.peer.cut()
        self.peer = self.connect(StreamPosition("epoch", self.seq))
        if self.peer.session.member.catch_up is not None:
            event("more was missed than could be told at once")


class Run:
    """A meeting whose steps are chosen by numbers."""

    def __init__(self, numbers: Sequence[int], langs: Sequence[str], view: View, log: int) -> None:
        self.numbers = iter(numbers)
        limits = Limits(**{**{f: getattr(LIMITS, f) for f in LIMITS.__struct_fields__}, "log": log})
        self.meeting = Meeting("en", "de", "fr", limits=limits)
        self.speaker = self.meeting.enter("de", role=Role.MODERATE)
        self.steady = self.meeting.enter(*langs, role=Role.VIEW)
        self.told: list[ServerMessage] = []
        self.broken = Broken(self.meeting, langs, view)
        self.broken.read()

    def pick(self, n: int) -> int:
        return next(self.numbers, 0) % n

    def step(self, name: str) -> None:
        room, speaker = self.meeting, self.speaker
        ids = [*room.room.utterances.by_id] or ["none"]
        id = ids[self.pick(len(ids))]
        match name:
            case "say":
                speaker.say("something " * (1 + self.pick(40)))
            case "grow":
                growing = [s for s in room.room.utterances.speeches.values() if s.growing]
                text = " ".join(["word", *(speech.text for speech in growing[:1])])
                speech = growing[0].id if growing else None
                speaker.say(text, final=self.pick(3) == 0, **({"id": speech} if speech else {}))
            case "finish" | "fail":
                if jobs := [*room.jobs.values()]:
                    job = jobs[self.pick(len(jobs))]
                    if name == "fail":
                        room.fail(job, ErrorCode.REJECTED)
                    else:
                        room.finish(job, "text " * self.pick(20))
            case "cancel":
                speaker.send("cancel", id=id, langs=[LANGS[self.pick(4)]] if self.pick(2) else None)
            case "edit":
                speaker.send("edit", id=id, lang=LANGS[self.pick(4)], text="edited")
            case "correct":
                speaker.send("edit", id=id, lang="en", text="corrected")
            case "retract":
                speaker.send("retract", id=id)
            case "set":
                speaker.send("set", context="c")
            case "wait":
                room.wait(1.0 + self.pick(60))
            case "read":
                self.broken.read()
            case "cut":
                self.broken.cut(self.pick(12))
            case "sync":  # as a reader that has lost its memory: all of it is told again
                self.broken.read()
                session = self.broken.peer.session
                if (session.member.catch_up, session.outbox.closing, room.room.log.oldest) == (
                    None,
                    None,
                    1,
                ):
                    session.receive('{"type":"sync","epoch":"epoch","seq":0}', room.now)
        self.hear()

    def hear(self) -> None:
        self.speaker.events()
        self.told += filter(decided, self.steady.events())

    def end(self) -> None:
        while self.meeting.jobs:
            self.meeting.finish(next(iter(self.meeting.jobs.values())), "the end")
            self.hear()
        assert self.steady.session.outbox.closing is None
        self.broken.cut(self.pick(5))
        while self.broken.seq < self.last():
            self.broken.read()
            if self.broken.peer.session.outbox.closing is not None:
                self.broken.cut(self.pick(5))
        gone = {message.ord for message in self.told if isinstance(message, Retracted)}
        since = [m for m in self.told if getattr(m, "seq", 0) > self.broken.start]
        recent = [m for m in self.broken.told if getattr(m, "seq", 0) > self.broken.start]
        assert [kept(m, gone) for m in recent] == [kept(m, gone) for m in since]

    def last(self) -> int:
        """Return the number of the last event that concerns such a reader."""
        return max((getattr(message, "seq", 0) for message in self.told), default=0)


def decided(message: ServerMessage) -> bool:
    return isinstance(message, DURABLE) and message.seq is not None


def kept(message: ServerMessage, gone: set[int]) -> ServerMessage:
    """Return an event as it is after the retraction of its utterance."""
    taken = isinstance(message, Source | Final | Edited) and message.ord in gone
    return blank(message) if taken else message


@given(
    numbers=st.lists(st.integers(0, 2**16), max_size=200),
    steps=st.lists(st.sampled_from(STEPS), min_size=10, max_size=120),
    # Two tags of one language are two frames of one number: a cut may come between them.
    langs=st.lists(st.sampled_from(LANGS), max_size=3, unique_by=lambda tag: tag[:2]),
    view=st.sampled_from(("live", "stable", "final")),
    log=st.sampled_from((10, 1_000)),
)
def test_interrupted_and_resumed_a_reader_is_told_the_same_as_uninterrupted(
    numbers: list[int], steps: list[str], langs: list[str], view: View, log: int
) -> None:
    note(f"{steps} {numbers} {langs} {view} {log}")
    run = Run(numbers, langs, view, log)
    for name in steps:
        run.step(name)
    run.end()
