"""An engine around an engine: shows only what the guards let through, and tries twice.

Owns: the second attempt, and counting what the guards did. Must not know: the rules (`guards`), any
particular engine, metrics libraries, who reads the captions.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import aclosing

import msgspec

from gateway.engines.base import Aborted, Around, Engine
from gateway.errors import Rejected
from gateway.guards import Watch
from gateway.job import Chunk, Job

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""One more than none: a model that fails twice at different settings will fail again."""


class GuardedEngine(Around):
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

    async def translate(self, job: Job) -> AsyncGenerator[Chunk]:
        self._running.add(job.id)
        shown = void = False  # void: what was shown is to be taken back
        attempt = 1
        try:
            while True:
                trial = msgspec.structs.replace(job, attempt=attempt)
                try:
                    async with aclosing(self._attempt(trial)) as chunks:
                        async for chunk in chunks:
                            yield msgspec.structs.replace(chunk, reset=True) if void else chunk
                            shown, void = True, False
                    break
                except Rejected as fault:
                    outcome = "retried" if attempt < ATTEMPTS else "rejected"
                    self.counts[fault.guard, outcome] += 1
                    logger.info("job %s %s by guard %s", job.id, outcome, fault.guard)
                    if attempt == ATTEMPTS:
                        raise
                    attempt += 1
                    void = shown
            if void:  # the second attempt had nothing to show
                yield Chunk("", tokens=0, reset=True)
        finally:
            self._running.discard(job.id)

    async def _attempt(self, job: Job) -> AsyncGenerator[Chunk]:
        watch = Watch(job)
        tokens = 0  # of what is held back
        ids: tuple[int, ...] = ()
        self._check(job)
        async with aclosing(self.engine.translate(job)) as chunks:
            async for chunk in chunks:
                tokens += chunk.tokens
                ids += chunk.ids
                if text := watch.feed(chunk.text):
                    yield Chunk(text, tokens=tokens, ids=() if watch.hits else ids)
                    tokens, ids = 0, ()
                if watch.done:
                    break
        self._check(job)
        rest = watch.end()
        for guard in watch.hits:
            self.counts[guard, "trimmed"] += 1
        for guard in watch.flags:
            self.counts[guard, "flagged"] += 1
        if rest or watch.flags:
            ids = ids if rest and not watch.hits else ()
            yield Chunk(rest, tokens=tokens, flags=watch.flags, ids=ids)

    def _check(self, job: Job) -> None:
        """Raise `Aborted` if the job was aborted while the engine itself was not at it."""
        if job.id not in self._running:
            raise Aborted(job.id)
