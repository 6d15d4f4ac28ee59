"""An engine around an engine: translates the pairs that the engine lacks in two steps.

Owns: when a pair takes two steps, the text between them, and sharing the first step. Must not know:
any particular engine, how many engines there are, readers. See ``docs/design/pairs.md``.

The first step translates into the pivot language, usually English; the second one translates that
into the reader's language and streams. All captions of an utterance share its first step, also with
readers of the pivot language: what the engine makes for them is the first step of the others.

A source that still grows is translated again and again, and its translation must not flicker twice.
So the first step follows the rules of growing captions (`gateway.core.streaming.stability`). The
second one gets its translation without the last words, because most of them change, and has the
last caption as its draft. A finished source is translated anew in both steps.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from math import prod

from msgspec.structs import replace

from gateway.core.base.model import Model
from gateway.core.scheduling.scheduler import Lane, Lanes
from gateway.core.streaming.stability import Agreement, StabilityRules
from gateway.engines.base.engine import Engine, EngineWrapper, OpenSinks, Sink, SinkWrapper
from gateway.engines.profiles.pairs import PairTable
from gateway.errors import EngineFault
from gateway.job import Chunk, Job, merged
from gateway.text import languages

PIVOTED = "pivot:"
"""Flag of a caption that was made in two steps; the tag of the pivot language follows."""

MOST_MASK = 4
"""Most words at the end of a growing first step that the second one does not get. Readers have a
mask of their own, so that more only make captions later: ``docs/design/pairs.md``."""

KEEP_S = 30.0
"""Seconds for which an unused first step is kept: partials of one utterance come sooner."""


class PivotEngine(EngineWrapper):
    """An `Engine` around ``engine`` that has the pairs through ``pivot`` besides.

    :param rules: rules by which text of the first step stays while the source is growing
    """

    def __init__(
        self,
        engine: Engine,
        pivot: str,
        rules: StabilityRules = StabilityRules(),  # noqa: B008
    ) -> None:
        super().__init__(engine)
        self.pivot = pivot
        self.rules = replace(rules, mask=min(rules.mask, MOST_MASK))
        self._table: tuple[Model, PairTable] | None = None
        self._texts: dict[tuple[str, str, str], PivotTexts] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._numbers = itertools.count(1)

    # --- its languages --------------------------------------------------------------------------

    @property
    def profile(self) -> Model:
        """Languages of the inner engine, with the pairs through the pivot."""
        inner = self.engine.profile  # another one once a model server has named its model
        if self._table is None or self._table[0] is not inner:
            self._table = inner, PairTable([inner], inner.supports, self.pivot)
        return self._table[1]

    def serves(self, source: str, target: str) -> bool:
        """Tell whether a pair would be translated now, in one step or two."""
        return self.engine.serves(source, target) or self._takes_two_steps(source, target)

    @property
    def substitute(self) -> str | None:
        return self.engine.substitute

    @property
    def parts(self) -> Mapping[str, Engine]:
        return self.engine.parts

    @property
    def lanes(self) -> Lanes | None:
        """Tells the engines of the first step.

        The second step does not wait for a slot: to finish a job comes before beginning the next.
        """
        inner = self.engine.lanes
        if inner is None:
            return None

        def lane(source: str, target: str) -> Lane:
            return inner(source, self.pivot if self._takes_two_steps(source, target) else target)

        return lane

    def prepare(self, source: str, target: str) -> None:
        legs = ((source, self.pivot), (self.pivot, target))
        for leg in legs if self.profile.pivots(source, target) else ((source, target),):
            self.engine.prepare(*leg)

    def _takes_two_steps(self, source: str, target: str) -> bool:
        serves = self.engine.serves
        if serves(source, target):
            return False
        return serves(source, self.pivot) and serves(self.pivot, target)

    # --- jobs -----------------------------------------------------------------------------------

    def submit(self, job: Job, sink: Sink) -> None:
        if not self.engine.serves(job.source, job.target):
            self.prepare(job.source, job.target)
        if self._takes_two_steps(job.source, job.target):
            PivotSink(self, self._open_sinks, job, sink).begin()
        elif job.utterance and languages.same(job.target, self.pivot):
            # Captions of the same utterance in other languages can be made of this one.
            job = replace(job, needed=0)
            step = self.texts(job).share(job)
            self.engine.submit(job, SharedSink(self._open_sinks, job, sink, step))
        else:
            self.engine.submit(job, sink)

    def texts(self, job: Job) -> PivotTexts:
        """Return the first steps of the utterance of ``job``."""
        if not job.utterance:
            return PivotTexts(self)
        key = (job.room, job.utterance, job.source)
        texts = self._texts.get(key)
        if texts is None:
            texts = self._texts[key] = PivotTexts(self)
        loop = asyncio.get_running_loop()
        texts.used_at = loop.time()
        if self._sweep is None:
            self._sweep = loop.call_later(KEEP_S, self._forget)
        return texts

    def new_id(self, job: Job) -> str:
        """Return the id of a first step for ``job``."""
        return f"{job.id}.pivot{next(self._numbers)}"

    async def aclose(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._texts.clear()
        await super().aclose()

    def _forget(self) -> None:
        """Forget texts that were not used lately, and look again while there are others."""
        loop = asyncio.get_running_loop()
        limit = loop.time() - KEEP_S
        self._texts = {key: texts for key, texts in self._texts.items() if texts.used_at > limit}
        self._sweep = loop.call_later(KEEP_S, self._forget) if self._texts else None


class PivotTexts:
    """The translations of one utterance into the pivot language."""

    def __init__(self, engine: PivotEngine) -> None:
        self.used_at = 0.0
        self.engine = engine
        # By source text, and whether that is still growing.
        self._steps: dict[tuple[str, bool], FirstStep] = {}
        self._agreement = Agreement(engine.pivot, engine.rules)
        self._agreed = ""  # source of the last translation that the agreement was given

    def step(self, job: Job) -> FirstStep:
        """Return the first step for ``job``, and begin it unless it has been begun."""
        return self._steps.get((job.text, job.partial)) or self._begin(job)

    def share(self, job: Job) -> FirstStep:
        """Return the first step that ``job`` is, because it is into the pivot language."""
        return self._keep(FirstStep(self, job, own=False))

    def drop(self, step: FirstStep) -> None:
        """Forget a step that has failed or that nobody waits for; stop it if it runs."""
        self._steps = {key: kept for key, kept in self._steps.items() if kept is not step}
        if step.own:
            self.engine.engine.abort(step.job.id)

    def agree(self, source: str, text: str, ids: tuple[int, ...]) -> str:
        """Return the part of a growing source's translation that is ready for the second step."""
        if source.startswith(self._agreed):  # else newer texts have been translated already
            self._agreed = source
            self._agreement.add(text, ids)
        return self._agreement.visible(text)

    def _begin(self, job: Job) -> FirstStep:
        if not job.text.startswith(self._agreed):  # words have been changed
            self._agreement.reset()
            self._agreed = ""
        prefix = self._agreement.committed if job.partial else ""
        first = replace(
            job,
            id=self.engine.new_id(job),
            target=self.engine.pivot,
            prefix=prefix,
            prefix_ids=self._agreement.ids,
            draft=self._agreement.draft(prefix),
            draft_bias=self.engine.rules.bias if job.partial else 0.0,
            needed=0,
            context=(),  # its translations are in the language of the second step
            # A term stays as it is, so that the second step finds it.
            glossary=tuple((term, term) for term, _ in job.glossary),
            style=None,
        )
        step = self._keep(FirstStep(self, first, own=True))
        self.engine.engine.submit(first, step)
        return step

    def _keep(self, step: FirstStep) -> FirstStep:
        # Nobody asks again for a finished step of an older text.
        steps = {key: kept for key, kept in self._steps.items() if kept.result is None}
        self._steps = {**steps, (step.job.text, step.job.partial): step}
        return step


class FirstStep:
    """The translation of one text into the pivot language: a `Sink` of its job. A job of its
    ``own`` was made for the step only, and nobody reads its output.
    """

    __slots__ = ("_chunks", "_uncounted", "flags", "job", "own", "p", "result", "texts", "waiting")

    def __init__(self, texts: PivotTexts, job: Job, *, own: bool) -> None:
        self.texts = texts
        self.job = job
        self.own = own
        self.waiting: list[PivotSink] = []
        self.result: str | None = None
        """The text of the second step; None until this one has ended."""
        self.flags: tuple[str, ...] = ()
        self.p = 1.0
        self._chunks: list[Chunk] = []
        self._uncounted = Chunk("", 0)

    def chunk(self, chunk: Chunk) -> None:
        if chunk.reset:
            self._chunks.clear()
        self._chunks.append(chunk)
        if self.own:
            self._uncounted = merged(self._uncounted, chunk)

    def end(self, fault: EngineFault | None) -> None:
        waiting, self.waiting = self.waiting, []
        for sink in waiting:
            sink.step = None
        if fault is None:
            self._keep_output()
        else:
            self.texts.drop(self)
        for sink in waiting:
            if not sink.live:  # the end of another one has led to its end
                continue
            if fault is None:
                sink.go_on(self)
            elif self.own:
                sink.finish(fault)
            else:  # its reader may have cancelled it
                sink.begin()
        # One of several engines takes another job while the job with two steps goes on. A single
        # engine has one slot for both steps.
        engine = self.texts.engine
        if self.own and engine.engine.lanes is not None:
            engine.changed()

    def take_counts(self) -> Chunk:
        """Return the work that was done for the step only, when called for the first time."""
        work, self._uncounted = self._uncounted, Chunk("", 0)
        return work

    def _keep_output(self) -> None:
        """Keep text and doubts for the second step."""
        job, chunks = self.job, self._chunks
        text = job.prefix + "".join(chunk.text for chunk in chunks)
        self.flags = sum((chunk.flags for chunk in chunks), ())
        self.p = prod(chunk.p for chunk in chunks)
        if job.partial:
            text = self.texts.agree(job.text, text, sum((chunk.ids for chunk in chunks), ()))
        self.result = text

    def leave(self, sink: PivotSink) -> None:
        """Do not wait any longer. The step is stopped if nobody else waits for it."""
        self.waiting.remove(sink)
        if self.own and not self.waiting:
            self.texts.drop(self)


class SharedSink(SinkWrapper):
    """A job into the pivot language whose output is also a first step."""

    __slots__ = ("step",)

    def __init__(self, open_sinks: OpenSinks, job: Job, sink: Sink, step: FirstStep) -> None:
        super().__init__(open_sinks, job, sink)
        self.step = step

    def chunk(self, chunk: Chunk) -> None:
        if self.live:
            self.step.chunk(chunk)
            self.sink.chunk(chunk)

    def finish(self, fault: EngineFault | None) -> None:
        if self.live:
            super().finish(fault)
            self.step.end(fault)


class PivotSink(SinkWrapper):
    """A job in two steps. Only the chunks of the second one are passed on."""

    __slots__ = ("_engine", "_first", "_flags", "_p", "_texts", "flagged", "step")

    def __init__(self, engine: PivotEngine, open_sinks: OpenSinks, job: Job, sink: Sink) -> None:
        super().__init__(open_sinks, job, sink)
        self._engine = engine
        self._texts = engine.texts(job)
        self._flags: tuple[str, ...] = ()
        self._p = 1.0  # of the first step
        self._first = Chunk("", 0)  # counts of the first step, unless another job has them
        self.flagged = False
        """True once the receiver has the flags."""
        self.step: FirstStep | None = None
        """The first step, while this job waits for it."""

    def begin(self) -> None:
        """Wait for the first step, or begin the second one if the first one has been made."""
        step = self._texts.step(self.job)
        if step.result is not None:
            self.go_on(step)
        else:
            self.step = step
            step.waiting.append(self)

    def go_on(self, step: FirstStep) -> None:
        """Begin the second step."""
        self.step = None
        self._flags, self._p = (*step.flags, PIVOTED + self._engine.pivot), step.p
        self._first = step.take_counts()
        text = step.result or ""
        if text.strip():
            second = replace(self.job, text=text, source=self._engine.pivot, context=())
            self._engine.engine.submit(second, self)
        else:  # of a source that has just begun; the guards let no other translation be empty
            asyncio.get_running_loop().call_soon(self.end, None)

    def chunk(self, chunk: Chunk) -> None:
        if not self.live:
            return
        if chunk.reset or not self.flagged:  # a reset voids flags, too
            self.flagged = True
            first, self._first = self._first, Chunk("", 0)
            counted = merged(first, replace(chunk, reset=True))  # without text and ids of the first
            flags, p = self._flags + chunk.flags, self._p * chunk.p
            chunk = replace(counted, reset=chunk.reset, flags=flags, p=p)
        elif chunk.flags:  # both steps may have been made by the same substitute
            chunk = replace(chunk, flags=tuple(f for f in chunk.flags if f not in self._flags))
        self.sink.chunk(chunk)

    def end(self, fault: EngineFault | None) -> None:
        if self.live and fault is None and not (self.flagged or self.job.partial):
            self.chunk(Chunk("", 0))
        self.finish(fault)

    def detach(self) -> None:
        super().detach()
        if self.step is not None:
            step, self.step = self.step, None
            step.leave(self)
