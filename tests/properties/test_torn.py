"""Interrupted and resumed, at any moment and any number of times, the durable stream equals the
uninterrupted one: no gap, no duplicate, exactly one end for each caption.
"""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.properties.torn import TornWorld


@settings(max_examples=200)
@given(st.binary(min_size=60, max_size=500))
def test_a_reader_that_resumes_ends_with_the_text_of_one_that_never_left(tape: bytes) -> None:
    world = TornWorld(tape)
    try:
        world.run()
    except BaseException:
        note("\n".join(world.trace))
        raise
