"""Any meeting at all: everything that clients, the engine and the clock may do, and what must hold.

One meeting is a tape of numbers. Each number chooses the next thing that happens, and with whom; a
tape that has run out chooses 0. So hypothesis shortens a failure to the steps that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gateway.auth.permissions import Role
from gateway.core.session.state import SessionState
from gateway.errors import ErrorCode
from gateway.job import Job
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Delta, Edited, Failed, Final, ServerMessage
from tests.properties.choices import (
    FLOWS,
    JUNK,
    LANGS,
    LIMITS,
    PATIENCE,
    PIECES,
    SPEECH,
    TEXTS,
    VIEWS,
)
from tests.properties.decided_events import DecidedEvents
from tests.support.meeting import Meeting, Peer

T = TypeVar("T")


class World:
    """A meeting, and everything that can happen in it."""

    kind: type[Meeting] = Meeting

    def __init__(self, tape: Sequence[int], limits: Limits = LIMITS) -> None:
        self.tape = iter(tape)
        self.left = len(tape)
        self.trace: list[str] = []
        self.limits = limits
        options = FLOWS[self.pick(len(FLOWS))]
        self.meeting = self.kind(
            "en",
            "de",
            "fr",
            "es",
            limits=limits,
            capacity=2,
            options=options,
            lazy=True,
            observe=lambda event, _: self.decided.record(event, self.room),
        )
        self.room = self.meeting.room
        self.decided = DecidedEvents()
        self.outputs: dict[str, str] = {}
        self.dead: list[Job] = []
        self.ids = 0
        self.speakers: list[Peer] = []
        self.watchers: dict[str, Peer] = {}
        if self.pick(2):
            enter = self.meeting.enter
            self.watchers = {
                "live": enter("de", "fr", role=Role.VIEW),
                "stable": enter("de", "fr", role=Role.VIEW, view="stable"),
                "slow": enter("de", "fr", role=Role.VIEW, codec=Codec.MSGPACK),
                "final": enter("de", "fr", role=Role.VIEW, view="final"),
            }
            for name in ("live", "stable"):
                self.watchers[name].screen.strict = True
        self.come()

    def run(self) -> None:
        """Play the tape to its end, and bring the meeting to its own."""
        steps = self.steps()
        while self.left > 0:
            step = steps[self.pick(len(steps))]
            self.trace.append(step.__name__)
            before = {peer: set(peer.session.member.langs) for peer in self.speakers}
            step()
            self.meeting.act()
            self.check(before)
        self.end()

    def steps(self) -> tuple[Callable[[], None], ...]:
        """Return the steps that may come next; a step that is here twice is more likely."""
        return (
            *(self.speak, self.speak, self.speak, self.grow, self.grow),
            *(self.keep_up, self.keep_up, self.keep_up),
            *(self.begin, self.begin, self.begin, self.feed, self.feed, self.feed),
            *(self.finish, self.finish, self.answer, self.answer, self.answer, self.fail),
            *(self.cancel, self.want, self.look, self.come, self.go, self.junk),
            *(self.change_settings, self.reap, self.haunt, self.wait, self.wait, self.drain),
            *(self.edit, self.retract, self.wake, self.strain),
        )

    def pick(self, n: int) -> int:
        self.left -= 1
        return next(self.tape, 0) % n

    def choose(self, items: Sequence[T]) -> T | None:
        return items[self.pick(len(items))] if items else None

    def pick_langs(self) -> list[str]:
        return [LANGS[self.pick(len(LANGS))] for _ in range(self.pick(4))]

    def pick_id(self) -> str:
        """Return a known or a new id; to use a forgotten one would be the client's fault."""
        known = list(self.room.utterances.by_id)
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
            before = set(peer.session.member.langs)
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

    def grow(self) -> None:
        """Add words as speech recognition does, which corrects the last one now and then."""
        growing = [speech for speech in self.room.utterances.speeches.values() if speech.growing]
        speech = self.choose(growing)
        count = len(speech.text.split()) + self.pick(4) if speech is not None else 2
        words = SPEECH[:count]
        if words and self.pick(4) == 3:
            words = [*words[:-1], "hm"]
        text, final = " ".join(words), self.pick(6) == 5
        for peer in self.speakers:
            if speech is None or peer.session.id == speech.author:
                id = speech.id if speech is not None else None
                self.trace.append(f"  {peer.session.id} {id} {text!r} {final}")
                before = set(peer.session.member.langs)
                events = peer.say(text, final=final, **({"id": id} if id is not None else {}))
                self.heard(peer, before, events)
                break

    def cancel(self) -> None:
        langs = self.pick_langs() if self.pick(2) else None
        self.send("cancel", id=self.pick_id(), langs=langs)

    def edit(self) -> None:
        self.send("edit", id=self.pick_id(), lang=LANGS[self.pick(len(LANGS))], text="corrected")

    def retract(self) -> None:
        self.send("retract", id=self.pick_id())

    def want(self) -> None:
        fields: dict[str, object] = {"view": VIEWS[self.pick(len(VIEWS))]}
        if self.pick(2):
            fields["backfill"] = self.pick(5)
        self.send("want", langs=self.pick_langs(), **fields)

    def look(self) -> None:
        self.send(("get", "stats", "help")[self.pick(3)], id=self.pick_id())

    def change_settings(self) -> None:
        self.send("set", glossary={"a": "A"}, **{"from": LANGS[self.pick(len(LANGS))]})

    def junk(self) -> None:
        peer = self.choose(self.speakers)
        frame = self.choose(JUNK)
        if peer is not None and frame is not None:
            self.trace.append(f"  {peer.session.id} {frame!r}")
            before = set(peer.session.member.langs)
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
            peer.session.drain()

    # --- what the engine does

    def begin(self) -> None:
        job = self.choose(list(self.meeting.given.values()))
        if job is not None:
            self.meeting.begin(job)
            self.outputs[job.id] = job.prefix

    def feed(self, job: Job | None = None, piece: str | None = None) -> None:
        job = job if job is not None else self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            if piece is None:
                piece = PIECES[self.pick(len(PIECES))]
            reset = self.pick(6) == 5
            self.trace.append(f"  {job.id} {piece!r} {reset}")
            self.outputs[job.id] = (job.prefix if reset else self.outputs[job.id]) + piece
            self.meeting.feed(job, piece, reset=reset)

    def finish(self, job: Job | None = None) -> None:
        """End a job as it is: its final is the engine's text and begins with the committed text."""
        job = job if job is not None else self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            self.trace.append(f"  {job.id}")
            line = self.room.captioner.jobs[job.id]
            output, committed, revised = self.outputs[job.id], line.caption.committed, line.revises
            decided = len(self.decided.log)
            self.meeting.finish(job)
            made = [
                event for event in self.decided.log[decided:] if getattr(event, "by", None) == "mt"
            ]
            kind = Edited if revised else Final
            none = not output or (not revised and (job.partial or not output.startswith(committed)))
            assert all(isinstance(event, kind) for event in made)
            texts = [event.text for event in made if isinstance(event, Edited | Final)]
            assert texts == ([] if none else [output])
            self.dead.append(job)

    def keep_up(self) -> None:
        """Let somebody speak, and translate every partial."""
        self.grow()
        self.meeting.wait(0.3)
        for job in list(self.meeting.stopping.values()):
            self.meeting.reap(job)
        self.meeting.act()
        for job in list(self.meeting.given.values()):
            self.meeting.begin(job)
            self.outputs[job.id] = job.prefix
        for job in list(self.meeting.jobs.values()):
            if job.partial:
                self.answer(job)

    def answer(self, job: Job | None = None) -> None:
        """Translate as a good engine would: word by word, continuing the prefix."""
        job = job if job is not None else self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            whole = " ".join(f"{word}-{job.target}" for word in job.text.split())
            rest = whole.removeprefix(self.outputs[job.id])
            self.feed(job, rest if len(rest) < len(whole) else f" {rest}" if job.prefix else rest)
            if job.id in self.meeting.jobs:
                self.finish(job)

    def fail(self) -> None:
        job = self.choose(list(self.meeting.jobs.values()))
        if job is not None:
            code = (ErrorCode.ENGINE_UNAVAILABLE, ErrorCode.REJECTED)[self.pick(2)]
            self.trace.append(f"  {job.id} {code}")
            self.meeting.fail(job, code)
            self.dead.append(job)

    def reap(self) -> None:
        """End an aborted job in one way or the other."""
        job = self.choose(list(self.meeting.stopping.values()))
        if job is not None:
            if self.pick(2):
                self.room.captioner.failed(job.id, ErrorCode.ENGINE_UNAVAILABLE, self.meeting.now)
            else:
                self.room.captioner.finished(job.id, self.meeting.now)
            self.meeting.reap(job)
            self.dead.append(job)

    def haunt(self) -> None:
        """Report on a job that has ended or was taken back."""
        job = self.choose([*self.dead[-3:], *self.meeting.stopping.values()])
        if job is not None:
            decided = len(self.decided.log)
            for peer in self.speakers:
                peer.events()
            self.meeting.feed(job, "late", reset=self.pick(2) == 1)
            self.room.captioner.started(job.id, self.meeting.now)
            self.room.captioner.finished(job.id, self.meeting.now)
            assert len(self.decided.log) == decided
            assert not any(peer.events() for peer in self.speakers)

    # --- what time does

    def wait(self) -> None:
        seconds = (0.3, 1, 4, -2)[self.pick(4)]
        if seconds < 0:
            self.meeting.now += seconds
        else:
            self.meeting.wait(seconds)
        for job in self.meeting.scheduler.overdue(self.meeting.now, PATIENCE):
            self.room.captioner.failed(job.id, ErrorCode.TIMEOUT, self.meeting.now)

    def strain(self) -> None:
        """Begin or end an overload of the engine."""
        load, scheduler = self.meeting.scheduler.load, self.meeting.scheduler
        if load.overloaded:
            load.overloaded = False
            return
        if self.pick(2):  # somebody else has the only seat
            load.vacate(self.room.name)
            load.admit("other", "", 0, 1, self.meeting.now)
        load._enter(self.meeting.now)
        for job in scheduler.poll(self.meeting.now):
            self.room.captioner.failed(job.id, ErrorCode.BUSY, self.meeting.now)

    def wake(self) -> None:
        """Call the room's timer before anything is due."""
        self.room.on_timer(self.meeting.now)

    # --- what must hold

    def heard(self, peer: Peer, before: set[str], events: Sequence[ServerMessage]) -> None:
        """Check that a reader is sent only its languages, except for answers to its corrections."""
        for event in events:
            answer = getattr(event, "by", None) == "human"
            if isinstance(event, Delta | Final | Failed | Edited) and not answer:
                assert event.lang in before | set(peer.session.member.langs), (
                    f"{peer.session.id}: {event}"
                )
            if isinstance(event, Delta):
                assert peer.session.member.view == "live" or not event.draft
                assert peer.session.member.view != "final" or peer not in self.watchers.values()

    def check(self, before: dict[Peer, set[str]]) -> None:
        for peer in list(self.speakers):
            session = peer.session
            self.heard(peer, before.get(peer, set()), peer.events())
            if session.state is SessionState.LEAVING and not session.member.in_flight.utterances:
                assert session.outbox.closing is not None, "a session that never ends"
            if session.outbox.closing is not None:
                self.speakers.remove(peer)
                peer.close()
        self.look_on()
        meeting, utterances = self.meeting, self.room.utterances
        for peer in meeting.peers:
            assert peer.session.outbox.bytes <= self.limits.outbox_bytes
            roots = {utterances.by_id[id].root for id in peer.session.member.in_flight.utterances}
            assert len(roots) <= self.limits.inflight
        assert meeting.scheduler.running <= meeting.scheduler.capacity
        assert meeting.scheduler.queued <= meeting.scheduler.depth + meeting.scheduler.capacity
        waiting = set(meeting.scheduler._waiting)
        assert set(self.room.captioner.jobs) == waiting | set(meeting.given) | set(meeting.jobs)
        assert all(line.open for line in self.room.captioner.jobs.values())
        queued = [id for turns in meeting.scheduler._turns.values() for id in turns]
        assert sorted(queued) == sorted(waiting)
        for utterance in utterances.by_id.values():
            if utterance.retracted:
                assert utterance.ended and not utterance.text
                assert not any(c.stable or c.draft for c in utterance.captions.values())

    def look_on(self) -> None:
        """Let all watchers read, except the slow one."""
        for name, watcher in self.watchers.items():
            if name != "slow":
                self.heard(watcher, set(), watcher.events())

    def end(self) -> None:
        """Stop the server, and check that everything has come to its end."""
        for peer in self.speakers:
            peer.session.drain()
            self.room.finish_speaking(peer.session.member, self.meeting.now)
        self.meeting.act()
        if self.pick(2):  # out of patience
            self.room.stop(self.meeting.now)
            self.meeting.act()
        self.meeting.finish_all()
        self.rest()
        self.meeting.finish_all()
        assert self.meeting.scheduler.queued == self.meeting.scheduler.running == 0
        assert self.room.settled
        for utterance in self.room.utterances.by_id.values():
            assert utterance.ended, utterance
            for lang in utterance.captions:
                assert self.decided.ends.get((utterance.ord, lang)) == 1, f"{utterance} {lang}"
        assert self.decided.asked <= set(self.decided.ends), "a caption that was asked for is lost"
        for peer in self.speakers:
            peer.events()
        assert self.room.log.since(0) == [self.decided.kept(event) for event in self.decided.log]
        if self.watchers:
            self.compare()

    def rest(self) -> None:
        """Let time pass until nothing is due."""
        self.meeting.wait(100.0)

    def compare(self) -> None:
        """Check that all readers of a language end with the same text."""
        self.look_on()
        shown = ended(self.watchers["live"])
        assert shown == ended(self.watchers["stable"]) == ended(self.watchers["final"])
        if self.watchers["slow"].session.outbox.closing is None:
            self.watchers["slow"].events()
            assert shown == ended(self.watchers["slow"])


def ended(peer: Peer) -> dict[tuple[str, str], str]:
    """Return the finals on a client's screen."""
    return {
        key: caption.text
        for key, caption in peer.screen.captions.items()
        if isinstance(caption.end, Final)
    }
