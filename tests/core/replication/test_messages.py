"""Messages between the gateways of two releases."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.core.replication.messages import (
    Frames,
    Grown,
    Unknown,
    decode_feed,
    decode_inbox,
    encode,
)
from gateway.protocol import frames
from gateway.protocol.messages import Delta, Final
from tests.support.fleet import FleetMeeting
from tests.support.meeting import Peer, one


def spoken() -> tuple[FleetMeeting, Peer]:
    room = FleetMeeting()
    speaker, reader = room.enter("de", gateway="g1"), room.enter("de", gateway="g2")
    speaker.say("good", id="x")
    room.finish_all()
    reader.events()
    return room, reader


def framed(event: dict[str, Any]) -> Frames:
    return Frames(frames.text(msgspec.json.encode(event)))


def publish(room: FleetMeeting, *message: Any) -> None:
    """Send a message that a newer authority might send to all gateways."""
    room.unwritten.append(encode(message))
    room.act()


def test_a_delta_is_not_decoded_beside_the_authority_and_reads_the_same_elsewhere() -> None:
    delta = Delta(id="x", rev=1, lang="ja", add="会議は", draft="今日です", n=1)
    message = Grown.of(7, delta, [])
    assert message.delta is delta
    received = decode_feed(encode(message))
    assert received == message
    assert isinstance(received, Grown)
    assert received.delta == delta


def test_fields_of_a_newer_release_are_ignored() -> None:
    room, _ = spoken()
    for payload in room.stream:
        newer = encode([*msgspec.msgpack.decode(payload), "new", {"more": 1}])
        assert decode_feed(newer) == decode_feed(payload)
    source, *_ = room.entries()
    event = msgspec.json.decode(source.frames.payload)
    entry = msgspec.structs.replace(source, frames=framed(event | {"mood": "glad"}))
    assert entry.event == source.event
    left = ["left", "meeting", "g1", "t1", "c1", True]
    assert decode_inbox(encode([*left, "new"])) == decode_inbox(encode(left))


def test_messages_of_a_newer_release_that_no_log_keeps_are_passed_over() -> None:
    room, reader = spoken()
    feed = room.authority.feed
    weather = framed({"type": "weather", "rain": True})
    for kind, content in (("shouted", {"loud": True}), ("told", weather)):
        feed._number += 1
        publish(room, kind, feed._number, content)
    assert reader.events() == []
    room.peers[0].say("day", id="y")
    room.finish_all()
    assert one(Final, reader.events()).id == "y"
    assert all(gateway.replica._introductions == 1 for gateway in room.gateways.values())


def test_a_message_without_a_number_is_not_passed_over() -> None:
    assert decode_feed(encode(["shouted", 7])) == Unknown(7)
    for message in (["shouted"], ["told", 7], ["grown", "x"], "told", {"told": 1}):
        with pytest.raises(msgspec.ValidationError):
            decode_feed(encode(message))
    with pytest.raises(msgspec.DecodeError):
        decode_feed(b"\xc1")


def test_a_durable_event_of_an_unknown_type_is_an_error() -> None:
    room, _ = spoken()
    entry = msgspec.structs.replace(room.entries()[0], frames=framed({"type": "weather"}))
    with pytest.raises(msgspec.ValidationError):
        _ = entry.event
