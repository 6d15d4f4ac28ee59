"""Machine-readable documents of the protocol: JSON Schema and AsyncAPI.

Owns: what is derived from the structs, an example of every message, and the query parameters of the
socket. Must not know: sockets, settings, engines.

The pages about the protocol in ``docs/`` are the same contract for people.
``tests/docs/test_protocol.py`` checks that both agree.
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from gateway.protocol.audio import Audio, AudioChunk, AudioInfo, AudioState, HeardSpeech
from gateway.protocol.codec import Codec
from gateway.protocol.handshake import ROOM_PATTERN, SOCKET_PATH
from gateway.protocol.messages import (
    DURABLE,
    EVENTS,
    REQUESTS,
    VERSION,
    Ack,
    AskHelp,
    AskStats,
    Auth,
    Authenticated,
    Bye,
    Cancel,
    Cancelled,
    ClientMessage,
    Degraded,
    Delta,
    Edit,
    Edited,
    Error,
    Failed,
    Final,
    Get,
    Goaway,
    Help,
    Lag,
    LimitsInfo,
    Line,
    Presence,
    Resumed,
    Retract,
    Retracted,
    Say,
    ServerMessage,
    Set,
    Settings,
    Snapshot,
    Source,
    Stats,
    Sync,
    Synced,
    Tick,
    Timing,
    Want,
    Welcome,
)

Json = dict[str, Any]
"""A JSON object."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ASYNCAPI = "3.0.0"

# The query has no struct: it is read by `gateway.server.routes.websocket`.
QUERY: dict[str, Json] = {
    "room": {
        "type": "string",
        "pattern": ROOM_PATTERN,
        "description": "Room to join. Without it the socket gets a private room.",
    },
    "role": {
        "type": "string",
        "enum": ["speak", "view", "moderate"],
        "default": "speak",
        "description": "Role of this socket. Every role may read.",
    },
    "from": {
        "type": "string",
        "description": "BCP 47 tag of the language that this socket speaks, or `auto` to detect it "
        "for each text. Several tags, with commas, restrict the detection to these languages.",
    },
    "to": {
        "type": "string",
        "description": "Comma-separated BCP 47 tags of the languages that this socket reads.",
    },
    "view": {
        "type": "string",
        "enum": ["live", "stable", "final"],
        "default": "live",
        "description": "How much of an unfinished caption is sent to this socket.",
    },
    "speaker": {"type": "string", "maxLength": 128, "description": "Display name."},
    "ticket": {
        "type": "string",
        "description": "A ticket from `POST /v1/tickets`, valid once, for clients that cannot send "
        "a key.",
    },
    "hb": {
        "type": "number",
        "minimum": 1,
        "description": "Seconds between `tick` events, for clients that cannot see pings. "
        "The maximum is 300; larger values are lowered to it.",
    },
    "resume": {
        "type": "string",
        "description": "`welcome.resume` of an earlier socket, whose place this one takes. Session "
        "and room are taken over, and every parameter that the query leaves out.",
    },
    "attempt": {
        "type": "integer",
        "minimum": 0,
        "description": "Number of this client's attempt to reconnect, together with `resume`. "
        "A socket does not take the place of one with a higher number.",
    },
    "epoch": {
        "type": "string",
        "maxLength": 64,
        "description": "`epoch` of the events that the client has, together with `seq`.",
    },
    "seq": {
        "type": "integer",
        "minimum": 0,
        "description": "Number of the last event that the client has. Later events are sent again.",
    },
    "plain": {
        "type": "string",
        "enum": ["0", "1"],
        "default": "0",
        "description": "`1`: the server writes plain lines, and finished captions only. "
        "No effect if the client offers a sub-protocol.",
    },
}
"""Query parameters of `SOCKET_PATH`."""

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

EXAMPLES: tuple[ClientMessage | ServerMessage, ...] = (
    Say(text="Good morning everybody"),
    Say(id="s7", rev=2, text="We meet again on", final=False, lang="en", ref="a1"),
    Audio(codec="pcm_s16le", rate=48000, from_="en,de", ref="b1"),
    Audio(codec="none", ref="b2"),
    AudioChunk(data=bytes(6)),
    Cancel(id="s7", ref="a2"),
    Want(langs=("de", "fr"), view="stable"),
    Want(langs=("de", "fr", "es"), backfill=5),
    Set(glossary={"standup": "Standup"}, ref="a3"),
    Edit(id="u12", lang="de", text="Guten Morgen allerseits", ref="a6"),
    Retract(id="u12", ref="a7"),
    Get(id="s7"),
    Sync(epoch="9a41c07e", seq=40, ref="a9"),
    Auth(token="gwk_4f1d0c2a_...", ref="a8"),
    AskStats(ref="a4"),
    AskHelp(),
    Bye(),
    Welcome(
        v=VERSION,
        session="c2f1",
        room="demo",
        epoch="9a41c07e",
        seq=38,
        resume="k6ZyZXN1bWXL.Nq8vXw",
        engine="scripted",
        languages=("de", "en", "fr"),
        limits=LimitsInfo(frame=65536, text=2000, inflight=16, targets=16, rate=50.0),
    ),
    Welcome(
        v=VERSION,
        session="c2f1",
        room="demo",
        epoch="9a41c07e",
        seq=40,
        resume="k6ZyZXN1bWXL.x1T0Kg",
        engine="scripted",
        languages=("de", "en", "fr"),
        limits=LimitsInfo(frame=65536, text=2000, inflight=16, targets=16, rate=50.0),
        resumed=Resumed(ok=True, replayed=2),
    ),
    Welcome(
        v=VERSION,
        session="c2f1",
        room="demo",
        epoch="9a41c07e",
        seq=0,
        resume="k6ZyZXN1bWXL.p3Rm2w",
        engine="scripted",
        languages=("de", "en", "fr"),
        limits=LimitsInfo(frame=65536, text=2000, inflight=16, targets=16, rate=50.0),
        audio=AudioInfo(
            codecs=("pcm_s16le", "opus"),
            rates=(8000, 48000),
            languages=("de", "en"),
            recogniser="whisper:base",
            rate=8.0,
            burst=10.0,
            window=50.0,
        ),
    ),
    Ack(id="u12", rev=1, ord=12),
    AudioState(codec="pcm_s16le", rate=48000, from_="en,de", seconds=0.0, ref="b1"),
    AudioState(codec="none", rate=48000, from_="en,de", seconds=63.4, ref="b2"),
    HeardSpeech(id="5d1c-1", rev=2, lang="en", text="We meet again on", t0=1.2, t1=2.6),
    HeardSpeech(
        id="5d1c-1",
        rev=3,
        lang="en",
        text="We meet again on Monday.",
        t0=1.2,
        t1=3.0,
        final=True,
    ),
    Source(seq=39, id="u12", rev=1, ord=12, lang="en", text="Good morning everybody"),
    Delta(id="u12", rev=1, lang="de", add="Guten", n=5),
    Delta(id="u12", rev=1, lang="de", add=" Morgen zusammen", n=21),
    Delta(id="s7", rev=2, lang="de", draft="Wir treffen uns wieder", n=0),
    Final(
        seq=40,
        id="u12",
        rev=1,
        ord=12,
        lang="de",
        text="Guten Morgen zusammen",
        by="mt",
        ms=Timing(queue=1, first=22, total=95),
    ),
    Final(
        seq=47,
        id="5d1c-1",
        rev=3,
        ord=15,
        lang="de",
        text="Wir treffen uns am Montag wieder.",
        by="mt",
        ms=Timing(queue=2, first=31, total=120),
        t0=1.2,
        t1=3.0,
    ),
    Failed(seq=41, id="u13", rev=1, ord=13, lang="fr", code="timeout", retry=True),
    Cancelled(seq=42, id="s7", rev=2, was="running", ref="a2"),
    Edited(
        seq=45,
        id="u12",
        rev=1,
        ord=12,
        lang="de",
        text="Guten Morgen allerseits",
        by="human",
        ref="a6",
    ),
    Retracted(seq=46, id="u12", ord=12, ref="a7"),
    Settings(seq=43, version=1, glossary={"standup": "Standup"}, session="c2f1", ref="a3"),
    Snapshot(
        id="u12",
        rev=1,
        ord=12,
        lang="en",
        text="Good morning everybody",
        final=True,
        lines=(Line(lang="de", state="final", text="Guten Morgen zusammen", by="mt"),),
    ),
    Synced(epoch="9a41c07e", seq=40, ok=True, replayed=2, ref="a9"),
    Authenticated(name="board", until=1893456000.0, ref="a8"),
    Stats(
        said=3,
        finals=1,
        failed=1,
        cancelled=1,
        errors=0,
        frames_in=8,
        frames_out=12,
        bytes_out=1436,
        merged=0,
        inflight=0,
        seconds=61.204,
        ref="a4",
    ),
    Help(types={"say": '{"type":"say","text":"good morning"}  say a line'}),
    Presence(readers={"de": 2, "fr": 1}, members=4, speakers=("Ann", "Ben")),
    Tick(seq=43),
    Degraded(partials="off", engine="ctranslate2:embedded"),
    Lag(dropped=40, ms=2300),
    Goaway(in_ms=10000, why="restart"),
    Error(
        code="lang_unsupported",
        fatal=False,
        retry=False,
        ref="a5",
        msg="This engine does not have 'tlh'.",
        hint="It has: de, en, fr.",
    ),
)
"""Examples of every message. All of them are on the pages about the protocol too."""


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
