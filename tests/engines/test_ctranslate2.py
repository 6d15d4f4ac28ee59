"""The embedded engine streams, stops and ends as an engine must, with real (tiny) models."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from blockbuster import blockbuster_ctx

from gateway import profiles
from gateway.engines import checkpoint, ctranslate2
from gateway.engines.base import Aborted, Health
from gateway.engines.checkpoint import Sink
from gateway.engines.ctranslate2 import CTranslate2Engine
from gateway.engines.vocabulary import Vocabulary
from gateway.errors import EngineFault, EngineGone, ErrorCode, Overloaded
from gateway.job import Chunk, Job, Priority
from gateway.profiles import Output, Profile, Sampling
from tests import models
from tests.engines.ctranslate2_factory import make_llama, make_marian, make_nllb
from tests.engines.test_base import Kept

pytest.importorskip("ctranslate2")
pytest.importorskip("sentencepiece")

TEXT = "Good morning everybody, can you hear me?"
Make = Callable[..., CTranslate2Engine]


@pytest.fixture(scope="session")
def dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def job(id: str = "1", text: str = TEXT, **fields: Any) -> Job:
    return Job(id=id, text=text, source="en", target="de", **fields)


def run(engine: CTranslate2Engine, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``test`` with ``engine`` started, and close it."""

    async def main() -> None:
        await engine.start()
        try:
            await test()
        finally:
            await engine.aclose()

    asyncio.run(main())


async def chunks(engine: CTranslate2Engine, job: Job) -> list[Chunk]:
    async with aclosing(engine.translate(job)) as stream:
        return [chunk async for chunk in stream]


async def output(engine: CTranslate2Engine, job: Job) -> str:
    return "".join(chunk.text for chunk in await chunks(engine, job))


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until something has happened in a thread."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def idle(engine: CTranslate2Engine) -> None:
    """Until the model works on nothing."""
    await until(lambda: engine.unfinished == 0)


END = "</s>"


class Puppet:
    """A `checkpoint.Model` in the test's hands: `token` gives one to each job of a batch."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.rest = ""
        self._tokens = threading.Semaphore(0)
        self._texts: list[tuple[str, str | None]] = []

    @property
    def started(self) -> list[str]:
        return [id for batch in self.batches for id in batch]

    def token(self, text: str, only: str | None = None) -> None:
        """Say a token, for ``only`` that job or the whole batch; a full stop or `END` ends it."""
        self._texts.append((text, only))
        self._tokens.release()

    def decode(self, sinks: Sequence[Sink], profile: Profile) -> None:
        self.batches.append([sink.job.id for sink in sinks])
        while sinks:
            self._tokens.acquire()
            text, only = self._texts.pop(0)
            meant = [sink for sink in sinks if only in (None, sink.job.id)]
            ended = [
                sink
                for sink in meant
                if text == END or sink.step(text, [len(text)]) or text.endswith(".")
            ]
            for sink in ended:
                sink.end(self.rest)
            sinks = [sink for sink in sinks if sink not in ended]


@pytest.fixture
def puppet(monkeypatch: pytest.MonkeyPatch) -> Puppet:
    puppet = Puppet()
    monkeypatch.setattr(checkpoint, "load", lambda *_: puppet)
    return puppet


async def begun(puppet: Puppet, count: int) -> None:
    await until(lambda: len(puppet.started) >= count)


# --- streaming


def test_each_token_is_handed_on_before_the_next_is_made(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        async with aclosing(engine.translate(job())) as stream:
            for text in ("Guten", " Morgen", "."):
                puppet.token(text)
                assert await anext(stream) == Chunk(text, 1, ids=(len(text),))
            assert [chunk async for chunk in stream] == []
        assert engine.unfinished == 0

    run(engine, test)


def test_a_token_without_text_is_counted_with_the_next_that_has_some(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        for text in ("", "", "😀."):
            puppet.token(text)
        found = await chunks(engine, job())
        assert found == [Chunk("😀.", 3, ids=(0, 0, 2))]

    run(engine, test)


def test_what_is_left_of_a_broken_character_comes_last(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)
    puppet.rest = "\ufffd"

    async def test() -> None:
        puppet.token("Ja.")
        assert await output(engine, job()) == "Ja.\ufffd"

    run(engine, test)


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
def test_the_same_text_is_translated_in_the_same_way_every_time(make: Make, dir: Path) -> None:
    engine = make(dir)

    async def test() -> None:
        first = await output(engine, job())
        assert first
        assert await output(engine, job()) == first
        assert engine.unfinished == 0

    run(engine, test)


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
def test_an_output_without_end_ends_normally_at_the_length_limit(make: Make, dir: Path) -> None:
    profile = msgspec.structs.replace(make(dir).profile, output=Output(cap=7))
    engine = make(dir, profile)

    async def test() -> None:
        assert sum(chunk.tokens for chunk in await chunks(engine, job())) == 7

    run(engine, test)


def test_ids_of_a_forced_prefix_are_continued_exactly_where_they_end(dir: Path) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        import ctranslate2 as ct2

        vocabulary = Vocabulary.load(dir / "embedded")
        ids = vocabulary.encode(engine.profile.prompt(job()))
        model = next((dir / "cache").iterdir())
        generator = ct2.Generator(str(model), compute_type="int8")
        result = generator.generate_batch(
            [[vocabulary.token(id) for id in ids]], max_length=20, include_prompt_in_result=False
        )
        whole = result[0].sequences_ids[0]
        seen = vocabulary.detokenizer()
        texts = [seen.push(id) for id in whole]
        prefix = "".join(texts[:5])
        found = await chunks(engine, job(prefix=prefix, prefix_ids=tuple(whole)))
        assert "".join(chunk.text for chunk in found).startswith("".join(texts[5:]))
        assert [id for chunk in found for id in chunk.ids][: len(whole)] == whole

    run(engine, test)


def test_a_translation_that_the_prefix_has_all_of_ends_without_text(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        puppet.token(END)
        assert await chunks(engine, job(prefix="Guten Morgen!")) == []

    run(engine, test)


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
def test_a_forced_prefix_changes_the_output_and_is_not_repeated(make: Make, dir: Path) -> None:
    engine = make(dir)

    async def test() -> None:
        free = await output(engine, job())
        forced = await output(engine, job(prefix="Guten Morgen"))
        assert forced != free
        assert "Guten Morgen" not in forced

    run(engine, test)


@pytest.mark.parametrize("make", [make_llama, make_marian])
def test_a_second_attempt_says_something_else(make: Make, dir: Path) -> None:
    engine = make(dir)

    async def test() -> None:
        assert await output(engine, job(attempt=2)) != await output(engine, job())

    run(engine, test)


def test_tokens_that_come_while_the_loop_is_busy_arrive_as_one_chunk(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        async with aclosing(engine.translate(job())) as stream:
            puppet.token("Guten")
            assert await anext(stream) == Chunk("Guten", 1, ids=(5,))
            for text in (" Mor", "gen", "."):
                puppet.token(text)
            while engine.unfinished:
                time.sleep(0.001)  # noqa: ASYNC251  # the loop does not turn meanwhile
            assert [chunk async for chunk in stream] == [Chunk(" Morgen.", 3, ids=(4, 3, 1))]

    run(engine, test)


def test_a_text_longer_than_the_model_can_hold_is_a_fault_that_says_so(dir: Path) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        with pytest.raises(EngineFault, match="has room for 512") as caught:
            await output(engine, job(text=TEXT * 100))
        assert caught.value.code is ErrorCode.TOO_LONG

    run(engine, test)


def test_what_the_model_raises_is_a_fault_and_the_next_job_works(dir: Path) -> None:
    engine = make_marian(dir, msgspec.structs.replace(make_marian(dir).profile, max_input=10_000))

    async def test() -> None:
        with pytest.raises(EngineFault, match="No position encodings"):
            await output(engine, job(text=TEXT * 50))
        assert engine.unfinished == 0
        assert await output(engine, job())

    run(engine, test)


def test_a_profile_without_a_prompt_of_its_own_is_a_fault(dir: Path) -> None:
    engine = make_llama(dir, profiles.load("chat"))

    async def test() -> None:
        with pytest.raises(EngineFault, match="server's chat template"):
            await output(engine, job())

    run(engine, test)


# --- stopping


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
def test_abort_ends_the_stream_visibly_and_the_decode_at_its_next_token(
    make: Make, dir: Path
) -> None:
    engine = make(dir)

    class Impatient(Kept):
        def chunk(self, chunk: Chunk) -> None:
            super().chunk(chunk)
            engine.abort("a")
            engine.abort("a")

    async def test() -> None:
        sink = Impatient()
        engine.submit(job("a"), sink)
        await until(lambda: bool(sink.ends))
        await idle(engine)
        assert len(sink.chunks) == 1 and [type(end) for end in sink.ends] == [Aborted]

    run(engine, test)


def test_an_aborted_job_counts_until_its_decode_has_stopped(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        puppet.token("Guten")
        async with aclosing(engine.translate(job("a"))) as stream:
            assert (await anext(stream)).text == "Guten"
            engine.abort("a")
            with pytest.raises(Aborted):
                await anext(stream)
        assert engine.unfinished == 1
        puppet.token(" Morgen")  # without a full stop: only the abort ends it
        await idle(engine)

    run(engine, test)


def test_abort_of_an_unknown_job_does_nothing(dir: Path) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        engine.abort("nobody")
        assert await output(engine, job())

    run(engine, test)


def test_closing_the_stream_stops_the_work_inside_the_engine(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        puppet.token("Guten")
        async with aclosing(engine.translate(job())) as stream:
            await anext(stream)
        puppet.token(" Morgen")
        await idle(engine)

    run(engine, test)


def test_cancelling_the_task_stops_the_work_inside_the_engine(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        task = asyncio.create_task(output(engine, job()))
        await begun(puppet, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        puppet.token("Guten")
        await idle(engine)

    run(engine, test)


def test_a_job_aborted_while_it_waits_for_a_thread_is_never_decoded(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir, inter_threads=1)

    async def test() -> None:
        running = asyncio.create_task(output(engine, job("running")))
        await begun(puppet, 1)
        waiting = asyncio.create_task(output(engine, job("waiting")))
        await until(lambda: engine.unfinished == 2)
        engine.abort("waiting")
        assert engine.unfinished == 1
        with pytest.raises(Aborted):
            await waiting
        puppet.token("Ja.")
        assert await running == "Ja."
        assert puppet.started == ["running"]

    run(engine, test)


def test_the_event_loop_goes_on_while_more_jobs_come_than_there_are_threads(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir, inter_threads=2)

    async def test() -> None:
        # Were the loop to wait for a thread, it would never come to let the decodes go on.
        tasks = [asyncio.create_task(output(engine, job(str(n)))) for n in range(20)]
        await until(lambda: engine.unfinished == 20)
        for _ in tasks:
            puppet.token("Ja.")
        assert await asyncio.gather(*tasks) == ["Ja."] * 20

    run(engine, test)


@pytest.mark.parametrize("make", [make_llama, make_marian])
def test_nothing_blocks_the_event_loop_under_load(make: Make, dir: Path) -> None:
    engine = make(dir)

    async def test() -> None:
        alone = await output(engine, job())
        with blockbuster_ctx():
            crowd = (output(engine, job(str(n))) for n in range(8 * engine.capacity))
            assert set(await asyncio.gather(*crowd)) == {alone}
        assert engine.unfinished == 0

    run(engine, test)


def test_one_job_more_than_may_wait_is_refused(
    puppet: Puppet, dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctranslate2, "WAITING", 1)
    engine = make_llama(dir, inter_threads=1, batch=1)

    async def test() -> None:
        tasks = [asyncio.create_task(output(engine, job(str(n)))) for n in range(2)]
        await begun(puppet, 1)
        with pytest.raises(Overloaded):
            await output(engine, job("one too many"))
        puppet.token("Ja.")
        puppet.token("Ja.")
        await asyncio.gather(*tasks)

    run(engine, test)


# --- batches


async def queued(engine: CTranslate2Engine, *jobs: Job) -> list[asyncio.Task[str]]:
    """Readers of ``jobs``, all of which the engine has now been given."""
    tasks = [asyncio.create_task(output(engine, job)) for job in jobs]
    count = engine.unfinished + len(jobs)
    await until(lambda: engine.unfinished == count)
    return tasks


def batched(
    puppet: Puppet, dir: Path, *jobs: Job, profile: Profile | None = None, batch: int = 16
) -> list[str]:
    """The batches in which one thread decodes ``jobs``, which wait while it has another."""
    engine = make_llama(dir, profile, inter_threads=1, batch=batch)

    async def test() -> None:
        running = await queued(engine, job("running"))
        await begun(puppet, 1)
        tasks = await queued(engine, *jobs)
        for _ in range(1 + len(jobs)):
            puppet.token("Ja.")
        await asyncio.gather(*running, *tasks)

    run(engine, test)
    return [" ".join(batch) for batch in puppet.batches[1:]]


def test_jobs_that_come_while_a_job_is_decoded_are_decoded_together(
    puppet: Puppet, dir: Path
) -> None:
    assert batched(puppet, dir, job("a"), job("b"), job("c")) == ["a b c"]


def test_a_batch_has_no_more_jobs_than_it_may(puppet: Puppet, dir: Path) -> None:
    jobs = [job(id) for id in "abcde"]
    assert batched(puppet, dir, *jobs, batch=2) == ["a b", "c d", "e"]


def test_finals_are_decoded_before_partials_and_not_slowed_down_by_them(
    puppet: Puppet, dir: Path
) -> None:
    early = (job("a", priority=Priority.BACKFILL), job("b", priority=Priority.PARTIAL))
    late = (job("c"), job("d", priority=Priority.PARTIAL), job("e"))
    assert batched(puppet, dir, *early, *late) == ["c e", "b d", "a"]


def test_a_second_attempt_is_decoded_alone(puppet: Puppet, dir: Path) -> None:
    jobs = (job("a"), job("b", attempt=2), job("c", attempt=2), job("d"))
    assert batched(puppet, dir, *jobs) == ["a d", "b", "c"]


def test_where_the_profile_penalises_repetition_every_job_is_decoded_alone(
    puppet: Puppet, dir: Path
) -> None:
    profile = msgspec.structs.replace(
        profiles.load("embedded"), attempts=(Sampling(repetition_penalty=1.1),)
    )
    assert batched(puppet, dir, job("a"), job("b"), profile=profile) == ["a", "b"]


def test_short_texts_do_not_share_a_batch_with_long_ones(puppet: Puppet, dir: Path) -> None:
    jobs = (job("a"), job("b", TEXT * 5), job("c"), job("d", TEXT * 4))
    assert batched(puppet, dir, *jobs) == ["a c", "b d"]


def test_a_forced_prefix_counts_as_text_of_its_job(puppet: Puppet, dir: Path) -> None:
    a, c = job("a"), job("c", prefix=TEXT)
    b, d = job("b", prefix=TEXT * 3), job("d", TEXT * 2, prefix=TEXT * 2)
    assert batched(puppet, dir, a, b, c, d) == ["a c", "b d"]


def test_jobs_of_one_length_share_a_batch_before_others_do(puppet: Puppet, dir: Path) -> None:
    """Some partials of an utterance in several languages: each has a forced prefix of its own."""
    prefixes = {"a": "", "b": TEXT, "c": "Ja", "d": TEXT[1:], "e": "Nein"}
    engine = make_llama(dir, inter_threads=2)

    async def test() -> None:
        tasks = await queued(engine, *(job(id, prefix=prefixes[id]) for id in prefixes))
        await begun(puppet, 5)
        for _ in range(2):
            puppet.token("Ja.")
        await asyncio.gather(*tasks)
        assert sorted(map(sorted, puppet.batches)) == [["a", "c", "e"], ["b", "d"]]

    run(engine, test)


def test_a_lone_job_waits_for_no_other(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir, inter_threads=2)

    async def test() -> None:
        first = await queued(engine, job("a"))
        await begun(puppet, 1)
        second = await queued(engine, job("b"))
        await begun(puppet, 2)
        puppet.token("Ja.")
        puppet.token("Ja.")
        await asyncio.gather(*first, *second)
        assert puppet.batches == [["a"], ["b"]]

    run(engine, test)


def test_jobs_that_come_in_one_turn_are_shared_by_the_threads(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir, inter_threads=2)

    async def test() -> None:
        tasks = await queued(engine, *(job(id) for id in "abcde"))
        await begun(puppet, 5)
        for _ in range(2):
            puppet.token("Ja.")
        await asyncio.gather(*tasks)
        assert sorted(puppet.batches) == [["a", "b", "c"], ["d", "e"]]

    run(engine, test)


def test_a_job_ends_before_the_others_of_its_batch(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir, inter_threads=1)

    async def test() -> None:
        short, long = await queued(engine, job("short"), job("long"))
        puppet.token("Ja.", only="short")
        assert await short == "Ja."
        assert engine.unfinished == 1
        puppet.token("Nein.")
        assert await long == "Nein."

    run(engine, test)


def test_an_aborted_job_does_not_disturb_the_others_of_its_batch(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir, inter_threads=1)

    async def test() -> None:
        one, other = await queued(engine, job("one"), job("other"))
        await begun(puppet, 2)
        engine.abort("one")
        with pytest.raises(Aborted):
            await one
        assert engine.unfinished == 2
        puppet.token("Guten")
        await until(lambda: engine.unfinished == 1)
        puppet.token(" Tag.")
        assert await other == "Guten Tag."

    run(engine, test)


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
def test_jobs_of_a_crowd_get_what_they_would_get_alone(make: Make, dir: Path) -> None:
    # In int8 the random weights of a tiny model have near ties, which rounding decides.
    engine = make(dir, inter_threads=1, compute_type="float32")
    jobs = [job(str(n), TEXT[: 8 + 3 * n]) for n in range(10)]
    jobs += [job("prefixed", prefix="Guten Morgen"), job("growing", "Good morn", partial=True)]

    async def test() -> None:
        alone = [await output(engine, each) for each in jobs]
        assert await asyncio.gather(*(output(engine, each) for each in jobs)) == alone

    run(engine, test)


# --- life


def test_capacity_is_a_full_batch_for_each_thread(
    dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_llama(dir, inter_threads=3, batch=4).capacity == 12
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 7}, raising=False)
    assert make_llama(dir, batch=4).capacity == 8
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert make_llama(dir).capacity == 80


def test_the_engine_is_named_after_its_model(dir: Path) -> None:
    assert make_llama(dir).name == "ctranslate2:embedded"


def test_health_follows_the_life_of_the_engine(dir: Path) -> None:
    engine = make_llama(dir)
    seen = [engine.health]

    async def test() -> None:
        seen.append(engine.health)

    run(engine, test)
    assert [*seen, engine.health] == [Health.STARTING, Health.READY, Health.CLOSED]


def test_before_start_and_after_close_jobs_are_refused(dir: Path) -> None:
    engine = make_llama(dir)

    async def main() -> None:
        with pytest.raises(EngineGone, match="is starting"):
            await output(engine, job())
        await engine.start()
        await engine.aclose()
        await engine.aclose()
        with pytest.raises(EngineGone, match="is closed"):
            await output(engine, job())
        with pytest.raises(EngineGone, match="is closed"):
            await engine.start()

    asyncio.run(main())


def test_closing_the_engine_ends_its_streams_and_frees_the_model(
    monkeypatch: pytest.MonkeyPatch, dir: Path
) -> None:
    puppets = [Puppet()]
    alive = weakref.ref(puppets[0])
    monkeypatch.setattr(checkpoint, "load", lambda *_: puppets[0])
    engine = make_llama(dir, inter_threads=1)

    async def main() -> None:
        await engine.start()
        tasks = [asyncio.create_task(output(engine, job(str(n)))) for n in range(2)]
        await begun(puppets[0], 1)
        closing = asyncio.create_task(engine.aclose())
        for task in tasks:
            with pytest.raises(EngineGone):
                await task
        puppets[0].token("Guten")
        await closing
        assert engine.unfinished == 0

    asyncio.run(main())
    puppets.clear()
    assert alive() is None


def test_close_does_not_wait_for_ever_for_a_decode_that_is_stuck(
    puppet: Puppet, dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ctranslate2, "CLOSING", 0.0)
    engine = make_llama(dir)

    async def main() -> None:
        await engine.start()
        task = asyncio.create_task(output(engine, job()))
        await begun(puppet, 1)
        await engine.aclose()
        with pytest.raises(EngineGone):
            await task
        puppet.token("Ja")

    asyncio.run(main())
    assert "not waiting" in caplog.text


def test_a_decode_that_outlives_its_event_loop_stops(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir)

    async def leave() -> None:
        await engine.start()
        waiting = asyncio.ensure_future(output(engine, job()))
        await begun(puppet, 1)
        waiting.cancel()

    asyncio.run(leave())
    puppet.token("Guten")
    asyncio.run(engine.aclose())
    assert engine.unfinished == 0


def test_an_engine_closed_while_it_starts_does_not_become_ready(
    dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_llama(dir)
    go = threading.Event()
    monkeypatch.setattr(checkpoint, "load", lambda *_: go.wait() and Puppet())

    async def main() -> None:
        starting = asyncio.create_task(engine.start())
        await asyncio.sleep(0)
        closing = asyncio.create_task(engine.aclose())
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(EngineGone, match="is closed"):
            await starting
        await closing
        assert engine.health is Health.CLOSED

    asyncio.run(main())


def test_an_engine_that_cannot_load_its_model_is_dead_and_says_why(tmp_path: Path) -> None:
    engine = make_llama(tmp_path)
    (tmp_path / "embedded" / "model.safetensors").unlink()

    async def main() -> None:
        with pytest.raises(EngineFault, match="could not be converted"):
            await engine.start()
        assert engine.health is Health.DEAD
        await engine.aclose()

    asyncio.run(main())


def test_a_cache_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in its place")
    engine = make_llama(tmp_path)

    async def main() -> None:
        with pytest.raises(EngineFault, match="could not be loaded"):
            await engine.start()
        await engine.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("make", "name"), [(make_llama, "embedded"), (make_marian, "opus-mt"), (make_nllb, "nllb")]
)
def test_the_profile_is_found_by_the_name_of_the_model(make: Make, name: str, dir: Path) -> None:
    assert make(dir).profile.name == name


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (None, "no config.json"),
        ("{", "is of no use"),
        ('{"architectures": ["X"]}', "No profile fits"),
    ],
)
def test_a_model_nobody_knows_is_a_fault_that_says_what_to_do(
    config: str | None, said: str, tmp_path: Path
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(EngineFault, match=said):
        CTranslate2Engine(tmp_path)


def test_converted_models_go_into_the_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    engine = CTranslate2Engine(models.tiny_llama(tmp_path / "embedded"))

    async def test() -> None:
        assert [path.name[:9] for path in (tmp_path / "xdg/gateway").iterdir()] == ["embedded-"]

    run(engine, test)


def test_the_module_needs_no_ctranslate2_before_start() -> None:
    code = "import sys, gateway.engines.ctranslate2; sys.exit('ctranslate2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


EXIT = """
import asyncio, sys
from pathlib import Path
from tests.engines import test_ctranslate2 as t

async def main():
    engine = t.make_llama(Path(sys.argv[1]))
    await engine.start()
    stream = engine.translate(t.job())
    await anext(stream)
    sys.exit(7)

asyncio.run(main())
"""


def test_a_process_that_ends_without_closing_its_engine_does_not_crash(dir: Path) -> None:
    """CTranslate2 alone crashes the interpreter that ends while it decodes."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", EXIT, str(dir)], cwd=root, check=False)
    assert done.returncode == 7


@pytest.mark.external
@pytest.mark.skipif("GATEWAY_TEST_MODEL" not in os.environ, reason="GATEWAY_TEST_MODEL is not set")
def test_a_real_model_translates(tmp_path: Path) -> None:
    engine = CTranslate2Engine(Path(os.environ["GATEWAY_TEST_MODEL"]), cache_dir=tmp_path)

    async def test() -> None:
        assert "Guten Morgen" in await output(engine, job())
        assert "Guten Tag" not in await output(engine, job(prefix="Guten Tag"))

    run(engine, test)


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA failed with error out of memory"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("No position encodings are defined"), False),
    ],
)
def test_an_engine_without_memory_is_dead_and_one_with_a_bad_job_is_not(
    dir: Path, error: Exception, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_llama(dir)

    async def test() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(engine._model, "decode", failing_with(error))
            with pytest.raises(EngineFault) as caught:
                await output(engine, job())
        assert isinstance(caught.value, EngineGone) is lost
        assert engine.health is (Health.DEAD if lost else Health.READY)
        if lost:
            with pytest.raises(EngineGone, match="is dead"):
                await output(engine, job())
        else:
            assert await output(engine, job())

    run(engine, test)
    assert engine.health is Health.CLOSED


def failing_with(error: Exception) -> Callable[..., None]:
    def decode(*_: Any) -> None:
        raise error

    return decode
