"""``gateway tune`` in front of a real vLLM, on the CPU. Run by ``make test-vllm``."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from caption_tools.speech.text import lines
from caption_tools.tune.model.load import described
from gateway.settings.catalogue import Settings
from tests.engines.vllm_factory import make_vllm
from tests.support.models import tiny_llama
from tests.tools.tune.test_sweep import measured

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(300)]


async def test_the_figures_have_vllms_own_cache_and_it_is_held_to_fewer_jobs(
    tmp_path: Path,
) -> None:
    engine = make_vllm(tiny_llama(tmp_path / "llama", head=32), max_num_seqs=4)
    load = described("4 a second, 1-8 words", 5.0, lines(), "en", Random(0))
    settings = Settings(engine="vllm", guards=False)
    found = await measured(engine, most=2, load=load, settings=settings)
    assert found.final.count and found.running <= 2
    assert 0 < found.cache < 1
    assert found.tokens > 0
