"""The parts of the OpenAPI document: schemas, and operations with the refusals of their right.

Owns: their form. Must not know: which routes there are (`scripts.openapi`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec

from gateway.errors import ErrorCode
from gateway.protocol.messages import PRIVATE
from gateway.server.access.guarded_route import ROOM, Right
from gateway.server.openai_api.audio import AudioFileRequest
from gateway.server.openai_api.chat import ChatRequest
from gateway.server.routes.api import LATE_BODY, STATUS, TranslateRequest
from gateway.server.routes.body import MULTIPART, URLENCODED
from gateway.server.routes.deepl import DeepLRequest
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


def operation(
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
            "content": _content(as_json({"$ref": f"#/components/schemas/{fault}"})),
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


def object_of(description: str, **properties: Json) -> Json:
    """Return the schema of an object whose properties are all required."""
    return {
        "type": "object",
        "description": description,
        "required": list(properties),
        "properties": properties,
    }


def list_of(items: Json) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def as_json(schema: Json) -> Json:
    """Return the content of an answer in JSON."""
    return {"application/json": schema}


def _content(schemas: Json) -> Json:
    return {media_type: {"schema": schema} for media_type, schema in schemas.items()}
