"""The whole core at once: the meetings of `tests.properties`, chosen by a fuzzer."""

from __future__ import annotations

from tests.properties.torn import TornWorld


def one(data: bytes) -> None:
    """Play one input."""
    TornWorld(data).run()
