"""Redis for the tests of a fleet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.server.fleet.links import Links
from tests.support.redis import RedisServer


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Return a Redis that keeps nothing over a restart."""
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture
def durable_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Return a Redis that keeps everything over a restart."""
    with RedisServer(tmp_path, durable=True) as server:
        yield server


@pytest.fixture
async def links() -> AsyncIterator[Links]:
    """Return a maker of links that are closed at the end."""
    made = Links()
    yield made
    await made.aclose()
