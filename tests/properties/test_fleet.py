"""Any meeting at all, in several gateways: the promises are those of one."""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.properties.storm import Storm
from tests.properties.world import World
from tests.support.fleet import FleetMeeting


class FleetWorld(World):
    """A meeting whose members are spread over three gateways."""

    kind = FleetMeeting


@settings(max_examples=300)
@given(st.binary(min_size=60, max_size=500))
def test_a_room_in_three_gateways_keeps_the_promises_of_a_room_in_one(tape: bytes) -> None:
    world = FleetWorld(tape)
    try:
        world.run()
    except BaseException:
        note("\n".join(world.trace))
        raise


@settings(max_examples=300)
@given(st.binary(min_size=80, max_size=400))
def test_readers_see_every_event_once_whatever_the_network_and_the_owners_do(tape: bytes) -> None:
    storm = Storm(tape)
    try:
        storm.run()
    except BaseException:
        note("\n".join(storm.trace))
        raise
