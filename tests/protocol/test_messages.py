"""Shapes of messages on the wire, which clients rely on."""

from __future__ import annotations

import msgspec
import pytest

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.codec import HELP, Codec, decode
from gateway.protocol.messages import (
    EVENTS,
    REQUESTS,
    Ack,
    Cancel,
    Cancelled,
    Delta,
    Edit,
    Edited,
    Get,
    Retract,
    Retracted,
    Say,
    ServerMessage,
    Set,
    Settings,
    Want,
)
from gateway.protocol.notices import Presence
from tests.support.fake import welcome
from tests.support.frames import encode


def wire(event: ServerMessage) -> dict[str, object]:
    frame = encode(Codec.JSON, event)
    assert isinstance(frame, str)
    message: dict[str, object] = msgspec.json.decode(frame)
    return message


def test_every_request_has_a_line_of_help() -> None:
    assert set(HELP) == {request.__struct_config__.tag for request in REQUESTS}


@pytest.mark.parametrize("kind", HELP)
def test_the_example_in_every_line_of_help_is_a_message(kind: str) -> None:
    example = HELP[kind][: HELP[kind].rindex("}") + 1]
    assert decode(example).__struct_config__.tag == kind


def test_every_message_is_frozen() -> None:
    assert all(kind.__struct_config__.frozen for kind in (*REQUESTS, *EVENTS))


def test_an_unknown_field_is_ignored() -> None:
    assert decode('{"type":"say","text":"a","colour":{"x":[1]}}') == Say(text="a")


def test_a_say_is_final_by_default() -> None:
    assert decode('{"type":"say","text":"a"}') == Say(text="a", final=True)


def test_fields_with_their_default_value_are_not_sent() -> None:
    assert wire(Delta(id="u1", rev=1, lang="de", add="Gu", n=2)) == {
        "type": "delta",
        "id": "u1",
        "rev": 1,
        "lang": "de",
        "add": "Gu",
        "n": 2,
    }
    assert wire(Ack(id="u1", rev=1, ord=1)) == {"type": "ack", "id": "u1", "rev": 1, "ord": 1}


def test_an_empty_draft_is_sent_because_it_clears_the_tail() -> None:
    assert wire(Delta(id="u1", rev=1, lang="de", draft="", n=0))["draft"] == ""


def test_a_cancelled_that_ended_nothing_has_no_seq() -> None:
    assert "seq" not in wire(Cancelled(id="u1", rev=0, was="none"))


@pytest.mark.parametrize("kind", [Cancel, Retract, Get])
def test_a_request_can_name_a_part_of_the_longest_id(
    kind: type[Cancel | Retract | Get],
) -> None:
    id = "x" * 64 + ".1000"
    assert decode(f'{{"type":"{kind.__struct_config__.tag}","id":"{id}"}}') == kind(id=id)
    assert decode(f'{{"type":"edit","id":"{id}","lang":"de","text":"a"}}') == Edit(
        id=id, lang="de", text="a"
    )


def test_backfill_of_a_want_is_optional_and_may_be_zero() -> None:
    assert decode('{"type":"want","langs":["de"],"backfill":0}') == Want(langs=("de",), backfill=0)
    assert decode('{"type":"want","langs":["de"]}') == Want(langs=("de",), backfill=None)


def test_edited_and_retracted_carry_a_ref_only_if_there_is_one() -> None:
    edited = Edited(seq=1, id="u1.2", rev=1, ord=2, lang="de", text="a", by="human")
    assert "ref" not in wire(edited)
    assert wire(msgspec.structs.replace(edited, ref="r"))["ref"] == "r"
    assert wire(Retracted(seq=2, id="u1.2", ord=2)) == {
        "type": "retracted",
        "seq": 2,
        "id": "u1.2",
        "ord": 2,
    }


def test_a_presence_without_speakers_has_no_list_of_them() -> None:
    assert wire(Presence(readers={"de": 1}, members=2)) == {
        "type": "presence",
        "readers": {"de": 1},
        "members": 2,
    }


def test_a_welcome_sends_resume_as_null_if_there_is_no_token() -> None:
    assert wire(welcome(resume=None))["resume"] is None


def test_the_field_from_has_its_name_on_the_wire() -> None:
    assert decode('{"type":"set","from":"en"}') == Set(from_="en")
    assert wire(Settings(seq=1, version=1, from_="en"))["from"] == "en"


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"say","text":"a","id":""}',
        '{"type":"say","text":"a","id":"%s"}' % ("x" * 65),
        '{"type":"say","text":"a","ref":"%s"}' % ("x" * 129),
        '{"type":"say","text":"a","rev":0}',
        '{"type":"say","text":"a","rev":-1}',
        '{"type":"say","text":"a","rev":9007199254740992}',
        '{"type":"say","text":"a","rev":1.5}',
        '{"type":"say","text":"a","rev":true}',
        '{"type":"say","text":"a","t0":-1}',
        '{"type":"say","text":"a","t0":1e10}',
        '{"type":"say","text":"a","lang":"%s"}' % ("x" * 65),
        '{"type":"want","langs":"de"}',
        '{"type":"want","langs":["de"],"view":"all"}',
        '{"type":"set","context":"%s"}' % ("x" * 4001),
        '{"type":"set","glossary":{"":"x"}}',
        '{"type":"set","glossary":{"x":1}}',
        '{"type":"set","glossary":{"x":{}}}',
        '{"type":"set","glossary":{"x":{"de":""}}}',
        '{"type":"set","glossary":{"x":{"de":{"fr":"y"}}}}',
        '{"type":"set","glossary":{"x":{"de":"%s"}}}' % ("ä" * 201),
        '{"type":"cancel"}',
        '{"type":"cancel","id":"%s"}' % ("x" * 81),
        '{"type":"want","langs":["de"],"backfill":-1}',
        '{"type":"want","langs":["de"],"backfill":1001}',
        '{"type":"edit","id":"u1","lang":"de"}',
        '{"type":"edit","id":"u1","text":"a"}',
        '{"type":"edit","lang":"de","text":"a"}',
        '{"type":"retract"}',
        '{"type":"retract","id":""}',
    ],
)
def test_a_value_out_of_bounds_is_a_bad_frame(frame: str) -> None:
    with pytest.raises(ClientFault) as raised:
        decode(frame)
    assert raised.value.code is ErrorCode.BAD_FRAME


def test_a_want_with_ten_thousand_languages_can_be_decoded() -> None:
    message = decode('{"type":"want","langs":[' + ",".join(['"de"'] * 10_000) + "]}")
    assert isinstance(message, Want)
