"""The process that a request belongs to."""

from __future__ import annotations

import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from gateway.protocol.handshake import is_room_name
from gateway.server.cluster.placement import RoomHint, owner, room_hint

ROOMS = st.text(string.ascii_letters + string.digits + "-_~", min_size=1, max_size=20)
MEMBERS = st.sets(st.integers(0, 63), min_size=1, max_size=8)


@given(ROOMS, MEMBERS)
def test_a_room_has_one_owner_whatever_the_order_of_the_members(
    room: str, members: set[int]
) -> None:
    found = owner(room, members)
    assert found in members
    assert owner(room, sorted(members)) == found == owner(room, sorted(members, reverse=True))


@given(ROOMS, MEMBERS, st.integers(0, 63))
def test_when_a_process_leaves_only_its_own_rooms_move(
    room: str, members: set[int], gone: int
) -> None:
    left = members - {gone}
    if left and owner(room, members) != gone:
        assert owner(room, left) == owner(room, members)


@given(ROOMS, MEMBERS, st.integers(0, 63))
def test_when_a_process_joins_rooms_move_to_it_or_stay(
    room: str, members: set[int], new: int
) -> None:
    assert owner(room, members | {new}) in (new, owner(room, members))


def test_rooms_are_spread_evenly() -> None:
    counts = Counter(owner(f"room-{n}", range(4)) for n in range(4000))
    assert all(850 < counts[member] < 1150 for member in range(4))


@pytest.mark.parametrize(
    ("target", "room"),
    [
        (b"/v1/ws?room=demo", "demo"),
        (b"/v1/ws?to=de&room=demo&from=en", "demo"),
        (b"/v1/ws?room=%64emo", "demo"),
        (b"/v1/ws?room=demo#there", "demo"),
        (b"/v1/w%73?room=demo", "demo"),
        (b"http://gateway.example/v1/ws?room=demo", "demo"),
        (b"/v1/ws?room=demo&resume=x&ticket=y", "demo"),
        (b"/v1/rooms/demo/events?to=de", "demo"),
        (b"/v1/rooms/demo/transcript.vtt", "demo"),
        (b"/v1/rooms/d%65mo", "demo"),
    ],
)
def test_the_room_is_read_from_a_request_that_names_it(target: bytes, room: str) -> None:
    assert room_hint(target, []) == RoomHint(room=room)


@pytest.mark.parametrize(
    "target",
    [
        b"/",
        b"/metrics",
        b"/v1/translate?room=demo",
        b"/v1/ws?room=",
        b"/v1/ws?room=~private",
        b"/v1/ws?room=" + b"x" * 65,
        b"/v1/rooms/",
        b"/v1/rooms/~x/events",
        b"/v1/wsx?room=demo",
    ],
)
def test_any_process_serves_a_request_without_a_valid_room(target: bytes) -> None:
    assert room_hint(target, []) is None


def test_credentials_are_read_from_a_socket_without_a_room() -> None:
    headers = [
        (b"host", b"x"),
        (b"authorization", b"Bearer  key "),
        (b"sec-websocket-protocol", b"gw.v1.json, gw.bearer.other"),
    ]
    assert room_hint(b"/v1/ws?resume=r&ticket=t", headers) == RoomHint(None, "r", "key", "t")
    assert room_hint(b"/v1/ws", headers[2:]) == RoomHint(None, None, "other", None)
    assert room_hint(b"/v1/ws", [headers[0]]) == RoomHint()


@pytest.mark.parametrize("value", [b"Basic abc", b"Bearer", b"Bearer  "])
def test_only_bearer_authorization_is_a_token(value: bytes) -> None:
    headers = [(b"authorization", value), (b"sec-websocket-protocol", b"gw.v1.json")]
    assert room_hint(b"/v1/ws?", headers) == RoomHint()


@given(st.lists(st.tuples(st.sampled_from(["room", "to", "resume"]), st.text(max_size=5))))
def test_a_query_is_read_as_the_endpoint_reads_it(pairs: list[tuple[str, str]]) -> None:
    query = str(QueryParams(pairs))
    room = QueryParams(query.encode()).get("room")
    found = room_hint(b"/v1/ws?" + query.encode(), [])
    if room is None:
        assert found is not None and found.room is None
    elif is_room_name(room):
        assert found == RoomHint(room=room)
    else:
        assert found is None


@given(st.binary(max_size=200), st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20))))
def test_reading_a_hint_never_raises(target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    found = room_hint(target, headers)
    assert found is None or found.room is None or is_room_name(found.room)
