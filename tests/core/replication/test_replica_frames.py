"""The frames of the feed, which readers of all gateways are sent."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from gateway.protocol import codec as codecs
from gateway.protocol import frames
from gateway.protocol.codec import Codec
from gateway.protocol.messages import (
    Delta,
    ServerMessage,
)
from tests.core.replication.test_replica import fleet
from tests.support.meeting import only


def test_events_are_encoded_once_for_each_codec_in_all_gateways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: Counter[tuple[str, bytes]] = Counter()
    for name in ("_to_json", "_to_msgpack"):
        encode = getattr(codecs, name)

        def count(message: ServerMessage, name: str = name, encode: Any = encode) -> bytes:
            payload: bytes = encode(message)
            encoded[name, payload] += 1
            return payload

        monkeypatch.setattr(codecs, name, count)
    room = fleet()
    speaker = room.enter("de", gateway="g1")
    written: dict[Codec, list[list[bytes]]] = {codec: [] for codec in Codec}
    for codec in Codec:
        for name in room.gateways:
            written[codec].append([])
            reader = room.enter("de", gateway=name, codec=codec)
            reader.session.outbox.post = written[codec][-1].append
    room.wait(1.0)
    encoded.clear()
    for lists in written.values():
        for wires in lists:
            wires.clear()
    speaker.say("good", id="x")
    job = room.job("de")
    for piece in ("Gu", "t"):
        room.feed(job, piece)
        room.act()
    room.finish_all()
    events = [json.loads(frames.message(wire))["type"] for wire in written[Codec.JSON][0]]
    assert events == ["source", *4 * ["delta"], "final"]
    assert set(encoded.values()) == {1}
    for codec, count_of in ((Codec.JSON, 6), (Codec.MSGPACK, 6), (Codec.PLAIN, 1)):
        one, two, three = written[codec]
        assert one == two == three and len(one) == count_of, codec


def test_deltas_are_encoded_for_each_language_tag_that_readers_use() -> None:
    room = fleet()
    speaker = room.enter("de", gateway="g1")
    other = room.enter("de-AT", gateway="g2")
    speaker.say("good", id="x")
    job = room.job("de")
    room.feed(job, "Gut")
    room.act()
    assert [delta.lang for delta in only(Delta, other.events())] == ["de-AT"]


def test_a_codec_without_readers_is_not_encoded() -> None:
    room = fleet()
    reader = room.enter("de", gateway="g2", codec=Codec.MSGPACK)
    speaker = room.enter("de", gateway="g1")
    speaker.say("good", id="x")
    room.finish_all()
    reader.close()
    speaker.say("good", id="y")
    room.finish_all()
    found = {entry.event.id: set(entry.frames.others) for entry in room.entries()}  # type: ignore[union-attr]
    assert found == {"x": {Codec.MSGPACK.value}, "y": set()}
