"""Machine-readable documents of the protocol: JSON Schema and AsyncAPI.

Owns: what is derived from the structs, and the answers to each request. Must not know: sockets,
settings, engines. `scripts.schema_examples` has the examples and the query of a socket.

The pages about the protocol in ``docs/`` are the same contract for people.
``tests/docs/test_protocol.py`` checks that both agree.
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from gateway.protocol.audio import Audio, AudioChunk, AudioState, HeardSpeech
from gateway.protocol.codec import Codec
from gateway.protocol.handshake import SOCKET_PATH
from gateway.protocol.messages import (
    DURABLE,
    EVENTS,
    REQUESTS,
    VERSION,
    Ack,
    AskHelp,
    AskStats,
    Auth,
    Bye,
    Cancel,
    Cancelled,
    ClientMessage,
    Delta,
    Edit,
    Edited,
    Final,
    Get,
    Retract,
    Retracted,
    Say,
    ServerMessage,
    Set,
    Settings,
    Snapshot,
    Sync,
    Synced,
    Want,
    Welcome,
)
from gateway.protocol.notices import (
    Authenticated,
    Degraded,
    Error,
    Goaway,
    Help,
    Lag,
    Presence,
    Stats,
    Tick,
)
from scripts.schema_examples import EXAMPLES, QUERY, Json

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ASYNCAPI = "3.0.0"

ANSWERS: dict[type[ClientMessage], tuple[type[ServerMessage], ...]] = {
    Say: (Ack, Error),
    Audio: (AudioState, Error),
    AudioChunk: (HeardSpeech, Error),
    Cancel: (Cancelled, Error),
    Want: (Snapshot, Error),
    Set: (Settings, Error),
    Edit: (Edited, Final, Error),
    Retract: (Retracted, Error),
    Get: (Snapshot, Error),
    Sync: (Synced, Error),
    Auth: (Authenticated, Error),
    AskStats: (Stats,),
    AskHelp: (Help,),
    Bye: (Stats,),
}
"""Possible answers to each request. `Want` is answered only if something is wrong or if there are
captions to catch up with."""


def json_schema() -> Json:
    """Return the JSON Schema (2020-12) of every frame.

    ``$defs`` has each message under its struct's name, and ``ClientMessage`` and ``ServerMessage``.
    Check a frame against one of these two: ``stats`` and ``help`` have different meanings in the
    two directions.
    """
    schemas = _schemas("#/$defs/{name}")
    for name, messages in (("ClientMessage", REQUESTS), ("ServerMessage", EVENTS)):
        schemas[name] = {"oneOf": [{"$ref": f"#/$defs/{m.__name__}"} for m in messages]}
    return {
        "$schema": DIALECT,
        "title": f"Gateway protocol, version {VERSION}",
        "description": "One frame, from a client or from the server. JSON and MessagePack frames "
        "have the same fields. Unknown fields are ignored.",
        "anyOf": [{"$ref": "#/$defs/ClientMessage"}, {"$ref": "#/$defs/ServerMessage"}],
        "$defs": schemas,
    }


def asyncapi() -> Json:
    """Return the AsyncAPI 3 document of the socket, from the server's point of view."""
    every = (*REQUESTS, *EVENTS)
    channel = {"$ref": "#/channels/socket"}
    operations: Json = {
        tag(request): {
            "action": "receive",
            "channel": channel,
            "summary": _doc(request),
            "messages": _in_channel((request,)),
            "reply": {"channel": channel, "messages": _in_channel(ANSWERS[request])},
        }
        for request in REQUESTS
    }
    operations["durable"] = {
        "action": "send",
        "channel": channel,
        "summary": "Events that carry a `seq` and are kept in the room's log.",
        "messages": _in_channel(DURABLE),
    }
    operations["ephemeral"] = {
        "action": "send",
        "channel": channel,
        "summary": "Events that may be merged or dropped, or concern this socket alone.",
        "messages": _in_channel(
            (
                Welcome,
                AudioState,
                HeardSpeech,
                Delta,
                Presence,
                Tick,
                Degraded,
                Lag,
                Goaway,
                Error,
            )
        ),
    }
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "Real-time translation gateway",
            "version": str(VERSION),
            "description": "Send utterances and read their translations while they are made. "
            "`docs/reference/protocol/` describes the protocol in words.",
            "license": {
                "name": "Apache-2.0",
                "url": "https://www.apache.org/licenses/LICENSE-2.0",
            },
        },
        "defaultContentType": "application/json",
        "servers": {
            "local": {
                "host": "127.0.0.1:8000",
                "protocol": "ws",
                "description": "A gateway on this machine, as `gateway serve` starts it.",
            }
        },
        "channels": {
            "socket": {
                "address": SOCKET_PATH,
                "title": "One socket of one room",
                "description": f"With sub-protocol `{Codec.JSON.value}` (the default) the server "
                f"writes JSON text frames, with `{Codec.MSGPACK.value}` the same maps as "
                "MessagePack in binary frames. It reads both kinds with either sub-protocol.",
                "messages": {m.__name__: _component("messages", m) for m in every},
                "bindings": {
                    "ws": {
                        "method": "GET",
                        "query": {"type": "object", "properties": QUERY},
                        "headers": {
                            "type": "object",
                            "properties": {
                                "Sec-WebSocket-Protocol": {
                                    "type": "string",
                                    "enum": [Codec.JSON.value, Codec.MSGPACK.value],
                                }
                            },
                        },
                        "bindingVersion": "0.1.0",
                    }
                },
            }
        },
        "operations": operations,
        "components": {
            "messages": {m.__name__: _message(m) for m in every},
            "schemas": _schemas("#/components/schemas/{name}"),
            "correlationIds": {
                "ref": {
                    "description": "Chosen by the client, echoed in the answer.",
                    "location": "$message.payload#/ref",
                }
            },
        },
    }


def tag(message: type[ClientMessage] | type[ServerMessage]) -> str:
    """Return the value of ``type`` in frames of a message."""
    return str(message.__struct_config__.tag)


def _schemas(ref: str) -> Json:
    """Return the schema of every struct by its name. ``ref`` is the template of references."""
    _, schemas = msgspec.json.schema_components((*REQUESTS, *EVENTS), ref_template=ref)
    tidied: Json = _tidy(schemas)
    return tidied


def _tidy(value: Any) -> Any:
    """Return a copy for publication.

    Docstrings become Markdown without indentation, an ``enum`` of one value becomes ``const``, and
    tuples become lists.
    """
    if isinstance(value, list | tuple):
        return [_tidy(item) for item in value]
    if not isinstance(value, dict):
        return value
    # msgspec copies docstrings into the schema as they stand in the source.
    tidied = {key: _tidy(item) for key, item in value.items()}
    if isinstance(tidied.get("description"), str):
        tidied["description"] = _markdown(tidied["description"])
    enum = tidied.get("enum")
    if isinstance(enum, list) and len(enum) == 1:
        del tidied["enum"]
        tidied = {"const": enum[0], **tidied}
    return tidied


def _markdown(doc: str) -> str:
    return inspect.cleandoc(doc).replace("``", "`")


def _doc(message: type[ClientMessage] | type[ServerMessage]) -> str:
    """Return the first paragraph of a message's docstring as one line."""
    assert message.__doc__ is not None, f"{message.__name__} has no docstring"
    return _markdown(message.__doc__).partition("\n\n")[0].replace("\n", " ")


def _message(message: type[ClientMessage] | type[ServerMessage]) -> Json:
    """Return the AsyncAPI description of a message."""
    described: Json = {
        "name": tag(message),
        "title": message.__name__,
        "summary": _doc(message),
        "payload": _component("schemas", message),
        "examples": [
            {"payload": _tidy(msgspec.to_builtins(example))}
            for example in EXAMPLES
            if type(example) is message
        ],
    }
    if "ref" in message.__struct_fields__:
        described["correlationId"] = {"$ref": "#/components/correlationIds/ref"}
    return described


def _component(kind: str, message: type[ClientMessage] | type[ServerMessage]) -> Json:
    return {"$ref": f"#/components/{kind}/{message.__name__}"}


def _in_channel(messages: tuple[type[ClientMessage] | type[ServerMessage], ...]) -> list[Json]:
    return [{"$ref": f"#/channels/socket/messages/{message.__name__}"} for message in messages]
