r"""Caption quality for different numbers: meetings played through the core on a simulated clock.

    python -m benchmarks.captions tests/quality/meeting100.tsv --model DIR \
        --vary hold=0,1,2,3 --vary mask=0,1,2,3 [--product] [--to de,zh] [--json FILE]

A simulated recogniser feeds the real room, policy and captions, and their jobs go to the real
engine with its guards. Only time is simulated: a job's first token comes `--first-ms` after its
start and each further one `--token-ms` later, so that other load on the machine does not matter.
Two runs of one command differ in the last digit.

Each utterance is alone in a room of its own: no queue, no context. The room knows the lengths of
the captions before its own. `--vary` takes the fields of `PartialTiming`, `StabilityRules` and
`SegmentLengths` by name. They vary one at a time, the others
at their defaults, unless `--product` asks for all combinations. Equal jobs are translated once.

Prints a line for each setting: means over the languages, and the ``worst`` or ``least`` of them.
``erasure`` is that of the live view, ``stable`` that of the stable view; ``offline`` is the chrF of
the finals minus that of the final texts translated alone, and ``cut`` the share of it that is due
to cuts: the chrF of the parts translated alone, minus the same; ``alike`` is the percentage of
parts whose final is the translation of their text alone; ``first`` goes from the update that
confirmed the second word to the first text, ``final`` from the final text to its caption;
``tokens`` are those of the engine for each token that the final texts take alone.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import fields, replace

from gateway.auth.permissions import Role
from gateway.cli.replay import score
from gateway.cli.replay.analysis import measure
from gateway.cli.replay.analysis.measure import ReaderRecord, joined
from gateway.cli.replay.analysis.screen import ScreenRecorder
from gateway.cli.replay.meeting.recogniser import heard
from gateway.cli.replay.meeting.script import ScriptUtterance
from gateway.cli.replay.play import load
from gateway.core.base.model import Model
from gateway.core.captions.captioner import CaptionSink
from gateway.core.delivery.outbox import Outbox
from gateway.core.history.event_log import EventLog
from gateway.core.members.member import Member
from gateway.core.room.room import Room
from gateway.core.scheduling.scheduler import Scheduler, StartJob, StopJob
from gateway.core.streaming.options import StreamingOptions
from gateway.engines.base.engine import Engine
from gateway.engines.ctranslate2 import model as checkpoint
from gateway.engines.registry import build
from gateway.errors import EngineFault, ErrorCode
from gateway.job import Chunk, Job, Priority
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import Say, ServerMessage, View
from gateway.settings.catalogue import Settings
from gateway.text import units

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
        self.room = Room(
            f"room {said.id}",  # an engine with two steps knows its utterances by their rooms
            log=EventLog("epoch", limits),
            scheduler=self.scheduler,
            model=profile,
            limits=limits,
            options=flow,
            set_timer=lambda when: clock.at(when, lambda: self.room.on_timer(clock.now)),
        )
        self._speaker = Member("speaker", Role.SPEAK, Outbox(Codec.JSON, limits))
        self.room.join(self._speaker, 0.0)
        self._readers: dict[tuple[str, View], tuple[Member, ScreenRecorder]] = {}
        for lang, view in itertools.product(to, VIEWS):
            member = Member(f"{lang} {view}", Role.VIEW, Outbox(Codec.JSON, limits))
            member.view = view
            self.room.join(member, 0.0)
            self.room.want(member, (lang,), None, 0.0)
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
        say = Say(text=text, id=ID, final=final, t0=0.0, t1=at)
        self.room.say(self._speaker, say, text, self._said.lang, self._clock.now)

    def act(self) -> Iterator[Job]:
        """Carry out the dispatcher's decisions, and return the jobs that begin."""
        while actions := self.scheduler.actions():
            for action in actions:
                match action:
                    case StartJob(job):
                        self._lines[job.id] = self.room.captioner.started(job.id, self._clock.now)
                        yield job
                    case StopJob(job_id):
                        self.stopped.add(job_id)
                        self.scheduler.done(job_id)

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
                line.feed(chunk, self._clock.now)

    def _end(self, job_id: str, fault: ErrorCode | None) -> None:
        if job_id not in self.stopped:
            if fault is None:
                self.room.captioner.finished(job_id, self._clock.now)
            else:
                self.room.captioner.failed(job_id, fault, self._clock.now)
            self.scheduler.done(job_id)

    def read(self) -> None:
        """Let the readers read what has come."""
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
        return ReaderRecord(said=self._said, shown=joined(parts, spaced=units.spaced(lang)))


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
        for lang, one in itertools.product(to, range(at - LEARNT, at)):
            stage.room.captioner.length_ratios.learn(
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
                Job(id="", text=text, source=source, target=target, priority=Priority.FINAL)
            )
        texts[lang] = []
        for output in await translator(jobs):
            tokens += sum(chunk.tokens for chunk in output.chunks)
            text = ""
            for chunk in output.chunks:
                text = chunk.text if chunk.reset else text + chunk.text
            texts[lang].append("" if output.fault else text)
    return Offline(texts, tokens)


# --- settings ------------------------------------------------------------------------------------


def varied(flow: StreamingOptions, name: str, text: str) -> StreamingOptions:
    """Return ``flow`` with one number changed. Raises `ValueError`."""
    for stage in ("pace", "stability", "lengths"):
        numbers = getattr(flow, stage)
        for field in fields(numbers):
            if field.name == name:
                value = msgspec.convert(text, field.type, strict=False)
                return replace(flow, **{stage: replace(numbers, **{name: value})})
    raise ValueError(f"There is no {name} in Pace, Stability and Lengths.")


def settings(vary: Sequence[str], *, product: bool) -> dict[str, StreamingOptions]:
    """Return the settings to compare, by name; the first are the defaults."""
    axes = []
    for one in vary:
        name, _, values = one.partition("=")
        axes.append([(name, value) for value in values.split(",")])
    rows: list[list[tuple[str, str]]] = [[], *([one] for axis in axes for one in axis)]
    if product:
        rows = [[], *map(list, itertools.product(*axes))]
    found: dict[str, StreamingOptions] = {}
    for row in rows:
        flow = StreamingOptions()
        for name, value in row:
            flow = varied(flow, name, value)
        if flow not in found.values():
            found[" ".join(f"{name}={value}" for name, value in row) or "defaults"] = flow
    return found


# --- results -------------------------------------------------------------------------------------

Figures = dict[str, float]

COLUMNS = {
    "erasure": 3,
    "worst": 3,
    "stable": 3,
    "chrF": 1,
    "offline": 2,
    "least": 2,
    "cut": 2,
    "alike": 1,
    "first p50": 0,
    "p95": 0,
    "final p95": 0,
    "LAAL": 0,
    "updates": 1,
    "tokens": 2,
    "lost": 0,
}
"""Digits behind the point, by column."""


def figures(
    stages: Sequence[Stage], to: Sequence[str], offline: Offline, parts: Offline
) -> Figures:
    """Return the figures of one setting: means over the languages, or the worst of them.

    :param offline: the final texts alone
    :param parts: the parts of all final texts alone, in order
    """
    live, stable, chrf, cost, cut, alike = [], [], [], [], [], []
    for lang in to:
        made_alone = iter(parts.texts[lang])
        pieces = [list(itertools.islice(made_alone, len(stage.texts))) for stage in stages]
        gap = " " if units.spaced(lang) else ""
        alike += [
            100.0 * (made == text)
            for stage, piece in zip(stages, pieces, strict=True)
            for made, text in zip(stage.finals(lang), piece, strict=True)
        ]
        readings = [stage.reading(lang, "live") for stage in stages]
        live.append(measure.figures(readings, lang))
        stable.append(measure.figures([stage.reading(lang, "stable") for stage in stages], lang))
        rows = [
            (one.final.text if one.final else "", reference, text, gap.join(piece))
            for one, text, piece in zip(readings, offline.texts[lang], pieces, strict=True)
            if (reference := one.said.references.get(lang))
        ]
        if rows:
            made, references, texts, joint = zip(*rows, strict=True)
            whole = score.chrf(texts, references)
            chrf.append(score.chrf(made, references))
            cost.append(chrf[-1] - whole)
            cut.append(score.chrf(joint, references) - whole)
    first = [one.agreed_ms for one in live if one.agreed_ms]
    final = [one.final_ms for one in live if one.final_ms]
    return {
        "erasure": mean(one.erasure or 0.0 for one in live),
        "worst": max(one.erasure or 0.0 for one in live),
        "stable": max(one.erasure or 0.0 for one in stable),
        "chrF": mean(chrf),
        "offline": mean(cost),
        "least": min(cost, default=0.0),
        "cut": mean(cut),
        "alike": mean(alike),
        "first p50": mean(one.p50 for one in first),
        "p95": max((one.p95 for one in first), default=0.0),
        "final p95": max((one.p95 for one in final), default=0.0),
        "LAAL": mean(one.laal_ms or 0.0 for one in live),
        "updates": mean(one.updates or 0.0 for one in live),
        "tokens": sum(stage.tokens for stage in stages) / max(1, offline.tokens),
        "lost": sum(one.lost + one.failed for one in live),
    }


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / max(1, len(found))


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="as for gateway replay")
    parser.add_argument("--model", help="a directory; default: the embedded one")
    parser.add_argument("--cache-dir", help="where converted models are kept")
    parser.add_argument("--to", help="e.g. de,zh; default: the languages of the files")
    parser.add_argument("--vary", action="append", default=[], metavar="NAME=VALUE[,VALUE]")
    parser.add_argument("--product", action="store_true", help="all combinations")
    parser.add_argument("--first-ms", type=float, default=40.0, help="default: %(default)s")
    parser.add_argument("--token-ms", type=float, default=8.0, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the recogniser's mistakes")
    parser.add_argument("--limit", type=int, help="only the first utterances of each file")
    parser.add_argument("--sample", type=int, help="only so many of each file, drawn at random")
    parser.add_argument("--least", type=int, default=1, help="fewest words of an utterance")
    parser.add_argument(
        "--spoken", action="store_true", help="final texts in lower case, without punctuation"
    )
    parser.add_argument("--no-checks", action="store_true", help="check no draft")
    parser.add_argument("--json", type=Path, help="write all figures")
    args = parser.parse_args()
    if args.no_checks:
        checkpoint.CHECKED_SCORES = 0
    flows = settings(args.vary, product=args.product)
    costs = Costs(args.first_ms / 1000, args.token_ms / 1000)
    meetings: list[tuple[list[ScriptUtterance], list[str]]] = []
    for file in args.files:
        said = load(file, seed=args.seed)[: args.limit]
        said = [one for one in said if len(one.text.split()) >= args.least]
        if args.spoken:
            said = [replace(one, text=heard(one.text)) for one in said]
        if args.sample:
            Random(3).shuffle(said)
            said = said[: args.sample]
        known = dict.fromkeys(lang for one in said for lang in one.references)
        to = [lang for lang in known if not args.to or lang in args.to.split(",")]
        if to:
            meetings.append((said, to))
    engine = build(Settings(model=args.model, cache_dir=args.cache_dir, hang_s=3600.0))
    await engine.start()
    report: dict[str, Any] = {}
    try:
        translator = Translator(engine)
        compared = [
            await alone([(one.lang, one.text) for one in said], to, translator)
            for said, to in meetings
        ]
        width = max(map(len, flows))
        print(f"{len(flows)} settings on {engine.name}, {args.first_ms:g} + {args.token_ms:g} ms")
        print(" " * width, *(f"{name:>9}" for name in COLUMNS))
        for name, flow in flows.items():
            rows = []
            for (said, to), offline in zip(meetings, compared, strict=True):
                stages = await played(said, to, flow, translator, costs, offline)
                texts = [
                    (one.lang, text)
                    for one, stage in zip(said, stages, strict=True)
                    for text in stage.texts
                ]
                parts = await alone(texts, to, translator)
                rows.append(figures(stages, to, offline, parts))
            whole = {column: mean(row[column] for row in rows) for column in COLUMNS}
            report[name] = {"files": dict(zip(map(str, args.files), rows, strict=False)), **whole}
            cells = (f"{whole[column]:9.{digits}f}" for column, digits in COLUMNS.items())
            print(f"{name:{width}}", *cells, flush=True)
        print(f"{translator.asked} translations")
    finally:
        await engine.aclose()
    if args.json:
        args.json.write_text(json.dumps(report, indent=1), "utf-8")


if __name__ == "__main__":
    asyncio.run(main())
