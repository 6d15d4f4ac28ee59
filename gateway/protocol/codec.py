"""Frames to messages and back: JSON, MessagePack, and plain lines for people.

Owns: the sub-protocol names, decoding with a named fault for any bytes, encoding once per event.
Must not know: what a message causes, sockets. How a frame stands on the wire is
`gateway.protocol.frames`'s business.

Invariant (``tests/protocol/test_codec.py``): any bytes either decode to a message or raise
`ClientFault`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import msgspec

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol import frames
from gateway.protocol.frames import SHORT
from gateway.protocol.messages import (
    HELP,
    REQUESTS,
    ClientMessage,
    Edited,
    Error,
    Failed,
    Final,
    Say,
    ServerMessage,
    Welcome,
)


class Codec(enum.Enum):
    """How a socket's frames are written. The value is the WebSocket sub-protocol."""

    JSON = "gw.v1.json"
    MSGPACK = "gw.v1.msgpack"
    PLAIN = "plain"

    # `Enum` hashes names, in Python.
    __hash__ = object.__hash__

    def encode(self, message: ServerMessage) -> str | bytes | None:
        """One frame: `str` goes out as text, `bytes` as binary, None is not shown at all."""
        wire = self.wire(message)
        return None if wire is None else frames.message(wire)

    def wire(self, message: ServerMessage) -> bytes | None:
        """The same with its head before it, as it is written to a socket.

        Text is not made a `str` on the way, which would cost as much again.
        """
        return _WIRES[self](message)

    @property
    def encoder(self) -> Callable[[ServerMessage], bytes | None]:
        """`wire` itself, for who has many to encode."""
        return _WIRES[self]


_JSON = Codec.JSON
"""The look-up of a member of an `Enum` is a call."""

_to_json = msgspec.json.Encoder().encode
_to_msgpack = msgspec.msgpack.Encoder().encode


def _json_wire(message: ServerMessage) -> bytes:
    """`framing.text` of the message. Every delta goes this way, and calls are what it costs."""
    payload = _to_json(message)
    size = len(payload)
    return SHORT[size] + payload if size < 126 else frames.text(payload)


def _msgpack_wire(message: ServerMessage) -> bytes:
    return frames.binary(_to_msgpack(message))


def _plain_wire(message: ServerMessage) -> bytes | None:
    line = plain(message)
    return None if line is None else frames.text(line.encode())


_WIRES: dict[Codec, Callable[[ServerMessage], bytes | None]] = {
    Codec.JSON: _json_wire,
    Codec.MSGPACK: _msgpack_wire,
    Codec.PLAIN: _plain_wire,
}


def negotiate(offered: Sequence[str]) -> Codec | None:
    """The first offered sub-protocol the gateway speaks, or None."""
    for name in offered:
        if name in (Codec.JSON.value, Codec.MSGPACK.value):
            return Codec(name)
    return None


def decode(frame: str | bytes) -> ClientMessage:
    """Read a client's frame. Text that does not begin with ``{`` is said as it stands.

    Raises `ClientFault` (``bad_frame``, ``unknown_type``) with what was wrong and where.
    """
    try:
        if isinstance(frame, bytes):
            return _from_msgpack(frame)
        if not frame.startswith("{"):
            return Say(text=frame)
        return _from_json(frame)
    except _UNREADABLE as exc:
        raise _explain(frame, exc) from exc


def reference(frame: str | bytes) -> tuple[str | None, str | None]:
    """(ref, id) of a frame that could not be read, as far as they can be made out."""
    head = _peek(frame)
    return (head.get("ref"), head.get("id"))


def plain(message: ServerMessage) -> str | None:
    """A line for a person at a terminal, or None for what only programs need."""
    match message:
        case Final():
            return f"[{message.lang}] {message.text}"
        case Edited():
            return f"[{message.lang}] (corrected) {message.text}"
        case Failed():
            return f"[{message.lang}] (not translated: {message.code})"
        case Error():
            return f"! {message.msg}" + (f" {message.hint}" if message.hint else "")
        case Welcome():
            return f"# {message.hint}" if message.hint else None
        case _:
            return None


class Envelope(msgspec.Struct, eq=False):
    """One event on its way to many readers: encoded once per codec, the same object for all.

    A struct is made in a third of the time of any other object, and there is one for every delta.
    """

    message: ServerMessage
    # Most events have readers of one codec, and a dict costs as much as the encoding.
    _codec: Codec | None = None
    _wire: bytes | None = None
    _wires: dict[Codec, bytes | None] | None = None
    _tagged: dict[str, Envelope] | None = None

    def wire(self, codec: Codec) -> bytes | None:
        """The frame with its head, ready to be written; see `Codec.wire`."""
        if codec is self._codec:
            return self._wire
        if self._codec is None:
            self._codec = codec
            message = self.message
            self._wire = wire = _json_wire(message) if codec is _JSON else codec.wire(message)
            return wire
        if self._wires is None:
            self._wires = {}
        if codec not in self._wires:
            self._wires[codec] = codec.wire(self.message)
        return self._wires[codec]

    def tagged(self, lang: str) -> Envelope:
        """The same for those who call the event's language ``lang``."""
        if getattr(self.message, "lang", None) in (None, lang):
            return self
        if self._tagged is None:
            self._tagged = {}
        if lang not in self._tagged:
            self._tagged[lang] = Envelope(msgspec.structs.replace(self.message, lang=lang))
        return self._tagged[lang]


_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
"""What msgspec raises for bytes that are no message: invalid UTF-8 is a `ValueError`, a key that is
itself a list a `TypeError`."""

_from_json: Callable[[str], ClientMessage] = msgspec.json.Decoder(ClientMessage).decode
_from_msgpack: Callable[[bytes], ClientMessage] = msgspec.msgpack.Decoder(ClientMessage).decode
_TYPES = tuple(str(request.__struct_config__.tag) for request in REQUESTS)


class _Head(msgspec.Struct):
    """The fields that tell what a frame was about; any other is skipped unread."""

    type: object = None
    id: object = None
    ref: object = None


_head_of_json = msgspec.json.Decoder(_Head).decode
_head_of_msgpack = msgspec.msgpack.Decoder(_Head).decode


def _peek(frame: str | bytes) -> dict[str, str]:
    """The strings among type, id and ref, from a frame that may be anything."""
    try:
        head = _head_of_msgpack(frame) if isinstance(frame, bytes) else _head_of_json(frame)
    except _UNREADABLE:
        return {}
    fields = (("type", head.type), ("id", head.id), ("ref", head.ref))
    return {key: value[:128] for key, value in fields if isinstance(value, str)}


def _explain(frame: str | bytes, exc: Exception) -> ClientFault:
    kind = _peek(frame).get("type")
    if kind is not None and kind not in _TYPES:
        return ClientFault(
            ErrorCode.UNKNOWN_TYPE,
            f"There is no message of type {kind[:32]!r}.",
            "It knows: " + ", ".join(_TYPES) + ".",
        )
    if isinstance(exc, RecursionError):
        what = "it is nested too deeply"
    else:
        what = str(exc)[:200]
    if kind is not None:
        hint = "Such as: " + HELP[kind].partition("  ")[0]
    elif isinstance(frame, str):
        hint = 'A line that begins with { is read as JSON, e.g. {"type":"say","text":"hello"}.'
    else:
        hint = "A binary frame is read as one MessagePack map with string keys."
    return ClientFault(ErrorCode.BAD_FRAME, f"The frame could not be read: {what}.", hint)
