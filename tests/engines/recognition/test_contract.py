"""The contract of recognisers, as `gateway.engines.recognition.base` states it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.engines.base.service import Health
from gateway.engines.recognition.base import Recogniser, duration
from gateway.errors import EngineGone
from gateway.job import RecognitionJob
from gateway.text import languages
from tests.support.speech_audio import excerpt


def job(
    seconds: float = 2.0, id: str = "j1", *, langs: tuple[str, ...] = ("en",)
) -> RecognitionJob:
    return RecognitionJob(id=id, audio=excerpt("two_cities", 0, seconds), langs=langs)


async def test_speech_gives_words_in_order_with_times_inside_the_audio(
    recogniser: Recogniser,
) -> None:
    work = job(5.0)
    result = await recogniser.recognise(work)
    assert result.text.lower().startswith("it was the best of times")
    times = [time for word in result.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert times[0] >= 0 and times[-1] <= duration(work) + 1e-6
    assert all(0 <= word.probability <= 1 for word in result.words)
    assert 0 <= result.no_speech <= 1 and 0 <= result.lang_probability <= 1


async def test_digital_silence_gives_no_words(recogniser: Recogniser) -> None:
    result = await recogniser.recognise(RecognitionJob(id="j1", audio=bytes(32_000)))
    assert result.words == ()


async def test_audio_of_no_length_gives_no_words(recogniser: Recogniser) -> None:
    assert (await recogniser.recognise(RecognitionJob(id="j1", audio=b""))).words == ()


@pytest.mark.parametrize("langs", [("en",), ("en-GB",), ("de", "en"), ()])
async def test_the_language_is_one_of_those_allowed(
    recogniser: Recogniser, langs: tuple[str, ...]
) -> None:
    result = await recogniser.recognise(job(langs=langs))
    assert not langs or not result.lang or any(languages.same(result.lang, one) for one in langs)


async def test_hotwords_and_a_prompt_of_any_length_are_taken(recogniser: Recogniser) -> None:
    work = RecognitionJob(
        id="j1",
        audio=excerpt("two_cities", 0, 2),
        prompt="日本語 " + "many words " * 500,
        hotwords=("Zygmunt", "Łódź") * 200,
    )
    await recogniser.recognise(work)


async def test_jobs_run_at_once_and_each_gets_its_own_answer(recogniser: Recogniser) -> None:
    short, long = await asyncio.gather(
        recogniser.recognise(job(1.0, "a")), recogniser.recognise(job(5.0, "b"))
    )
    assert len(short.words) < len(long.words)
    assert recogniser.unfinished == 0


async def test_cancelling_the_task_ends_the_job(recogniser: Recogniser) -> None:
    tasks = [asyncio.create_task(recogniser.recognise(job(5.0, str(n)))) for n in range(4)]
    await asyncio.sleep(0)  # every task runs up to its first wait
    assert recogniser.unfinished == len(tasks)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    assert recogniser.unfinished == 0
    assert (await recogniser.recognise(job())).words  # the id may be used again


async def test_closing_ends_the_jobs_that_run(recogniser: Recogniser) -> None:
    tasks = [asyncio.create_task(recogniser.recognise(job(5.0, str(n)))) for n in range(4)]
    await asyncio.sleep(0)  # every task runs up to its first wait
    assert recogniser.unfinished == len(tasks)
    await recogniser.aclose()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, EngineGone) for end in ends)
    assert recogniser.health is Health.CLOSED and recogniser.unfinished == 0
    await recogniser.aclose()
    with pytest.raises(EngineGone):
        await recogniser.recognise(job())


async def test_it_is_ready_after_its_start_and_has_a_name(recogniser: Recogniser) -> None:
    assert recogniser.health is Health.READY
    assert recogniser.name and recogniser.capacity >= 1
    assert all(languages.normalise(tag) == tag for tag in recogniser.languages)
    assert all(isinstance(value, float | int) for value in recogniser.stats().values())
