"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live import Live, in_thread


@pytest.fixture(scope="session")
def live() -> Iterator[Live]:
    """A gateway on a scripted engine, shared by the tests that only talk to it."""
    with in_thread() as gateway:
        yield gateway
