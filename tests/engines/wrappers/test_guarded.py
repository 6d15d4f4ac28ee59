"""Tests of the second attempt and the counts.

The tests of the rules are in ``tests/engines/guards/test_streaming_output.py``.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing

import msgspec
import pytest

from gateway.engines.base.engine import Aborted, Sink
from gateway.engines.base.service import Health
from gateway.engines.guards.complete_output import Guard
from gateway.engines.scripted import ScriptedEngine, failing
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.errors import EngineFault, EngineGone, Rejected
from gateway.job import Chunk, Job
from tests.engines.reading import started
from tests.support.typed import current

LOOP = ["Guten ", "Morgen ", *["sehr "] * 9, "spät"]
GOOD = ["Guten", " Morgen"]


class TwoMinds(ScriptedEngine):
    """An engine with different outputs at the first and the second attempt."""

    def __init__(self, *attempts: list[str]) -> None:
        super().__init__()
        self.attempts = attempts
        self.jobs: list[Job] = []

    def submit(self, job: Job, sink: Sink) -> None:
        self.jobs.append(job)
        self.script = {(job.text, job.target): self.attempts[job.attempt - 1]}
        super().submit(job, sink)


def job(text: str = "good morning", *, prefix: str = "", partial: bool = False) -> Job:
    return Job(id="j1", text=text, source="en", target="de", prefix=prefix, partial=partial)


async def read(engine: GuardedEngine, job: Job, into: list[Chunk] | None = None) -> list[Chunk]:
    seen = [] if into is None else into
    async with aclosing(engine.translate(job)) as chunks:
        async for chunk in chunks:
            seen.append(chunk)
    return seen


async def test_a_good_output_passes_chunk_by_chunk_and_changes_no_count() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    engine = GuardedEngine(TwoMinds(GOOD), counts)

    async with started(engine):
        assert await read(engine, job()) == [Chunk("Guten"), Chunk(" Morgen")]
        assert not counts


async def test_a_rejected_output_is_voided_and_attempted_again() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    inner = TwoMinds(LOOP, GOOD)
    engine = GuardedEngine(inner, counts)

    async with started(engine):
        chunks = await read(engine, job())
        at = [chunk.reset for chunk in chunks].index(True)
        assert "".join(chunk.text for chunk in chunks[at:]) == "Guten Morgen"
        assert sum(chunk.reset for chunk in chunks) == 1
        assert counts == {(Guard.LOOP, "retried"): 1}
        assert [made.attempt for made in inner.jobs] == [1, 2]


async def test_a_second_attempt_has_no_draft_because_it_is_to_say_something_else() -> None:
    inner = TwoMinds(LOOP, GOOD)
    engine = GuardedEngine(inner, Counter())

    async with started(engine):
        await read(engine, msgspec.structs.replace(job(), draft="Guten Tag", draft_bias=0.2))
        assert [(made.draft, made.draft_bias) for made in inner.jobs] == [
            ("Guten Tag", 0.2),
            ("", 0.0),
        ]


async def test_the_counts_of_withheld_chunks_go_on_with_the_next_text() -> None:
    class Checking(ScriptedEngine):
        def submit(self, job: Job, sink: Sink) -> None:
            loop = asyncio.get_running_loop()
            loop.call_soon(sink.chunk, Chunk("Translation: ", 3, drafted=5, accepted=1))
            loop.call_soon(sink.chunk, Chunk("Guten Morgen", 2, drafted=1, accepted=1))
            loop.call_soon(sink.end, None)

    engine = GuardedEngine(Checking(), Counter())
    async with started(engine):
        chunks = await read(engine, job())
        assert "".join(chunk.text for chunk in chunks) == "Guten Morgen"
        assert sum(chunk.tokens for chunk in chunks) == 5
        assert sum(chunk.drafted for chunk in chunks) == 6
        assert sum(chunk.accepted for chunk in chunks) == 2


async def test_nothing_is_voided_when_nothing_was_shown() -> None:
    engine = GuardedEngine(TwoMinds(["<think>", "so", "</think>", " "], GOOD), Counter())

    async with started(engine):
        assert await read(engine, job()) == [Chunk("Guten"), Chunk(" Morgen")]


async def test_the_work_on_a_rejected_output_is_stopped_before_the_second_begins() -> None:
    inner = TwoMinds(LOOP, GOOD)
    engine = GuardedEngine(inner, Counter())

    async with started(engine):
        await read(engine, job())
        assert list(inner.aborted) == ["j1"]
        assert list(inner.started) == ["j1", "j1"]
        assert engine.unfinished == 0


async def test_a_source_that_only_fills_a_pause_has_no_text_if_the_model_has_no_word() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    inner = TwoMinds([" "], GOOD)
    async with started(engine := GuardedEngine(inner, counts)):
        um = msgspec.structs.replace(job(), text="Um, uh.")
        assert await read(engine, um) == []
        growing = msgspec.structs.replace(um, id="j2", partial=True)
        assert await read(engine, growing) == []
        assert counts == {(Guard.FILLER, "trimmed"): 1}
        assert [made.attempt for made in inner.jobs] == [1, 1], "there is no second attempt"


async def test_a_pause_voids_what_was_shown_before() -> None:
    engine = GuardedEngine(TwoMinds(LOOP, GOOD), Counter())
    async with started(engine):
        chunks = await read(engine, msgspec.structs.replace(job(), text="äh"))
        assert len(chunks) > 1 and (chunks[-1].text, chunks[-1].reset) == ("", True)
    engine = GuardedEngine(TwoMinds(["Er", " fickt"], GOOD), Counter())
    async with started(engine):
        growing = msgspec.structs.replace(job(), text="äh", partial=True)
        chunks = await read(engine, growing)
        assert (chunks[-1].text, chunks[-1].reset) == ("", True)


async def test_the_second_rejection_is_raised() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    engine = GuardedEngine(TwoMinds(LOOP, ["..."]), counts)

    async with started(engine):
        with pytest.raises(Rejected) as caught:
            await read(engine, job())
        assert caught.value.guard == Guard.EMPTY
        assert counts == {(Guard.LOOP, "retried"): 1, (Guard.EMPTY, "rejected"): 1}


async def test_a_second_attempt_without_output_still_voids_the_first() -> None:
    engine = GuardedEngine(TwoMinds(["gut ", "so", "</think>"], []), Counter())

    async with started(engine):
        chunks = await read(engine, job("good", partial=True))
        assert chunks[-1] == Chunk("", tokens=0, reset=True)


async def test_a_cut_output_stops_the_engine_and_completes_the_job() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    inner = TwoMinds([*GOOD, "\n", "Das", " ist"])
    engine = GuardedEngine(inner, counts)

    async with started(engine):
        chunks = await read(engine, job())
        assert "".join(chunk.text for chunk in chunks) == "Guten Morgen"
        assert list(inner.aborted) == ["j1"]
        assert counts == {(Guard.LINES, "trimmed"): 1}


class Restarting(ScriptedEngine):
    """An engine that begins its output anew after the first chunk, as after a broken response."""

    def submit(self, job: Job, sink: Sink) -> None:
        output = [Chunk("Gut"), Chunk("Guten", reset=True), Chunk(" Morgen")]

        def send() -> None:
            for chunk in output:
                sink.chunk(chunk)
            sink.end(None)

        asyncio.get_running_loop().call_soon(send)


async def test_output_that_the_inner_engine_voids_is_voided_and_not_judged() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    engine = GuardedEngine(Restarting(), counts)

    async with started(engine):
        shown = ""
        for chunk in await read(engine, job()):
            shown = chunk.text if chunk.reset else shown + chunk.text
        assert shown == "Guten Morgen"
        assert not counts


async def test_a_restarted_prefix_is_not_repeated() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    inner = ScriptedEngine({("good morning everybody", "de"): ["Morgen", " zusammen"]})
    engine = GuardedEngine(inner, counts)

    async with started(engine):
        chunks = await read(engine, job("good morning everybody", prefix="Guten Morgen"))
        assert "".join(chunk.text for chunk in chunks) == " zusammen"
        assert counts == {(Guard.RESTART, "trimmed"): 1}


class Numbered(TwoMinds):
    """An engine with token ids: 10, 11, ... at the first attempt, 20, 21, ... at the second."""

    def submit(self, job: Job, sink: Sink) -> None:
        super().submit(job, Numbering(sink, 10 * job.attempt))


class Numbering:
    def __init__(self, sink: Sink, first: int) -> None:
        self.sink = sink
        self.ids = itertools.count(first)
        self.end = sink.end

    def chunk(self, chunk: Chunk) -> None:
        self.sink.chunk(msgspec.structs.replace(chunk, ids=(next(self.ids),)))


def ids(chunks: list[Chunk]) -> list[tuple[int, ...]]:
    return [chunk.ids for chunk in chunks]


async def test_ids_of_withheld_text_come_with_that_text() -> None:
    engine = GuardedEngine(Numbered(["Natürlich", ", ", "hier", " ", "ist Tee", " da"]), Counter())

    async with started(engine):
        assert ids(await read(engine, job("sure, here is tea"))) == [(10, 11, 12, 13, 14), (15,)]


async def test_a_second_attempt_has_only_its_own_ids() -> None:
    engine = GuardedEngine(Numbered(LOOP, GOOD), Counter())

    async with started(engine):
        chunks = await read(engine, job())
        at = [chunk.reset for chunk in chunks].index(True)
        assert ids(chunks[at:]) == [(20,), (21,)]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (["Translation: ", "Guten", " Morgen"], [(), ()]),
        ([*GOOD, "\n", "Das"], [(10,), (11,)]),
        (["Guten", " Morgen\nDas"], [(10,), ()]),
    ],
    ids=["a preamble", "what follows a token", "what follows inside of one"],
)
async def test_there_are_no_ids_after_text_was_left_out(
    output: list[str], expected: list[tuple[int, ...]]
) -> None:
    engine = GuardedEngine(Numbered(output), Counter())

    async with started(engine):
        assert ids(await read(engine, job())) == expected


async def test_a_continuation_without_a_word_is_not_rejected_as_empty() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    engine = GuardedEngine(TwoMinds([]), counts)

    async with started(engine):
        for partial in (False, True):
            assert await read(engine, job(prefix="Guten Morgen", partial=partial)) == []
        assert not counts


async def test_a_second_attempt_keeps_the_forced_prefix() -> None:
    inner = TwoMinds([" sehr"] * 12, [" Morgen"])
    engine = GuardedEngine(inner, Counter())

    async with started(engine):
        chunks = await read(engine, job(prefix="Guten"))
        assert chunks[-1] == Chunk(" Morgen", reset=True)
        assert [made.prefix for made in inner.jobs] == ["Guten", "Guten"]


async def test_flags_come_on_the_last_chunk() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    engine = GuardedEngine(TwoMinds(["Es kostet", " viel"]), counts)

    async with started(engine):
        chunks = await read(engine, job("It costs 1200"))
        assert chunks[-1] == Chunk("", tokens=0, flags=(Guard.NUMBERS,))
        assert counts == {(Guard.NUMBERS, "flagged"): 1}


async def test_withheld_text_comes_at_the_end_with_all_its_tokens() -> None:
    engine = GuardedEngine(TwoMinds(["Natürlich", ", ", "hier"]), Counter())

    async with started(engine):
        assert await read(engine, job("sure, here")) == [Chunk("Natürlich, hier", tokens=3)]


async def test_faults_of_the_engine_are_not_retried() -> None:
    inner = ScriptedEngine(fault=failing(EngineGone("It died.")))
    engine = GuardedEngine(inner, Counter())

    async with started(engine):
        with pytest.raises(EngineGone):
            await read(engine, job())
        assert list(inner.started) == ["j1"]


async def test_abort_reaches_the_engine() -> None:
    inner = TwoMinds(GOOD)
    engine = GuardedEngine(inner, Counter())

    async with started(engine):
        inner.hold()
        reading = asyncio.create_task(read(engine, job()))
        await inner.step()
        engine.abort("j1")
        assert engine.unfinished == 0
        with pytest.raises(Aborted):
            await reading


class Leaving:
    """A sink that aborts its job at the chunk of which ``when`` holds."""

    def __init__(self, engine: GuardedEngine, when: Callable[[Chunk], bool]) -> None:
        self.engine = engine
        self.when = when
        self.chunks: list[Chunk] = []
        self.ends: list[EngineFault | None] = []

    def chunk(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        if self.when(chunk):
            self.engine.abort("j1")

    def end(self, fault: EngineFault | None) -> None:
        self.ends.append(fault)


@pytest.mark.parametrize(
    ("source", "output", "last"),
    [
        ("sure, here", ["Natürlich", ", ", "hier"], "Natürlich, hier"),
        ("good morning", [*GOOD, "\n", "Das"], " Morgen"),
        ("good morning", LOOP, "Guten"),
    ],
    ids=["held back until the end", "before a cut", "before a second attempt"],
)
async def test_a_sink_may_abort_its_job_from_within_any_chunk(
    source: str, output: list[str], last: str
) -> None:
    """Include the chunk that is sent after the engine has ended the job."""
    inner = TwoMinds(output, GOOD)
    engine = GuardedEngine(inner, Counter())

    async with started(engine):
        sink = Leaving(engine, lambda chunk: chunk.text == last)
        engine.submit(job(source), sink)
        while not sink.ends:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert [type(end) for end in sink.ends] == [Aborted]
        assert sink.chunks[-1].text == last
        assert len(inner.jobs) == 1


async def test_all_other_properties_are_those_of_the_inner_engine() -> None:
    inner = ScriptedEngine(capacity=3)
    engine = GuardedEngine(inner, Counter())
    assert (engine.name, engine.profile, engine.capacity) == ("scripted", inner.profile, 3)
    assert engine.health is Health.STARTING

    async with started(engine):
        assert current(engine.health) is current(inner.health) is Health.READY
    assert engine.health is inner.health is Health.CLOSED


class Doubtful(TwoMinds):
    """An engine that flags every output in a last chunk without text."""

    def submit(self, job: Job, sink: Sink) -> None:
        super().submit(job, sink)
        sink.chunk(Chunk("", 0, flags=(Guard.UNSURE,)))


async def test_the_probability_that_an_output_is_right_is_passed_on_without_a_flag() -> None:
    class Sure(ScriptedEngine):
        def submit(self, job: Job, sink: Sink) -> None:
            for call in (
                lambda: sink.chunk(Chunk("", 0, p=0.25)),
                lambda: sink.chunk(Chunk("Guten", reset=True)),
                lambda: sink.chunk(Chunk(" Morgen.")),
                lambda: sink.chunk(Chunk("", 0, p=0.75)),
                lambda: sink.end(None),
            ):
                asyncio.get_running_loop().call_soon(call)

    engine = GuardedEngine(Sure(), Counter())
    async with started(engine):
        chunks = await read(engine, job("good morning"))
        assert "".join(chunk.text for chunk in chunks) == "Guten Morgen."
        assert math.prod(chunk.p for chunk in chunks) == 0.75, "without the attempt before"


async def test_flags_of_the_engine_stand_with_those_of_the_guards() -> None:
    counts: Counter[tuple[str, str]] = Counter()
    engine = GuardedEngine(Doubtful(["Guten", " Morgen"]), counts)

    async with started(engine):
        chunks = await read(engine, job("good morning, room 512"))
        assert "".join(chunk.text for chunk in chunks) == "Guten Morgen"
        assert chunks[-1].flags == (Guard.NUMBERS, Guard.UNSURE)
        assert not any(chunk.flags for chunk in chunks[:-1])
        assert counts == {(Guard.NUMBERS, "flagged"): 1, (Guard.UNSURE, "flagged"): 1}
