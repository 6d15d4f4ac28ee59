"""An engine around an engine: shows only what the guards let through, and tries twice.

Owns: the second attempt, and counting what the guards did. Must not know: the rules (`guards`), any
particular engine, metrics libraries, who reads the captions.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping

import msgspec

from gateway.engines.base.engine import Engine, EngineWrapper, Sink, SinkWrapper
from gateway.engines.guards.stream import OutputGuard
from gateway.errors import EngineFault, Rejected
from gateway.job import Chunk, Job

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""One more than none: a model that fails twice at different settings will fail again."""


class GuardedEngine(EngineWrapper):
    """Wraps ``engine``, as an `Engine` itself.

    Output that a guard rejects is made once more, by the same job with ``attempt`` 2. What was
    shown of the first is voided by a chunk with ``reset``. A second rejection is raised.

    ``counts`` is added to under ``(guard, outcome)``, with the outcomes ``retried``, ``rejected``,
    ``trimmed`` (something around the translation was left out) and ``flagged``. A `Counter` will
    do, and so does anything that passes additions on to a metrics library.

    Chunks have no ids from where something was left out.
    """

    def __init__(self, engine: Engine, counts: MutableMapping[tuple[str, str], int]) -> None:
        super().__init__(engine)
        self.counts = counts

    def submit(self, job: Job, sink: Sink) -> None:
        self._attempt(job, sink, 1)

    def _attempt(self, job: Job, sink: Sink, number: int, *, void: bool = False) -> None:
        trial = job if number == job.attempt else msgspec.structs.replace(job, attempt=number)
        self.engine.submit(trial, GuardedSink(self, self._open_sinks, trial, sink, void=void))

    def retry(self, attempt: GuardedSink, fault: Rejected) -> None:
        """An attempt was rejected: make the next one, or end the job."""
        number = attempt.job.attempt
        outcome = "retried" if number < ATTEMPTS else "rejected"
        self.counts[fault.guard, outcome] += 1
        logger.info("job %s %s by guard %s", attempt.job.id, outcome, fault.guard)
        if number == ATTEMPTS:
            attempt.finish(fault)
            return
        attempt.detach()
        self._attempt(attempt.job, attempt.sink, number + 1, void=attempt.shown)


class GuardedSink(SinkWrapper):
    """One attempt at a job, under the eyes of the guards.

    ``void``: what the attempt before has shown is to be taken back.
    """

    __slots__ = (
        "engine",
        "held",
        "ids",
        "shown",
        "stopped",
        "straight",
        "tokens",
        "void",
        "watch",
    )

    def __init__(
        self,
        engine: GuardedEngine,
        open_sinks: dict[str, SinkWrapper],
        job: Job,
        sink: Sink,
        *,
        void: bool,
    ) -> None:
        super().__init__(open_sinks, job, sink)
        self.engine = engine
        self.watch = OutputGuard(job)
        self.void = void
        self.shown = False
        self.stopped = False
        self.held = False  # what follows has come without being shown yet
        self.straight = not void  # all is shown as it came, so what passes goes on as it is
        self.tokens = 0
        self.ids: tuple[int, ...] = ()

    def chunk(self, chunk: Chunk) -> None:
        if not self.live:
            return
        said = chunk.text
        try:
            text = self.watch.feed(said)
        except Rejected as fault:
            self._stop()
            self._reject(fault)
            return
        if text == said and text and self.straight:
            self.shown = True
            self.sink.chunk(chunk)
        else:
            self._pass(chunk, text)

    def _pass(self, chunk: Chunk, text: str) -> None:
        """Pass on what the guards leave of a chunk, with what was held before it."""
        watch = self.watch
        self.held = True
        self.tokens += chunk.tokens
        self.ids += chunk.ids
        self.straight = False
        if text:
            self.straight = not watch.hits
            self._show(text)
        if watch.done and self.live:
            self._stop()
            self._finish()

    def end(self, fault: EngineFault | None) -> None:
        if not self.live or self.stopped:
            return
        if fault is None:
            self._finish()
        elif isinstance(fault, Rejected):
            self._reject(fault)
        else:
            self.finish(fault)

    def _stop(self) -> None:
        """The engine need not go on; what it says of that is no news."""
        self.stopped = True
        self.engine.engine.abort(self.job.id)

    def _show(self, text: str, flags: tuple[str, ...] = ()) -> None:
        """Pass on ``text`` with what was held for it. Whoever gets it may abort the job."""
        ids = self.ids if text and not self.watch.hits else ()
        chunk = Chunk(text, self.tokens, self.void, flags, ids)
        self.shown, self.void, self.held = True, False, False
        self.tokens, self.ids = 0, ()
        self.sink.chunk(chunk)

    def _finish(self) -> None:
        """The model has said all that it will be heard to say."""
        watch, counts = self.watch, self.engine.counts
        try:
            rest = watch.end()
        except Rejected as fault:
            self._reject(fault)
            return
        for guard in watch.hits:
            counts[guard, "trimmed"] += 1
        for guard in watch.flags:
            counts[guard, "flagged"] += 1
        if rest or watch.flags:
            self._show(rest, watch.flags)
        elif self.void:  # the second attempt had nothing to show
            self.tokens, self.ids = 0, ()
            self._show("")
        self.finish(None)

    def _reject(self, fault: Rejected) -> None:
        self.engine.retry(self, fault)
