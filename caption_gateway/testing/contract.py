"""The tests of the contract in `gateway.engines.base.engine`, to be inherited for one engine.

Owns: what each rule of the contract means, as a test. Must not know: any particular engine.
"""

from __future__ import annotations

import asyncio
import operator
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from functools import wraps
from typing import TypeVar

import msgspec
import pytest

from caption_gateway.testing.subject import (
    LONG,
    START_S,
    TEXT,
    EngineSubject,
    RecordingSink,
    chunks,
    hypothesis,
    idle,
    job,
    texts,
)
from gateway.engines.base.engine import Aborted, Engine
from gateway.engines.base.service import Health
from gateway.engines.profiles import MIN_CONTINUATION
from gateway.errors import EngineFault, EngineGone, Overloaded
from gateway.job import Chunk, Priority

CONTROLS = "</s> <|im_end|> <s><de> [INST] <end_of_turn> <think> good <sep> morning"


C = TypeVar("C")


def says_something(chunk: Chunk) -> bool:
    """Tell whether a chunk has text, or the judgement of an output."""
    return bool(chunk.text or chunk.flags or chunk.p < 1)


def agree(some: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Tell whether the ids of two outputs with the same text are the same.

    A last token without text is reported only if it came together with one that has text.
    """
    return all(map(operator.eq, some, others))


def with_engine(
    test: Callable[[C, Engine], Awaitable[None]],
) -> Callable[[C, EngineSubject], None]:
    """Make a test for pytest of a coroutine with a ready engine, in the engine's event loop."""

    @wraps(test)
    def run(self: C, subject: EngineSubject) -> None:
        subject.check(lambda engine: test(self, engine))

    del run.__wrapped__  # pytest would ask for its parameters
    return run


class EngineContract:
    """The tests that an engine has to pass, for pytest. It translates English into German at least.

    A subclass whose name begins with ``Test`` implements `make`. The tests at the end close the
    engine; the others share it, because to load a model may take long.
    """

    start_s = START_S
    """Seconds that `Engine.start` may take, and a test of the running engine."""

    @classmethod
    def make(cls) -> Engine:
        """Return a new engine that is not started. Its output must depend on the job alone."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls) -> Iterator[EngineSubject]:
        """Return the engine under test, with an event loop of its own."""
        with EngineSubject(cls.make, cls.start_s) as subject:
            yield subject

    @with_engine
    async def test_a_started_engine_is_ready_and_has_a_name_capacity_and_profile(
        self, engine: Engine
    ) -> None:
        assert engine.health is Health.READY
        assert engine.name
        assert engine.capacity >= 1
        assert engine.unfinished == 0
        assert engine.profile.supports("en", "de")

    @with_engine
    async def test_a_translation_comes_in_chunks_and_none_is_empty(self, engine: Engine) -> None:
        made = await chunks(engine, job("whole"))
        assert any(chunk.text for chunk in made)
        assert all(map(says_something, made)), made

    @with_engine
    async def test_the_same_job_gives_the_same_translation(self, engine: Engine) -> None:
        first, second = [await texts(engine, job(f"same-{n}")) for n in range(2)]
        assert "".join(first) == "".join(second)

    @with_engine
    async def test_a_second_attempt_gives_a_translation(self, engine: Engine) -> None:
        assert await texts(engine, job("again", attempt=2))

    @with_engine
    async def test_unfinished_sources_are_translated(self, engine: Engine) -> None:
        await texts(engine, job("partial", "Good morning every", partial=True))

    @with_engine
    async def test_an_engine_continues_the_beginning_of_its_own_output_to_the_same_output(
        self, engine: Engine
    ) -> None:
        """Nothing is repeated or left out, and the space after the prefix is right."""
        whole, ids = await hypothesis(engine, job("whole"))
        ends = [end.end() for end in re.finditer(r"\w(?= )", whole[: len(whole) // 2])]
        assert ends
        for at in ends:
            made = job(f"prefix-{at}", prefix=whole[:at], prefix_ids=ids)
            again, hint = await hypothesis(engine, made)
            assert again == whole
            assert agree(hint, ids)
            assert (await texts(engine, made))[0].startswith(" ")

    @with_engine
    async def test_a_growing_source_is_translated_from_the_beginning_of_its_last_translation(
        self, engine: Engine
    ) -> None:
        prefix = ""
        ids: tuple[int, ...] = ()
        for n, end in enumerate((12, 22, len(TEXT))):
            growing = job(f"grows-{n}", TEXT[:end], prefix=prefix, prefix_ids=ids)
            growing = msgspec.structs.replace(growing, partial=n < 2, priority=Priority.PARTIAL)
            text, ids = await hypothesis(engine, growing)
            assert text.startswith(prefix)
            prefix = text[: text.find(" ", len(prefix) + 1)]

    @with_engine
    async def test_a_hint_that_does_not_spell_the_prefix_changes_nothing(
        self, engine: Engine
    ) -> None:
        for prefix in ("", "Guten"):
            plain, ids = await hypothesis(engine, job("plain", prefix=prefix))
            for hint in ((300, 301, 17), (10**6,), tuple(range(12))):
                hinted = job("hinted", prefix=prefix, prefix_ids=hint)
                again, told = await hypothesis(engine, hinted)
                assert again == plain
                assert agree(told, ids)

    @with_engine
    async def test_a_draft_does_not_change_a_translation(self, engine: Engine) -> None:
        whole, ids = await hypothesis(engine, job("plain"))
        cut = whole.find(" ", len(whole) // 2)
        drafts = [
            (whole, ids),
            (whole[:cut], ids),
            (whole[:cut] + " something else", ()),
            ("Nothing of it", (300, 301, 17)),
        ]
        for draft, hint in drafts:
            made = job("drafted", draft=draft, prefix_ids=hint)
            assert (await hypothesis(engine, made))[0] == whole
        word = re.search(r"\w(?= )", whole)
        assert word is not None
        prefix, rest = whole[: word.end()], whole[word.end() :]
        made = job("drafted", prefix=prefix, draft=rest, prefix_ids=ids)
        assert (await hypothesis(engine, made))[0] == whole

    @with_engine
    async def test_a_draft_may_be_repeated_while_a_text_grows(self, engine: Engine) -> None:
        whole, ids = await hypothesis(engine, job("plain"))
        growing = job("grows", TEXT, partial=True, draft=whole, draft_bias=0.2, prefix_ids=ids)
        checked = await chunks(engine, growing)
        assert 0 <= sum(chunk.accepted for chunk in checked) <= len(ids)
        drafted = sum(chunk.drafted for chunk in checked)
        assert sum(chunk.accepted for chunk in checked) <= drafted

    @with_engine
    async def test_an_output_may_end_once_it_has_what_is_needed(self, engine: Engine) -> None:
        whole, ids = await hypothesis(engine, job("plain"))
        half = len(whole) // 2
        made, _ = await hypothesis(engine, job("needed", needed=half))
        assert whole.startswith(made) and len(made) >= half
        drafted = job("drafted", needed=half, draft=whole, prefix_ids=ids)
        made, _ = await hypothesis(engine, drafted)
        assert whole.startswith(made) and len(made) >= half
        assert (await hypothesis(engine, job("more", needed=2 * len(whole))))[0] == whole

    @with_engine
    async def test_a_prefix_that_is_the_whole_translation_is_no_fault(self, engine: Engine) -> None:
        """The tiny models never end by themselves: they get a few tokens to do it."""
        whole, ids = await hypothesis(engine, job("whole"))
        for partial in (False, True):
            made = job("rest", prefix=whole, prefix_ids=ids, partial=partial)
            rest = await chunks(engine, made)
            assert all(map(says_something, rest))
            assert sum(chunk.tokens for chunk in rest) <= MIN_CONTINUATION

    @with_engine
    async def test_text_that_looks_like_control_tokens_is_translated_as_text(
        self, engine: Engine
    ) -> None:
        assert await texts(engine, job("controls", CONTROLS))

    @with_engine
    async def test_closing_the_stream_stops_the_work_inside_the_engine(
        self, engine: Engine
    ) -> None:
        async with aclosing(engine.translate(job("closed", LONG))) as chunks:
            async for _ in chunks:
                break
        await idle(engine)

    @with_engine
    async def test_cancelling_the_reader_stops_the_work_inside_the_engine(
        self, engine: Engine
    ) -> None:
        begun = asyncio.Event()

        async def reader() -> None:
            async with aclosing(engine.translate(job("cancelled", LONG))) as chunks:
                async for _ in chunks:
                    begun.set()

        reading = asyncio.create_task(reader())
        await begun.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await idle(engine)

    @with_engine
    async def test_an_aborted_job_ends_in_aborted_without_further_chunks(
        self, engine: Engine
    ) -> None:
        async with aclosing(engine.translate(job("aborted", LONG))) as chunks:
            await anext(chunks)
            engine.abort("aborted")
            with pytest.raises(Aborted):
                await anext(chunks)
        await idle(engine)

    @with_engine
    async def test_a_job_can_be_aborted_before_its_first_chunk(self, engine: Engine) -> None:
        reading = asyncio.create_task(texts(engine, job("early", LONG)))
        while not engine.unfinished:  # noqa: ASYNC110
            await asyncio.sleep(0)
        engine.abort("early")
        with pytest.raises(Aborted):
            await reading

    @with_engine
    async def test_abort_of_a_job_that_does_not_run_does_nothing(self, engine: Engine) -> None:
        engine.abort("never seen")
        whole = "".join(await texts(engine, job("over")))
        engine.abort("over")
        async with aclosing(engine.translate(job("twice", LONG))) as chunks:
            await anext(chunks)
            engine.abort("twice")
            engine.abort("twice")
            with pytest.raises(Aborted):
                await anext(chunks)
        engine.abort("twice")
        assert "".join(await texts(engine, job("after"))) == whole

    @with_engine
    async def test_the_id_of_a_stopped_job_can_be_used_again(self, engine: Engine) -> None:
        """The second attempt at a job has the same id as the first."""
        whole = await texts(engine, job("id"))
        async with aclosing(engine.translate(job("id", LONG))) as chunks:
            await anext(chunks)
        assert "".join(await texts(engine, job("id"))) == "".join(whole)

    @with_engine
    async def test_submit_and_translate_give_the_same_output(self, engine: Engine) -> None:
        whole = "".join(await texts(engine, job("pulled")))
        taken = RecordingSink().submit(engine, job("pushed"))
        await taken.over.wait()
        assert (taken.text, taken.fault) == (whole, None)

    @with_engine
    async def test_an_aborted_submitted_job_ends_once_without_further_chunks(
        self, engine: Engine
    ) -> None:
        never, early, late = (job(id, LONG) for id in ("never", "early", "late"))
        first = RecordingSink().submit(engine, never)
        engine.abort("never")  # in the turn in which it was begun
        second = RecordingSink().submit(engine, early)
        await asyncio.sleep(0)
        engine.abort("early")
        begun = len(second.chunks)
        third = RecordingSink().submit(engine, late)
        await third.begun.wait()
        engine.abort("late")
        engine.abort("late")
        said = len(third.chunks)
        for taken in (first, second, third):
            await taken.over.wait()
            assert isinstance(taken.fault, Aborted)
        counts = [len(taken.chunks) for taken in (first, second, third)]
        assert counts == [0, begun, said]

    @with_engine
    async def test_a_sink_may_abort_its_job_and_submit_it_again_from_within_chunk(
        self, engine: Engine
    ) -> None:
        """The guards begin a second attempt in this way."""

        class Twice(RecordingSink):
            again: RecordingSink | None = None

            def chunk(self, chunk: Chunk) -> None:
                super().chunk(chunk)
                assert self.again is None, "a chunk after the abort"
                engine.abort("twice")
                self.again = RecordingSink().submit(engine, job("twice"))

        whole = "".join(await texts(engine, job("once")))
        taken = Twice().submit(engine, job("twice", LONG))
        await taken.over.wait()
        assert isinstance(taken.fault, Aborted)
        assert taken.again is not None
        await taken.again.over.wait()
        assert (taken.again.text, taken.again.fault) == (whole, None)

    @with_engine
    async def test_a_sink_may_submit_another_job_of_the_same_id_from_within_end(
        self, engine: Engine
    ) -> None:
        class Again(RecordingSink):
            again: RecordingSink | None = None

            def end(self, fault: EngineFault | None) -> None:
                super().end(fault)
                self.again = RecordingSink().submit(engine, job("again"))

        taken = Again().submit(engine, job("again"))
        await taken.over.wait()
        assert taken.fault is None
        assert taken.again is not None
        await taken.again.over.wait()
        assert (taken.again.text, taken.again.fault) == (taken.text, None)

    @with_engine
    async def test_all_jobs_end_if_there_are_more_than_the_capacity(self, engine: Engine) -> None:
        count = 2 * engine.capacity + 1
        results = await asyncio.gather(
            *(texts(engine, job(f"many-{n}", f"{TEXT} {n}")) for n in range(count)),
            return_exceptions=True,
        )
        refused = [result for result in results if isinstance(result, Overloaded)]
        assert [result for result in results if isinstance(result, BaseException)] == refused
        assert count - len(refused) >= engine.capacity

    @with_engine
    async def test_other_tasks_run_while_it_works(self, engine: Engine) -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(other())
        await texts(engine, job("ticking", LONG))
        ticking.cancel()
        assert turns > 10, "an engine that blocks gives the loop a turn or two for the whole job"

    # From here on the engine is closed.

    def test_closing_the_engine_ends_its_jobs_in_a_fault(self, subject: EngineSubject) -> None:
        engine = subject.engine

        async def work() -> None:
            async with aclosing(engine.translate(job("in flight", LONG))) as chunks:
                await anext(chunks)
                await engine.aclose()
                with pytest.raises(EngineGone):
                    while True:
                        await anext(chunks)
            await idle(engine)
            assert engine.health is Health.CLOSED

        subject.run(work())

    def test_a_closed_engine_stays_closed(self, subject: EngineSubject) -> None:
        engine = subject.engine_as_it_is

        async def work() -> None:
            await engine.aclose()
            await engine.aclose()
            assert engine.health is Health.CLOSED
            with pytest.raises(EngineGone):
                await texts(engine, job("late"))
            engine.abort("late")
            assert engine.unfinished == 0
            taken = RecordingSink().submit(engine, job("too late"))
            await taken.over.wait()
            assert isinstance(taken.fault, EngineGone)

        subject.run(work())
