"""Every frame of a client is read as a message or refused by name."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol import frames
from gateway.protocol.codec import Codec, Envelope, decode, reference
from gateway.protocol.messages import EVENTS, REQUESTS, ServerMessage
from tests.support.meeting import read

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
anything = st.text(st.characters(), max_size=60)
number = st.integers(0, 2**53 - 1)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | text
trees = st.recursive(
    scalars, lambda t: st.lists(t, max_size=3) | st.dictionaries(text, t, max_size=3), max_leaves=6
)
fields = st.sampled_from(["text", "id", "rev", "final", "langs", "view", "ref", "t0", "glossary"])
types = st.sampled_from([str(r.__struct_config__.tag) for r in REQUESTS] + ["sync", "nope"])
nearly = st.fixed_dictionaries({"type": types | trees}).flatmap(
    lambda head: st.dictionaries(fields, trees, max_size=4).map(lambda rest: head | rest)
)


def read_or_refuse(frame: str | bytes) -> None:
    try:
        message = decode(frame)
    except ClientFault as fault:
        assert fault.code in (ErrorCode.BAD_FRAME, ErrorCode.UNKNOWN_TYPE)
        assert fault.hint
        for name in reference(frame):
            assert name is None or len(name) <= 128
    else:
        assert isinstance(message, REQUESTS)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_message_or_a_named_fault(frame: bytes) -> None:
    read_or_refuse(frame)


@given(anything)
def test_any_text_is_a_message_or_a_named_fault(frame: str) -> None:
    read_or_refuse(frame)
    read_or_refuse("{" + frame)


@given(nearly)
def test_anything_shaped_like_a_message_is_one_or_a_named_fault(message: dict[str, Any]) -> None:
    read_or_refuse(msgspec.msgpack.encode(message))
    read_or_refuse(msgspec.json.encode(message).decode())


@given(nearly, st.data())
def test_a_frame_cut_anywhere_is_a_message_or_a_named_fault(
    message: dict[str, Any], data: st.DataObject
) -> None:
    frame = msgspec.msgpack.encode(message)
    read_or_refuse(frame[: data.draw(st.integers(0, len(frame)))])


def events() -> st.SearchStrategy[ServerMessage]:
    """Any message of the server, built from its own annotations."""
    by_type = {str: text, int: number, float: st.floats(0, 1e9), bool: st.booleans()}

    def strategy(field: Any) -> st.SearchStrategy[Any]:
        match field:
            case msgspec.inspect.Metadata(type=inner):
                return strategy(inner)
            case msgspec.inspect.StrType():
                return text
            case msgspec.inspect.IntType():
                return number
            case msgspec.inspect.FloatType():
                return by_type[float]
            case msgspec.inspect.BoolType():
                return by_type[bool]
            case msgspec.inspect.NoneType():
                return st.none()
            case msgspec.inspect.LiteralType(values=values):
                return st.sampled_from(values)
            case msgspec.inspect.UnionType(types=types):
                return st.one_of(*map(strategy, types))
            case msgspec.inspect.VarTupleType(item_type=item):
                return st.lists(strategy(item), max_size=2).map(tuple)
            case msgspec.inspect.DictType(value_type=value):
                return st.dictionaries(text, strategy(value), max_size=2)
            case msgspec.inspect.StructType(cls=cls, fields=parts):
                return st.builds(cls, **{part.name: strategy(part.type) for part in parts})
        raise AssertionError(f"no strategy for {field}")

    return st.one_of(*(strategy(msgspec.inspect.type_info(event)) for event in EVENTS))


@settings(max_examples=150)
@given(events())
def test_every_message_of_the_server_survives_both_encodings(event: ServerMessage) -> None:
    envelope = Envelope(event)
    for codec in (Codec.JSON, Codec.MSGPACK):
        wire = envelope.wire(codec)
        assert wire is not None
        assert read(frames.message(wire)) == event
