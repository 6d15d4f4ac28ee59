"""A discrete-event simulation of one engine and the gateway in front of it.

Owns: simulated time, what speakers, jobs and sockets do in it. Must not know: clocks, files.

Speakers say what those of `gateway bench load` say. The gateway's own `Speech`, `Scheduler` and
`OverloadMonitor` decide what becomes a job, and when. Simulated is only what they wait for: the
engine's decoding, whose steps take longer with more jobs, and the writing to sockets.

Left out: context, retries of guards, `limit_job_s`, the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from typing import Any

import msgspec
import simpy
from msgspec.structs import replace

from caption_tools.loadtest.model import script
from caption_tools.loadtest.model.plan import Plan
from caption_tools.plan.model.capacity import DELTAS, CapacityPlan
from caption_tools.plan.model.figures import TOKENS_A_WORD, CoreFigures, EngineFigures, EngineShare
from caption_tools.plan.model.load import GrowingTranslation, MeetingLoad, SourceText
from caption_tools.report.stats import Histogram, Summary, mean
from gateway.core.scheduling.overload import OverloadMonitor
from gateway.core.scheduling.scheduler import JobStage, Scheduler, StopJob
from gateway.job import Job, Priority
from gateway.limits import Limits

Wait = Generator[simpy.Event, Any, None]


class SimulatedCaption(msgspec.Struct):
    """The caption of one utterance in one language."""

    begun: float  # the utterance, not the part of it that this is of
    end: float
    text: SourceText | None = None  # of the job
    job: Job | None = None
    newer: SourceText | None = None  # came while the job ran
    translation: GrowingTranslation = msgspec.field(default_factory=GrowingTranslation)
    shown: bool = False


class SimulationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a simulation. Those of captions begun in the warm-up do not count."""

    utterances: int
    refused: int  # utterances that were answered by ``busy``
    captions_s: float
    partials: float  # translations of growing text for each caption
    tokens: float  # tokens made for each caption
    first: Summary
    """Milliseconds from a text that is the first to be translated until its first token is sent."""
    grown: Summary
    """Milliseconds from the beginning of a growing utterance until its first text is sent."""
    final: Summary  # milliseconds from the end of an utterance until its finished caption is sent
    queue: float  # mean milliseconds that a final waits
    engine: float  # mean milliseconds that the engine takes for a final
    jobs: float  # jobs that wait or run, on average over all the time (L of Little's law)
    jobs_s: float  # jobs a second (lambda)
    job: float  # mean seconds of a job from its submission to its end (W)


class Simulation:
    """One run.

    :param speech: the texts to translate of each speaker, see `load.spoken`
    :param core: figures of the gateway's processes; None: sockets take no time
    :param processes: processes that the rooms of the plan are divided among
    :param readers: readers of one room on one process
    """

    def __init__(
        self,
        plan: Plan,
        speech: Iterable[Iterable[SourceText]],
        engine: EngineFigures,
        core: CoreFigures | None = None,
        *,
        processes: int = 1,
        readers: int = 0,
        tokens: float = TOKENS_A_WORD,
        limits: Limits | None = None,
    ) -> None:
        self._plan, self._engine, self._tokens = plan, engine, tokens
        self._env = simpy.Environment()
        limits = limits or Limits()
        self._scheduler = Scheduler(
            capacity=engine.slots,
            depth=limits.queue,
            load=OverloadMonitor(limits.stretch, limits.soon_s),
        )
        self._captions: dict[str, dict[str, SimulatedCaption]] = {}
        self._utterances = self._refused = 0
        self._owners: dict[str, SimulatedCaption] = {}  # of jobs that wait or run
        self._since: dict[str, float] = {}
        self._decoding: dict[str, simpy.Process] = {}
        self._free = [0.0] * processes  # when each process has written what it has
        self._deltas = DELTAS[plan.partials > 0]
        self._cost = (core.event_us + core.frame_us * readers) / 1e6 if core else 0.0
        self._queues: list[float] = []
        self._services: list[float] = []
        self._first, self._grown, self._final = Histogram(), Histogram(), Histogram()
        self._ended = self._made = self._partials = self._wanted = 0
        self._times: list[float] = []  # that jobs were in the system
        self._area, self._changed = 0.0, 0.0  # jobs in the system, integrated over time
        for speaker, texts in enumerate(speech):
            self._env.process(self._speak(f"room-{speaker % plan.rooms}", texts))

    def run(self) -> SimulationReport:
        """Run until all that was said is translated."""
        self._env.run()
        plan, seconds = self._plan, max(self._env.now, 1e-9)
        return SimulationReport(
            utterances=self._utterances + self._refused,
            refused=self._refused,
            captions_s=self._ended / (plan.seconds - plan.warm),
            partials=self._partials / max(1, self._wanted),
            tokens=self._made / max(1, self._wanted),
            first=self._first.summary(),
            grown=self._grown.summary(),
            final=self._final.summary(),
            queue=1000 * mean(self._queues),
            engine=1000 * mean(self._services),
            jobs=self._area / seconds,
            jobs_s=len(self._times) / seconds,
            job=mean(self._times),
        )

    # --- the gateway --------------------------------------------------------------------------

    def _speak(self, room: str, texts: Iterable[SourceText]) -> Wait:
        for text in texts:
            yield self._env.timeout(max(0.0, text.due - self._env.now))
            self._say(room, text)

    def _say(self, room: str, text: SourceText) -> None:
        now, langs = self._env.now, self._plan.langs
        if text.id not in self._captions:
            # Speakers go on after a refusal, so a later text of the utterance may be admitted.
            if text.root not in self._captions:
                if self._scheduler.admit(room, "", len(langs), now):
                    self._refused += text.final
                    return
                self._utterances += 1
            begun, end = script.times(text.id) or (now, now)
            self._captions[text.id] = {lang: SimulatedCaption(begun, end) for lang in langs}
            self._wanted += len(langs)
        for caption in self._captions[text.id].values():
            self._advance(room, caption, text)
        self._dispatch()

    def _advance(self, room: str, caption: SimulatedCaption, text: SourceText) -> None:
        """Bring a caption to a newer text, as `Captioner` does."""
        job, caption.newer = caption.job, None
        if job is not None and not text.final:
            if self._scheduler.waits(job.id):
                caption.text = text
                caption.job = replace(job, text=text.text)
                self._scheduler.update(caption.job)
            else:
                caption.newer = text
            return
        if job is not None and self._scheduler.abort(job.id) is JobStage.QUEUED:
            self._leave(job.id)
        caption.job = None
        priority = Priority.FINAL if text.final else Priority.PARTIAL
        if self._scheduler.admits(1, priority):
            now = self._env.now
            caption.text = text
            caption.job = Job(
                id=self._scheduler.new_id(room),
                room=room,
                text=text.text,
                source="en",
                target="de",
                partial=not text.final,
                priority=priority,
            )
            self._count()
            self._owners[caption.job.id], self._since[caption.job.id] = caption, now
            self._scheduler.submit(caption.job, now)

    def _dispatch(self) -> None:
        for job in self._scheduler.poll(self._env.now):
            self._leave(job.id).job = None
        while actions := self._scheduler.actions():
            for action in actions:
                if isinstance(action, StopJob):
                    self._decoding.pop(action.job_id).interrupt()
                    self._scheduler.done(action.job_id)
                    self._leave(action.job_id)
                else:
                    job = action.job
                    self._scheduler.begun(job.id, self._env.now)
                    self._decoding[job.id] = self._env.process(self._decode(job))

    # --- the engine and the sockets -----------------------------------------------------------

    def _decode(self, job: Job) -> Wait:
        """Make the tokens of a job, each the slower the more jobs there are."""
        caption, began = self._owners[job.id], self._env.now
        text = caption.text
        assert text is not None
        counts = text.due >= self._plan.warm
        tokens = max(1, round(caption.translation.made(text) * self._tokens))
        self._partials += not text.final
        try:
            for number in range(tokens):
                ms = self._engine.token_ms if number else self._engine.first_ms
                yield self._env.timeout(ms / 1000 * self._engine.slower(len(self._decoding)))
                self._made += 1
                # Not every token is a delta of its own.
                if int(number * self._deltas) == int((number - 1) * self._deltas) and number:
                    continue
                sent = self._write(job.room)
                if not caption.shown:
                    caption.shown = True
                    if counts:
                        self._first.add(sent - text.due)
                        # As `gateway bench load` counts it: without later parts of an utterance.
                        if caption.end > caption.begun and text.id == text.root:
                            self._grown.add(sent - caption.begun)
        except simpy.Interrupt:
            return
        del self._decoding[job.id]
        self._scheduler.made(job.id, self._env.now)
        self._scheduler.done(job.id)
        waited = began - self._since[job.id]
        self._leave(job.id)
        caption.job = None
        if text.final:
            sent = self._write(job.room)
            self._ended += self._plan.warm <= self._env.now < self._plan.seconds
            # As `gateway bench load` counts it: parts may end before their utterance does.
            if counts and sent >= caption.end:
                self._final.add(sent - caption.end)
                self._queues.append(waited)
                self._services.append(self._env.now - began)
        else:
            caption.translation.add(text)
            if caption.newer is not None:
                self._advance(job.room, caption, caption.newer)
        self._dispatch()

    def _write(self, room: str) -> float:
        """Write an event to the readers of a room; return when the last of them has it."""
        place = int(room.rpartition("-")[2]) % len(self._free)
        self._free[place] = max(self._free[place], self._env.now) + self._cost
        return self._free[place]

    def _count(self) -> None:
        """Integrate the number of jobs; call it before it changes."""
        now = self._env.now
        self._area += len(self._owners) * (now - self._changed)
        self._changed = now

    def _leave(self, job_id: str) -> SimulatedCaption:
        self._count()
        self._times.append(self._env.now - self._since.pop(job_id))
        return self._owners.pop(job_id)


def of_share(
    load: MeetingLoad,
    planned: CapacityPlan,
    part: EngineShare,
    core: CoreFigures,
    seconds: float,
    speech: Callable[[Plan], Iterable[Iterable[SourceText]]],
) -> SimulationReport:
    """Return the simulation of one engine and its share of the meetings of a plan.

    A meeting that needs several copies of an engine has them as one with the slots of all.

    :param part: the engine, and the languages of a meeting that it makes
    :param speech: returns what is said in a plan, see `Simulation`
    """
    engines = planned[f"engines{part.label}"]
    meetings = math.ceil(load.meetings / engines)
    share = meetings / load.meetings
    copies, engine = max(1, round(engines * share)), part.figures
    engine = replace(engine, slots=engine.slots * copies, tokens_s=engine.tokens_s * copies)
    made = replace(load, languages=part.languages)
    plan = made.plan(planned["utterances"] * share, seconds, meetings)
    processes = max(1, round(planned["processes"] * share))
    readers = math.ceil(load.readers / planned["processes of a room"] / load.languages)
    readers += load.speakers
    texts = speech(plan)
    return Simulation(plan, texts, engine, core, processes=processes, readers=readers).run()
