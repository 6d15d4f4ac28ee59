"""Any meeting at all: whatever clients send and whatever the engine does, the promises hold."""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.properties.world import World


@settings(max_examples=300)
@given(st.binary(min_size=60, max_size=500))
def test_every_caption_ends_once_and_nothing_leaks_whatever_happens(tape: bytes) -> None:
    world = World(tape)
    try:
        world.run()
    except BaseException:
        note("\n".join(world.trace))
        raise
