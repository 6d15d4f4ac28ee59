"""Services of models: the life that engines and recognisers have in common.

Owns: the `ModelService` protocol, and the parts of a service that does the work itself, or that
wraps another one. Must not know: jobs, texts, audio.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from gateway.errors import EngineGone

logger = logging.getLogger(__name__)


class Health(enum.Enum):
    """States in the life of an engine; ``readyz`` answers 200 only in READY."""

    STARTING = "starting"
    READY = "ready"
    DEAD = "dead"
    CLOSED = "closed"


class ModelService(Protocol):
    """A model behind the gateway: an engine or a recogniser. One serves the whole process."""

    @property
    def name(self) -> str:
        """Short name of engine and model for people, for example ``ctranslate2:embedded``."""

    @property
    def capacity(self) -> int:
        """Number of jobs to give it at once. More jobs would only slow each other down."""

    @property
    def health(self) -> Health:
        """Current state, from local knowledge: reading it makes no request."""

    @property
    def unfinished(self) -> int:
        """Number of jobs that it is still working on, by its own count."""

    def stats(self) -> Mapping[str, float]:
        """Return gauges that only this engine has, such as KV-cache use. Makes no request."""

    async def start(self) -> None:
        """Load the model off the event loop. Raises `EngineFault`, meant for the operator."""

    async def aclose(self) -> None:
        """End all jobs and free the model. Idempotent."""


S = TypeVar("S", bound=ModelService)


class Backend:
    """A base of engines and recognisers that have a model. Parameters: `ModelService`."""

    def __init__(self, name: str, capacity: int) -> None:
        self._name = name
        self._capacity = capacity
        self._health = Health.STARTING

    @property
    def name(self) -> str:
        return self._name

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def health(self) -> Health:
        return self._health

    def stats(self) -> Mapping[str, float]:
        return {}

    def _require_health(self, health: Health) -> None:
        """Raise `EngineGone` unless the backend is in the state ``health``."""
        if self.health is not health:
            raise EngineGone(f"{self.name} is {self.health.value}, not {health.value}.")

    def _set_health(self, health: Health) -> None:
        logger.debug("%s is %s", self.name, health.value)
        self._health = health


class ServiceWrapper(Generic[S]):
    """A service around another one, ``engine``, with the same properties."""

    engine: S

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def capacity(self) -> int:
        return self.engine.capacity

    @property
    def health(self) -> Health:
        return self.engine.health

    @property
    def unfinished(self) -> int:
        return self.engine.unfinished

    def stats(self) -> Mapping[str, float]:
        return self.engine.stats()

    async def start(self) -> None:
        await self.engine.start()

    async def aclose(self) -> None:
        await self.engine.aclose()
