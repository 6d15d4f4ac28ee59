"""No input of a client holds the event loop for 50 ms, and none is answered with 500.

Every field of every message, body, query, header and path is tried with the largest values that its
bounds allow. Messages and bodies are derived from their types, queries and headers from the code
that reads them: a new one is tried without being listed here, or a test fails.
"""

from __future__ import annotations

import ast
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

import msgspec
import pytest

import gateway
from gateway.auth.api_keys import Keyring
from gateway.auth.origin import AllowedHosts
from gateway.engines.scripted import ScriptedEngine
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.limits import Limits
from gateway.protocol.codec import Codec
from gateway.protocol.messages import REQUESTS
from gateway.server.access.authenticator import Authenticator
from gateway.server.access.jwt_verification import JwtIssuer
from gateway.server.app import HTTP_ROUTES, GatewayApp, create_app
from gateway.server.openai_api.requests import ChatRequest
from gateway.server.routes.api import TranslateRequest
from gateway.server.routes.deepl import DeepLRequest, LanguagesRequest
from gateway.server.routes.libretranslate import DetectRequest, TranslateQuery
from gateway.server.routes.tickets import TicketRequest
from tests.server.access.credentials import FILE, MODERATOR, SECRET, signed
from tests.server.inputs.largest import ALPHABETS, LIMIT, TAGS, fields, fitted, nonsense, values
from tests.server.inputs.steps import HELD_S, converse, longest_step, request, uncollected

HEAD = 30_000
"""Bytes of a header, a path or a query: somewhat less than those of a whole head."""

FILLED: dict[str, Any] = {
    "id": "u1",
    "text": "Good morning everyone.",
    "codec": "pcm_s16le",
    "data": b"\0" * 640,
    "lang": "de",
    "langs": ["de"],
    "epoch": "e",
    "seq": 0,
    "token": "t",
}
"""Values of the required fields of messages."""

BODIES: dict[str, type | None] = {
    "/v1/translate": TranslateRequest,
    "/translate": TranslateQuery,
    "/detect": DetectRequest,
    "/v2/translate": DeepLRequest,
    "/v2/languages": LanguagesRequest,
    "/v1/chat/completions": ChatRequest,
    "/v1/tickets": TicketRequest,
    "/v1/ws": None,
    "/v1/languages": None,
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

SERVER = Path(gateway.__file__).parent / "server"
FRAMES = [(shape, field) for shape in REQUESTS for field in fields(shape)]
KEY = ((b"authorization", f"Bearer {MODERATOR}".encode()),)


@contextlib.asynccontextmanager
async def application(*, keys: bool = False) -> AsyncIterator[GatewayApp]:
    limits = Limits(address_failures=10**9)
    authenticator = Authenticator(
        limits,
        keyring=Keyring.read(FILE) if keys else None,
        issuer=JwtIssuer(secret=SECRET) if keys else None,
        hosts=AllowedHosts(["x"]),
    )
    engine = GuardedEngine(ScriptedEngine(), Counter())
    app = create_app(engine, limits, authenticator=authenticator, coalesce_s=0.0)
    await engine.start()
    assert app.state.hub.detect is not None
    app.state.hub.detect.load()
    async with app.lifespan(app):
        with uncollected():
            yield app
    await engine.aclose()


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


def _with(encode: Callable[[Any], bytes], base: dict[str, Any], name: str, value: object) -> bytes:
    return encode({**base, name: value})


async def check(name: str, handle: Callable[[], Any], slow: list[str]) -> None:
    seconds = await longest_step(handle)
    if seconds > HELD_S:
        slow.append(f"{name}: {1000 * seconds:.0f} ms")


# --- frames ---------------------------------------------------------------------------------------


def messages(shape: type, field: Any, value: object) -> list[dict[str, Any]]:
    """Return the messages of a client that uses a value: others read what it leads to."""
    kind = str(shape.__struct_config__.tag)  # type: ignore[attr-defined]
    needed = {one.encode_name: FILLED[one.encode_name] for one in fields(shape) if one.required}
    message = {"type": kind, **needed, field.encode_name: value}
    said = {"type": "say", "id": "u1", "text": FILLED["text"]}
    later = {"type": "say", "id": "u2", "text": "a1b, c. " * (10 if kind == "set" else 1)}
    if kind == "say" and field.encode_name == "text":
        text = str(value)
        grown = [(n, text[: len(text) * n // 4], n == 4) for n in range(1, 5)]
        return [
            {"type": "say", "id": "u1", "rev": n, "text": part, "final": final}
            for n, part, final in grown
        ]
    return [said, message, later, {"type": "get", "id": "u1"}]


QUERY = urlencode({"to": "de,zh", "room": "demo", "role": "moderate"}).encode()


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK], ids=lambda codec: codec.value)
@pytest.mark.parametrize(
    ("shape", "field"), FRAMES, ids=lambda one: getattr(one, "__name__", None) or one.encode_name
)
async def test_no_field_of_a_frame_holds_the_loop(shape: type, field: Any, codec: Codec) -> None:
    encode = msgspec.json.encode if codec is Codec.JSON else msgspec.msgpack.encode
    slow: list[str] = []
    async with application() as app:
        hub = app.state.hub

        def idle() -> bool:
            return not hub.scheduler.running and not hub.scheduler.queued

        # The largest that a frame takes, and the largest that is accepted as a text.
        for name, value in chain(values(field.type), values(field.type, Limits().text)):
            if isinstance(value, msgspec.Raw) and codec is Codec.MSGPACK:
                continue
            frames: list[str | bytes] = []
            for one in messages(shape, field, value):
                data = encode(one)
                if len(data) > LIMIT:
                    data = fitted(value, partial(_with, encode, one, field.encode_name))
                frames.append(data.decode() if codec is Codec.JSON else data)

            async def handle(frames: list[str | bytes] = frames) -> None:
                await converse(
                    app, "/v1/ws", frames, query=QUERY, subprotocols=[codec.value], idle=idle
                )
                await hub.forget("demo")

            await check(name, handle, slow)
    assert not slow


async def test_no_frame_of_nonsense_holds_the_loop() -> None:
    slow: list[str] = []
    async with application() as app:
        for name, data in nonsense():
            for frame in (data, data.decode(errors="replace")):
                for path in ("/v1/ws", "/v1/realtime", "/v1/realtime/translations"):

                    async def handle(path: str = path, frame: str | bytes = frame) -> None:
                        await converse(app, path, [frame] * 3, query=QUERY)

                    await check(f"{path} {name}", handle, slow)
        for name, unit in ALPHABETS.items():
            line = (unit * LIMIT)[: LIMIT // 4]

            async def typed(line: str = line) -> None:
                await converse(app, "/v1/ws", [line, line[:2_000]], query=QUERY + b"&plain=1")

            await check(f"typed {name}", typed, slow)
    assert not slow


# --- HTTP -----------------------------------------------------------------------------------------


def test_every_http_route_and_every_type_of_body_is_in_the_table() -> None:
    assert {route.path for route in HTTP_ROUTES} == set(BODIES)
    read = set[str]()
    for file in SERVER.glob("routes/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Await) and ast.unparse(node.value).startswith("read(request, "):
                assert isinstance(node.value, ast.Call)
                read.add(ast.unparse(node.value.args[1]))
    known = {shape.__name__ for shape in BODIES.values() if shape is not None}
    assert read - {"shape"} <= known, "`shape` stands for both of LibreTranslate"


def bodies(shape: Any) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the name, the media type and the bytes of large bodies of a type."""
    example = json.loads(shape.EXAMPLE)
    for field in fields(shape):
        for name, value in chain(values(field.type), values(field.type, 10_000)):
            body = fitted(
                value,
                partial(_with, msgspec.json.encode, example, field.encode_name),
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


@pytest.mark.parametrize("path", ["/v1/ws", "/v1/realtime", "/v1/realtime/translations"])
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


@pytest.mark.parametrize("claim", ["rooms", "langs", "tenant", "sub", "iss", "aud", "role"])
async def test_no_json_web_token_holds_the_loop(claim: str) -> None:
    slow: list[str] = []
    async with application(keys=True) as app:
        for size in (HEAD // 2, 64, 1_000):
            for name, text in {n: (u * size)[:size] for n, u in ALPHABETS.items()}.items():
                lists: list[Any] = [[text], TAGS[: size // 12], [text[:4]] * (size // 12)]
                # PyJWT writes no other issuer than a string.
                for value in (text, *(lists if claim != "iss" else ())):
                    token = signed(**{claim: value})[: LIMIT // 2]
                    headers = ((b"authorization", b"Bearer " + token.encode()),)

                    async def handle(headers: Any = headers) -> None:
                        body = TranslateRequest.EXAMPLE.encode()
                        await request(app, "POST", "/v1/translate", headers=headers, body=body)

                    await check(f"{claim} {name}", handle, slow)
    assert not slow
