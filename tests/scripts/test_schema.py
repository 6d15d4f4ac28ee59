"""Generated documents: valid, complete, and up to date with the structs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError

from gateway.errors import ClientFault
from gateway.protocol import fields, messages, notices
from gateway.protocol.codec import Codec, decode
from gateway.protocol.messages import DURABLE, EVENTS, REQUESTS, ServerMessage
from scripts.schema import (
    ANSWERS,
    asyncapi,
    json_schema,
    tag,
)
from scripts.schema_examples import EXAMPLES, QUERY

DOCS = Path(__file__).parents[2] / "docs"
EVERY = (*REQUESTS, *EVENTS)


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({**json_schema(), "anyOf": [{"$ref": f"#/$defs/{name}"}]})


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def follow(document: Any, ref: str) -> Any:
    assert ref.startswith("#/"), ref
    for key in ref[2:].split("/"):
        document = document[key]
    return document


# --- JSON Schema ------------------------------------------------------------------------------


def test_the_json_schema_is_valid() -> None:
    Draft202012Validator.check_schema(json_schema())


def test_every_message_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(EVERY)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: type(e).__name__)
def test_an_example_is_valid_and_can_be_encoded_and_decoded(example: Any) -> None:
    frame = msgspec.json.encode(example)
    name = "ClientMessage" if isinstance(example, REQUESTS) else "ServerMessage"
    validator(name).validate(json.loads(frame))
    if isinstance(example, REQUESTS):
        assert decode(frame.decode()) == example
        assert decode(msgspec.msgpack.encode(example)) == example
    else:
        assert msgspec.json.decode(frame, type=ServerMessage) == example


@pytest.mark.parametrize(
    "frame",
    [
        {},
        {"type": "sing"},
        {"type": "say"},
        {"type": "say", "text": 1},
        {"type": "say", "text": "a", "id": ""},
        {"type": "say", "text": "a", "id": "x" * 65},
        {"type": "say", "text": "a", "rev": 0},
        {"type": "say", "text": "a", "rev": 2**53},
        {"type": "say", "text": "a", "final": "yes"},
        {"type": "say", "text": "a", "t0": -1},
        {"type": "say", "text": "a", "ref": "x" * 129},
        {"type": "cancel"},
        {"type": "cancel", "id": "a", "langs": "de"},
        {"type": "want", "langs": [1]},
        {"type": "want", "langs": [], "view": "some"},
        {"type": "set", "glossary": {"": "a"}},
        {"type": "set", "glossary": {"a": ""}},
        {"type": "set", "context": "x" * 4001},
        {"type": "welcome"},
    ],
    ids=str,
)
def test_the_schema_refuses_frames_that_the_codec_refuses(frame: dict[str, Any]) -> None:
    with pytest.raises(ClientFault):
        decode(json.dumps(frame))
    with pytest.raises(ValidationError):
        validator("ClientMessage").validate(frame)


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "say", "text": "a", "colour": "red"},
        {"type": "say", "text": "", "id": None, "ref": None},
        {"type": "want", "langs": []},
        {"type": "set"},
        {"type": "stats", "said": 3},
    ],
    ids=str,
)
def test_the_schema_allows_frames_that_the_codec_reads(frame: dict[str, Any]) -> None:
    decode(json.dumps(frame))
    validator("ClientMessage").validate(frame)


def test_a_frame_of_a_client_is_not_valid_for_the_server() -> None:
    with pytest.raises(ValidationError):
        validator("ServerMessage").validate({"type": "say", "text": "a"})
    with pytest.raises(ValidationError):
        validator("ServerMessage").validate({"type": "stats"})


def test_every_message_is_described_in_markdown_without_indentation() -> None:
    for name, schema in json_schema()["$defs"].items():
        if name not in ("ClientMessage", "ServerMessage"):
            assert schema["description"].strip() and "``" not in schema["description"], name
            assert "\n " not in schema["description"], name


# --- AsyncAPI ---------------------------------------------------------------------------------


def test_every_reference_inside_the_documents_exists() -> None:
    for document in (json_schema(), asyncapi()):
        found = set(references(document))
        assert found
        for ref in found:
            follow(document, ref)


def test_the_channel_has_every_message_with_its_payload_and_examples() -> None:
    document = asyncapi()
    messages = document["channels"]["socket"]["messages"]
    assert list(messages) == [struct.__name__ for struct in EVERY]
    for struct in EVERY:
        message = follow(document, messages[struct.__name__]["$ref"])
        assert message["name"] == tag(struct)
        payload = follow(document, message["payload"]["$ref"])
        assert payload["properties"]["type"]["const"] == tag(struct)
        assert message["examples"], struct.__name__
        assert ("correlationId" in message) == ("ref" in struct.__struct_fields__)


def test_an_operation_uses_only_messages_of_the_channel() -> None:
    for name, operation in asyncapi()["operations"].items():
        used = [*operation["messages"], *operation.get("reply", {}).get("messages", [])]
        assert used, name
        assert all(use["$ref"].startswith("#/channels/socket/messages/") for use in used), name


def test_each_request_is_a_received_operation_with_its_answers() -> None:
    operations = asyncapi()["operations"]
    assert set(ANSWERS) == set(REQUESTS)
    for request in REQUESTS:
        operation = operations[tag(request)]
        assert operation["action"] == "receive"
        assert operation["messages"] == [{"$ref": f"#/channels/socket/messages/{request.__name__}"}]
        assert len(operation["reply"]["messages"]) == len(ANSWERS[request])


def test_every_event_is_sent_or_is_an_answer() -> None:
    operations = asyncapi()["operations"]
    names = set()
    for operation in operations.values():
        side = operation if operation["action"] == "send" else operation["reply"]
        names |= {use["$ref"].rpartition("/")[2] for use in side["messages"]}
    assert names == {event.__name__ for event in EVENTS}
    durable = {use["$ref"].rpartition("/")[2] for use in operations["durable"]["messages"]}
    assert durable == {event.__name__ for event in DURABLE}


def test_the_socket_binding_names_both_sub_protocols_and_the_query() -> None:
    binding = asyncapi()["channels"]["socket"]["bindings"]["ws"]
    header = binding["headers"]["properties"]["Sec-WebSocket-Protocol"]
    assert header["enum"] == [Codec.JSON.value, Codec.MSGPACK.value]
    assert binding["query"]["properties"] == QUERY
    Draft202012Validator.check_schema(binding["query"])


def test_every_message_struct_is_in_the_union_of_its_direction() -> None:
    base, event = fields.RequestStruct, fields.EventStruct
    found = (*vars(messages).values(), *vars(notices).values())
    structs = [kind for kind in found if isinstance(kind, type)]
    public = [kind for kind in structs if not kind.__name__.startswith("_")]
    public = [kind for kind in public if kind not in (base, event)]
    assert set(REQUESTS) == {kind for kind in public if issubclass(kind, base)}
    assert set(EVENTS) == {kind for kind in public if issubclass(kind, event)}
