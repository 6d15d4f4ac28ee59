"""Tokens of an identity provider: their signatures and the fetching of its keys."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2 as httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from gateway.auth.permissions import Role
from gateway.errors import ClientFault, CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.server.access import jwt_verification as module
from gateway.server.access.authenticator import Authenticator
from gateway.server.access.jwt_verification import (
    JwtIssuer,
    JwtIssuerFault,
    KeysNotFetched,
    read_key_set,
)
from tests.server.access.credentials import (
    ASK,
    BOTH,
    EC,
    RSA,
    SECRET,
    WEAK,
    bearer,
    claims,
    jwk,
    jwks,
    signed,
)
from tests.support.live import running, until
from tests.support.receiver import Receiver
from tests.support.stream_server import StreamServer
from tests.support.talk import talk


def refused(issuer: JwtIssuer, token: str) -> str:
    with pytest.raises(ClientFault) as caught:
        issuer.permissions(token)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
    return str(caught.value)


def test_a_token_signed_with_the_shared_secret_is_accepted() -> None:
    permissions = JwtIssuer(secret=SECRET).permissions(signed(sub="ann"))
    assert (permissions.name, permissions.role, permissions.rooms) == ("ann", Role.VIEW, ("demo",))


@pytest.mark.parametrize(("key", "algorithm", "kid"), [(RSA, "RS256", "r"), (EC, "ES256", "e")])
def test_a_token_signed_with_a_key_of_the_set_is_accepted(
    key: Any, algorithm: str, kid: str
) -> None:
    assert JwtIssuer(key_set=BOTH).permissions(signed(key, algorithm, kid=kid)).rooms == ("demo",)


def test_a_token_need_not_name_its_key_if_the_set_has_one_key() -> None:
    assert JwtIssuer(key_set=jwks(jwk(EC, "e"))).permissions(signed(EC, "ES256")).rooms == ("demo",)
    assert "not known here" in refused(JwtIssuer(key_set=BOTH), signed(EC, "ES256"))


def test_a_token_signed_with_a_public_key_as_the_secret_is_refused() -> None:
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    for secret in (pem, json.dumps(jwk(RSA, "r")).encode()):
        body = part({"alg": "HS256", "kid": "r"}) + b"." + part(claims())
        proof = base64.urlsafe_b64encode(hmac.digest(secret, body, hashlib.sha256)).rstrip(b"=")
        token = (body + b"." + proof).decode()
        assert "signed with 'HS256'" in refused(JwtIssuer(key_set=BOTH), token)
        assert "Signature verification failed" in refused(
            JwtIssuer(key_set=BOTH, secret=SECRET), token
        )


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        signed(b"another secret, as long as the first"),
        signed(algorithm="HS512", key=SECRET * 2),
        jwt.encode(claims(), None, "none"),  # type: ignore[arg-type]
        signed(RSA, "RS512", kid="r"),
        signed(RSA, "RS256", kid="e"),
        signed(RSA, "RS256", kid="unknown"),
        signed(exp=time.time() - 60),
        signed(exp=None),
        signed(nbf=time.time() + 86_400),
        signed(aud="somebody else"),
        signed(role=None),
        signed()[:-2],
    ],
)
def test_a_bad_token_is_refused(token: str) -> None:
    refused(JwtIssuer(secret=SECRET, key_set=BOTH), token)


def test_a_token_without_an_expiry_is_refused() -> None:
    token = jwt.encode({"role": "view", "rooms": "demo"}, SECRET, "HS256")
    assert "exp" in refused(JwtIssuer(secret=SECRET), token)


def test_issuer_and_audience_must_match_if_they_are_configured() -> None:
    issuer = JwtIssuer(secret=SECRET, issuer="https://id.example", audience="captions")
    assert issuer.permissions(signed(iss="https://id.example", aud=["captions", "other"]))
    for more in (
        {"aud": "captions"},
        {"iss": "https://id.example"},
        {"iss": "x", "aud": "captions"},
    ):
        refused(issuer, signed(**more))


def test_keys_of_a_set_that_are_not_for_signatures_are_skipped() -> None:
    oct = {"kty": "oct", "kid": "o", "k": base64.urlsafe_b64encode(SECRET).decode()}
    p384 = jwk(ec.generate_private_key(ec.SECP384R1()), "p")
    keys = (oct, p384, jwk(RSA, "x", use="enc"), jwk(RSA, "y", alg="RS512"), jwk(EC, "e"))
    assert list(read_key_set(jwks(*keys))) == ["e"]
    refused(JwtIssuer(key_set=jwks(*keys)), signed(kid="o"))


def test_a_token_signed_with_a_short_key_is_refused() -> None:
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        token = signed(WEAK, "RS256", kid="w")
    assert "1024 bits" in refused(JwtIssuer(key_set=jwks(jwk(WEAK, "w"))), token)


NESTED = '{"keys":' + "[" * 120_000 + "]" * 120_000 + "}"
PRIVATE = {"kid": "p", **json.loads(RSAAlgorithm.to_jwk(RSA))}
PRIVATE_EC = {"kid": "q", **json.loads(ECAlgorithm.to_jwk(EC))}


@pytest.mark.parametrize(
    "entry",
    [
        *(1, None, {}, {"kty": []}, {"kty": "RSA"}, {"kty": "RSA", "n": "!", "e": "AQAB"}),
        *(jwk(EC, "e") | {"x": "AA"}, jwk(EC, "e") | {"x": 1}, jwk(EC, "e") | {"x": "\ud800"}),
        *(PRIVATE, PRIVATE_EC),
    ],
)
def test_a_private_or_malformed_key_is_skipped_and_the_others_are_used(
    entry: Any, caplog: pytest.LogCaptureFixture
) -> None:
    text = jwks(entry, jwk(RSA, "r"))
    assert list(read_key_set(text)) == ["r"]
    private = int(entry in (PRIVATE, PRIVATE_EC))
    assert f"{private} private ones" in caplog.text and f"{1 - private} malformed" in caplog.text
    assert str(PRIVATE["d"]) not in caplog.text


@pytest.mark.parametrize("token", ["\ud800.a.b", f"{'[' * 6000}.a.b"])
def test_a_token_on_which_the_library_fails_is_refused(token: str) -> None:
    refused(JwtIssuer(secret=SECRET, key_set=BOTH), token)


def unverified(header: str) -> str:
    """Return a token with a header of any text."""
    return base64.urlsafe_b64encode(header.encode()).decode().rstrip("=") + ".e30.AAAA"


@pytest.mark.parametrize(
    "header",
    [
        '{"alg":' + "[" * 20_000,
        '{"alg":"HS256","exp":' + "1" * 5_000 + "}",
        '{"alg":{"a":1}}',
        '{"alg":"HS256","kid":["a"]}',
        "[]",
        '"\\ud800"',
        '{"alg":NaN}',
    ],
    ids=lambda header: header[:16],
)
def test_a_token_with_nonsense_in_its_header_is_refused(header: str) -> None:
    refused(JwtIssuer(secret=SECRET, key_set=BOTH), unverified(header))


def test_a_token_with_a_time_beyond_all_numbers_is_refused() -> None:
    refused(JwtIssuer(secret=SECRET), signed(exp=float("inf")))


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"keys":[]}', '{"keys":[1]}', '{"keys":[{}]}', '{"keys":{"a":1}}'),
        *(NESTED, jwks(PRIVATE)),
    ],
)
def test_a_bad_key_set_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(JwtIssuerFault):
        read_key_set(text)


# --- fetching -------------------------------------------------------------------------------------


class Provider:
    """A server that publishes the key set ``text`` and counts the requests in ``asked``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = 0
        self.url = ""


@contextlib.asynccontextmanager
async def provider(text: str) -> AsyncIterator[Provider]:
    made = Provider(text)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        made.asked += 1
        body = made.text.encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        writer.write(body)
        await writer.drain()

    async with StreamServer(answer) as server:
        made.url = f"http://{server.address}/jwks"
        yield made


def clocked(url: str) -> tuple[JwtIssuer, list[float]]:
    now = [0.0]
    return JwtIssuer(url=url, clock=lambda: now[0]), now


async def settled(issuer: JwtIssuer, token: str) -> Callable[[], str]:
    """Verify a token whose key is unknown, fetch the keys, and return a second verification."""
    with pytest.raises(KeysNotFetched) as caught:
        issuer.permissions(token)
    assert caught.value.code is ErrorCode.BUSY
    await issuer.wait_for_keys()
    return lambda: issuer.permissions(token).name


async def test_keys_are_fetched_when_a_token_names_an_unknown_key() -> None:
    async with provider(jwks(jwk(RSA, "r"))) as published:
        issuer, now = clocked(published.url)
        old, new = signed(RSA, "RS256", kid="r"), signed(EC, "ES256", kid="e")
        (await settled(issuer, old))()
        assert "not known here" in refused(issuer, new)  # the last fetch was a moment ago
        published.text = BOTH
        now[0] += 29
        assert "not known here" in refused(issuer, new)
        now[0] += 1
        (await settled(issuer, new))()
        issuer.permissions(old)
        assert published.asked == 2


async def test_keys_are_fetched_again_after_a_while_and_a_removed_key_is_refused() -> None:
    async with provider(BOTH) as published:
        issuer, now = clocked(published.url)
        old, new = signed(RSA, "RS256", kid="r"), signed(EC, "ES256", kid="e")
        (await settled(issuer, old))()
        published.text = jwks(jwk(EC, "e"))
        now[0] += 3_599
        issuer.permissions(new)
        assert issuer._fetching is None
        now[0] += 1
        issuer.permissions(new)
        await until(lambda: issuer._fetching is None)
        assert "not known here" in refused(issuer, old)
        await issuer.aclose()


@pytest.mark.parametrize("text", ["nonsense", "x" * (module.SET_BYTES + 1), NESTED])
async def test_the_known_keys_stay_in_force_if_a_fetched_set_is_bad(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with provider(BOTH) as published:
        issuer, now = clocked(published.url)
        token = signed(RSA, "RS256", kid="r")
        (await settled(issuer, token))()
        published.text = text
        now[0] += module.AGAIN_S
        await issuer.wait_for_keys()
        issuer.permissions(token)
        assert "cannot be used" in caplog.text


@pytest.mark.parametrize("text", ["nonsense", NESTED, jwks(PRIVATE)])
async def test_tokens_are_answered_busy_while_the_issuer_publishes_no_usable_set(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with provider(text) as published:
        authenticator = Authenticator(Limits(), issuer=JwtIssuer(url=published.url))
        async with (
            running(authenticator=authenticator) as live,
            httpx.AsyncClient(base_url=live.http) as client,
        ):
            for token in (signed(RSA, "RS256", kid="p"), signed(RSA, "RS256")):
                answer = await client.post("/v1/translate", json=ASK, headers=bearer(token))
                assert answer.status_code == 429
            answer = await client.post("/v1/translate", json=ASK, headers=bearer("a.b.c"))
            assert answer.status_code == 401
    assert caplog.text.count("cannot be used") == 1


async def test_an_answer_with_another_status_is_no_key_set_and_no_redirect_is_followed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Receiver(number=BOTH) as other:
        head = f"HTTP/1.1 302 Found\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n"

        async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head.encode())

        async with StreamServer(redirect) as server:
            issuer, _ = clocked(f"http://{server.address}/")
            await issuer.wait_for_keys()
    assert "cannot be used: The answer was 302." in caplog.text
    assert not other.received


async def test_a_token_is_answered_busy_while_keys_cannot_be_fetched() -> None:
    issuer, _ = clocked("http://127.0.0.1:1/jwks")
    with pytest.raises(KeysNotFetched):
        (await settled(issuer, signed(RSA, "RS256", kid="r")))()
    await issuer.aclose()


async def test_a_token_of_an_identity_provider_opens_a_socket_and_renews_it() -> None:
    async with provider(BOTH) as published:
        authenticator = Authenticator(Limits(), issuer=JwtIssuer(url=published.url))
        async with running(authenticator=authenticator) as live:
            header = {"authorization": "Bearer " + signed(RSA, "RS256", kid="r")}
            async with talk(live, additional_headers=header) as client:
                assert (await client.next())["room"] == "demo"
                until = time.time() + 600
                token = signed(EC, "ES256", kid="e", sub="ann", exp=until)
                await client.send({"type": "auth", "token": token})
                answer = (await client.until("authenticated"))[-1]
                assert (answer["name"], answer["until"]) == ("ann", until)
            async with talk(live, additional_headers={"authorization": "Bearer a.b.c"}) as no:
                await no.until("error")
                assert (await no.closed())[0] == CloseCode.UNAUTHENTICATED
