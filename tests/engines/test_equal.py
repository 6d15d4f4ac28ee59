"""A test that the embedded model gives the same captions in CTranslate2 and in vLLM.

CTranslate2 computes with int8, vLLM with floating point and a float16 copy of the weights.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.engines import profiles, registry
from gateway.engines.ctranslate2.engine import CTranslate2Engine
from gateway.job import Job
from tests.engines.vllm_factory import SETTINGS, make_vllm
from tests.quality import DIRECTIONS, SETS, captions, lines

EQUAL = 0.93
"""The least share of captions that are the same letter by letter; it was 93.7 % when the model
came. Those that differ are near ties, which 8-bit activations decide otherwise than floats."""

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


async def test_both_engines_give_the_same_captions(tmp_path: Path) -> None:
    model, cache = registry.EMBEDDED, tmp_path / "cache"
    jobs = [
        Job(id=f"{name} {direction} {number}", text=text, source=source, target=target)
        for name in SETS
        for direction in DIRECTIONS
        for source, target in [direction.split("-")]
        for number, text in enumerate(lines(name, source))
    ]
    on_cpu = CTranslate2Engine(model, profiles.load("embedded"), cache_dir=cache)
    many = SETTINGS | {"max_num_seqs": 64, "extra": {"kv_cache_memory_bytes": 512 * 2**20}}
    in_vllm = make_vllm(model, cache_dir=cache, **many)
    one, other = await captions(on_cpu, jobs), await captions(in_vllm, jobs)
    differ = [(id, one[id], other[id]) for id in one if one[id] != other[id]]
    said = f"{len(differ)} of {len(jobs)} differ, as in {differ[:20]}"
    assert len(differ) <= (1 - EQUAL) * len(jobs), said
