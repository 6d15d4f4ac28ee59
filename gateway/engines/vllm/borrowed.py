"""vLLM in a process that is not the gateway's: the engine around an engine that `vllm serve` has.

Owns: what may not be done to an `AsyncLLM` that somebody else built. Must not know: how it came
here, how it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.engines.profiles import Profile
from gateway.engines.vllm.compat import VllmApi
from gateway.engines.vllm.engine import VllmEngine
from gateway.engines.vllm.model import LoadedModel


class BorrowedLLM:
    """An `AsyncLLM`, except that nothing here can end it."""

    output_handler = None
    """Its task goes on when the gateway is closed."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def shutdown(self, timeout: float | None = None) -> None:
        """Does nothing."""


class BorrowedEngine(VllmEngine):
    """An `Engine` around an `AsyncLLM` that others ask, too, and that somebody else closes.

    :param engine: the `AsyncLLM`
    :param profile: None: found by name and ``config.json`` of its model
    """

    def __init__(self, engine: Any, profile: Profile | None = None) -> None:
        config = engine.vllm_config
        super().__init__(
            config.model_config.model,
            profile,
            max_num_seqs=config.scheduler_config.max_num_seqs,
        )
        self._lent = BorrowedLLM(engine)

    def stats(self) -> Mapping[str, float]:
        """None: vLLM tells its own on its own port."""
        return {}

    def _load(self) -> None:
        self._loaded = LoadedModel(
            VllmApi(), self._lent, self._model, self._profile, feed=self._feed
        )
