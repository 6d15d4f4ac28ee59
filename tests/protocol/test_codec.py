"""Decoding and encoding of frames, and the errors for frames that cannot be decoded."""

from __future__ import annotations

import msgspec
import pytest
from websockets.frames import Frame, Opcode

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.codec import Codec, Envelope, decode, negotiate, plain, reference
from gateway.protocol.messages import (
    Ack,
    Bye,
    Delta,
    Edited,
    Failed,
    Final,
    Retracted,
    Say,
    Timing,
)
from gateway.protocol.notices import Error
from tests.support.fake import welcome
from tests.support.frames import encode

FINAL = Final(
    seq=1,
    id="u1",
    rev=1,
    ord=1,
    lang="de",
    text="Guten Morgen",
    by="mt",
    ms=Timing(queue=0, first=1, total=2),
)


def refused(frame: str | bytes) -> ClientFault:
    with pytest.raises(ClientFault) as raised:
        decode(frame)
    return raised.value


def pack(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


# --- reading ------------------------------------------------------------------------------------


def test_text_that_does_not_begin_with_a_brace_becomes_a_say() -> None:
    for line in ("good morning", "", ' {"type":"bye"}', "[1]", "\u200b", "42"):
        assert decode(line) == Say(text=line)


def test_text_frames_are_read_as_json_and_binary_frames_as_messagepack() -> None:
    assert decode('{"type":"bye"}') == Bye()
    assert decode(pack({"type": "bye"})) == Bye()
    assert refused(b'{"type":"bye"}').code is ErrorCode.BAD_FRAME


@pytest.mark.parametrize(
    "frame",
    [
        "{",
        "{}",
        '{"type":1}',
        '{"type":"say"}',
        '{"type":"say","text":5}',
        '{"type":"say","text":"a"} trailing',
        '{"type":"say","text":"a","t0":NaN}',
        '{"type":"say","text":"a","t0":1e400}',
        '{"type":"say","text":"a","rev":' + "9" * 5000 + "}",
        '{"type":"say","text":"a","x":' + "[" * 30_000 + "]" * 30_000 + "}",
        '{"type":"say","text":"\ud800"}',
        '{"type":"say","text":"\\ud800"}',
        '{"type":"say","text":"\\udc00\\ud800"}',
        b"",
        b"\x01",
        b"\xc1",
        pack([1]),
        pack({"type": "say", "text": 5}),
        pack({"type": "say", "text": "a", "t0": float("nan")}),
        pack({"type": "say", "text": "a", "t0": float("inf")}),
        pack({"type": "say", "text": "a", "rev": 2**64 - 1}),
        pack({"type": "say", "text": "a"})[:-1],
        b"\x82\xa4type\xa3say\xa4text\xa1\xff",
        b"\x83\xa4type\xa3say\xa4text\xa1a\xa1x" + b"\x91" * 60_000 + b"\xc0",
        b"\xdf\xff\xff\xff\xff",
    ],
)
def test_an_unreadable_frame_is_refused_as_bad_frame_with_the_reason(frame: str | bytes) -> None:
    fault = refused(frame)
    assert fault.code is ErrorCode.BAD_FRAME
    assert str(fault).startswith("The frame could not be read: ")
    assert fault.hint is not None
    assert len(str(fault)) < 300


@pytest.mark.parametrize("read", [lambda m: msgspec.json.encode(m).decode(), pack])
def test_the_hint_shows_an_example_of_the_type_of_the_frame(read: object) -> None:
    assert callable(read)
    hint = refused(read({"type": "edit", "id": "u1"})).hint
    assert hint is not None and '{"type":"edit","id":"u1","lang":"de","text":' in hint


@pytest.mark.parametrize(
    ("frame", "says"), [("{", "is read as JSON"), (b"\xc1", "is read as one MessagePack map")]
)
def test_the_hint_explains_the_encoding_if_the_type_of_the_frame_is_unknown(
    frame: str | bytes, says: str
) -> None:
    hint = refused(frame).hint
    assert hint is not None and says in hint


def test_the_error_names_the_path_of_a_wrong_value() -> None:
    assert "$.langs[1]" in str(refused('{"type":"want","langs":["de",5]}'))


def test_the_error_says_that_a_frame_is_nested_too_deeply() -> None:
    deep = '{"type":"say","text":"a","x":' + "[" * 30_000 + "]" * 30_000 + "}"
    assert "nested too deeply" in str(refused(deep))


@pytest.mark.parametrize("read", [lambda m: msgspec.json.encode(m).decode(), pack])
def test_the_error_of_an_unknown_type_names_it_and_lists_the_known_types(read: object) -> None:
    assert callable(read)
    fault = refused(read({"type": "shout", "text": "a"}))
    assert fault.code is ErrorCode.UNKNOWN_TYPE
    assert "'shout'" in str(fault)
    assert fault.hint is not None and "say, audio, chunk, cancel" in fault.hint


def test_an_unknown_type_is_recognised_beside_fields_that_cannot_be_read() -> None:
    for beside in ("9" * 5000, "[" * 500 + "]" * 500):
        frame = '{"type":"shout","id":5,"x":' + beside + "}"
        assert refused(frame).code is ErrorCode.UNKNOWN_TYPE


def test_ref_and_id_of_an_unreadable_frame_are_returned_if_they_are_strings() -> None:
    assert reference('{"type":"say","text":5,"ref":"r1","id":"u1"}') == ("r1", "u1")
    assert reference(pack({"type": "nope", "ref": "r1"})) == ("r1", None)
    assert reference('{"type":"say","ref":5,"id":["u1"]}') == (None, None)
    assert reference("{") == (None, None)
    assert reference(b"\x81") == (None, None)
    assert reference(pack({"ref": "x" * 1000})) == ("x" * 128, None)


# --- writing ------------------------------------------------------------------------------------


def test_json_goes_out_as_text_and_msgpack_as_bytes() -> None:
    assert isinstance(encode(Codec.JSON, FINAL), str)
    assert isinstance(encode(Codec.MSGPACK, FINAL), bytes)


def test_both_encodings_have_the_same_field_names() -> None:
    text, packed = encode(Codec.JSON, FINAL), encode(Codec.MSGPACK, FINAL)
    assert isinstance(text, str) and isinstance(packed, bytes)
    assert msgspec.json.decode(text) == msgspec.msgpack.decode(packed)


def test_an_event_is_encoded_once_for_all_its_readers() -> None:
    envelope = Envelope(FINAL)
    for codec in Codec:
        assert envelope.wire(codec) is envelope.wire(codec)


@pytest.mark.parametrize("size", [125, 126])  # the form of the head changes here
def test_the_wire_form_is_the_frame_with_its_head(size: int) -> None:
    shortest = Delta(id="u1", rev=1, lang="de", add="x", n=5)
    pad = "x" * (size - len(msgspec.json.encode(shortest)))
    message = msgspec.structs.replace(shortest, add="x" + pad)
    text = Frame(Opcode.TEXT, msgspec.json.encode(message))
    packed = Frame(Opcode.BINARY, msgspec.msgpack.encode(message))
    assert Envelope(message).wire(Codec.JSON) == text.serialize(mask=False)
    assert Envelope(message).wire(Codec.MSGPACK) == packed.serialize(mask=False)


def test_the_plain_wire_form_is_a_frame_of_text_or_none() -> None:
    line = Frame(Opcode.TEXT, b"[de] Guten Morgen")
    assert Envelope(FINAL).wire(Codec.PLAIN) == line.serialize(mask=False)
    assert Envelope(Ack(id="u1", rev=1, ord=1)).wire(Codec.PLAIN) is None


def test_readers_of_another_tag_of_the_language_share_one_retagged_event() -> None:
    envelope = Envelope(FINAL)
    austrian = envelope.for_language("de-AT")
    assert austrian.message == msgspec.structs.replace(FINAL, lang="de-AT")
    assert envelope.for_language("de-AT") is austrian
    assert envelope.for_language("de-CH").message != austrian.message
    assert envelope.for_language("de") is envelope
    everybody = Envelope(Ack(id="u1", rev=1, ord=1))
    assert everybody.for_language("de-AT") is everybody, "it has no language"


def test_the_plain_codec_shows_only_captions_corrections_errors_and_the_greeting() -> None:
    failed = Failed(seq=1, id="u1", rev=1, ord=1, lang="de", code="timeout", retry=True)
    bare = Error(code="rate", fatal=False, retry=True, msg="Too fast.")
    hinted = Error(code="rate", fatal=False, retry=True, msg="Too fast.", hint="Wait.")
    assert encode(Codec.PLAIN, FINAL) == "[de] Guten Morgen"
    assert plain(failed) == "[de] (not translated: timeout)"
    assert plain(bare) == "! Too fast."
    assert plain(hinted) == "! Too fast. Wait."
    assert plain(welcome(hint="Type something.")) == "# Type something."
    assert plain(welcome(hint=None)) is None
    edited = Edited(seq=2, id="u1", rev=1, ord=1, lang="de", text="Moin", by="human")
    assert plain(edited) == "[de] (corrected) Moin"
    assert plain(Retracted(seq=3, id="u1", ord=1)) is None
    assert plain(Ack(id="u1", rev=1, ord=1)) is None
    assert plain(Delta(id="u1", rev=1, lang="de", add="a", n=1)) is None


def test_the_first_known_sub_protocol_is_chosen() -> None:
    assert negotiate(["gw.v9.json", "gw.v1.msgpack", "gw.v1.json"]) is Codec.MSGPACK
    assert negotiate(["gw.v1.json"]) is Codec.JSON
    assert negotiate(["plain", "gw.bearer.secret"]) is None
    assert negotiate([]) is None
