"""Any meeting at all: whatever clients send and whatever the engine does, the promises hold.

One example is a tape of numbers. Each number chooses the next thing that happens, and with whom;
a tape that has run out chooses 0. So hypothesis shortens a failure to the steps that matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import given, note, settings
from hypothesis import strategies as st

from gateway.codec import Codec
from gateway.errors import ErrorCode
from gateway.job import Job
from gateway.limits import Limits
from gateway.member import Role
from gateway.messages import Cancelled, Delta, Failed, Final, ServerMessage, Source, View
from gateway.session import State
from tests.helpers import Meeting, Peer, only

T = TypeVar("T")

LIMITS = Limits(
    inflight=3,
    targets=3,
    queue=5,
    utterances=4,
    log=1_000,
    bad_frames=4,
    rate=1e6,
    burst=1_000_000,
    outbox_bytes=5_000,
)
PATIENCE = 10.0
LANGS = ("de", "fr", "en", "de-AT", "es", "xx-nonsense")
TEXTS = ("a", "a b", "a b c", "b", "a x", "", "\u200b \n", "e\u0301")
PIECES = ("a", " b", "", " c", "[de]", "\U0001f600")
VIEWS: tuple[View | None, ...] = (None, "live", "stable", "final")
JUNK: tuple[str | bytes, ...] = (
    "{",
    b"",
    b"\xc1",
    '{"type":"edit","id":"u1"}',
    '{"type":"nope"}',
    '{"type":"say","text":5}',
    "\ud800",
    '{"type":"cancel"}',
    '{"type":"say","text":"a","rev":0}',
    b"\x81\xa4type\xa3bye\x00",
)


class World:
    """A meeting, and everything that can happen in it."""

    def __init__(self, tape: Sequence[int]) -> None:
        self.tape = iter(tape)
        self.left = len(tape)
        self.trace: list[str] = []
        self.meeting = Meeting("en", "de", "fr", "es", limits=LIMITS, capacity=2, lazy=True)
        self.room = self.meeting.room
        self.room._observe = self.decided
        self.log: list[ServerMessage] = []
        self.outputs: dict[str, str] = {}
        self.dead: list[Job] = []
        self.ends: dict[tuple[int, str], int] = {}
        self.asked: set[tuple[int, str]] = set()
        self.ids = 0
        self.speakers: list[Peer] = []
        self.live = self.slow = self.late = None
        if self.pick(2):
            self.live = self.meeting.enter("de", "fr", role=Role.VIEW)
            self.slow = self.meeting.enter("de", "fr", role=Role.VIEW, codec=Codec.MSGPACK)
            self.late = self.meeting.enter("de", "fr", role=Role.VIEW, view="final")
            self.live.screen.strict = True
        self.come()

    def run(self) -> None:
        steps = (
            *(self.speak,) * 5,
            *(self.begin, self.begin, self.begin, self.feed, self.feed, self.feed, self.finish),
            *(
                self.finish,
                self.fail,
                self.cancel,
                self.want,
                self.look,
                self.come,
                self.go,
                self.junk,
            ),
            *(self.set, self.reap, self.haunt, self.wait, self.drain),
        )
        while self.left > 0:
            step = steps[self.pick(len(steps))]
            self.trace.append(step.__name__)
            before = {peer: set(peer.session.langs) for peer in self.speakers}
            step()
            self.meeting.act()
            self.check(before)
        self.end()

    def pick(self, n: int) -> int:
        self.left -= 1
        return next(self.tape, 0) % n

    def choose(self, items: Sequence[T]) -> T | None:
        return items[self.pick(len(items))] if items else None

    def pick_langs(self) -> list[str]:
        return [LANGS[self.pick(len(LANGS))] for _ in range(self.pick(4))]

    def pick_id(self) -> str:
        """An id that the room knows, or a new one: to use a forgotten one is a client's fault."""
        known = list(self.room._utterances)
        n = self.pick(len(known) + 1)
        if n < len(known):
            return known[n]
        self.ids += 1
        return f"new{self.ids}"

    # --- what clients do

    def come(self) -> None:
        if len(self.speakers) < 3:
            codec = (Codec.JSON, Codec.MSGPACK)[self.pick(2)]
            role = (Role.SPEAK, Role.MODERATE, Role.VIEW)[self.pick(3)]
            langs = self.pick_langs()
            self.trace.append(f"  {role} {langs}")
            self.speakers.append(self.meeting.enter(*langs, role=role, codec=codec, greeted=False))

    def send(self, type: str, **fields: object) -> None:
        peer = self.choose(self.speakers)
        if peer is not None:
            self.trace.append(f"  {peer.session.id} {type} {fields}")
            before = set(peer.session.langs)
            self.heard(peer, before, peer.send(type, **fields))

    def speak(self) -> None:
        fields: dict[str, object] = {"final": self.pick(2) == 1}
        if self.pick(4):
            fields["id"] = self.pick_id()
        if rev := self.pick(4):
            fields["rev"] = rev
        if self.pick(5) == 4:
            fields["lang"] = LANGS[self.pick(len(LANGS))]
        self.send("say", text=TEXTS[self.pick(len(TEXTS))], **fields)

    def cancel(self) -> None:
        langs = self.pick_langs() if self.pick(2) else None
        self.send("cancel", id=self.pick_id(), langs=langs)

    def want(self) -> None:
        self.send("want", langs=self.pick_langs(), view=VIEWS[self.pick(len(VIEWS))])

    def look(self) -> None:
        self.send(("get", "stats", "help")[self.pick(3)], id=self.pick_id())

    def set(self) -> None:
        self.send("set", glossary={"a": "A"}, **{"from": LANGS[self.pick(len(LANGS))]})

    def junk(self) -> None:
        peer = self.choose(self.speakers)
        frame = self.choose(JUNK)
        if peer is not None and frame is not None:
            self.trace.append(f"  {peer.session.id} {frame!r}")
            before = set(peer.session.langs)
            self.heard(peer, before, peer.frame(frame))

    def go(self) -> None:
        if self.pick(2):
            self.send("bye")
        else:
            peer = self.choose(self.speakers)
            if peer is not None:
                self.speakers.remove(peer)
                peer.close()

    def drain(self) -> None:
        peer = self.choose(self.speakers)
        if peer is not None and self.pick(3) == 2:
            peer.session.drain(self.meeting.now)

    # --- what the engine does

    def begin(self) -> None:
        job = self.choose(list(self.meeting.given.values()))
        if job is not None:
            self.meeting.begin(job)
            self.outputs[job.id] = ""

    def feed(self) -> None:
        job = self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            piece = PIECES[self.pick(len(PIECES))]
            reset = self.pick(6) == 5
            self.trace.append(f"  {job.id} {piece!r} {reset}")
            self.outputs[job.id] = ("" if reset else self.outputs[job.id]) + piece
            self.meeting.feed(job, piece, reset=reset)

    def finish(self) -> None:
        job = self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            self.trace.append(f"  {job.id}")
            decided = len(self.log)
            self.meeting.finish(job)
            made = [event for event in only(Final, self.log[decided:]) if event.by == "mt"]
            assert [event.text for event in made] == ([] if job.partial else [self.outputs[job.id]])
            self.dead.append(job)

    def fail(self) -> None:
        job = self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            self.trace.append(f"  {job.id}")
            self.meeting.fail(job)
            self.dead.append(job)

    def reap(self) -> None:
        """An aborted job ends, one way or the other."""
        job = self.choose(list(self.meeting.stopping.values()))
        if job is not None:
            if self.pick(2):
                self.room.failed(job.id, ErrorCode.ENGINE_UNAVAILABLE, self.meeting.now)
            else:
                self.room.finished(job.id, self.meeting.now)
            self.meeting.reap(job)
            self.dead.append(job)

    def haunt(self) -> None:
        """An engine goes on about a job that has ended or was taken back."""
        job = self.choose([*self.dead[-3:], *self.meeting.stopping.values()])
        if job is not None:
            decided = len(self.log)
            for peer in self.speakers:
                peer.events()
            self.meeting.feed(job, "late", reset=self.pick(2) == 1)
            self.room.started(job.id, self.meeting.now)
            self.room.finished(job.id, self.meeting.now)
            assert len(self.log) == decided
            assert not any(peer.events() for peer in self.speakers)

    def wait(self) -> None:
        self.meeting.now += (1, 4, -2)[self.pick(3)]
        for job in self.meeting.dispatch.overdue(self.meeting.now, PATIENCE):
            self.room.failed(job.id, ErrorCode.TIMEOUT, self.meeting.now)

    # --- what must hold

    def decided(self, event: ServerMessage) -> None:
        """The room logs an event: count the ends of captions."""
        self.log.append(event)
        assert getattr(event, "seq", 0) == len(self.log), "a hole in the log"
        match event:
            case Source(ord=ord):
                self.asked |= {(ord, lang) for lang in self.room.wanted}
                ended = []
            case Final(ord=ord, lang=lang) | Failed(ord=ord, lang=lang):
                ended = [(ord, lang)]
            case Cancelled(id=id, lang=lang):
                utterance = self.room._utterances[id]
                ended = [
                    (utterance.ord, caption.lang)
                    for caption in utterance.captions.values()
                    if lang == caption.lang
                    or (lang is None and (utterance.ord, caption.lang) not in self.ends)
                ]
            case _:
                ended = []
        for key in ended:
            self.ends[key] = self.ends.get(key, 0) + 1
            assert self.ends[key] == 1, f"{key} ended twice"

    def heard(self, peer: Peer, before: set[str], events: Sequence[ServerMessage]) -> None:
        for event in events:
            if isinstance(event, Delta | Final | Failed):
                assert event.lang in before | set(peer.session.langs), f"{peer.session.id}: {event}"

    def check(self, before: dict[Peer, set[str]]) -> None:
        for peer in list(self.speakers):
            session = peer.session
            self.heard(peer, before.get(peer, set()), peer.events())
            if session.state is State.LEAVING and not session.inflight:
                assert session.outbox.closing is not None, "a session that never ends"
            if session.outbox.closing is not None:
                self.speakers.remove(peer)
                peer.close()
        if self.live is not None:
            self.live.events()
        meeting = self.meeting
        for peer in meeting.peers:
            assert peer.session.outbox.bytes <= LIMITS.outbox_bytes
            assert len(peer.session.inflight) <= LIMITS.inflight
        assert meeting.dispatch.running <= meeting.dispatch.capacity
        assert meeting.dispatch.queued <= meeting.dispatch.depth + meeting.dispatch.capacity
        waiting = set(meeting.dispatch._waiting)
        assert set(self.room._jobs) == waiting | set(meeting.given) | set(meeting.jobs)
        queued = [
            id for rooms in meeting.dispatch._order.values() for ids in rooms.values() for id in ids
        ]
        assert sorted(queued) == sorted(waiting)

    def end(self) -> None:
        """The server stops: everything comes to its end."""
        for peer in self.speakers:
            peer.session.drain(self.meeting.now)
            self.room.hush(peer.session, self.meeting.now)
        self.meeting.act()
        self.meeting.finish_all()
        assert self.meeting.dispatch.queued == self.meeting.dispatch.running == 0
        assert not self.room._jobs
        for utterance in self.room._utterances.values():
            assert utterance.ended, utterance
            for lang in utterance.captions:
                assert self.ends.get((utterance.ord, lang)) == 1, f"{utterance} {lang}"
        assert self.asked <= set(self.ends), "a caption that was asked for is lost"
        for peer in self.speakers:
            assert peer.session.outbox.closing is not None
            peer.events()
        assert self.room.log.since(0) == self.log
        if self.live is not None and self.slow is not None and self.late is not None:
            self.live.events()
            assert not only(Delta, self.late.events())
            shown = {key: caption.text for key, caption in ended(self.live)}
            assert shown == {key: caption.text for key, caption in ended(self.late)}
            if self.slow.session.outbox.closing is None:
                self.slow.events()
                assert shown == {key: caption.text for key, caption in ended(self.slow)}


def ended(peer: Peer) -> list[tuple[tuple[str, str], object]]:
    return [
        (key, caption)
        for key, caption in peer.screen.captions.items()
        if isinstance(caption.end, Final)
    ]


@settings(max_examples=200)
@given(st.binary(min_size=60, max_size=400))
def test_every_caption_ends_once_and_nothing_leaks_whatever_happens(tape: bytes) -> None:
    world = World(tape)
    try:
        world.run()
    except BaseException:
        note("\n".join(world.trace))
        raise
