"""What is served over HTTP, as programs read it: ``docs/schema/openapi.json``.

Owns: the OpenAPI 3.1 document of every route but the demo page. Must not know: how a request is
answered. ``tests/server/routes/test_openapi.py`` holds it to the routes, and `make fuzz` the server
to it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from gateway import __version__
from gateway.protocol.handshake import ROOM_PATTERN, SOCKET_PATH
from gateway.protocol.messages import View
from gateway.protocol.schema import Json
from gateway.server.routes.api import STATUS, TranslateRequest
from gateway.server.routes.libretranslate import DetectRequest, TranslateQuery
from gateway.server.routes.tickets import TicketRequest
from gateway.transcripts.formats import Format

PATH = "schema/openapi.json"
"""Below ``docs/``."""

TEXT: Json = {"type": "string"}
EVENTS: Json = {}
"""OpenAPI 3.1 has no words for a stream of events: the description has."""
EXAMPLES: dict[str, Json] = {
    "TranslateRequest": {"text": "Good morning.", "source_lang": "en", "target_lang": "de"},
    "TranslateQuery": {"q": ["Good morning."], "source": "en", "target": "de"},
    "DetectRequest": {"q": "Guten Morgen"},
    "TicketRequest": {"room": "demo"},
}
LIST: Json = {"type": "array", "items": TEXT}
NAME: Json = {"type": "string", "pattern": ROOM_PATTERN}


def openapi() -> Json:
    """The document."""
    shapes = (TranslateRequest, TranslateQuery, DetectRequest, TicketRequest)
    _, schemas = msgspec.json.schema_components(shapes, ref_template="#/components/schemas/{name}")
    schemas["Fault"] = _object("What was wrong.", error=TEXT, code=TEXT, hint={"type": "string"})
    schemas["Fault"]["properties"]["hint"] = {"type": ["string", "null"]}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Real-time translation gateway, over HTTP",
            "version": __version__,
            "description": "One-shot translation, transcripts, health. The contract in words is "
            "`docs/protocol.md`; the WebSocket's is `asyncapi.v1.json`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8000", "description": "As `gateway serve` starts."}],
        "paths": _paths(),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key, a JWT or a ticket, where the gateway asks for one.",
                }
            },
        },
    }


def render() -> str:
    """The document as the file has it."""
    return json.dumps(openapi(), indent=2, ensure_ascii=False) + "\n"


def _paths() -> Json:
    room = {"name": "room", "in": "path", "required": True, "schema": NAME, "example": "demo"}
    kind = {"type": "string", "enum": [str(kind) for kind in Format]}
    tag = _object("A language.", code=TEXT, name=TEXT, targets=LIST)
    row = _object("A language.", tag=TEXT, name=TEXT, endonym=TEXT, targets=LIST)
    guess = _object("A guess.", confidence={"type": "number"}, language=TEXT)
    count = {"type": "integer", "minimum": 0}
    whole = _object(
        "The translation.",
        **{"translation": TEXT, "source_lang": TEXT, "target_lang": TEXT, "ms": count},
        flags=LIST,
    )
    ready = _object("Whether it translates.", status=TEXT, engine=TEXT)
    return {
        SOCKET_PATH: {
            "get": _operation(
                "socket",
                "The path of the WebSocket: without a handshake 426.",
                _json({"$ref": "#/components/schemas/Fault"}),
                status=426,
                asks=False,
            )
        },
        "/v1/translate": {
            "post": _operation(
                "translate",
                "One text into one language; with `stream` as server-sent events.",
                {"application/json": whole, "text/event-stream": EVENTS},
                body="TranslateRequest",
                faults=(400, 413, 429, 500, 502, 503, 504),
            )
        },
        "/translate": {
            "post": _operation(
                "libreTranslate",
                "As LibreTranslate has it: one text, or a list of them.",
                _json({"type": "object", "required": ["translatedText"]}),
                body="TranslateQuery",
                faults=(400, 413, 429, 500, 502, 503, 504),
            )
        },
        "/detect": {
            "post": _operation(
                "detect",
                "As LibreTranslate has it; nothing for text that could be in any language.",
                _json({"type": "array", "items": guess}),
                body="DetectRequest",
                faults=(400, 413, 504),
            )
        },
        "/v1/languages": {
            "get": _operation(
                "languages",
                "What can be translated into what.",
                _json(
                    _object("All.", model=TEXT, languages={"type": "array", "items": row}),
                ),
                asks=False,
            )
        },
        "/languages": {
            "get": _operation(
                "libreLanguages",
                "As LibreTranslate has it.",
                _json({"type": "array", "items": tag}),
                asks=False,
            )
        },
        "/v1/rooms/{room}/transcript.{format}": {
            "parameters": [
                room,
                {"name": "format", "in": "path", "required": True, "schema": kind},
            ],
            "get": _operation(
                "transcript",
                "What was said in a room.",
                {
                    **{name: TEXT for name in ("text/vtt", "application/x-subrip", "text/plain")},
                    **_json({"type": "object"}),
                },
                query={
                    "lang": {**TEXT, "description": "BCP 47 tags, separated by commas."},
                    "bilingual": {"type": "string", "enum": ["0", "1"]},
                },
                faults=(400, 404, 429, 500),
            ),
        },
        "/v1/rooms/{room}/events": {
            "parameters": [room],
            "get": _operation(
                "events",
                "A room as server-sent events, without an end.",
                {"text/event-stream": EVENTS},
                query={
                    "to": {**TEXT, "description": "BCP 47 tags, separated by commas."},
                    "view": {"type": "string", "enum": list(get_args(View))},
                    "hb": {"type": "number", "minimum": 1},
                },
                faults=(400, 401, 403, 404, 429, 500),
            ),
        },
        "/v1/rooms/{room}/qr.svg": {
            "parameters": [room],
            "get": _operation(
                "qr",
                "The QR code of the page on which one joins the room.",
                {"image/svg+xml": TEXT},
                faults=(404, 413),
                asks=False,
            ),
        },
        "/v1/rooms/{room}": {
            "parameters": [room],
            "delete": _operation(
                "forget",
                "End a room and delete all that is known of it.",
                None,
                status=204,
                faults=(404, 500),
            ),
        },
        "/v1/tickets": {
            "post": _operation(
                "ticket",
                "What a browser shows instead of a key, once.",
                _json(_object("A ticket.", ticket=TEXT, expires_s={"type": "number"})),
                body="TicketRequest",
                faults=(400, 413, 504),
            )
        },
        "/healthz": {
            "get": _operation(
                "healthz",
                "The process lives.",
                _json(_object("Yes.", status=TEXT, version=TEXT)),
                asks=None,
            )
        },
        "/readyz": {
            "get": _operation(
                "readyz",
                "A new utterance would be translated.",
                _json(ready),
                others={503: {"description": "It would not.", "content": _content(_json(ready))}},
                asks=None,
            )
        },
        "/metrics": {"get": _operation("metrics", "Prometheus text format.", {"text/plain": TEXT})},
    }


def _operation(
    name: str,
    summary: str,
    content: Json | None,
    *,
    status: int = 200,
    body: str | None = None,
    query: Json | None = None,
    faults: Iterable[int] = (),
    others: dict[int, Json] | None = None,
    asks: bool | None = True,
) -> Json:
    """``asks``: whether a key may be asked for; None: not even where a page comes from."""
    if asks is not None:
        faults = sorted({403, *faults, *((401, 429) if asks else ())})
    codes: dict[int, list[str]] = {}
    for code, number in STATUS.items():
        codes.setdefault(number, []).append(code.value)
    done: Json = {"description": "Done."}
    if content is not None:
        done["content"] = _content(content)
    answers: Json = {str(status): done}
    for number in faults:
        known = ", ".join(f"`{code}`" for code in codes.get(number, ["bad_frame"]))
        answers[str(number)] = {
            "description": known,
            "content": _content(_json({"$ref": "#/components/schemas/Fault"})),
        }
    for number, answer in (others or {}).items():
        answers[str(number)] = answer
    operation: Json = {"operationId": name, "summary": summary, "responses": answers}
    if asks:
        operation["security"] = [{"bearer": []}, {}]
    if query is not None:
        operation["parameters"] = [
            {"name": key, "in": "query", "schema": schema} for key, schema in query.items()
        ]
    if body is not None:
        shape = {
            "schema": {"$ref": f"#/components/schemas/{body}"},
            "example": EXAMPLES[body],
        }
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": shape, "application/x-www-form-urlencoded": shape},
        }
    return operation


def _object(description: str, **properties: Json) -> Json:
    return {
        "type": "object",
        "description": description,
        "required": list(properties),
        "properties": properties,
    }


def _json(schema: Json) -> Json:
    return {"application/json": schema}


def _content(kinds: Json) -> Any:
    return {kind: {"schema": schema} for kind, schema in kinds.items()}
