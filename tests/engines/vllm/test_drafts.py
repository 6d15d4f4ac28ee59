"""Tests of drafts in a real vLLM on the CPU. `test_contract.py` has those of all engines."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.engines.testing.subject import EngineSubject
from gateway.engines.vllm.compat import VllmApi
from gateway.engines.vllm.engine import VllmEngine
from gateway.job import Chunk, Job
from tests.engines.conftest import STARTS
from tests.engines.reading import LONG, chunks, job, read
from tests.engines.vllm_factory import make_vllm, require
from tests.support.models import tiny_llama

PATIENCE = 120.0
"""Seconds until a test is taken to hang. Some of them make dozens of translations."""

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require()
    return tiny_llama(tmp_path_factory.mktemp("drafts") / "llama", head=32)


@pytest.fixture(scope="module")
def subject(model: Path) -> Iterator[EngineSubject]:
    with EngineSubject(lambda: make_vllm(model, drafts=True), STARTS["vllm"]) as subject:
        yield subject


def try_on(subject: EngineSubject, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    subject.run(work(subject.engine), PATIENCE)


def with_ids(found: list[Chunk]) -> tuple[str, list[int]]:
    return "".join(c.text for c in found), [id for c in found for id in c.ids]


def changed(text: str, chance: random.Random) -> str:
    """Return ``text`` with pieces left out, doubled, replaced or cut off."""
    at = chance.randrange(len(text))
    end = min(len(text), at + chance.randrange(6))
    return chance.choice(
        [
            text[:at] + text[end:],
            text[:end] + text[at:],
            text[:at] + "xyz" + text[end:],
            text[:at],
        ]
    )


def test_drafts_of_many_jobs_at_once_change_no_translation(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        chance = random.Random(1)
        sources = [LONG[: 20 + 9 * n] for n in range(4)]
        plain = [with_ids(await chunks(engine, job(f"p{n}", s))) for n, s in enumerate(sources)]
        jobs = [
            job(f"d{n}-{turn}", source, draft=changed(text, chance), prefix_ids=tuple(ids))
            for n, (source, (text, ids)) in enumerate(zip(sources, plain, strict=True))
            for turn in range(4)
        ]
        slots = asyncio.Semaphore(4)  # the engine's capacity

        async def slot(given: Job) -> str:
            async with slots:
                return await read(engine, given)

        found = await asyncio.gather(*(slot(given) for given in jobs))
        assert found == [text for text, _ in plain for _ in range(4)]
        assert engine.unfinished == 0

    try_on(subject, work)


def test_a_draft_that_is_right_is_accepted_in_the_step_that_reads_the_prompt(
    subject: EngineSubject,
) -> None:
    async def work(engine: VllmEngine) -> None:
        _, ids = with_ids(await chunks(engine, job("plain")))
        vocabulary = engine._loaded.vocabulary  # type: ignore[union-attr]
        # The end of a character that random weights leave unfinished would be encoded otherwise.
        decode = vocabulary.tokenizer.decode
        spelt = [n for n in range(12) if vocabulary.forced(decode(ids[:n]), ids) == ids[:n]]
        count = spelt[-1]
        assert count > 3
        draft = decode(ids[:count])
        found = await chunks(engine, job("drafted", draft=draft, prefix_ids=tuple(ids)))
        assert with_ids(found)[1][: len(ids)] == ids
        assert found[0].ids == tuple(ids[: count + 1])
        assert (found[0].drafted, found[0].accepted, found[0].tokens) == (count, count, 1)
        assert sum(c.accepted for c in found) == count

    try_on(subject, work)


def test_with_the_largest_bias_growing_text_keeps_any_draft(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        _, ids = with_ids(await chunks(engine, job("other", LONG[:60])))
        vocabulary = engine._loaded.vocabulary  # type: ignore[union-attr]
        draft = vocabulary.tokenizer.decode(ids[:6])
        plain = await read(engine, job("plain"))
        assert not plain.startswith(draft)
        for bias, kept in ((1.0, True), (0.0, False)):
            given = job(f"{bias}", partial=True, draft=draft, draft_bias=bias)
            assert (await read(engine, given)).startswith(draft) is kept

    try_on(subject, work)


def test_a_draft_behind_a_forced_prefix_is_checked(subject: EngineSubject) -> None:
    async def work(engine: VllmEngine) -> None:
        text, ids = with_ids(await chunks(engine, job("plain")))
        vocabulary = engine._loaded.vocabulary  # type: ignore[union-attr]
        prefix = vocabulary.tokenizer.decode(ids[:3])
        forced = job("forced", prefix=prefix, draft=text[len(prefix) :], prefix_ids=tuple(ids))
        found = await chunks(engine, forced)
        assert prefix + with_ids(found)[0] == text
        assert sum(c.accepted for c in found) >= len(ids) - 4

    try_on(subject, work)


def test_vllm_is_told_nothing_of_drafts_if_something_excludes_them(
    model: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.engines.vllm import drafts

    api = VllmApi()
    given: dict[str, Any] = {"model": str(model), "dtype": "float32"}
    assert api.draft_options(given, wanted=True)["scheduler_cls"]
    assert api.draft_options(given, wanted=False) == {}
    assert api.draft_options(given) == {}  # on a CPU
    assert "does not check drafts" not in caplog.text
    assert api.draft_options(given | {"async_scheduling": True}, wanted=True) == {}
    assert "async_scheduling is set" in caplog.messages[-1]
    monkeypatch.setattr(drafts, "pays", lambda: True)
    assert api.draft_options(given)["compilation_config"]["cudagraph_mode"] == "FULL"
    hybrid = SimpleNamespace(create_model_config=lambda: SimpleNamespace(is_hybrid=True))
    with monkeypatch.context() as patch:
        vllm = SimpleNamespace(AsyncEngineArgs=lambda **_: hybrid, __version__="0.33")
        patch.setattr(api, "vllm", vllm)
        assert api.draft_options(given) == {}
        assert "cannot go back" in caplog.messages[-1]
    monkeypatch.setattr(drafts, "why_unsupported", lambda: "it is another one")
    assert api.draft_options(given) == {}
    assert "it is another one" in caplog.messages[-1]


def test_the_version_of_vllm_here_can_check_drafts(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.engines.vllm import drafts

    assert drafts.why_unsupported() is None
    manager = vars(drafts)["KVCacheManager"]
    monkeypatch.delattr(manager, "allocate_slots")
    assert drafts.why_unsupported() == "its KVCacheManager has no allocate_slots"


def test_the_bias_raises_only_tokens_that_are_nearly_as_probable(model: Path) -> None:
    import torch

    from gateway.engines.vllm.drafts import lean

    scores = torch.tensor([[0.5, 0.4, 0.1], [0.8, 0.1, 0.1], [0.5, 0.4, 0.1]]).log()
    draft = torch.tensor([1, 1, 1])
    raised = lean(scores.clone(), [0.2, 0.0], [2, 1], draft)
    assert raised.argmax(-1).tolist() == [1, 0, 0]
    assert lean(scores, [0.0, 0.0], [2, 1], draft) is scores
    padded = lean(scores.clone(), [0.2, 0.0], [2, 1], torch.tensor([1, 1, -1]))
    assert padded.argmax(-1).tolist() == [1, 0, 0]


def test_a_prompt_that_is_cached_up_to_its_last_token_is_checked_as_well(
    subject: EngineSubject,
) -> None:
    async def work(engine: VllmEngine) -> None:
        vocabulary = engine._loaded.vocabulary  # type: ignore[union-attr]
        block = engine._loaded.engine.vllm_config.cache_config.block_size  # type: ignore[union-attr]
        words = next(
            n
            for n in range(400)
            if len(vocabulary.encode(engine.profile.prompt(job("j", "a " * n + "b")))) % block == 1
        )
        given = job("cached", "a " * words + "b")
        text, ids = with_ids(await chunks(engine, given))
        for turn in range(2):
            again = job(f"{turn}", given.text, draft=text, prefix_ids=tuple(ids))
            found = await chunks(engine, again)
            assert with_ids(found)[0] == text
            assert sum(c.accepted for c in found) >= len(ids) // 2

    try_on(subject, work)
