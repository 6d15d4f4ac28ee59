"""The engine inside `vllm serve`: an engine around an `AsyncLLM` that this process has already.

Owns: what may not be done to an `AsyncLLM` that another component built. Must not know: how it was
built, how requests to it are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.engines.profiles import Profile
from gateway.engines.vllm.compat import VllmApi
from gateway.engines.vllm.engine import VllmEngine, VllmOptions
from gateway.engines.vllm.model import LoadedModel


class BorrowedLLM:
    """An `AsyncLLM` whose `shutdown` does nothing, because its owner ends it."""

    output_handler = None
    """None, so that the task of the `AsyncLLM` goes on when the gateway is closed."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def shutdown(self, timeout: float | None = None) -> None:
        """Do nothing."""


class BorrowedEngine(VllmEngine):
    """An `Engine` around an `AsyncLLM` that other clients use as well and that its owner closes.

    :param engine: the `AsyncLLM`
    :param profile: None: found by name and ``config.json`` of its model
    """

    def __init__(self, engine: Any, profile: Profile | None = None) -> None:
        config = engine.vllm_config
        super().__init__(
            config.model_config.model,
            profile,
            VllmOptions(max_num_seqs=config.scheduler_config.max_num_seqs),
        )
        self._borrowed = BorrowedLLM(engine)

    def stats(self) -> Mapping[str, float]:
        """Return nothing, because vLLM reports its statistics on its own port."""
        return {}

    def _load(self) -> None:
        self._loaded = LoadedModel(
            VllmApi(), self._borrowed, self._model, self._profile, feed=self._feed
        )
