"""One step: a load on the gateway's own core in this process, in front of one engine, and figures.

Owns: the voices, the clock they keep to, what is measured on the way. Must not know: which step
comes next, what the figures are good for.

All is as in a gateway that serves, but for the sockets: rooms, the gate for growing texts, the
dispatcher with its priorities, guards, context. What a gateway does to bear too much is off: it
leaves nothing out and refuses nothing, or a setting that is too slow would look quick.

Voices keep to their times whatever the engine does, and every wait counts from the time at which
something was due. A caption that is not there in the end counts as long as it was waited for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from gateway.bench.stats import percentile
from gateway.dispatch import Dispatch
from gateway.engines.base import Aborted, Around, Engine, Sink
from gateway.errors import EngineFault
from gateway.job import Chunk, Job
from gateway.limits import Limits
from gateway.messages import Cancelled, Failed, Final, Say, ServerMessage, Source
from gateway.seat import Seat
from gateway.server.hub import Hub
from gateway.session import Session
from gateway.settings import Settings
from gateway.tune.load import Load
from gateway.tune.steps import Figures, Spread, rises

logger = logging.getLogger(__name__)

PATIENCE_S = 8.0
"""Seconds that captions are waited for after the last thing was said."""

LOOK_S = 0.05
"""Seconds between two looks at gauges; readers read as often."""

LEAD = 0.15
"""Share of a load, at its beginning, in which nothing counts: the engine is not yet full then."""

KEPT = 100_000
"""Figures of each kind that are kept; of more, the newest."""

FAULTS = 20
"""Different faults that are told apart."""

FAILED = 0.5
"""Share of captions that may fail; where more do, nothing that was measured is a wait."""

_ERROR = '"type":"error"'


class Capped(Around):
    """An engine that is given no more than ``most`` jobs at once, and is watched doing them."""

    def __init__(self, engine: Engine, most: int | None, clock: Callable[[], float]) -> None:
        super().__init__(engine)
        self.most = most
        self.clock = clock
        self.first: dict[str, float] = {}
        """Seconds to the first text of each job that runs."""
        self.token: deque[float] = deque(maxlen=KEPT)
        """Seconds for each token after the first, of each job."""
        self.tokens = 0
        self.faults: Counter[str] = Counter()
        """Why jobs failed, but for those that were aborted; the sentences, `FAULTS` of them."""

    @property
    def capacity(self) -> int:
        whole = self.engine.capacity
        return whole if self.most is None else min(self.most, whole)

    def submit(self, job: Job, sink: Sink) -> None:
        self.engine.submit(job, Meter(self, job.id, sink))


class Meter:
    """A `Sink` around a sink, which looks at the clock."""

    __slots__ = ("_begun", "_engine", "_first", "_id", "_last", "_sink", "_tokens")

    def __init__(self, engine: Capped, id: str, sink: Sink) -> None:
        self._engine = engine
        self._id = id
        self._sink = sink
        self._begun = self._last = engine.clock()
        self._first = 0.0
        self._tokens = 0

    def chunk(self, chunk: Chunk) -> None:
        self._last = self._engine.clock()
        if self._first:
            self._tokens += chunk.tokens
        else:
            self._first = self._last
            self._engine.first[self._id] = self._first - self._begun
        self._engine.tokens += chunk.tokens
        self._sink.chunk(chunk)

    def end(self, fault: EngineFault | None) -> None:
        if self._tokens:
            self._engine.token.append((self._last - self._first) / self._tokens)
        faults = self._engine.faults
        if fault is not None and not isinstance(fault, Aborted):
            why = str(fault).replace(self._id, "...")
            faults[why if why in faults or len(faults) < FAULTS else "others"] += 1
        self._sink.end(fault)


class Watched(Dispatch):
    """A dispatcher that keeps how long jobs wait in it."""

    def __init__(self, of: Dispatch, engine: Capped) -> None:
        super().__init__(capacity=of.capacity, depth=of.depth, load=of.load)
        self.queue: deque[float] = deque(maxlen=KEPT)
        self.first: deque[float] = deque(maxlen=KEPT)
        self.most = self.longest = 0
        """Jobs that ran, and that waited, at once."""
        self._engine = engine
        self._asked: dict[str, float] = {}
        self._waited: dict[str, float] = {}

    def submit(self, job: Job, now: float) -> None:
        self._asked[job.id] = now
        super().submit(job, now)
        self.longest = max(self.longest, self.queued - max(0, self.capacity - self.running))

    def begun(self, job_id: str, now: float) -> None:
        waited = self._waited[job_id] = now - self._asked.pop(job_id, now)
        self.queue.append(waited)
        self.most = max(self.most, self.running)
        super().begun(job_id, now)

    def done(self, job_id: str) -> None:
        waited = self._waited.pop(job_id, None)
        first = self._engine.first.pop(job_id, None)
        if waited is not None and first is not None:
            self.first.append(waited + first)
        super().done(job_id)


class Probe:
    """One measurement of a load; `run` it once.

    :param most: jobs that the engine is given at once; None: all that it takes
    :param clock: seconds, monotonic; the event loop has to keep to it
    """

    def __init__(
        self,
        engine: Engine,
        most: int | None,
        load: Load,
        to: Sequence[str],
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._to = tuple(to)
        self._engine = Capped(engine, most, clock)
        self._hub = Hub(
            self._engine,
            _unlimited(settings.limits),
            lang=settings.lang,
            flow=settings.flow,
            coalesce_s=settings.coalesce_ms / 1000,
            observe=self._observe,
            clock=clock,
        )
        self._watched = Watched(self._hub.dispatch, self._engine)
        self._hub.dispatch = self._hub.jobs.dispatch = self._watched
        self._sessions: list[Session] = []
        self._rooms: set[str] = set()
        self._due: float | None = None
        self._from = 0.0
        self._open: dict[tuple[str, str], float] = {}
        self._final: list[tuple[float, float]] = []  # (due, how long it took)
        self._made: list[float] = []  # when captions were there, whenever they were due
        self._asked: set[tuple[str, str]] = set()  # those that are not there yet
        self._captions = self._lost = self._failed = self._refused = 0
        self._late = self._inside = self._cache = 0.0

    async def run(self) -> Figures:
        """Play the load, wait for its captions, and sum up. The engine is idle before and after.

        Raises `EngineFault` where most captions fail: what is wrong is not a setting.
        """
        hub = self._hub
        keeping = asyncio.create_task(hub.keep(), name="tune-keep")
        looking = asyncio.create_task(self._look(), name="tune-look")
        before = dict(self._engine.stats())
        try:
            said = list(self._seat())
            begin = hub.now() + LOOK_S
            self._from = begin + LEAD * self._load.seconds
            tokens = 0
            counted = False
            for at, session, frame in said:
                due = begin + at
                if (wait := due - hub.now()) > 0:
                    await asyncio.sleep(wait)
                if not counted and due >= self._from:
                    counted, tokens = True, self._engine.tokens
                    for times in (self._watched.queue, self._watched.first, self._engine.token):
                        times.clear()
                self._late = max(self._late, hub.now() - due)
                self._due = due
                hub.receive(session, frame)
                self._due = None
            end = begin + self._load.seconds
            if (wait := end - hub.now()) > 0:
                await asyncio.sleep(wait)
            tokens, span = self._engine.tokens - tokens, max(1e-3, end - self._from)
            made = sum(self._from <= at <= end for at in self._made)
            until = hub.now() + PATIENCE_S
            while self._open and hub.now() < until:  # noqa: ASYNC110  # no event tells it
                await asyncio.sleep(LOOK_S / 2)
            now = hub.now()
            self._read()
            failed = self._failed
        finally:
            for task in (keeping, looking):
                task.cancel()
            await asyncio.wait((keeping, looking))
            await self._clear()
        if failed > FAILED * self._captions:
            why = self._engine.faults.most_common(1)
            raise EngineFault(
                f"{failed} of {self._captions} captions failed: "
                + (why[0][0] if why else "see the log with --log-level debug.")
            )
        waits = [took for _, took in self._final] + [now - due for due in self._open.values()]
        queued = list(self._watched.queue)
        after = self._engine.stats()
        grown = {name: after[name] - before.get(name, 0.0) for name in after}
        ended, steps = max(1.0, grown.get("finished", 0.0)), max(1.0, grown.get("steps", 0.0))
        return Figures(
            captions=self._captions + self._refused,
            seconds=span,
            lost=self._lost + self._refused + len(self._open),
            growing=rises(queued),
            final=_spread(waits),
            first=_spread(self._watched.first),
            queue=_spread(queued),
            token=_spread(self._engine.token),
            tokens=tokens / span,
            made=made / span,
            running=self._watched.most,
            waiting=max(self._watched.longest, self._inside),
            cache=self._cache,
            preemptions=int(grown.get("preemptions", 0.0)),
            inside=grown.get("queue_seconds", 0.0) / ended,
            prefill=grown.get("prefill_seconds", 0.0) / ended,
            batch=grown.get("tokens", 0.0) / steps,
            late=self._late,
        )

    def _seat(self) -> Iterator[tuple[float, Session, str]]:
        """Open the rooms; everything that is to be said in them, by time."""
        frames: list[tuple[float, Session, str]] = []
        for number, voice in enumerate(self._load.voices):
            room = f"tune-{number}"
            self._rooms.add(room)
            source = voice[0].lang
            reader = self._hub.open(Seat(room=room, source=source, targets=self._to))
            speaker = self._hub.open(Seat(room=room, source=source, speaker=f"voice {number}"))
            self._sessions += (reader, speaker)
            for one in voice:
                texts = [*((u.at, u.text, False) for u in one.updates), (one.t1, one.text, True)]
                for rev, (at, text, final) in enumerate(texts, 1):
                    say = Say(id=one.id, rev=rev, text=text, final=final, lang=one.lang)
                    frames.append((at, speaker, msgspec.json.encode(say).decode()))
        return iter(sorted(frames, key=lambda frame: frame[0]))

    def _observe(self, event: ServerMessage) -> None:
        """Something was decided in a room."""
        now = self._hub.now()
        match event:
            case Source():
                due = self._due if self._due is not None else now
                for lang in self._to:
                    if lang != event.lang:
                        self._asked.add((event.id, lang))
                        if due >= self._from:
                            self._captions += 1
                            self._open[event.id, lang] = due
            case Final():
                if (event.id, event.lang) in self._asked:
                    self._asked.discard((event.id, event.lang))
                    self._made.append(now)
                due_at = self._open.pop((event.id, event.lang), None)
                if due_at is not None:
                    self._final.append((due_at, now - due_at))
            case Failed() | Cancelled():
                langs = self._to if event.lang is None else (event.lang,)
                for lang in langs:
                    if (due_at := self._open.pop((event.id, lang), None)) is not None:
                        self._lost += 1
                        self._failed += isinstance(event, Failed)
                        self._final.append((due_at, now - due_at))

    async def _look(self) -> None:
        """Read as readers would, and look at the gauges."""
        while True:
            stats = self._engine.stats()
            self._inside = max(self._inside, stats.get("waiting", 0.0))
            self._cache = max(self._cache, stats.get("kv_cache_usage", 0.0))
            self._read()
            await asyncio.sleep(LOOK_S)

    def _read(self) -> None:
        for session in self._sessions:
            for frame in session.outbox.take():
                self._refused += isinstance(frame, str) and _ERROR in frame[:64]

    async def _clear(self) -> None:
        """Leave nothing behind in the engine."""
        for session in self._sessions:
            self._hub.close(session)
        for room in self._rooms:
            await self._hub.forget(room)
        until = self._hub.now() + PATIENCE_S
        while self._hub.dispatch.running or self._engine.unfinished:
            if self._hub.now() > until:
                break
            await asyncio.sleep(LOOK_S / 2)
        else:
            return
        logger.warning("%s still works on what was aborted", self._engine.name)


def _unlimited(limits: Limits) -> Limits:
    """Limits under which nothing is left out or refused."""
    return replace(
        limits,
        **dict.fromkeys(("queue", "inflight", "sessions", "rooms", "burst"), 10**6),
        **dict.fromkeys(("stretch", "soon_s", "rate", "job_s"), 1e6),
    )


def _spread(times: Sequence[float] | deque[float]) -> Spread:
    ordered = sorted(times)
    return Spread(*(percentile(ordered, share) for share in (0.5, 0.95, 0.99)))
