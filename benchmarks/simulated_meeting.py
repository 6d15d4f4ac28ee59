"""Meetings played through the core on a simulated clock, with the jobs of a real engine.

A simulated recogniser feeds the real room, policy and captions. Each utterance is alone in a room
of its own, which knows the lengths of the captions before. Only time is simulated, by `Costs`.
Equal jobs are translated once.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from caption_tools.replay.analysis.measure import ReaderRecord, joined
from caption_tools.replay.analysis.screen import ScreenRecorder
from caption_tools.replay.meeting.script import ScriptUtterance
from gateway.auth.permissions import Role
from gateway.core.base.model import Model
from gateway.core.captions.captioner import CaptionSink
from gateway.core.delivery.outbox import Outbox
from gateway.core.history.event_log import EventLog
from gateway.core.members.member import Member
from gateway.core.room.room import Room, RoomOptions
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.streaming.options import StreamingOptions
from gateway.engines.base.engine import Engine
from gateway.errors import EngineFault, ErrorCode
from gateway.job import Chunk, Job, Priority
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Say, ServerMessage, View, Want
from gateway.text import word_units

VIEWS: tuple[View, ...] = ("live", "stable")
LEARNT = 10
"""Captions before an utterance whose lengths its room knows."""
ID = "u1"
"""Id of the one utterance in each room."""

_event = msgspec.json.Decoder(ServerMessage).decode


class Costs(NamedTuple):
    """Simulated times of the engine, in seconds."""

    first: float
    token: float


class Output(NamedTuple):
    """Output of the engine for a job: chunks, and the fault that ended them, if any."""

    chunks: tuple[Chunk, ...]
    fault: ErrorCode | None


class Translator:
    """The real engine, asked once for each job.

    All jobs run at once, and the next ones when all have ended: which texts are decoded together
    changes the last bits of a score, and sometimes a word.
    """

    def __init__(self, engine: Engine) -> None:
        self.profile = engine.profile
        self.asked = 0
        self._engine = engine
        self._known: dict[bytes, Output] = {}

    async def __call__(self, jobs: Sequence[Job]) -> list[Output]:
        keys = [msgspec.json.encode(replace(job, id="", room="")) for job in jobs]
        new: dict[bytes, Job] = {}
        for key, job in zip(keys, jobs, strict=True):
            if key not in self._known and key not in new:
                self.asked += 1
                new[key] = replace(job, id=str(self.asked))
        left = sorted(new, key=lambda key: (new[key].partial, len(key)))
        while left:
            now, left = left[: self._engine.capacity], left[self._engine.capacity :]
            await asyncio.gather(*(self._ask(key, new[key]) for key in now))
        return [self._known[key] for key in keys]

    async def _ask(self, key: bytes, job: Job) -> None:
        chunks: list[Chunk] = []
        fault = None
        async with aclosing(self._engine.translate(job)) as stream:
            try:
                async for chunk in stream:
                    chunks += (chunk,)
            except EngineFault as exc:
                fault = exc.code
        self._known[key] = Output(tuple(chunks), fault)


class Clock:
    """The simulated clock of all rooms."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._count), action))

    def turn(self) -> bool:
        """Run everything that is due next. Return False if nothing is."""
        if not self._events:
            return False
        self.now = self._events[0][0]
        while self._events and self._events[0][0] == self.now:
            heapq.heappop(self._events)[2]()
        return True


class Stage:
    """One utterance in a room of its own, with a reader for each language and view."""

    def __init__(
        self,
        said: ScriptUtterance,
        to: Sequence[str],
        profile: Model,
        flow: StreamingOptions,
        clock: Clock,
    ) -> None:
        limits = Limits()
        self.tokens = 0
        self.stopped: set[str] = set()
        self._lines: dict[str, CaptionSink | None] = {}
        self.scheduler = Scheduler(capacity=len(to), depth=limits.queue)
        self._clock = clock
        options = RoomOptions(
            scheduler=self.scheduler,
            model=profile,
            limits=limits,
            streaming=flow,
            set_timer=lambda when: clock.at(when, lambda: self.room.on_timer(clock.now)),
        )
        name = f"room {said.id}"  # an engine with two steps knows its utterances by their rooms
        self.room = Room(name, EventLog("epoch", limits), options)
        self._speaker = Member("speaker", Role.SPEAK, Outbox(Codec.JSON, limits))
        self.room.join(self._speaker, 0.0)
        self._readers: dict[tuple[str, View], tuple[Member, ScreenRecorder]] = {}
        for lang, view in itertools.product(to, VIEWS):
            member = Member(f"{lang} {view}", Role.VIEW, Outbox(Codec.JSON, limits))
            member.view = view
            self.room.join(member, 0.0)
            self.room.want(member, Want(langs=(lang,)), 0.0)
            self._readers[lang, view] = (member, ScreenRecorder((lang,)))
        begin = said.t0
        self._said = replace(
            said,
            t0=0.0,
            t1=round(said.t1 - begin, 3),
            updates=tuple(replace(one, at=round(one.at - begin, 3)) for one in said.updates),
        )
        for update in self._said.updates:
            clock.at(update.at, partial(self._say, update.text, update.at, final=False))
        clock.at(self._said.t1, partial(self._say, said.text, self._said.t1, final=True))

    def _say(self, text: str, at: float, *, final: bool) -> None:
        say = Say(text=text, id=ID, lang=self._said.lang, final=final, t0=0.0, t1=at)
        self.room.say(self._speaker, say, self._clock.now)

    def act(self) -> Iterator[Job]:
        """Carry out the dispatcher's decisions, and return the jobs that begin."""
        while actions := self.scheduler.actions():
            for action in actions:
                if isinstance(action, Job):
                    self._lines[action.id] = self.room.captioner.started(action.id, self._clock.now)
                    yield action
                else:
                    self.stopped.add(action)
                    self.scheduler.done(action)

    def schedule(self, job: Job, output: Output, costs: Costs) -> None:
        """Schedule the engine's output."""
        begin = self._clock.now
        tokens = 0
        for chunk in output.chunks:
            tokens += chunk.tokens
            when = begin + costs.first + max(0, tokens - 1) * costs.token
            self._clock.at(when, partial(self._feed, job.id, chunk))
        when = begin + costs.first + max(0, tokens) * costs.token
        self._clock.at(when, partial(self._end, job.id, output.fault))

    def _feed(self, job_id: str, chunk: Chunk) -> None:
        if job_id not in self.stopped:
            self.tokens += chunk.tokens
            line = self._lines[job_id]
            if line is not None:
                line.add_output(chunk, self._clock.now)

    def _end(self, job_id: str, fault: ErrorCode | None) -> None:
        if job_id not in self.stopped:
            if fault is None:
                self.room.captioner.finished(job_id, self._clock.now)
            else:
                self.room.captioner.failed(job_id, fault, self._clock.now)
            self.scheduler.done(job_id)

    def read(self) -> None:
        """Let the readers read the events that have come."""
        for member, watch in self._readers.values():
            for frame in member.outbox.take():
                watch.note(_event(frame), self._clock.now)

    @property
    def texts(self) -> list[str]:
        """Texts of the parts of the utterance, in order; nearly always one."""
        return [one.text for one in self.room.utterances.by_id.values() if one.text]

    def finals(self, lang: str) -> list[str]:
        """Return the captions of the parts, in order."""
        parts = [one for one in self.room.utterances.by_id.values() if one.text]
        return [one.captions[lang].stable if lang in one.captions else "" for one in parts]

    def reading(self, lang: str, view: View) -> ReaderRecord:
        watch = self._readers[lang, view][1]
        parts = [watch.history(part, lang) for part in watch.parts(ID) or (ID,)]
        return ReaderRecord(
            said=self._said, shown=joined(parts, spaced=word_units.spaced(lang)), parts=tuple(parts)
        )


class Offline(NamedTuple):
    """The final texts alone: their translations by language, and the tokens of all."""

    texts: dict[str, list[str]]
    tokens: int


async def played(
    said: Sequence[ScriptUtterance],
    to: Sequence[str],
    flow: StreamingOptions,
    translator: Translator,
    costs: Costs,
    offline: Offline,
) -> list[Stage]:
    """Play every utterance, from its first update to its last caption.

    :param offline: the final texts alone. Each room has learnt the lengths of those before its own
    """
    clock = Clock()
    stages = [Stage(one, to, translator.profile, flow, clock) for one in said]
    for at, stage in enumerate(stages):
        # Before the first ones stand the last ones, so that all rooms have learnt from as many.
        for lang, one in itertools.product(to, range(at - min(LEARNT, len(said) - 1), at)):
            stage.room.captioner.builder.length_ratios.learn(
                said[one].lang, lang, said[one].text, offline.texts[lang][one]
            )
    while clock.turn():
        begun = [(stage, job) for stage in stages for job in stage.act()]
        outputs = await translator([job for _, job in begun])
        for (stage, job), output in zip(begun, outputs, strict=True):
            stage.schedule(job, output, costs)
        for stage in stages:
            stage.read()
    return stages


async def alone(
    said: Sequence[tuple[str, str]], to: Sequence[str], translator: Translator
) -> Offline:
    """Translate texts, given with their languages, that did not grow."""
    texts: dict[str, list[str]] = {}
    tokens = 0
    for lang in to:
        jobs = []
        for spoken, text in said:
            source, target = translator.profile.resolve(spoken, lang)
            jobs.append(
                Job(
                    id="",
                    text=text,
                    source=source,
                    target=target,
                    priority=Priority.FINAL,
                    search=True,
                )
            )
        texts[lang] = []
        for output in await translator(jobs):
            tokens += sum(chunk.tokens for chunk in output.chunks)
            text = ""
            for chunk in output.chunks:
                text = chunk.text if chunk.reset else text + chunk.text
            texts[lang].append("" if output.fault else text)
    return Offline(texts, tokens)
