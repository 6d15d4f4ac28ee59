"""An engine around an engine: passes on what the output guards accept, with a second attempt.

Owns: the second attempt, and counts of what the guards did. Must not know: the rules
(`gateway.engines.guards`), any particular engine, metrics libraries, who reads the captions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping

import msgspec

from gateway.engines.base.engine import Engine, EngineWrapper, OpenSinks, Sink, SinkWrapper, log_ids
from gateway.engines.base.language_detection import Detector
from gateway.engines.guards.complete_output import Guard
from gateway.engines.guards.measures import is_filler
from gateway.engines.guards.streaming_output import OutputGuard
from gateway.errors import EngineFault, Rejected
from gateway.job import Chunk, Job, merged

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""Attempts at a job. A model that fails twice, at different sampling settings, will fail again."""


class GuardedEngine(EngineWrapper):
    """An `Engine` around ``engine`` that guards its output.

    If a guard rejects an output, the same job is submitted again with ``attempt`` 2. A chunk with
    ``reset`` voids all output of the first attempt. A second rejection ends the job in `Rejected`.
    If the source only fills a pause ("um"), the job ends without a text instead. Chunks have no
    token ids from the point where a guard left something out.

    :param counts: incremented at ``(guard, outcome)``; the outcomes are ``retried``, ``rejected``,
        ``trimmed`` (something around the translation was left out) and ``flagged``
    :param detector: tells the language of an output, which is not judged without it
    """

    def __init__(
        self,
        engine: Engine,
        counts: MutableMapping[tuple[str, str], int],
        detector: Detector | None = None,
    ) -> None:
        super().__init__(engine)
        self.counts = counts
        self.instead = None if detector is None else detector.instead
        self._detector = detector

    async def start(self) -> None:
        if self._detector is None:
            await super().start()
        else:  # its model takes a second to load: no caption should wait for it
            await asyncio.gather(asyncio.to_thread(self._detector.load), super().start())

    def submit(self, job: Job, sink: Sink) -> None:
        self._attempt(job, sink, 1)

    def _attempt(self, job: Job, sink: Sink, number: int, *, reset: bool = False) -> None:
        if number != job.attempt:
            job = msgspec.structs.replace(job, attempt=number, draft="", draft_bias=0.0)
        self.engine.submit(job, GuardedSink(self, self._open_sinks, job, sink, reset=reset))

    def retry(self, attempt: GuardedSink, fault: Rejected) -> None:
        """Begin the next attempt after a rejected one, or end the job with ``fault``."""
        number = attempt.job.attempt
        if is_filler(attempt.job.text):
            self.counts[Guard.FILLER, "trimmed"] += 1
            attempt.pause()
            return
        outcome = "retried" if number < ATTEMPTS else "rejected"
        self.counts[fault.guard, outcome] += 1
        ids = log_ids(attempt.job)
        logger.info("job %s %s by guard %s", ids["job"], outcome, fault.guard, extra=ids)
        if number == ATTEMPTS:
            attempt.finish(fault)
            return
        attempt.detach()
        self._attempt(attempt.job, attempt.sink, number + 1, reset=attempt.has_output)


class GuardedSink(SinkWrapper):
    """One attempt at a job. With ``reset``, its output voids that of the attempt before."""

    def __init__(
        self, engine: GuardedEngine, open_sinks: OpenSinks, job: Job, sink: Sink, *, reset: bool
    ) -> None:
        super().__init__(open_sinks, job, sink)
        self.engine = engine
        self.guard = OutputGuard(job, engine.instead)
        self.reset_pending = reset
        self.has_output = False
        self.stopped = False  # the inner engine was told to stop
        self.unchanged = not reset  # nothing is withheld, so an accepted chunk goes on as it is
        self.withheld = Chunk("", 0)  # chunks whose text is withheld, for their counts and ids
        self.flags: tuple[str, ...] = ()  # of the inner engine

    def chunk(self, chunk: Chunk) -> None:
        if not self.live:
            return
        if chunk.reset:
            chunk = self._restart(chunk)
        if chunk.flags:
            self.flags = chunk.flags
            chunk = msgspec.structs.replace(chunk, flags=())
        raw = chunk.text
        try:
            text = self.guard.accept(raw)
        except Rejected as fault:
            self._stop()
            self.engine.retry(self, fault)
            return
        if text == raw and text and self.unchanged:
            self.has_output = True
            self.sink.chunk(chunk)
        else:
            self._pass_changed(chunk, text)

    def _restart(self, chunk: Chunk) -> Chunk:
        """Begin to guard anew, because the inner engine voids its output; return a plain chunk."""
        self.guard = OutputGuard(self.job, self.engine.instead)
        self.reset_pending = self.reset_pending or self.has_output
        self.unchanged = not self.reset_pending
        self.withheld = msgspec.structs.replace(self.withheld, ids=(), p=1.0)
        self.flags = ()
        return msgspec.structs.replace(chunk, reset=False)

    def _pass_changed(self, chunk: Chunk, text: str) -> None:
        """Pass on ``text``, the accepted part of a chunk, with the tokens withheld before it."""
        guard = self.guard
        self.withheld = merged(self.withheld, chunk)
        self.unchanged = False
        if text:
            self.unchanged = not guard.hits
            self._send(text)
        if guard.done and self.live:  # the sink may have aborted the job
            self._stop()
            self._finish()

    def end(self, fault: EngineFault | None) -> None:
        if not self.live or self.stopped:
            return
        if fault is None:
            self._finish()
        elif isinstance(fault, Rejected):
            self.engine.retry(self, fault)
        else:
            self.finish(fault)

    def _stop(self) -> None:
        """Stop the work of the inner engine, and ignore the end that it reports."""
        self.stopped = True
        self.engine.engine.abort(self.job.id)

    def _send(self, text: str, flags: tuple[str, ...] = ()) -> None:
        """Send ``text`` with the withheld tokens. The sink may abort the job in this call."""
        ids = self.withheld.ids if text and not self.guard.hits else ()
        chunk = msgspec.structs.replace(
            self.withheld, text=text, reset=self.reset_pending, flags=flags, ids=ids
        )
        self.has_output, self.reset_pending = True, False
        self.withheld = Chunk("", 0)
        self.sink.chunk(chunk)

    def pause(self) -> None:
        """End the job without a text, because its source has no word that could be translated."""
        self.reset_pending = self.reset_pending or self.has_output
        self.withheld = Chunk("", 0)
        if self.reset_pending:
            self._send("")
        self.finish(None)

    def _finish(self) -> None:
        """Judge the whole output, and end the job or begin the next attempt."""
        guard, counts = self.guard, self.engine.counts
        try:
            rest = guard.complete()
        except Rejected as fault:
            self.engine.retry(self, fault)
            return
        for hit in guard.hits:
            counts[hit, "trimmed"] += 1
        flags = (*guard.flags, *self.flags)
        for flag in flags:
            counts[flag, "flagged"] += 1
        if rest or flags or self.withheld.p < 1:
            self._send(rest, flags)
        elif self.reset_pending:  # a second attempt without output still voids the first
            self.withheld = Chunk("", 0)
            self._send("")
        self.finish(None)
