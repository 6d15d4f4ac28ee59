"""The OpenAPI document of the HTTP interface: ``docs/schema/openapi.json``.

Owns: the OpenAPI 3.1 description of every route except the demo page. Must not know: how a request
is answered. ``tests/scripts/test_openapi.py`` compares the document with the routes, and
`make fuzz` compares the server's answers with the document.
"""

from __future__ import annotations

from typing import get_args

import msgspec

from gateway import __version__
from gateway.core.transcripts.formats import Format
from gateway.protocol.handshake import ROOM_PATTERN, SOCKET_PATH
from gateway.protocol.messages import View
from gateway.server.app import HTTP_ROUTES, UNCHECKED
from gateway.server.openai_api.audio import AudioFileRequest
from gateway.server.openai_api.chat import ChatRequest
from gateway.server.routes.api import TranslateRequest
from gateway.server.routes.body import MULTIPART
from gateway.server.routes.deepl import FORMALITIES, DeepLRequest
from gateway.server.routes.description import OPENAPI_PATH
from gateway.server.routes.libretranslate import DetectRequest, TranslateQuery
from gateway.server.routes.tickets import TicketRequest
from scripts.openapi_parts import (
    EVENTS,
    EXAMPLES,
    TEXT,
    TEXTS,
    as_json,
    list_of,
    object_of,
    operation,
)
from scripts.schema_examples import Json

NAME: Json = {"type": "string", "pattern": ROOM_PATTERN}
ACCEPTED: dict[str, dict[str, Json]] = {
    "TranslateQuery": {"format": {"enum": ["text"], "default": "text"}},
    "DeepLRequest": {
        "formality": {"enum": [*FORMALITIES], "default": "default"},
        "glossary_id": {"type": "null", "default": None},
        "tag_handling": {"enum": ["", None], "default": None},
    },
    "ChatRequest": {
        "n": {"enum": [1, None], "default": None},
        "tools": {"type": ["array", "null"], "maxItems": 0, "default": None},
    },
    "AudioFileRequest": {
        # A part of a form holds bytes as they are.
        "file": {"type": "string", "contentMediaType": "application/octet-stream"},
        "stream": {"enum": [False], "default": False},
        "timestamp_granularities[]": {"enum": ["segment"], "default": "segment"},
    },
}
"""Values of fields that clients of other services send, and that are refused with a sentence for
any other value. The structs take all values, so that the sentence is the gateway's own."""


def openapi() -> Json:
    """Return the document. Each operation says which right its route needs."""
    rights = {
        (route.path, method.lower()): route.right
        for route in HTTP_ROUTES
        for method in route.methods or ()
    }
    _, schemas = msgspec.json.schema_components(
        EXAMPLES, ref_template="#/components/schemas/{name}"
    )
    schemas["Fault"] = object_of(
        "A refusal or failure.", error=TEXT, code=TEXT, hint={"type": "string"}
    )
    schemas["Fault"]["properties"]["hint"] = {"type": ["string", "null"]}
    schemas["DeepLFault"] = object_of("A refusal or failure, as of DeepL's API.", message=TEXT)
    about = object_of("An error.", message=TEXT, type=TEXT, param={"type": "null"}, code=TEXT)
    schemas["OpenAIFault"] = object_of("A refusal or failure, as of OpenAI's API.", error=about)
    for name, fields in ACCEPTED.items():
        schemas[name]["properties"] |= fields
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Real-time translation gateway: HTTP interface",
            "version": __version__,
            "description": "One-shot translation, transcripts and health. The pages in"
            " `docs/reference/protocol/` explain them; `asyncapi.v1.json` describes the WebSocket.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": {
            path: {
                method: one(rights[path, method], path not in UNCHECKED) if callable(one) else one
                for method, one in item.items()
            }
            for path, item in _paths().items()
        },
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key, a JWT or a ticket, if the gateway requires one.",
                }
            },
        },
    }


def _paths() -> Json:
    room = {"name": "room", "in": "path", "required": True, "schema": NAME, "example": "demo"}
    format = {"type": "string", "enum": [str(one) for one in Format]}
    detection = object_of("A guess.", confidence={"type": "number"}, language=TEXT)
    return {
        SOCKET_PATH: {
            "get": operation(
                "socket",
                "Path of the WebSocket. A request that is not a WebSocket handshake gets 426.",
                {426: as_json({"$ref": "#/components/schemas/Fault"})},
            )
        },
        "/v1/translate": {
            "post": operation(
                "translate",
                "Translate one text into one language; `stream` answers in server-sent events.",
                {200: {"application/json": _translation(), "text/event-stream": EVENTS}},
                body=TranslateRequest,
                faults=(400, 408, 413, 429, 500, 502, 503, 504),
            )
        },
        "/translate": {
            "post": operation(
                "libreTranslate",
                "Translate one text or a list of texts, as in LibreTranslate's API.",
                {200: as_json(object_of("The texts.", translatedText=TEXTS))},
                body=TranslateQuery,
                faults=(400, 408, 413, 429, 500, 502, 503, 504),
            )
        },
        **_openai(),
        **_deepl(),
        "/detect": {
            "post": operation(
                "detect",
                "Detect the language of a text, as in LibreTranslate's API. The list is empty if"
                " no language is likely.",
                {200: as_json(list_of(detection))},
                body=DetectRequest,
                faults=(400, 408, 413),
            )
        },
        "/v1/languages": {
            "get": operation(
                "languages",
                "List the languages and what each can be translated into.",
                {200: as_json(_languages())},
            )
        },
        "/languages": {
            "get": operation(
                "libreLanguages",
                "List the languages as in LibreTranslate's API.",
                {
                    200: as_json(
                        list_of(
                            object_of("A language.", code=TEXT, name=TEXT, targets=list_of(TEXT))
                        )
                    )
                },
            )
        },
        "/frontend/settings": {
            "get": operation(
                "libreSettings",
                "Tell a page what the API can do, as in LibreTranslate's API.",
                {
                    200: as_json(
                        object_of(
                            "What the API can do.",
                            charLimit={"type": "integer"},
                            keyRequired={"type": "boolean"},
                        )
                    )
                },
            )
        },
        "/v1/rooms/{room}/transcript.{format}": {
            "parameters": [
                room,
                {"name": "format", "in": "path", "required": True, "schema": format},
            ],
            "get": operation(
                "transcript",
                "Return the transcript of a room.",
                {
                    200: {
                        "text/vtt": TEXT,
                        "application/x-subrip": TEXT,
                        "text/plain": TEXT,
                        **as_json({"type": "object"}),
                    }
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
            "get": operation(
                "events",
                "Stream the events of a room as server-sent events.",
                {200: {"text/event-stream": EVENTS}},
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
            "get": operation(
                "qr",
                "Return the QR code of the room's join page.",
                {200: {"image/svg+xml": TEXT}},
                faults=(404, 413),
            ),
        },
        "/v1/rooms/{room}": {
            "parameters": [room],
            "delete": operation(
                "forget",
                "End a room and delete everything that is stored of it.",
                {204: None},
                faults=(404, 500),
            ),
        },
        "/v1/tickets": {
            "post": operation(
                "ticket",
                "Create a ticket, which a browser presents once instead of a key.",
                {200: as_json(object_of("A ticket.", ticket=TEXT, expires_s={"type": "number"}))},
                body=TicketRequest,
                faults=(400, 408, 413),
            )
        },
        OPENAPI_PATH: {
            "get": operation("openapi", "Return this document.", {200: as_json({"type": "object"})})
        },
        "/healthz": {
            "get": operation(
                "healthz",
                "Tell that the process is alive.",
                {200: as_json(object_of("The process.", status=TEXT, version=TEXT))},
            )
        },
        "/readyz": {
            "get": operation(
                "readyz",
                "Tell whether a new utterance would be translated: 200, else 503.",
                {200: as_json(_readiness()), 503: as_json(_readiness())},
            )
        },
        "/readyz/rooms": {
            "get": operation(
                "readyzRooms",
                "Tell whether a new utterance would be translated in any room: 200, else 503.",
                {200: as_json(_readiness()), 503: as_json(_readiness())},
            )
        },
        "/metrics": {
            "get": operation(
                "metrics",
                "Return the metrics in the text format of Prometheus.",
                {200: {"text/plain": TEXT}},
            )
        },
    }


def _openai() -> Json:
    """Return the paths of OpenAI's text APIs."""
    model = object_of("A model.", id=TEXT, object=TEXT, created={"type": "integer"}, owned_by=TEXT)
    name = {"name": "model", "in": "path", "required": True, "schema": TEXT}
    faults = (400, 408, 413, 429, 500, 502, 503, 504)

    def translating(name: str, summary: str, body: type[msgspec.Struct]) -> Json:
        answer = {"application/json": {"type": "object"}, "text/event-stream": EVENTS}
        made = operation(
            name,
            summary,
            {200: answer},
            body=body,
            forms=("application/json",),  # a form has no messages
            faults=faults,
            fault="OpenAIFault",
        )
        return {"post": made}

    def listening(name: str, summary: str) -> Json:
        answer = {**as_json({"type": "object"}), "text/plain": TEXT}
        answer |= {"application/x-subrip": TEXT, "text/vtt": TEXT}
        made = operation(
            name,
            summary,
            {200: answer},
            body=AudioFileRequest,
            forms=(MULTIPART,),
            faults=faults,
            fault="OpenAIFault",
        )
        return {"post": made}

    return {
        "/v1/audio/transcriptions": listening(
            "transcription", "Write down the speech in a file, as OpenAI's API does."
        ),
        "/v1/audio/translations": listening(
            "audioTranslation", "Write down the speech in a file in another language."
        ),
        "/v1/models": {
            "get": operation(
                "models",
                "List a model for each language that can be translated into, as OpenAI's API does.",
                {200: as_json(object_of("The models.", object=TEXT, data=list_of(model)))},
                fault="OpenAIFault",
            )
        },
        "/v1/models/{model}": {
            "parameters": [name],
            "get": operation(
                "model",
                "Describe one model, as OpenAI's API does.",
                {200: as_json(model)},
                faults=(400, 404),
                fault="OpenAIFault",
            ),
        },
        "/v1/chat/completions": translating(
            "chatCompletion",
            "Translate the last message of the user, as OpenAI's API answers one.",
            ChatRequest,
        ),
    }


def _deepl() -> Json:
    """Return the paths of DeepL's API."""
    translations = list_of(object_of("A text.", detected_source_language=TEXT, text=TEXT))
    return {
        "/v2/translate": {
            "post": operation(
                "deeplTranslate",
                "Translate texts, as DeepL's API does.",
                {200: as_json(object_of("The texts.", translations=translations))},
                body=DeepLRequest,
                faults=(400, 408, 413, 429, 500, 502, 503, 504),
                fault="DeepLFault",
            )
        },
        "/v2/languages": {
            "get": operation(
                "deeplLanguages",
                "List sources or targets, as DeepL's API does.",
                {200: as_json(list_of(object_of("A language.", language=TEXT, name=TEXT)))},
                query={"type": {"type": "string", "enum": ["source", "target"]}},
                faults=(400, 408, 413),
                fault="DeepLFault",
            )
        },
        "/v2/usage": {
            "get": operation(
                "deeplUsage",
                "Answer with an empty object: nothing is counted.",
                {200: as_json({"type": "object"})},
                fault="DeepLFault",
            )
        },
    }


def _translation() -> Json:
    translation = object_of(
        "The translation.",
        translation=TEXT,
        source_lang=TEXT,
        target_lang=TEXT,
        ms={"type": "integer", "minimum": 0},
        flags=list_of(TEXT),
    )
    # Not every model judges itself, so it is not required.
    translation["properties"]["p"] = {"type": "number", "minimum": 0, "maximum": 1}
    return translation


def _languages() -> Json:
    language = object_of(
        "A language, what it can be translated into, and which of that takes two steps.",
        tag=TEXT,
        name=TEXT,
        endonym=TEXT,
        targets=list_of(TEXT),
        pivoted=list_of(TEXT),
    )
    return object_of(
        "The languages of the gateway, and the one between two steps.",
        model=TEXT,
        pivot={"type": ["string", "null"]},
        glossary={"type": "boolean"},
        languages=list_of(language),
    )


def _readiness() -> Json:
    answer = object_of("State of the engine.", status=TEXT, engine=TEXT)
    # With several engines only, so it is not required.
    answer["properties"]["engines"] = {"type": "object", "additionalProperties": TEXT}
    return answer
