"""Codecs between frames and messages: JSON, MessagePack, and plain lines for people.

Owns: the names of the sub-protocols, the text of ``help``, decoding with a named error for any
bytes, and one encoding per event. Must not know: the effects of a message, sockets.
`gateway.protocol.frames` has the layout of a frame on the wire.

Invariant (``tests/protocol/test_codec.py``): any bytes either decode to a message or raise
`ClientFault`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import msgspec

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol import frames
from gateway.protocol.frames import SHORT
from gateway.protocol.messages import (
    REQUESTS,
    ClientMessage,
    Edited,
    Failed,
    Final,
    Say,
    ServerMessage,
    Welcome,
)
from gateway.protocol.notices import Error


class Codec(enum.Enum):
    """Encoding of the frames to a socket. The value is the WebSocket sub-protocol."""

    wire: Callable[[ServerMessage], bytes | None]
    """Returns the frame with its head, as it is written to a socket; None: it is not shown."""

    JSON = "gw.v1.json"
    MSGPACK = "gw.v1.msgpack"
    PLAIN = "plain"

    # `Enum.__hash__` is a Python function that hashes the name. Identity is enough for a dict key.
    __hash__ = object.__hash__


_to_json = msgspec.json.Encoder().encode
_to_msgpack = msgspec.msgpack.Encoder().encode


def _json_wire(message: ServerMessage) -> bytes:
    # `frames.text`, inlined: every delta passes here, and function calls are most of its cost. A
    # `str` in between would double the cost.
    payload = _to_json(message)
    size = len(payload)
    return SHORT[size] + payload if size < 126 else frames.text(payload)


def _msgpack_wire(message: ServerMessage) -> bytes:
    return frames.binary(_to_msgpack(message))


def _plain_wire(message: ServerMessage) -> bytes | None:
    line = plain(message)
    return None if line is None else frames.text(line.encode())


Codec.JSON.wire = _json_wire
Codec.MSGPACK.wire = _msgpack_wire
Codec.PLAIN.wire = _plain_wire


def negotiate(offered: Sequence[str]) -> Codec | None:
    """Return the codec of the first offered sub-protocol that the gateway has, or None.

    `Codec.PLAIN` is no sub-protocol: it is asked for in the query.
    """
    known = (Codec.JSON.value, Codec.MSGPACK.value)
    return next((Codec(name) for name in offered if name in known), None)


def decode(frame: str | bytes) -> ClientMessage:
    """Decode a client's frame. Text that does not begin with ``{`` becomes a `Say`. Raises
    `ClientFault` (``bad_frame``, ``unknown_type``) with the reason and the place in the frame.
    """
    try:
        # Whatever was negotiated: the kind of a frame tells its encoding.
        if isinstance(frame, bytes):
            return _from_msgpack(frame)
        # People type plain lines into tools such as wscat.
        if not frame.startswith("{"):
            return Say(text=frame)
        return _from_json(frame)
    except _UNREADABLE as exc:
        raise _explain(frame, exc) from exc


def reference(frame: str | bytes) -> tuple[str | None, str | None]:
    """Return ``ref`` and ``id`` of a frame that could not be decoded, None for each not found."""
    head = _peek(frame)
    return (head.get("ref"), head.get("id"))


def plain(message: ServerMessage) -> str | None:
    """Return a line for a person at a terminal, or None for messages that only programs need."""
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
    """An event for many readers, encoded once per codec and shared by all of them.

    It is a struct because there is one for every delta, and a struct is created in a third of the
    time of an ordinary object.
    """

    message: ServerMessage
    # Readers of most events use one codec, and a dict costs as much as the encoding itself. So the
    # first codec has fields of its own and only further ones a dict.
    _codec: Codec | None = None
    _wire: bytes | None = None
    _wires: dict[Codec, bytes | None] | None = None
    _tagged: dict[str, Envelope] | None = None

    def wire(self, codec: Codec) -> bytes | None:
        """Return the frame with its head, ready to be written; see `Codec.wire`."""
        if codec is self._codec:
            return self._wire
        if self._codec is None:
            self._codec = codec
            self._wire = wire = codec.wire(self.message)
            return wire
        if self._wires is None:
            self._wires = {}
        if codec not in self._wires:
            self._wires[codec] = codec.wire(self.message)
        return self._wires[codec]

    def for_language(self, lang: str) -> Envelope:
        """Return the event with ``lang`` as its language tag, for readers who asked for that tag.

        The result is shared as well. Events without a language are returned unchanged.
        """
        if getattr(self.message, "lang", None) in (None, lang):
            return self
        if self._tagged is None:
            self._tagged = {}
        if lang not in self._tagged:
            self._tagged[lang] = Envelope(msgspec.structs.replace(self.message, lang=lang))
        return self._tagged[lang]


_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
"""Exceptions of msgspec for bytes that are no message: invalid UTF-8 is a `ValueError`, a list as a
key of a map is a `TypeError`."""

_from_json: Callable[[str], ClientMessage] = msgspec.json.Decoder(ClientMessage).decode
_from_msgpack: Callable[[bytes], ClientMessage] = msgspec.msgpack.Decoder(ClientMessage).decode
_TYPES = tuple(str(request.__struct_config__.tag) for request in REQUESTS)


class _Head(msgspec.Struct):
    """The fields that identify a frame. Other fields are skipped."""

    type: object = None
    id: object = None
    ref: object = None


_head_of_json = msgspec.json.Decoder(_Head).decode
_head_of_msgpack = msgspec.msgpack.Decoder(_Head).decode


def _peek(frame: str | bytes) -> dict[str, str]:
    """Return ``type``, ``id`` and ``ref`` as far as they are strings, from any bytes."""
    try:
        head = _head_of_msgpack(frame) if isinstance(frame, bytes) else _head_of_json(frame)
    except _UNREADABLE:
        return {}
    fields = (("type", head.type), ("id", head.id), ("ref", head.ref))
    # The values are echoed in an error, so they are cut to the length that a valid `ref` may have.
    return {key: value[:128] for key, value in fields if isinstance(value, str)}


def _explain(frame: str | bytes, exc: Exception) -> ClientFault:
    """Return the error that describes why ``frame`` could not be decoded."""
    kind = _peek(frame).get("type")
    # The type is looked at first: an unknown type is a newer client, not a broken frame.
    if kind is not None and kind not in _TYPES:
        return ClientFault(
            ErrorCode.UNKNOWN_TYPE,
            f"There is no message of type {kind[:32]!r}.",
            "The types are: " + ", ".join(_TYPES) + ".",
        )
    # Messages of msgspec name the path of the wrong value, but may quote long field names.
    deep = isinstance(exc, RecursionError)
    what = "it is nested too deeply" if deep else str(exc)[:200]
    if kind is not None:
        hint = "Such as: " + HELP[kind].partition("  ")[0]
    elif isinstance(frame, str):
        hint = 'A line that begins with { is read as JSON, e.g. {"type":"say","text":"hello"}.'
    else:
        hint = "A binary frame is read as one MessagePack map with string keys."
    return ClientFault(ErrorCode.BAD_FRAME, f"The frame could not be read: {what}.", hint)


HELP: dict[str, str] = {
    "say": '{"type":"say","text":"good morning"}  say a line (or just type it, without JSON)',
    "audio": '{"type":"audio","codec":"pcm_s16le","rate":16000}  binary frames are speech now',
    "chunk": '{"type":"chunk","data":"AAAA"}  send audio in base64 (bytes in MessagePack)',
    "cancel": '{"type":"cancel","id":"u1"}  stop work on an utterance now',
    "want": '{"type":"want","langs":["de","fr"],"view":"live"}  set what this socket reads',
    "set": '{"type":"set","from":"en","glossary":{"standup":"Standup"}}  change room settings',
    "edit": '{"type":"edit","id":"u1","lang":"de","text":"Guten Morgen."}  correct a caption',
    "retract": '{"type":"retract","id":"u1"}  withdraw an utterance in all languages',
    "get": '{"type":"get","id":"u1"}  show one utterance with all its captions',
    "sync": '{"type":"sync","epoch":"9a41c07e","seq":41}  send the durable events after seq again',
    "auth": '{"type":"auth","token":"..."}  send a new key before the old one expires',
    "stats": '{"type":"stats"}  show the counters of this socket',
    "help": '{"type":"help"}  show this list',
    "bye": '{"type":"bye"}  finish the utterances in flight, then close',
}
