"""No request and no handshake holds the event loop for 50 ms, or is answered with 500."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any
from urllib.parse import quote_plus, urlencode

import msgspec
import pytest

from gateway.server.app import HTTP_ROUTES
from gateway.server.openai_api.audio import AudioFileRequest
from gateway.server.openai_api.chat import ChatRequest
from gateway.server.routes.api import TranslateRequest
from gateway.server.routes.deepl import DeepLRequest, LanguagesRequest
from gateway.server.routes.libretranslate import DetectRequest, TranslateQuery
from gateway.server.routes.tickets import TicketRequest
from tests.server.access.credentials import MODERATOR
from tests.server.inputs.largest import ALPHABETS, LIMIT, TAGS, fields, fitted, nonsense, values
from tests.server.inputs.steps import converse, request
from tests.server.inputs.walk import (
    HEAD,
    SERVER,
    SOCKETS,
    application,
    check,
    with_value,
)
from tests.support.hearing import tone
from tests.support.sound_files import wav

BODIES: dict[str, type | None] = {
    "/v1/translate": TranslateRequest,
    "/translate": TranslateQuery,
    "/detect": DetectRequest,
    "/v2/translate": DeepLRequest,
    "/v2/languages": LanguagesRequest,
    "/v1/chat/completions": ChatRequest,
    "/v1/audio/transcriptions": AudioFileRequest,
    "/v1/audio/translations": AudioFileRequest,
    "/v1/tickets": TicketRequest,
    "/v1/ws": None,
    "/v1/languages": None,
    "/openapi.json": None,
    "/healthz": None,
    "/readyz": None,
    "/readyz/rooms": None,
    "/metrics": None,
    "/languages": None,
    "/frontend/settings": None,
    "/v2/usage": None,
    "/v1/models": None,
    "/v1/models/{model}": None,
    "/v1/rooms/{room}/transcript.{format}": None,
    "/v1/rooms/{room}": None,
    "/v1/rooms/{room}/events": None,
    "/v1/rooms/{room}/qr.svg": None,
}
"""The type of the body of each HTTP route; None for those that read none."""

KEY = ((b"authorization", f"Bearer {MODERATOR}".encode()),)


def literals(*methods: str) -> set[str]:
    """Return the names that the server's code looks up by ``query.get("...")`` and its like."""
    found = set()
    for file in SERVER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("get", "getlist")
                and ast.unparse(node.func.value).endswith(methods)
                and isinstance(node.args[0], ast.Constant)
            ):
                found.add(str(node.args[0].value))
    return found


QUERIES = sorted(literals("query", "query_params"))
HEADERS = sorted(
    literals("headers", "_headers") | {"cookie", "traceparent", "tracestate", "baggage"}
)


def test_every_http_route_and_every_type_of_body_is_in_the_table() -> None:
    assert {route.path for route in HTTP_ROUTES} == set(BODIES)
    read = set[str]()
    for file in SERVER.glob("routes/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Await) and ast.unparse(node.value).startswith(
                ("read(request, ", "read_upload(request, ")
            ):
                assert isinstance(node.value, ast.Call)
                read.add(ast.unparse(node.value.args[1]))
    known = {shape.__name__ for shape in BODIES.values() if shape is not None}
    assert read - {"shape"} <= known, "`shape` stands for both of LibreTranslate"


def bodies(shape: Any) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the name, the media type and the bytes of large bodies of a type."""
    if shape is AudioFileRequest:
        yield from uploads()
    example = {} if shape is AudioFileRequest else json.loads(shape.EXAMPLE)
    for field in fields(shape) if example else ():
        for name, value in chain(values(field.type), values(field.type, 10_000)):
            body = fitted(
                value,
                partial(with_value, msgspec.json.encode, example, field.encode_name),
            )
            yield f"{field.name} {name}", b"application/json", body
            if isinstance(value, str):
                form = {**example, field.encode_name: value[:20_000]}
                encoded = urlencode(form, doseq=True).encode(errors="replace")[:LIMIT]
                yield f"form {field.name} {name}", b"application/x-www-form-urlencoded", encoded
    kind = b"application/x-www-form-urlencoded"
    for unit in (b"a&", b"a=&", b"&", b"=", b"%", b"%ff", b"text=a&", b"+", b";"):
        yield f"form of {unit!r}", kind, (unit * LIMIT)[:LIMIT]
    multipart = b"multipart/form-data; boundary=x"
    part = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\na\r\n'
    for unit in (
        b"--x\r\n",
        b"--x",
        b"-",
        b"\r\n",
        part,
        b"--x\r\na: b\r\n",
        part[:-3] + b";a=b" * 99,
    ):
        yield f"parts of {unit[:20]!r}", multipart, (unit * LIMIT)[:LIMIT]
    for name, data in nonsense():
        yield name, b"application/json", data


def uploads() -> Iterator[tuple[str, bytes, bytes]]:
    """Yield large forms with a file: of each field the largest values, and large files."""
    files = {
        "wav": wav(tone(5.0)),
        "many channels": wav(bytes(1_000_000), channels=30_000),
        "nothing": b"",
        "no sound": b"RIFF" * 1_000_000,
    }
    for name, file in files.items():
        yield name, FORM, form([("file", file)])
    for field in fields(AudioFileRequest):
        for name, value in values(field.type) if field.name != "file" else ():
            if isinstance(value, str):
                text = value.encode(errors="replace")
                parts = [("file", wav(tone(0.3))), (field.encode_name, text)]
                yield f"{field.name} {name}", FORM, form(parts)


FORM = b"multipart/form-data; boundary=x"


def form(parts: Sequence[tuple[str, bytes]]) -> bytes:
    """Return a multipart form in which ``file`` has a name."""
    head = b'--x\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
    name = b'; filename="a"'
    made = (head % (part.encode(), name if part == "file" else b"", data) for part, data in parts)
    return b"".join(made) + b"--x--\r\n"


@pytest.mark.parametrize("path", [path for path, shape in BODIES.items() if shape is not None])
async def test_no_body_holds_the_loop_or_is_answered_with_500(path: str) -> None:
    slow: list[str] = []
    async with application() as app:
        for name, kind, body in bodies(BODIES[path]):
            statuses: list[int] = []

            async def handle(
                kind: bytes = kind, body: bytes = body, statuses: list[int] = statuses
            ) -> None:
                headers = ((b"content-type", kind),)
                statuses.append(await request(app, "POST", path, headers=headers, body=body))

            await check(f"{path} {name}", handle, slow)
            assert statuses[0] != 500, name
    assert not slow


STARTS = {
    "authorization": b"Bearer ",
    "content-type": b"multipart/form-data; boundary=x",
    "origin": b"http://[",
}
"""Beginnings of headers with which the rest is read."""
UNITS = {
    **{name: ALPHABETS[name] for name in ("letters", "chinese", "combining", "dotted", "digits")},
    "commas": "1,",
    "pairs": ";a=b",
    "quotes": ';a="',
    "addresses": "1.1.1.1,",
    "slashes": "/",
}


def heads() -> Iterator[tuple[str, bytes, tuple[tuple[bytes, bytes], ...]]]:
    """Yield the name, the query and the headers of large heads of requests."""
    texts = {name: (unit * HEAD)[:HEAD] for name, unit in UNITS.items()}
    for name, text in {**texts, "tags": ",".join(TAGS)[:HEAD]}.items():
        for key in QUERIES:
            yield f"?{key} of {name}", f"{key}={quote_plus(text)}"[:HEAD].encode(), ()
        for header in HEADERS:
            raw = STARTS.get(header, b"") + text.encode()
            yield f"{header}: {name}", b"", ((header.encode(), raw[:HEAD]),)
    for unit in (b"a&", b"&", b"lang=de&", b"to=de&", b"%", b"=", b"%ff"):
        yield f"query of {unit!r}", (unit * HEAD)[:HEAD], ()


PATHS = [
    (method, route.path, route.path.format(room=room, format=format, model=room))
    for route in HTTP_ROUTES
    for method in sorted((route.methods or set()) - {"HEAD"})
    for room, format in (("demo", "json"),)
]


@pytest.mark.parametrize("keys", [False, True], ids=["open", "keys"])
@pytest.mark.parametrize(("method", "route", "path"), PATHS, ids=lambda one: str(one))
async def test_no_head_of_a_request_holds_the_loop_or_is_answered_with_500(
    method: str, route: str, path: str, keys: bool
) -> None:
    slow: list[str] = []
    async with application(keys=keys) as app:
        shape: Any = BODIES[route]
        body = b"" if shape is None else shape.EXAMPLE.encode()
        for name, query, headers in heads():
            if keys and not any(header == b"authorization" for header, _ in headers):
                headers += KEY
            statuses: list[int] = []

            async def handle(
                query: bytes = query, headers: Any = headers, statuses: list[int] = statuses
            ) -> None:
                status = await request(app, method, path, query=query, headers=headers, body=body)
                statuses.append(status)

            await check(f"{method} {path} {name}", handle, slow)
            assert statuses[0] != 500, name
    assert not slow


async def test_no_path_holds_the_loop_or_is_answered_with_500() -> None:
    slow: list[str] = []
    async with application() as app:
        for name, unit in ALPHABETS.items():
            text = (unit * HEAD)[:HEAD]
            for route in HTTP_ROUTES:
                path = route.path.format(room=text, format=text, model="translate-" + text)
                for method in sorted(route.methods or ()):
                    statuses: list[int] = []

                    async def handle(
                        method: str = method, path: str = path, statuses: list[int] = statuses
                    ) -> None:
                        statuses.append(await request(app, method, path, body=b""))

                    if path != route.path:
                        await check(f"{method} {route.path} {name}", handle, slow)
                        assert statuses[0] != 500, (route.path, name)
    assert not slow


@pytest.mark.parametrize("path", SOCKETS)
async def test_no_handshake_holds_the_loop(path: str) -> None:
    slow: list[str] = []
    async with application() as app:
        for name, query, headers in heads():
            offered = headers[0][1].decode(errors="replace").split(",") if headers else []

            async def handle(
                query: bytes = query, headers: Any = headers, offered: list[str] = offered
            ) -> None:
                await converse(app, path, [], query=query, headers=headers, subprotocols=offered)

            await check(f"{path} {name}", handle, slow)
    assert not slow
