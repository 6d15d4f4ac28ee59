"""No token of a client holds the event loop for 50 ms, or is answered with 500."""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import gateway
from gateway.auth.permissions import Claims, Role
from gateway.auth.signed_tokens import MAX_TOKEN, TICKET, Ticket
from gateway.core.session import connect_request
from gateway.core.session.connect_request import ResumePoint
from gateway.protocol.handshake import SOCKET_PATH
from gateway.server.app import GatewayApp
from gateway.server.routes.api import TranslateRequest
from tests.server.access.credentials import SECRET, signed
from tests.server.inputs.largest import ALPHABETS, LIMIT, TAGS, fields, fitted, nonsense, values
from tests.server.inputs.steps import converse, request
from tests.server.inputs.walk import (
    HEAD,
    application,
    calls,
    check,
)

GRANTED = {"name": "token", "until": 9e9}
SIGNED: dict[str, list[Any]] = {
    connect_request.RESUME: ["s", "demo", Role.SPEAK, "en", ["de"], "live", None, GRANTED, 0],
    TICKET: [b"n", GRANTED],
}
"""Payload of each kind of token that the gateway signs and a client sends back."""

REGISTERED = ("iss", "sub", "aud", "exp", "nbf", "iat", "jti")
"""Claims that PyJWT reads (RFC 7519, section 4.1)."""


def jwts(claim: str) -> Iterator[tuple[str, str]]:
    """Yield tokens of the issuer with large values of a claim."""
    shapes = {field.name: field.type for field in fields(Claims)}
    sized = [shapes[claim]] if claim in shapes else []
    for size in (HEAD // 2, 1_000, 64):
        for name, text in {n: (u * size)[:size] for n, u in ALPHABETS.items()}.items():
            lists: list[Any] = [[text], TAGS[: size // 12], [text[:4]] * (size // 12)]
            # PyJWT writes no other issuer than a string.
            for value in (text, *(lists if claim != "iss" else ())):
                yield f"{name} {type(value).__name__}", signed(**{claim: value})[: LIMIT // 2]
        for shape in sized:
            for name, value in values(shape, size):
                yield name, signed(**{claim: value})[: LIMIT // 2]


def test_every_kind_of_signed_token_is_in_the_table() -> None:
    signing = [
        kind
        for file in Path(gateway.__file__).parent.rglob("*.py")
        for function, kind in calls(file)
        if function.endswith("signer.sign")
    ]
    assert len(signing) == len(SIGNED), signing


@pytest.mark.parametrize("claim", sorted({*REGISTERED, *(field.name for field in fields(Claims))}))
async def test_no_json_web_token_holds_the_loop(claim: str) -> None:
    async with application(keys=True) as app:
        await present(app, jwts(claim))


async def test_no_json_web_token_of_nonsense_holds_the_loop() -> None:
    def parts(data: bytes) -> Iterator[str]:
        head, body, signature = signed().split(".")
        part = urlsafe_b64encode(data).decode().rstrip("=")[:HEAD]
        yield from (f"{part}.{body}.{signature}", f"{head}.{part}.{signature}")
        yield f"{head}.{body}.{part}"
        # The signature is valid, so that the claims are read.
        signing = f"{head}.{part}".encode()
        valid = urlsafe_b64encode(hmac.digest(SECRET, signing, "sha256")).decode().rstrip("=")
        yield f"{head}.{part}.{valid}"

    async with application(keys=True) as app:
        await present(app, ((name, one) for name, data in nonsense() for one in parts(data)))


async def present(app: GatewayApp, tokens: Iterable[tuple[str, str]]) -> None:
    """Send a request with each token."""
    slow: list[str] = []
    for name, token in tokens:
        headers = ((b"authorization", b"Bearer " + token.encode()),)
        statuses: list[int] = []

        async def handle(headers: Any = headers, statuses: list[int] = statuses) -> None:
            body = TranslateRequest.EXAMPLE.encode()
            path = "/v1/translate"
            statuses.append(await request(app, "POST", path, headers=headers, body=body))

        await check(name, handle, slow)
        assert statuses[0] != 500, name
    assert not slow


SHAPES: dict[str, type] = {connect_request.RESUME: ResumePoint, TICKET: Ticket}


@pytest.mark.parametrize("kind", SIGNED)
async def test_no_token_that_the_gateway_has_signed_holds_the_loop(kind: str) -> None:
    slow: list[str] = []
    welcomed = 0
    async with application(keys=True) as app:
        sign = app.state.hub.signer.sign
        for place, field in enumerate(fields(SHAPES[kind])):
            for name, value in values(field.type, MAX_TOKEN // 2):
                if name.startswith("langs ") and not set(value["langs"]) < set(TAGS):
                    continue  # only canonical tags are signed

                def token(value: Any, place: int = place) -> bytes:
                    payload = list(SIGNED[kind])
                    if kind == TICKET:
                        payload[0] = secrets.token_bytes(12)  # each is accepted once
                    payload[place] = {**GRANTED, **value} if isinstance(value, dict) else value
                    return str(sign(kind, payload, 9e9)).encode()

                async def handle(value: Any = value, token: Any = token) -> None:
                    nonlocal welcomed
                    query = urlencode({kind: fitted(value, token, MAX_TOKEN)}).encode()
                    answers = await converse(app, SOCKET_PATH, [], query=query)
                    welcomed += any('"welcome"' in one.get("text", "") for one in answers)
                    for room in list(app.state.hub.rooms):
                        await app.state.hub.forget(room)

                await check(f"{field.name} {name}", handle, slow)
    assert welcomed, "no token was accepted"
    assert not slow
