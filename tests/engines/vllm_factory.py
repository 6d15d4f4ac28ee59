"""An unstarted `VllmEngine` that starts fast on a CPU, for this engine's tests and others.

In most of a start, several interpreters import torch and vLLM one after the other. In production
vLLM spawns its processes. Here they are forked from this one, which has imported everything
already. The plugin `parent_watch` works in spawned processes only, so its test spawns them.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from gateway.engines import profiles
from gateway.engines.profiles import Profile
from gateway.engines.vllm.compat import VllmApi
from gateway.engines.vllm.engine import VllmEngine, VllmOptions

SETTINGS: dict[str, Any] = {
    "dtype": "float32",  # float16 is emulated on most CPUs
    "max_num_seqs": 4,
    "max_num_batched_tokens": 2048,
    "max_model_len": 512,
    "enforce_eager": True,
    "extra": {"kv_cache_memory_bytes": 64 * 2**20},
}


UNBOUND = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
"""Environment of vLLM. It would bind its threads to certain processors, where all engines wait for
each other, and for whatever else runs there, although another processor is free."""


class Forking(VllmEngine):
    def _load(self) -> None:
        with warnings.catch_warnings():  # warnings of vLLM and torch do not concern these tests
            warnings.simplefilter("ignore")
            super()._load()

    async def aclose(self) -> None:
        await super().aclose()
        with warnings.catch_warnings():  # vLLM leaves its zmq context to the garbage collector
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def _configure(self, api: VllmApi) -> Any:
        config = super()._configure(api)
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"  # making the configuration resets it
        return config


def make_vllm(model_dir: Path, profile: Profile | None = None, **settings: Any) -> VllmEngine:
    """Return an engine for ``model_dir``, by default with the embedded profile.

    vLLM's kernels for CPUs know no attention heads smaller than 32: ``tiny_llama(dir, head=32)``.
    """
    require()
    os.environ.update(UNBOUND)
    given = SETTINGS | settings
    options = {key: given.pop(key) for key in VllmOptions.__struct_fields__ if key in given}
    return Forking(model_dir, profile or profiles.load("embedded"), VllmOptions(**options), **given)


def require() -> None:
    """Skip the test if vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed here; `make test-vllm` installs and tests it.")
