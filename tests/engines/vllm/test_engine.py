"""Tests of the vLLM engine beyond the contract, which ``test_contract.py`` tests.

Tests marked ``vllm`` run a real vLLM on the CPU. Each that ends with a dead or closed engine costs
another start, so they come last.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from caption_gateway.testing.subject import EngineSubject
from gateway.engines import profiles
from gateway.engines.base.engine import Aborted
from gateway.engines.base.service import Health
from gateway.engines.base.tokenizer import Vocabulary
from gateway.engines.profiles import Profile, Prompt
from gateway.engines.vllm import model as loaded
from gateway.engines.vllm.engine import VllmEngine
from gateway.engines.vllm.outputs import OutputFeed, OutputReceiver
from gateway.errors import EngineFault, EngineGone, ErrorCode, Overloaded
from gateway.job import Job
from tests.engines.conftest import STARTS
from tests.engines.reading import LONG, job, read
from tests.engines.vllm_factory import SETTINGS, make_vllm
from tests.support.live import until
from tests.support.models import tiny_llama

GONE = 30.0
"""Seconds a process may take to end, more than `orphan.GRACE` and what an interpreter needs."""


def real(test: Any) -> Any:
    """Mark a test that runs vLLM; it may have to start it first."""
    return pytest.mark.vllm(pytest.mark.timeout(600)(test))


async def start_and_read(engine: VllmEngine, *jobs: Job) -> list[str]:
    """Start an engine, read ``jobs`` and close it; return the translations."""
    try:
        await engine.start()
        return [await read(engine, job) for job in jobs]
    finally:
        await engine.aclose()


class Templated(Profile, frozen=True, kw_only=True):
    """A profile with chat messages only: the source and the forced prefix."""

    def prompt(self, job: Job) -> Prompt:
        prefix = (("assistant", job.prefix),) if job.prefix else ()
        return Prompt(parts=(), messages=(("user", job.text), *prefix), prefix=job.prefix)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("vllm") / "llama", head=32)


@pytest.fixture(scope="module")
def subject(model: Path) -> Iterator[EngineSubject]:
    with EngineSubject(lambda: make_vllm(model), STARTS["vllm"]) as subject:
        yield subject


def try_on(subject: EngineSubject, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    subject.run(work(subject.engine))


# With vLLM.


@real
def test_outputs_are_the_same_on_the_direct_path_and_from_the_generator(
    subject: EngineSubject,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = (job("free"), job("long", LONG), job("forced", prefix="Guten"))

    async def work(engine: VllmEngine) -> list[str]:
        feed = inside(engine, "feed")
        assert feed is not None
        before = feed.outputs_fed
        texts = [await read(engine, job) for job in jobs]
        assert feed.outputs_fed > before
        return texts

    assert isinstance(subject.engine, VllmEngine)
    fed = subject.run(work(subject.engine))
    assert subject.run(start_and_read(make_vllm(model, feed=False), *jobs), STARTS["vllm"]) == fed
    assert "from its generator" not in caplog.text

    monkeypatch.setattr(loaded, "why_unsupported", lambda _: "it is not as it was")
    other = make_vllm(model)
    assert subject.run(start_and_read(other, *jobs), STARTS["vllm"]) == fed
    assert caplog.text.count("from its generator") == 1


@real
def test_a_direct_path_without_outputs_is_abandoned_at_the_start(
    subject: EngineSubject,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Dry(OutputFeed):
        def adopt(self, request_id: str, receiver: OutputReceiver) -> bool:
            return False

    monkeypatch.setattr(loaded, "OutputFeed", Dry)
    engine = make_vllm(model)
    assert all(subject.run(start_and_read(engine, job("asked")), STARTS["vllm"]))
    assert "from its generator" in caplog.text


@real
def test_abort_has_stopped_the_request_when_it_returns(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        async with aclosing(engine.translate(job("aborted", LONG))) as chunks:
            await anext(chunks)
            assert engine.unfinished == 1
            engine.abort("aborted")
            assert engine.unfinished == 0
            with pytest.raises(Aborted):
                await anext(chunks)

    try_on(subject, work)


@real
def test_an_aborted_job_leaves_the_scheduler_as_well(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        async with aclosing(engine.translate(job("aborted", LONG))) as aborted:
            await anext(aborted)
            async with aclosing(engine.translate(job("other", LONG))) as chunks:
                await anext(chunks)
                assert engine.stats()["running"] == 2
                engine.abort("aborted")
                assert 1 in [engine.stats()["running"] async for _ in chunks]

    try_on(subject, work)


@real
def test_a_job_cancelled_at_any_moment_leaves_no_request_or_task(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        for turns in range(8):
            reading = asyncio.create_task(read(engine, job(f"cancelled-{turns}", LONG)))
            for _ in range(turns):
                await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert engine.unfinished == 0

    try_on(subject, work)


@real
def test_a_long_prompt_is_tokenised_in_a_thread_and_can_be_aborted_there(
    subject: EngineSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(engine: VllmEngine) -> None:
        whole = await read(engine, job("short"))
        monkeypatch.setattr(loaded, "THREAD_LENGTH", 10)
        assert await read(engine, job("long")) == whole
        reading = asyncio.create_task(read(engine, job("aborted")))
        await asyncio.sleep(0)
        engine.abort("aborted")
        with pytest.raises(Aborted):
            await reading
        assert engine.unfinished == 0

    try_on(subject, work)


@real
def test_a_text_longer_than_the_model_can_take_is_refused(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        with pytest.raises(EngineFault) as raised:
            await read(engine, job("long", "no such word " * 400))
        assert raised.value.code is ErrorCode.TOO_LONG
        assert engine.unfinished == 0

    try_on(subject, work)


@real
def test_the_ids_of_an_output_are_those_of_its_prefix_and_its_tokens(
    subject: EngineSubject, model: Path
) -> None:
    vocabulary = Vocabulary.load(model)

    async def work(engine: VllmEngine) -> None:
        for given in (job("free"), job("forced", prefix="Guten")):
            async with aclosing(engine.translate(given)) as stream:
                chunks = [chunk async for chunk in stream]
            ids = [id for chunk in chunks for id in chunk.ids]
            text = given.prefix + "".join(chunk.text for chunk in chunks)
            assert vocabulary.tokenizer.decode(ids).startswith(text)
            assert vocabulary.controls.isdisjoint(ids)

    try_on(subject, work)


@real
def test_a_growing_sentence_is_found_in_the_cache_up_to_its_old_end(
    subject: EngineSubject, model: Path
) -> None:
    vocabulary = Vocabulary.load(model)

    async def work(engine: VllmEngine) -> None:
        first = job("old", f"{LONG} {LONG}", partial=True)
        await read(engine, first)
        before = engine.stats()["prefix_hits"]
        await read(engine, job("new", f"{first.text} More.", partial=True, prefix="Guten"))
        old = len(vocabulary.encode(engine.profile.prompt(first))) - 1
        block = inside(engine).vllm_config.cache_config.block_size
        assert old > block
        assert engine.stats()["prefix_hits"] - before == old // block * block

    try_on(subject, work)


@real
def test_a_request_that_vllm_refuses_fails_only_its_job(
    subject: EngineSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(engine: VllmEngine) -> None:
        with monkeypatch.context() as patch, pytest.raises(EngineFault) as raised:
            patch.setattr(Vocabulary, "forced", lambda *_: [10**6])
            await read(engine, job("beyond", prefix="x"))
        assert raised.value.code is ErrorCode.INTERNAL
        assert await read(engine, job("after"))

    try_on(subject, work)


@real
def test_more_jobs_than_admitted_are_refused_until_one_ends(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        admitted = [asyncio.create_task(read(engine, job(f"{n}", LONG))) for n in range(8)]
        await until(lambda: engine.unfinished == len(admitted))
        with pytest.raises(Overloaded):
            await read(engine, job("one too many"))
        engine.abort("0")
        with pytest.raises(Aborted):
            await admitted.pop(0)
        assert await read(engine, job("another"))
        await asyncio.gather(*admitted)

    try_on(subject, work)


@real
def test_a_full_vllm_is_an_overload(
    subject: EngineSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(engine: VllmEngine) -> None:
        limits = inside(engine).scheduler_config
        monkeypatch.setattr(limits, "max_num_queued_reqs", 1)  # vLLM 0.32 and later
        async with aclosing(engine.translate(job("first", LONG))) as chunks:
            await anext(chunks)
            with pytest.raises(Overloaded):
                await read(engine, job("second"))

    try_on(subject, work)


@real
def test_a_job_that_vllm_gives_up_ends_in_a_fault(
    subject: EngineSubject,
) -> None:
    async def work(engine: VllmEngine) -> None:
        async with aclosing(engine.translate(job("given up", LONG))) as chunks:
            await anext(chunks)
            await inside(engine).pause_generation(mode="abort")
            with pytest.raises(EngineGone):
                while True:
                    await anext(chunks)
        await inside(engine).resume_generation()
        assert await read(engine, job("after"))

    try_on(subject, work)


@real
def test_a_model_without_a_tokenizer_file_is_read_with_the_tokenizer_vllm_has(
    subject: EngineSubject, model: Path, tmp_path: Path
) -> None:
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).symlink_to(model / file)
    engine = make_vllm(tmp_path, extra=SETTINGS["extra"] | {"tokenizer": str(model)})
    expected = subject.run(read(subject.engine, job("with")))
    assert subject.run(start_and_read(engine, job("without")), STARTS["vllm"]) == [expected]


@real
def test_a_profile_without_turns_uses_the_chat_template_of_the_model(
    subject: EngineSubject, model: Path, tmp_path: Path
) -> None:
    """The template here writes the same as the embedded profile, so the output is the same."""
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / file).symlink_to(model / file)
    (tmp_path / "chat_template.jinja").write_text(
        "<s><en><de>{% for message in messages %}"
        "{% if message.role == 'user' %}{{ message.content }}<sep>"
        "{% else %}{{ message.content }}{% endif %}{% endfor %}"
    )
    profile = Templated(**msgspec.structs.asdict(profiles.load("embedded")))
    engine = make_vllm(tmp_path, profile)
    expected = subject.run(read(subject.engine, job("ids")))
    prefixed = subject.run(read(subject.engine, job("prefixed ids", prefix="Guten")))
    got = start_and_read(engine, job("template"), job("prefixed template", prefix="Guten"))
    assert subject.run(got, STARTS["vllm"]) == [expected, prefixed]


@real
def test_an_argument_that_this_vllm_does_not_have_is_named(
    subject: EngineSubject, model: Path
) -> None:
    engine = make_vllm(model, extra={"no_such_argument": 1})

    async def work() -> None:
        with pytest.raises(EngineFault, match="no_such_argument"):
            await engine.start()
        assert engine.health is Health.DEAD
        await engine.aclose()

    subject.run(work())


# From here on the engine dies or is closed.


def inside(engine: VllmEngine, name: str = "engine") -> Any:
    """Return vLLM's engine object, or another attribute of the loaded model."""
    assert engine._loaded is not None
    return getattr(engine._loaded, name)


def processes(engine: VllmEngine) -> list[Any]:
    """Return EngineCore and its child processes."""
    import psutil

    (core,) = inside(engine).engine_core.resources.engine_manager.processes
    process = psutil.Process(core.pid)
    return [process, *process.children(recursive=True)]


@real
def test_a_death_is_noticed_while_there_are_no_jobs(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        processes(engine)[0].kill()
        await until(lambda: engine.health is Health.DEAD)
        with pytest.raises(EngineGone):
            await read(engine, job("late"))
        assert engine.unfinished == 0

    try_on(subject, work)


@real
def test_a_death_ends_running_jobs_in_a_fault_and_a_new_engine_can_start(
    subject: EngineSubject,
) -> None:
    async def work(engine: VllmEngine) -> None:
        async with aclosing(engine.translate(job("in flight", LONG))) as chunks:
            await anext(chunks)
            processes(engine)[0].kill()
            with pytest.raises(EngineGone):
                while True:
                    await anext(chunks)
        assert engine.unfinished == 0
        await until(lambda: engine.health is Health.DEAD)

    async def again(engine: VllmEngine) -> None:
        assert await read(engine, job("again"))

    try_on(subject, work)
    try_on(subject, again)


@real
def test_engine_core_finishes_running_requests_when_it_is_told_to_end(
    subject: EngineSubject,
) -> None:
    async def work(engine: VllmEngine) -> None:
        whole = await read(engine, job("undisturbed", LONG))
        async with aclosing(engine.translate(job("running", LONG))) as chunks:
            text = (await anext(chunks)).text
            processes(engine)[0].send_signal(signal.SIGTERM)
            text += "".join([chunk.text async for chunk in chunks])
        assert text == whole
        with pytest.raises(EngineGone):
            await read(engine, job("late"))
        await until(lambda: engine.health is Health.DEAD)

    try_on(subject, work)


@real
def test_closing_leaves_no_process_behind(subject: EngineSubject) -> None:
    import psutil

    async def work(engine: VllmEngine) -> None:
        running = processes(engine)
        await engine.aclose()
        _, alive = await asyncio.to_thread(psutil.wait_procs, running, timeout=GONE)
        assert not alive

    try_on(subject, work)


@real
def test_closing_an_engine_that_is_still_starting_leaves_no_process_behind(
    subject: EngineSubject, model: Path
) -> None:
    engine = make_vllm(model)
    before = set(multiprocessing.active_children())

    async def work() -> None:
        starting = asyncio.create_task(engine.start())
        await until(lambda: bool(set(multiprocessing.active_children()) - before))
        await engine.aclose()
        with pytest.raises(EngineGone):
            await starting
        assert engine.health is Health.CLOSED
        assert not set(multiprocessing.active_children()) - before

    subject.run(work())


PARENT = """
import asyncio, sys
from gateway.engines import profiles
from gateway.engines.vllm.engine import VllmEngine
from gateway.engines.vllm.engine import VllmOptions
from tests.engines.reading import LONG, TEXT, job, read
from tests.engines.vllm_factory import SETTINGS

async def main():
    await VllmEngine(sys.argv[1], profiles.load("embedded"), VllmOptions(**SETTINGS)).start()
    print("READY", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@real
def test_engine_processes_ignore_ctrl_c_and_end_when_the_gateway_is_killed(
    model: Path,
) -> None:
    """The processes are spawned and load the plugin, as in production."""
    import psutil

    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "VLLM_PLUGINS"},
    )
    assert parent.stdout is not None
    with parent:
        try:
            log = []
            for line in parent.stdout:
                log.append(line)
                if line == "READY\n":
                    break
            else:
                pytest.fail("".join(log))
            running = psutil.Process(parent.pid).children(recursive=True)
            ours = [process for process in running if "VLLM" in process.name()]
            assert ours
            group = os.getpgid(parent.pid)
            assert group not in [os.getpgid(process.pid) for process in ours]
        finally:
            parent.kill()
        _, alive = psutil.wait_procs(running, timeout=GONE)
        for process in alive:
            process.kill()
        assert not alive
