"""The whole core at once: the meetings of `tests.properties`, as a fuzzer would have them."""

from __future__ import annotations

from tests.properties.torn import TornWorld


def one(data: bytes) -> None:
    """Play one input."""
    TornWorld(data).run()
