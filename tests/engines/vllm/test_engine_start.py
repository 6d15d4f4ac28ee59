"""Starts of a vLLM engine: paths of outputs, tokenizers, templates and arguments."""

from __future__ import annotations

import asyncio
import multiprocessing
from pathlib import Path

import msgspec
import pytest

from caption_gateway.testing.subject import EngineSubject
from gateway.engines import profiles
from gateway.engines.base.service import Health
from gateway.engines.profiles import Profile, Prompt
from gateway.engines.vllm import model as loaded
from gateway.engines.vllm.engine import VllmEngine
from gateway.engines.vllm.outputs import OutputFeed, OutputReceiver
from gateway.errors import EngineFault, EngineGone
from gateway.job import Job
from tests.engines.reading import LONG, job, read
from tests.engines.vllm.real import inside, real, start_and_read
from tests.engines.vllm_factory import SETTINGS, make_vllm
from tests.support.live import until


class Templated(Profile, frozen=True, kw_only=True):
    """A profile with chat messages only: the source and the forced prefix."""

    def prompt(self, job: Job) -> Prompt:
        prefix = (("assistant", job.prefix),) if job.prefix else ()
        return Prompt(parts=(), messages=(("user", job.text), *prefix), prefix=job.prefix)


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
    assert "from its generator" not in caplog.text
    monkeypatch.setattr(loaded, "why_unsupported", lambda _: "it is not as it was")
    other = make_vllm(model)
    assert subject.run(start_and_read(other, *jobs)) == fed
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
    assert all(subject.run(start_and_read(engine, job("asked"))))
    assert "from its generator" in caplog.text


@real
def test_a_model_without_a_tokenizer_file_is_read_with_the_tokenizer_vllm_has(
    subject: EngineSubject, model: Path, tmp_path: Path
) -> None:
    for file in ("config.json", "model.safetensors"):
        (tmp_path / file).symlink_to(model / file)
    engine = make_vllm(tmp_path, extra=SETTINGS["extra"] | {"tokenizer": str(model)})
    expected = subject.run(read(subject.engine, job("with")))
    assert subject.run(start_and_read(engine, job("without"))) == [expected]


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
    assert subject.run(got) == [expected, prefixed]


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
