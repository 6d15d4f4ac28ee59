"""``gateway tune`` in front of a real vLLM, on the CPU. Run by ``make test-vllm``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.engines.base import Engine
from gateway.settings import Settings
from gateway.tune import sweep
from gateway.tune.sweep import Knob, Sweep
from tests.engines.vllm_factory import make_vllm
from tests.models import tiny_llama
from tests.tune.test_probe import load

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


def test_vllms_own_counters_are_part_of_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "WARM_S", 0.1)
    model = tiny_llama(tmp_path / "llama", head=32)

    def build(settings: Settings) -> Engine:
        return make_vllm(model, max_num_seqs=settings.max_num_seqs)

    texts = ("one", "two words", "three words here", "and now four words", "five of them it is")
    found = Sweep(
        Settings(engine="vllm", guards=False), load(*texts, seconds=2.0), ("de",), build=build
    )
    knob = Knob(setting="max_num_seqs", values=(1, 4), places=True, capped=True)
    asyncio.run(found.run([knob]))
    (tried,) = found.tried
    for value, figures in tried.steps.items():
        assert figures.captions == len(texts)
        assert figures.running <= value
        assert 0 < figures.cache < 1
        assert figures.prefill > 0
        assert figures.tokens > 0
    # A model of chance goes on to its limit: one after the other need not end in time.
    assert tried.steps[4].batch > tried.steps[1].batch
