"""The frames of RFC 6455, against a library that is known to be right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, SERVER, Protocol
from websockets.uri import parse_uri

from gateway.cli.loadtest.model import frames
from gateway.cli.loadtest.model.frames import BINARY, CLOSE, PING, TEXT, Frames

SIZES = (0, 1, 125, 126, 65_535, 65_536)


def server(opcode: int, payload: bytes, *, last: bool = True) -> bytes:
    """Return a frame as a server writes it."""
    return Frame(Opcode(opcode), payload, last).serialize(mask=False)


@pytest.mark.parametrize("size", SIZES)
def test_frames_that_are_sent_can_be_read_by_a_server(size: int) -> None:
    protocol = Protocol(SERVER, state=OPEN)
    protocol.receive_data(frames.frame(TEXT, b"a" * size, b"\x01\x02\x03\x04"))
    (event,) = protocol.events_received()
    assert isinstance(event, Frame)
    assert (event.opcode, event.data) == (Opcode.TEXT, b"a" * size)


@pytest.mark.parametrize("size", SIZES)
def test_frames_of_a_server_are_read(size: int) -> None:
    assert list(Frames().feed(server(BINARY, b"b" * size))) == [(BINARY, b"b" * size)]


@given(
    st.lists(
        st.tuples(st.sampled_from([PING, CLOSE]), st.binary(max_size=125))
        | st.tuples(st.sampled_from([TEXT, BINARY]), st.integers(0, 400).map(bytes))
    ),
    st.data(),
)
def test_messages_do_not_depend_on_how_the_bytes_are_split(
    messages: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    wire = b"".join(server(*message) for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    reader, found = Frames(), []
    for begin, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        found += list(reader.feed(wire[begin:end]))
    assert found == messages


def test_a_frame_header_may_come_in_pieces() -> None:
    reader, wire = Frames(), server(TEXT, b"a" * 200)
    assert list(reader.feed(wire[:3])) == []
    assert list(reader.feed(wire[3:])) == [(TEXT, b"a" * 200)]


def test_fragments_are_joined_and_a_ping_may_come_between() -> None:
    wire = (
        server(TEXT, b"a", last=False)
        + server(PING, b"p")
        + server(0, b"b", last=False)
        + server(0, b"c")
        + server(TEXT, b"d")
    )
    assert list(Frames().feed(wire)) == [(PING, b"p"), (TEXT, b"abc"), (TEXT, b"d")]


@pytest.mark.parametrize(
    "wire",
    [
        server(0, b"continues nothing"),
        bytes((0x81, 127)) + (frames.MOST + 1).to_bytes(8),
        bytes((0x81, 0xFF)) + bytes(8),
    ],
)
def test_a_violation_of_the_protocol_is_refused(wire: bytes) -> None:
    with pytest.raises(ValueError, match="A frame"):
        list(Frames().feed(wire))


def test_a_message_in_pieces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MOST", 3)
    with pytest.raises(ValueError, match="over 3 bytes"):
        list(Frames().feed(server(TEXT, b"ab", last=False) + server(0, b"cd")))


def test_a_close_frame_has_a_code_and_a_reason_or_neither() -> None:
    assert frames.closed(b"") == (1005, "")
    assert frames.closed((4008).to_bytes(2) + b"too slow") == (4008, "too slow")


def test_the_handshake_is_that_of_the_library() -> None:
    key = "dGhlIHNhbXBsZSBub25jZQ=="
    assert frames.accept(key) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455, 1.3
    asked = frames.request("x:1", "/v1/ws?a=b", key, "gw.v1.json", "secret").decode()
    assert asked.startswith("GET /v1/ws?a=b HTTP/1.1\r\nHost: x:1\r\n")
    assert "\r\nAuthorization: Bearer secret\r\n" in asked
    assert asked.endswith("\r\n\r\n")
    assert "Authorization" not in frames.request("x", "/", key, "gw.v1.json", None).decode()
    ours = {line.partition(":")[0].lower() for line in asked.splitlines() if ":" in line}
    theirs = ClientProtocol(parse_uri("ws://x/")).connect().headers
    assert {name.lower() for name in theirs} - {"sec-websocket-extensions"} <= ours


@pytest.mark.parametrize("key", ["a\r\nX: y", "schlüssel"])
def test_a_key_cannot_add_a_header(key: str) -> None:
    with pytest.raises(ValueError, match="The key"):
        frames.request("x", "/", "k", "gw.v1.json", key)


def test_an_answer_that_is_not_of_a_gateway_is_an_error() -> None:
    good = f"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {frames.accept('k')}"
    frames.answered(good.encode(), "k")
    with pytest.raises(ConnectionError, match="it answered 'HTTP/1.1 503 Busy'"):
        frames.answered(b"HTTP/1.1 503 Busy\r\nA: b", "k")
    with pytest.raises(ConnectionError, match="it answered ''"):
        frames.answered(b"", "k")
    with pytest.raises(ConnectionError, match="does not know WebSockets"):
        frames.answered(b"HTTP/1.1 101 Fine\r\nSec-WebSocket-Accept: no", "k")
