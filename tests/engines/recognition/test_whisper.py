"""Whisper in this process, with the real tiny.en."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.engines.base.service import Health
from gateway.engines.recognition.whisper import WhisperModel, WhisperRecogniser
from gateway.errors import EngineFault, EngineGone, JobFault
from gateway.io.tasks import NICENESS
from gateway.job import Recognised, RecognitionJob


class Stub:
    """A model whose recognitions wait for the test."""

    languages = ("en",)

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = threading.Event()

    def recognise(self, job: RecognitionJob, wanted: Any) -> Recognised:
        self.begun.append(job.id)
        assert self.may_end.wait(30)
        if job.id == "broken":
            raise RuntimeError(" ".join(("private", "words")))
        return Recognised(lang="en")


def stubbed(model: Stub) -> WhisperRecogniser:
    return WhisperRecogniser("stub", lambda: model)  # type: ignore[arg-type, return-value]


def job(id: str, seconds: float = 1.0) -> RecognitionJob:
    return RecognitionJob(id=id, audio=bytes(int(32_000 * seconds)))


async def test_a_job_that_is_cancelled_while_it_waits_is_not_begun() -> None:
    model = Stub()
    async with aclosing(stubbed(model)) as recogniser:
        await recogniser.start()
        tasks = [asyncio.create_task(recogniser.recognise(job(id))) for id in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait((tasks[1],))
        model.may_end.set()
        await asyncio.gather(tasks[0], tasks[2])
        assert model.begun == ["a", "c"]


async def test_a_failure_of_the_library_is_a_fault_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Stub()
    model.may_end.set()
    async with aclosing(stubbed(model)) as recogniser:
        await recogniser.start()
        with pytest.raises(EngineFault, match="The recogniser failed"):
            await recogniser.recognise(job("broken"))
    assert "RuntimeError" in caplog.text and "private words" not in caplog.text


@pytest.mark.parametrize("audio", [bytes(3), bytes(32_000 * 31)])
async def test_audio_that_is_broken_or_too_long_is_a_fault_of_the_job(audio: bytes) -> None:
    async with aclosing(stubbed(Stub())) as recogniser:
        await recogniser.start()
        with pytest.raises(JobFault):
            await recogniser.recognise(RecognitionJob(id="a", audio=audio))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no priority of threads")
async def test_its_threads_yield_to_the_rest_of_the_process() -> None:
    seen: list[int] = []

    def load() -> Stub:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return Stub()

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    async with aclosing(WhisperRecogniser("stub", load)) as recogniser:  # type: ignore[arg-type]
        await recogniser.start()
    assert seen == [min(19, before + NICENESS)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


async def test_before_its_start_it_recognises_nothing() -> None:
    async with aclosing(stubbed(Stub())) as recogniser:
        with pytest.raises(EngineGone):
            await recogniser.recognise(job("a"))


async def test_a_missing_package_is_named() -> None:
    def load() -> WhisperModel:
        raise ImportError

    async with aclosing(WhisperRecogniser("tiny", load)) as recogniser:
        with pytest.raises(EngineFault, match=r"pip install 'caption-gateway\[speech\]'"):
            await recogniser.start()
        assert recogniser.health is Health.DEAD


@pytest.mark.parametrize("download", [False, True])
async def test_a_model_that_is_not_here_is_downloaded_only_if_that_is_allowed(
    download: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def unknown(host: object, *_: object, **__: object) -> None:
        asked.append(host)
        raise OSError("There is no network.")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    for name in (str(tmp_path), "a-model-of-no-such-name", "nobody/nothing"):
        load = partial(WhisperModel, name, download=download)
        async with aclosing(WhisperRecogniser("x", load)) as one:
            with pytest.raises(EngineFault):
                await one.start()
            assert one.health is Health.DEAD
    assert bool(asked) is download


async def test_a_job_that_nobody_waits_for_stops_after_its_present_step() -> None:
    from tests.engines.recognition.conftest import whisper
    from tests.support.speech_audio import excerpt

    async with aclosing(whisper()) as recogniser:
        await recogniser.start()
        model = recogniser._model
        assert model is not None
        work = RecognitionJob(id="a", audio=excerpt("two_cities", 0, 2), langs=("en",))
        with pytest.raises(EngineGone):
            model.recognise(work, lambda: False)
