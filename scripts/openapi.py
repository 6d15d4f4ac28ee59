"""The OpenAPI document of the HTTP interface: ``docs/schema/openapi.json``.

Owns: the OpenAPI 3.1 description of every route except the demo page. Must not know: how a request
is answered. ``tests/scripts/test_openapi.py`` compares the document with the routes, and
`make fuzz` compares the server's answers with the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Any, get_args

import msgspec

from gateway import __version__
from gateway.core.transcripts.formats import Format
from gateway.errors import ErrorCode
from gateway.protocol.handshake import ROOM_PATTERN, SOCKET_PATH
from gateway.protocol.messages import PRIVATE, View
from gateway.server.access.guarded_route import ROOM, Right
from gateway.server.app import HTTP_ROUTES, UNCHECKED
from gateway.server.openai_api.audio import AudioFileRequest
from gateway.server.openai_api.chat import ChatRequest
from gateway.server.routes.api import LATE_BODY, STATUS, TranslateRequest
from gateway.server.routes.body import MULTIPART, URLENCODED
from gateway.server.routes.deepl import FORMALITIES, DeepLRequest
from gateway.server.routes.description import OPENAPI_PATH
from gateway.server.routes.libretranslate import DetectRequest, TranslateQuery
from gateway.server.routes.tickets import TicketRequest
from scripts.schema_examples import Json

TEXT: Json = {"type": "string"}
TEXTS: Json = {"type": ["string", "array"], "items": TEXT}
"""A text, or several if the request has several."""
EVENTS: Json = {}
"""Schema of an event stream. OpenAPI 3.1 cannot describe one, so that the summary does."""
EXAMPLES: dict[type[msgspec.Struct], Json] = {
    TranslateRequest: {"text": "Good morning.", "source_lang": "en", "target_lang": "de"},
    TranslateQuery: {"q": ["Good morning."], "source": "en", "target": "de"},
    DetectRequest: {"q": "Guten Morgen"},
    TicketRequest: {"room": "demo"},
    ChatRequest: {
        "model": "translate-de",
        "messages": [{"role": "user", "content": "Good morning."}],
    },
    DeepLRequest: {"text": ["Good morning."], "target_lang": "DE"},
    AudioFileRequest: {"file": "(bytes of a file)", "response_format": "srt"},
}
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
    schemas["Fault"] = _object(
        "A refusal or failure.", error=TEXT, code=TEXT, hint={"type": "string"}
    )
    schemas["Fault"]["properties"]["hint"] = {"type": ["string", "null"]}
    schemas["DeepLFault"] = _object("A refusal or failure, as of DeepL's API.", message=TEXT)
    about = _object("An error.", message=TEXT, type=TEXT, param={"type": "null"}, code=TEXT)
    schemas["OpenAIFault"] = _object("A refusal or failure, as of OpenAI's API.", error=about)
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
    detection = _object("A guess.", confidence={"type": "number"}, language=TEXT)
    return {
        SOCKET_PATH: {
            "get": _operation(
                "socket",
                "Path of the WebSocket. A request that is not a WebSocket handshake gets 426.",
                {426: _json({"$ref": "#/components/schemas/Fault"})},
            )
        },
        "/v1/translate": {
            "post": _operation(
                "translate",
                "Translate one text into one language; `stream` answers in server-sent events.",
                {200: {"application/json": _translation(), "text/event-stream": EVENTS}},
                body=TranslateRequest,
                faults=(400, 408, 413, 429, 500, 502, 503, 504),
            )
        },
        "/translate": {
            "post": _operation(
                "libreTranslate",
                "Translate one text or a list of texts, as in LibreTranslate's API.",
                {200: _json(_object("The texts.", translatedText=TEXTS))},
                body=TranslateQuery,
                faults=(400, 408, 413, 429, 500, 502, 503, 504),
            )
        },
        **_openai(),
        **_deepl(),
        "/detect": {
            "post": _operation(
                "detect",
                "Detect the language of a text, as in LibreTranslate's API. The list is empty if"
                " no language is likely.",
                {200: _json(_list(detection))},
                body=DetectRequest,
                faults=(400, 408, 413),
            )
        },
        "/v1/languages": {
            "get": _operation(
                "languages",
                "List the languages and what each can be translated into.",
                {200: _json(_languages())},
            )
        },
        "/languages": {
            "get": _operation(
                "libreLanguages",
                "List the languages as in LibreTranslate's API.",
                {
                    200: _json(
                        _list(_object("A language.", code=TEXT, name=TEXT, targets=_list(TEXT)))
                    )
                },
            )
        },
        "/frontend/settings": {
            "get": _operation(
                "libreSettings",
                "Tell a page what the API can do, as in LibreTranslate's API.",
                {
                    200: _json(
                        _object(
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
            "get": _operation(
                "transcript",
                "Return the transcript of a room.",
                {
                    200: {
                        "text/vtt": TEXT,
                        "application/x-subrip": TEXT,
                        "text/plain": TEXT,
                        **_json({"type": "object"}),
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
            "get": _operation(
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
            "get": _operation(
                "qr",
                "Return the QR code of the room's join page.",
                {200: {"image/svg+xml": TEXT}},
                faults=(404, 413),
            ),
        },
        "/v1/rooms/{room}": {
            "parameters": [room],
            "delete": _operation(
                "forget",
                "End a room and delete everything that is stored of it.",
                {204: None},
                faults=(404, 500),
            ),
        },
        "/v1/tickets": {
            "post": _operation(
                "ticket",
                "Create a ticket, which a browser presents once instead of a key.",
                {200: _json(_object("A ticket.", ticket=TEXT, expires_s={"type": "number"}))},
                body=TicketRequest,
                faults=(400, 408, 413),
            )
        },
        OPENAPI_PATH: {
            "get": _operation("openapi", "Return this document.", {200: _json({"type": "object"})})
        },
        "/healthz": {
            "get": _operation(
                "healthz",
                "Tell that the process is alive.",
                {200: _json(_object("The process.", status=TEXT, version=TEXT))},
            )
        },
        "/readyz": {
            "get": _operation(
                "readyz",
                "Tell whether a new utterance would be translated: 200, else 503.",
                {200: _json(_readiness()), 503: _json(_readiness())},
            )
        },
        "/readyz/rooms": {
            "get": _operation(
                "readyzRooms",
                "Tell whether a new utterance would be translated in any room: 200, else 503.",
                {200: _json(_readiness()), 503: _json(_readiness())},
            )
        },
        "/metrics": {
            "get": _operation(
                "metrics",
                "Return the metrics in the text format of Prometheus.",
                {200: {"text/plain": TEXT}},
            )
        },
    }


def _openai() -> Json:
    """Return the paths of OpenAI's text APIs."""
    model = _object("A model.", id=TEXT, object=TEXT, created={"type": "integer"}, owned_by=TEXT)
    name = {"name": "model", "in": "path", "required": True, "schema": TEXT}
    faults = (400, 408, 413, 429, 500, 502, 503, 504)

    def translating(name: str, summary: str, body: type[msgspec.Struct]) -> Json:
        answer = {"application/json": {"type": "object"}, "text/event-stream": EVENTS}
        operation = _operation(
            name,
            summary,
            {200: answer},
            body=body,
            forms=("application/json",),  # a form has no messages
            faults=faults,
            fault="OpenAIFault",
        )
        return {"post": operation}

    def listening(name: str, summary: str) -> Json:
        answer = {**_json({"type": "object"}), "text/plain": TEXT}
        answer |= {"application/x-subrip": TEXT, "text/vtt": TEXT}
        operation = _operation(
            name,
            summary,
            {200: answer},
            body=AudioFileRequest,
            forms=(MULTIPART,),
            faults=faults,
            fault="OpenAIFault",
        )
        return {"post": operation}

    return {
        "/v1/audio/transcriptions": listening(
            "transcription", "Write down the speech in a file, as OpenAI's API does."
        ),
        "/v1/audio/translations": listening(
            "audioTranslation", "Write down the speech in a file in another language."
        ),
        "/v1/models": {
            "get": _operation(
                "models",
                "List a model for each language that can be translated into, as OpenAI's API does.",
                {200: _json(_object("The models.", object=TEXT, data=_list(model)))},
                fault="OpenAIFault",
            )
        },
        "/v1/models/{model}": {
            "parameters": [name],
            "get": _operation(
                "model",
                "Describe one model, as OpenAI's API does.",
                {200: _json(model)},
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
    translations = _list(_object("A text.", detected_source_language=TEXT, text=TEXT))
    return {
        "/v2/translate": {
            "post": _operation(
                "deeplTranslate",
                "Translate texts, as DeepL's API does.",
                {200: _json(_object("The texts.", translations=translations))},
                body=DeepLRequest,
                faults=(400, 408, 413, 429, 500, 502, 503, 504),
                fault="DeepLFault",
            )
        },
        "/v2/languages": {
            "get": _operation(
                "deeplLanguages",
                "List sources or targets, as DeepL's API does.",
                {200: _json(_list(_object("A language.", language=TEXT, name=TEXT)))},
                query={"type": {"type": "string", "enum": ["source", "target"]}},
                faults=(400, 408, 413),
                fault="DeepLFault",
            )
        },
        "/v2/usage": {
            "get": _operation(
                "deeplUsage",
                "Answer with an empty object: nothing is counted.",
                {200: _json({"type": "object"})},
                fault="DeepLFault",
            )
        },
    }


def _translation() -> Json:
    return _object(
        "The translation.",
        translation=TEXT,
        source_lang=TEXT,
        target_lang=TEXT,
        ms={"type": "integer", "minimum": 0},
        flags=_list(TEXT),
    )


def _languages() -> Json:
    language = _object(
        "A language, what it can be translated into, and which of that takes two steps.",
        tag=TEXT,
        name=TEXT,
        endonym=TEXT,
        targets=_list(TEXT),
        pivoted=_list(TEXT),
    )
    return _object(
        "The languages of the gateway, and the one between two steps.",
        model=TEXT,
        pivot={"type": ["string", "null"]},
        glossary={"type": "boolean"},
        languages=_list(language),
    )


def _readiness() -> Json:
    answer = _object("State of the engine.", status=TEXT, engine=TEXT)
    # With several engines only, so it is not required.
    answer["properties"]["engines"] = {"type": "object", "additionalProperties": TEXT}
    return answer


def _operation(
    name: str, summary: str, answers: dict[int, Json | None], **options: Any
) -> Callable[[Right, bool], Json]:
    """Return a function that describes an operation which needs a right, see `_described`."""
    return partial(_described, name, summary, answers, **options)


def _key(right: Right) -> str:
    """Return a sentence about the key that a request needs, or an empty string."""
    if right.role is None:
        return ""
    where = {None: "", ROOM: " in the room", PRIVATE: " in private rooms"}[right.room]
    return f"If the gateway has keys, one with the role `{right.role.value}`{where} is needed."


def _described(
    name: str,
    summary: str,
    answers: dict[int, Json | None],
    right: Right,
    checked: bool,
    *,
    body: type[msgspec.Struct] | None = None,
    forms: tuple[str, ...] = ("application/json", URLENCODED, MULTIPART),
    query: Json | None = None,
    faults: Iterable[int] = (),
    fault: str = "Fault",
) -> Json:
    """Return the description of one operation.

    :param answers: schemas by media type, by status code; None for an answer without a body
    :param checked: whether the host and the page's origin are checked
    :param body: shape of the request's body
    :param forms: media types of the request's body
    :param query: schemas of the query parameters by name
    :param faults: status codes of refusals, besides those that the right implies
    :param fault: name of the schema of refusals
    """
    refusals = set(faults)
    # 403 is for a foreign origin or host; 401 and 429 for a missing or a wrong key.
    if checked:
        refusals.add(403)
    if right.role is not None:
        refusals |= {401, 429}
    # Answers come first and refusals after them, as a reader looks for them.
    responses: Json = {}
    for status, content in answers.items():
        responses[str(status)] = {"description": HTTPStatus(status).phrase + "."}
        if content is not None:
            responses[str(status)]["content"] = _content(content)
    codes: dict[int, list[str]] = {}
    for code, status in STATUS.items():
        codes.setdefault(status, []).append(code.value)
    codes[LATE_BODY] = [ErrorCode.TIMEOUT.value]
    for status in sorted(refusals):
        # Codes without a status of their own have 400, the common one of which is shown.
        known = ", ".join(f"`{code}`" for code in codes.get(status, ["bad_frame"]))
        responses[str(status)] = {
            "description": known,
            "content": _content(_json({"$ref": f"#/components/schemas/{fault}"})),
        }
    operation: Json = {"operationId": name, "summary": summary, "responses": responses}
    # The empty object stands for a gateway without keys.
    operation["security"] = [] if right.role is None else [{"bearer": []}, {}]
    if needed := _key(right):
        operation["description"] = needed
    if query is not None:
        operation["parameters"] = [
            {"name": key, "in": "query", "schema": schema} for key, schema in query.items()
        ]
    if body is not None:
        shape = {
            "schema": {"$ref": f"#/components/schemas/{body.__name__}"},
            "example": EXAMPLES[body],
        }
        operation["requestBody"] = {
            "required": True,
            "content": dict.fromkeys(forms, shape),
        }
    return operation


def _object(description: str, **properties: Json) -> Json:
    return {
        "type": "object",
        "description": description,
        "required": list(properties),
        "properties": properties,
    }


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _json(schema: Json) -> Json:
    return {"application/json": schema}


def _content(schemas: Json) -> Json:
    return {media_type: {"schema": schema} for media_type, schema in schemas.items()}
