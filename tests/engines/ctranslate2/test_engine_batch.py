"""Tests of batches: which jobs the embedded engine decodes together, and their outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.engines import profiles
from gateway.engines.base.engine import Aborted
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.engines.profiles import Profile, Sampling
from gateway.job import Job, Priority
from tests.engines.ctranslate2_factory import make_llama, make_marian, make_nllb
from tests.engines.puppet import Puppet, begun
from tests.engines.reading import TEXT, job, read, started
from tests.support.live import until

pytest.importorskip("ctranslate2")
pytest.importorskip("sentencepiece")

Make = Callable[..., CTranslate2Engine]


async def queued(engine: CTranslate2Engine, *jobs: Job) -> list[asyncio.Task[str]]:
    """Return tasks that read ``jobs``, after all of these were submitted."""
    tasks = [asyncio.create_task(read(engine, job)) for job in jobs]
    count = engine.unfinished + len(jobs)
    await until(lambda: engine.unfinished == count)
    return tasks


async def batched(
    puppet: Puppet, dir: Path, *jobs: Job, profile: Profile | None = None, batch: int = 16
) -> list[str]:
    """Return the batches in which one thread decodes ``jobs`` that waited for an earlier job."""
    engine = make_llama(dir, profile, inter_threads=1, batch=batch)

    async with started(engine):
        running = await queued(engine, job("running"))
        await begun(puppet, 1)
        tasks = await queued(engine, *jobs)
        for _ in range(1 + len(jobs)):
            puppet.token("Ja.")
        await asyncio.gather(*running, *tasks)
    return [" ".join(batch) for batch in puppet.batches[1:]]


async def test_jobs_that_come_while_a_job_is_decoded_are_decoded_together(
    puppet: Puppet, dir: Path
) -> None:
    assert await batched(puppet, dir, job("a"), job("b"), job("c")) == ["a b c"]


async def test_a_batch_has_no_more_jobs_than_its_limit(puppet: Puppet, dir: Path) -> None:
    jobs = [job(id) for id in "abcde"]
    assert await batched(puppet, dir, *jobs, batch=2) == ["a b", "c d", "e"]


async def test_finals_are_decoded_before_partials_and_in_other_batches(
    puppet: Puppet, dir: Path
) -> None:
    early = (job("a", priority=Priority.BACKFILL), job("b", priority=Priority.PARTIAL))
    late = (job("c"), job("d", priority=Priority.PARTIAL), job("e"))
    assert await batched(puppet, dir, *early, *late) == ["c e", "b d", "a"]


async def test_a_second_attempt_is_decoded_alone(puppet: Puppet, dir: Path) -> None:
    jobs = (job("a"), job("b", attempt=2), job("c", attempt=2), job("d"))
    assert await batched(puppet, dir, *jobs) == ["a d", "b", "c"]


async def test_with_a_repetition_penalty_every_job_is_decoded_alone(
    puppet: Puppet, dir: Path
) -> None:
    profile = msgspec.structs.replace(
        profiles.load("embedded"), attempts=(Sampling(repetition_penalty=1.1),)
    )
    assert await batched(puppet, dir, job("a"), job("b"), profile=profile) == ["a", "b"]


async def test_a_job_that_may_be_searched_shares_no_batch_with_one_that_streams(
    puppet: Puppet, dir: Path
) -> None:
    jobs = (job("a"), job("b", search=True), job("c"), job("d", search=True))
    assert await batched(puppet, dir, *jobs) == ["a c", "b d"]


@pytest.mark.parametrize(
    ("jobs", "settings", "beam"),
    [
        (4, {"search": True}, 4),
        (5, {"search": True}, 1),  # more than the engine has time for
        (1, {}, 1),
        (1, {"search": True, "attempt": 2}, 1),
        (1, {"search": True, "draft": "Ja", "text": "Yes"}, 4),
        (1, {"search": True, "draft": "Ja", "text": "Yes, " * 12}, 1),  # the draft saves more
    ],
)
async def test_an_engine_searches_for_the_best_output_if_it_has_time(
    puppet: Puppet, dir: Path, jobs: int, settings: dict[str, Any], beam: int
) -> None:
    engine = make_llama(dir, inter_threads=2)

    async with started(engine):
        tasks = await queued(engine, *(job(str(n), **settings) for n in range(jobs)))
        await begun(puppet, jobs)
        for _ in puppet.batches:
            puppet.token("Ja.")
        await asyncio.gather(*tasks)
        assert set(puppet.beams) == {beam}


async def test_short_texts_do_not_share_a_batch_with_long_ones(puppet: Puppet, dir: Path) -> None:
    jobs = (job("a"), job("b", TEXT * 5), job("c"), job("d", TEXT * 4))
    assert await batched(puppet, dir, *jobs) == ["a c", "b d"]


async def test_a_forced_prefix_counts_as_text_of_its_job(puppet: Puppet, dir: Path) -> None:
    a, c = job("a"), job("c", prefix=TEXT)
    b, d = job("b", prefix=TEXT * 3), job("d", TEXT * 2, prefix=TEXT * 2)
    assert await batched(puppet, dir, a, b, c, d) == ["a c", "b d"]


async def test_jobs_of_similar_length_share_a_batch_first(puppet: Puppet, dir: Path) -> None:
    """Partials of one utterance in several languages have different forced prefixes."""
    prefixes = {"a": "", "b": TEXT, "c": "Ja", "d": TEXT[1:], "e": "Nein"}
    engine = make_llama(dir, inter_threads=2)

    async with started(engine):
        tasks = await queued(engine, *(job(id, prefix=prefixes[id]) for id in prefixes))
        await begun(puppet, 5)
        for _ in range(2):
            puppet.token("Ja.")
        await asyncio.gather(*tasks)
        assert sorted(map(sorted, puppet.batches)) == [["a", "c", "e"], ["b", "d"]]


async def test_a_single_job_does_not_wait_for_others(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir, inter_threads=2)

    async with started(engine):
        first = await queued(engine, job("a"))
        await begun(puppet, 1)
        second = await queued(engine, job("b"))
        await begun(puppet, 2)
        puppet.token("Ja.")
        puppet.token("Ja.")
        await asyncio.gather(*first, *second)
        assert puppet.batches == [["a"], ["b"]]


async def test_jobs_submitted_in_one_turn_are_shared_by_the_threads(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir, inter_threads=2)

    async with started(engine):
        tasks = await queued(engine, *(job(id) for id in "abcde"))
        await begun(puppet, 5)
        for _ in range(2):
            puppet.token("Ja.")
        await asyncio.gather(*tasks)
        assert sorted(puppet.batches) == [["a", "b", "c"], ["d", "e"]]


async def test_a_job_ends_before_the_others_of_its_batch(puppet: Puppet, dir: Path) -> None:
    engine = make_llama(dir, inter_threads=1)

    async with started(engine):
        short, long = await queued(engine, job("short"), job("long"))
        puppet.token("Ja.", only="short")
        assert await short == "Ja."
        assert engine.unfinished == 1
        puppet.token("Nein.")
        assert await long == "Nein."


async def test_an_aborted_job_does_not_disturb_the_others_of_its_batch(
    puppet: Puppet, dir: Path
) -> None:
    engine = make_llama(dir, inter_threads=1)

    async with started(engine):
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


@pytest.mark.parametrize("make", [make_llama, make_marian, make_nllb])
async def test_many_jobs_at_once_get_the_same_output_as_alone(make: Make, dir: Path) -> None:
    # In int8 the random weights of a tiny model have near ties, which rounding decides.
    engine = make(dir, inter_threads=1, compute_type="float32")
    jobs = [job(str(n), TEXT[: 8 + 3 * n]) for n in range(10)]
    jobs += [job("prefixed", prefix="Guten Morgen"), job("growing", "Good morn", partial=True)]

    async with started(engine):
        alone = [await read(engine, each) for each in jobs]
        assert await asyncio.gather(*(read(engine, each) for each in jobs)) == alone
