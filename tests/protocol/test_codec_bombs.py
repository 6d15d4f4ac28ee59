"""Hostile frames: their cost is bounded by their size, and the answer names the problem."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import Codec, decode, reference
from gateway.protocol.messages import Ack, Final, Say
from gateway.protocol.notices import Error
from tests.support.meeting import Meeting, one

FRAME = Limits().frame
PEAK = 16 * FRAME
"""Most bytes of memory that decoding one frame may use."""


def packed(*fields: bytes) -> bytes:
    """Return a MessagePack map of type ``say`` with these keys and values."""
    count = 1 + len(fields) // 2
    return bytes((0x80 | count,)) + b"\xa4type\xa3say" + b"".join(fields)


def key(name: str) -> bytes:
    return bytes((0xA0 | len(name),)) + name.encode()


HUGE = b"\xff\xff\xff\xff"
MESSAGEPACK = {
    "a string of 4 GB": packed(key("text"), b"\xdb" + HUGE),
    "bytes of 4 GB": packed(key("text"), b"\xc6" + HUGE),
    "a list of 4 billion": packed(key("text"), b"\xdd" + HUGE),
    "a map of 4 billion": packed(key("text"), b"\xdf" + HUGE),
    "an extension of 4 GB": packed(key("text"), b"\xc9" + HUGE + b"\x05"),
    "a list of 4 billion, unknown": packed(key("text"), b"\xa1a", key("x"), b"\xdd" + HUGE),
    "a map of 4 billion, unknown": packed(key("text"), b"\xa1a", key("x"), b"\xdf" + HUGE),
    "a frame that is a map of 4 billion": b"\xdf" + HUGE + b"\xa4type\xa3say",
    "a glossary of 4 billion": b"\x82\xa4type\xa3set" + key("glossary") + b"\xdf" + HUGE,
    "languages by the billion": b"\x82\xa4type\xa4want" + key("langs") + b"\xdd" + HUGE,
    "lists in lists": b"\x91" * FRAME,
    "maps in maps": b"\x81\xa1a" * (FRAME // 3),
    "maps that are keys": b"\x81" * FRAME,
    "lists in lists, unknown": packed(key("text"), b"\xa1a", key("x"), b"\x91" * (FRAME - 32)),
}
JSON = {
    "lists in lists": "[" * FRAME,
    "maps in maps": '{"a":' * (FRAME // 5),
    "lists in lists, unknown": '{"type":"say","text":"a","x":' + "[" * (FRAME - 32),
    "closed lists in lists": '{"type":"say","text":"a","x":' + "[" * 30_000 + "]" * 30_000 + "}",
    "a number of 60,000 digits": '{"type":"say","text":"a","rev":' + "9" * 60_000 + "}",
    "a fraction of 60,000 digits": '{"type":"say","text":"a","t0":1.' + "9" * 60_000 + "}",
    "a number beyond all bounds": '{"type":"say","text":"a","t0":1e999}',
    "no number": '{"type":"say","text":"a","t0":NaN}',
    "infinity": '{"type":"say","text":"a","t0":Infinity}',
    "half a character": '{"type":"say","text":"\\ud800"}',
    "the other half": '{"type":"say","text":"\\udc00\\ud800"}',
    "no character": '{"type":"say","text":"\\uzzzz"}',
}
BOMBS: dict[str, str | bytes] = {**MESSAGEPACK, **JSON}


@pytest.mark.parametrize("name", BOMBS)
def test_decoding_a_hostile_frame_uses_bounded_memory(name: str) -> None:
    frame = BOMBS[name]
    assert len(frame) <= FRAME
    tracemalloc.start()
    try:
        try:
            decode(frame)
        except ClientFault as fault:
            assert fault.code in (ErrorCode.BAD_FRAME, ErrorCode.UNKNOWN_TYPE)
            assert len(str(fault)) < 400
        reference(frame)
        assert tracemalloc.get_traced_memory()[1] < PEAK
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BOMBS)
def test_a_session_survives_a_hostile_frame_and_answers_it_once(name: str) -> None:
    peer = Meeting().enter("de")
    events = peer.frame(BOMBS[name])
    assert len([event for event in events if isinstance(event, Error | Ack)]) == 1
    assert one(Ack, peer.say("still here"))


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"say","text":"first","text":"second"}',
        b"\x83\xa4type\xa3say\xa4text\xa5first\xa4text\xa6second",
    ],
)
def test_the_last_of_two_values_for_one_field_wins_in_both_encodings(frame: str | bytes) -> None:
    assert decode(frame) == Say(text="second")


def test_control_characters_and_surrogates_of_a_speaker_never_reach_a_reader() -> None:
    meeting = Meeting()
    reader = meeting.enter("en")
    text = "a\x00b\x1b[31mc\u2028d\ufffee"
    meeting.enter().frame(msgspec.json.encode({"type": "say", "text": text}).decode())
    shown = [event.text for event in reader.events() if hasattr(event, "text")]
    assert shown and all("\x1b" not in one and "\x00" not in one for one in shown)


CONTROLS = "\x00 \x07 \x1b[31m \x7f \x9b \u2028 \u2029 \ud800 \r\n"


@pytest.mark.parametrize("grown", [False, True])
def test_control_characters_from_a_model_never_reach_a_reader(grown: bool) -> None:
    meeting = Meeting()
    readers = [
        meeting.enter("de", view=view, codec=codec)
        for codec in Codec
        for view in ("live", "stable", "final")
    ]
    speaker = meeting.enter()
    if grown:
        speaker.say("good", id="a", final=False)
    speaker.say("good morning", id="a")
    meeting.finish(meeting.job("de"), "Guten", *CONTROLS, " Morgen\x1b")
    # A corrected original is translated again.
    speaker.send("edit", id="a", lang="en", text="good evening")
    meeting.finish(meeting.job("de"), "Guten\x1b", " Abend")
    for reader in readers:
        if reader.codec is Codec.PLAIN:
            shown = [str(line) for line in reader.session.outbox.take()]
        else:
            fields = ("text", "add", "draft")
            events = reader.events()
            shown = [getattr(event, name, None) or "" for event in events for name in fields]
        assert any("Abend" in text for text in shown)
        assert all(text.isprintable() for text in shown)
    texts = [event.text for event in meeting.room.log.since(0) or () if hasattr(event, "text")]
    assert len(texts) == 4
    assert all(text.isprintable() for text in texts)


def test_joiners_and_spaces_that_scripts_need_are_kept_in_captions() -> None:
    meeting = Meeting()
    reader = meeting.enter("de")
    meeting.enter().say("good morning")
    text = "l’été\u00a0: می\u200cخواهم 👩\u200d💻 \u3000終"
    meeting.finish(meeting.job("de"), *text)
    assert one(Final, reader.events()).text == text
