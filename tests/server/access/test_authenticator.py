"""Authentication of real sockets: keys, origins, host names, addresses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from websockets.asyncio.client import connect

from gateway.auth.api_keys import Keyring
from gateway.auth.client_ip import TrustedProxies
from gateway.auth.origin import AllowedOrigins
from gateway.auth.permissions import Role
from gateway.limits import Limits
from gateway.server.access import authenticator as module
from gateway.server.access.authenticator import Authenticator
from tests.server.access.credentials import (
    ASK,
    BEYOND,
    BOARD,
    BOARDS,
    FILE,
    FULL,
    MODERATOR,
    SPEAKER,
    UNKNOWN,
    VIEWER,
    VIEWS,
    bearer,
    key,
    refused,
    requiring_keys,
    running_with_keys,
)
from tests.support.live import running, until
from tests.support.talk import talk


def replace(file: Path, text: str) -> None:
    """Give a file this text in one step, so that nobody sees a half of it."""
    file.with_suffix(".new").write_text(text)
    file.with_suffix(".new").replace(file)


# --- sockets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"additional_headers": bearer(SPEAKER)},
        {"additional_headers": {"authorization": f"bearer  {SPEAKER}"}},
        {"subprotocols": ["gw.v1.json", f"gw.bearer.{SPEAKER}"]},
        {"subprotocols": [f"gw.bearer.{SPEAKER}", "gw.v1.json"]},
    ],
)
async def test_a_key_is_accepted_in_a_header_and_in_a_sub_protocol(options: dict[str, Any]) -> None:
    async with running_with_keys() as (live, _), talk(live, "?to=de", **options) as client:
        assert (await client.next())["type"] == "welcome"
        if "subprotocols" in options:
            assert client.ws.subprotocol == "gw.v1.json"
        await client.send("hello")
        await client.until("final")


async def test_a_token_is_the_accepted_sub_protocol_if_it_is_the_only_one_offered() -> None:
    offered = [f"gw.bearer.{SPEAKER}"]
    async with running_with_keys() as (live, _), talk(live, subprotocols=offered) as client:
        assert client.ws.subprotocol == offered[0]
        assert (await client.next())["type"] == "welcome"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"additional_headers": bearer("gwk_00000001_" + "f" * 64)},
        {"additional_headers": bearer("a.b.c")},
        {"additional_headers": bearer("a.b")},
        {"additional_headers": {"authorization": "Basic YTpi"}},
        {"subprotocols": ["gw.v1.json", "gw.bearer.x"]},
    ],
)
async def test_a_socket_without_a_valid_key_gets_an_error_and_is_closed_with_4401(
    options: dict[str, Any],
) -> None:
    async with running_with_keys() as (live, _), talk(live, **options) as client:
        assert await refused(client) == UNKNOWN
        assert not live.hub.sessions


@pytest.mark.parametrize(
    ("token", "query"),
    [
        (VIEWER, "?room=demo&role=speak"),
        (VIEWER, "?room=other"),
        (SPEAKER, "?role=moderate"),
        (BOARD, "?room=demo"),
        (BOARD, ""),
    ],
)
async def test_a_query_beyond_the_permissions_of_the_key_is_closed_with_4403(
    token: str, query: str
) -> None:
    options = {"additional_headers": bearer(token)}
    async with running_with_keys() as (live, _), talk(live, query, **options) as client:
        assert await refused(client) == BEYOND
        assert not live.hub.rooms


async def test_a_key_for_one_room_and_role_needs_neither_in_the_query() -> None:
    options = {"additional_headers": bearer(VIEWER)}
    async with running_with_keys() as (live, _), talk(live, "?to=de", **options) as client:
        assert (await client.next())["room"] == "demo"
        (session,) = live.hub.sessions.values()
        assert (session.member.role, session.permissions.tenant) == (Role.VIEW, "key 2")
        await client.send({"type": "want", "langs": ["fr"]})
        assert (await client.until("error"))[-1]["code"] == "forbidden"


async def test_without_required_keys_a_wrong_key_is_ignored() -> None:
    async with running() as live, talk(live, additional_headers=bearer("x")) as client:
        assert (await client.next())["type"] == "welcome"


async def test_auth_gives_an_open_socket_the_permissions_of_another_key() -> None:
    async with (
        running_with_keys() as (live, _),
        talk(live, additional_headers=bearer(SPEAKER)) as client,
    ):
        await client.next()
        await client.send({"type": "auth", "token": MODERATOR, "ref": "a"})
        error = (await client.until("error"))[-1]
        assert (error["code"], error["ref"]) == ("forbidden", "a")  # of another tenant
        await client.send({"type": "auth", "token": SPEAKER})
        assert (await client.until("authenticated"))[-1]["name"] == "key 1"
        await client.send({"type": "auth", "token": "x"})
        assert (await client.until("error"))[-1]["code"] == "unauthenticated"


async def test_auth_accepts_any_token_if_no_keys_are_required() -> None:
    async with running() as live, talk(live) as client:
        await client.next()
        await client.send({"type": "auth", "token": "x", "ref": "a"})
        assert (await client.until("authenticated"))[-1]["ref"] == "a"


def test_a_key_file_that_is_being_written_is_not_read_yet(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(FILE)
    authenticator = requiring_keys(keys_file=file)
    assert [authenticator._reread(file) for _ in range(3)] == [False, True, False]
    ring = authenticator.keyring
    file.write_text("")  # a file that is being written is empty for a moment
    assert not authenticator._reread(file)
    assert authenticator.keyring is ring
    file.write_text("\n".join((VIEWS, BOARDS)))
    assert [authenticator._reread(file) for _ in range(2)] == [False, True]


def test_a_key_file_is_read_again_when_its_permissions_change(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(FILE)
    authenticator = requiring_keys(keys_file=file)
    assert [authenticator._reread(file) for _ in range(3)] == [False, True, False]
    file.chmod(0o400)
    assert [authenticator._reread(file) for _ in range(3)] == [False, True, False]


async def test_a_key_that_is_removed_from_the_file_is_revoked_on_open_sockets_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WATCH_S", 0.01)
    file = tmp_path / "keys.toml"
    file.write_text(FILE)
    async with running_with_keys(keys_file=file) as (live, _):
        async with (
            talk(live, additional_headers=bearer(SPEAKER)) as gone,
            talk(live, "?room=demo", additional_headers=bearer(MODERATOR)) as less,
            talk(live, "?room=team-a", additional_headers=bearer(BOARD)) as same,
        ):
            for client in (gone, less, same):
                await client.next()
            authenticator: Authenticator = live.state.authenticator
            await until(lambda: authenticator._read_stamp is not None)
            ring = authenticator.keyring
            replace(file, "not TOML")  # a mistake: the known keys stay in force
            await until(lambda: authenticator._read_stamp == module._stamp(file))
            assert authenticator.keyring is ring
            _, fewer = key(3, role=Role.MODERATE, rooms=("board",))
            replace(file, "\n".join((VIEWS, fewer, BOARDS)))
            assert await refused(gone) == UNKNOWN
            assert await refused(less) == BEYOND
            await same.send("still here")
            await same.until("ack")
        async with talk(live, additional_headers=bearer(SPEAKER)) as again:
            assert await refused(again) == UNKNOWN


async def test_keys_that_change_while_the_gateway_starts_come_into_force(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(VIEWS)  # after the authenticator has read its keys
    async with running_with_keys(keys_file=file) as (live, _):
        authenticator: Authenticator = live.state.authenticator
        await until(lambda: len(authenticator.keyring or ()) == 1)


# --- origins and hosts ----------------------------------------------------------------------------


async def test_a_page_of_another_origin_is_refused_sockets_and_requests() -> None:
    async with running() as live, httpx.AsyncClient(base_url=live.http) as client:
        evil = {"origin": "https://evil.example"}
        async with talk(live, additional_headers=evil) as socket:
            assert await refused(socket) == BEYOND
        for answer in (
            await client.post("/v1/translate", json=ASK, headers=evil),
            await client.delete("/v1/rooms/demo", headers=evil),
            await client.options("/v1/translate", headers=evil),
        ):
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert (await client.get("/healthz", headers=evil)).status_code == 200


async def test_the_own_page_and_pages_of_listed_origins_are_accepted() -> None:
    authenticator = Authenticator(Limits(), origins=AllowedOrigins(["https://meet.example"]))
    async with (
        running(authenticator=authenticator) as live,
        httpx.AsyncClient(base_url=live.http) as client,
    ):
        for origin in (live.http, "https://meet.example"):
            async with talk(live, additional_headers={"origin": origin}) as socket:
                assert (await socket.next())["type"] == "welcome"
        headers = {"origin": "https://meet.example"}
        answer = await client.post("/v1/translate", json=ASK, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://meet.example"
        assert "access-control-allow-credentials" not in answer.headers
        asked = headers | {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, content-type",
        }
        answer = await client.options("/v1/translate", headers=asked)
        assert answer.status_code == 200
        assert "authorization" in answer.headers["access-control-allow-headers"].lower()


async def test_an_unknown_host_name_is_refused_unless_keys_are_required() -> None:
    named = {"host": "evil.example"}
    async with running() as live, httpx.AsyncClient(base_url=live.http) as client:
        answer = await client.post("/v1/translate", json=ASK, headers=named)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert (await client.get("/readyz", headers=named)).status_code == 200
    async with running_with_keys() as (_, client):
        answer = await client.post("/v1/translate", json=ASK, headers=named | bearer(SPEAKER))
        assert answer.status_code == 200


# --- addresses ------------------------------------------------------------------------------------


def behind_proxy(**limits: Any) -> Authenticator:
    """Return an authenticator that trusts this machine as a proxy."""
    return requiring_keys(Limits(**limits), proxies=TrustedProxies(["127.0.0.1"]))


def forwarded_for(address: str, token: str = SPEAKER) -> dict[str, Any]:
    return {"additional_headers": bearer(token) | {"x-forwarded-for": address}}


async def test_the_limit_on_sockets_counts_for_each_address_by_itself() -> None:
    async with running(authenticator=behind_proxy(address_sockets=1)) as live:
        async with talk(live, **forwarded_for("203.0.113.7")) as first:
            await first.next()
            async with talk(live, **forwarded_for("203.0.113.7")) as second:
                assert await refused(second) == FULL
            async with talk(live, **forwarded_for("203.0.113.8")) as other:
                assert (await other.next())["type"] == "welcome"
        authenticator: Authenticator = live.state.authenticator
        await until(lambda: not authenticator.addresses._open)


async def test_an_address_with_many_wrong_keys_is_refused_for_a_while() -> None:
    async with running(authenticator=behind_proxy(address_failures=2)) as live:
        for _ in range(2):
            async with talk(live, **forwarded_for("203.0.113.7", "gwk_x")) as client:
                assert await refused(client) == UNKNOWN
        async with talk(live, **forwarded_for("203.0.113.7")) as client:
            assert await refused(client) == FULL
        async with httpx.AsyncClient(base_url=live.http) as http:
            headers = forwarded_for("203.0.113.7")["additional_headers"]
            answer = await http.post("/v1/translate", json=ASK, headers=headers)
            assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 1
            text = (await http.get("/metrics", headers=bearer(MODERATOR))).text
        assert 'gateway_turned_away_total{code="unauthenticated"} 2.0' in text
        families = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP ")]
        assert len(families) == len(set(families)), "two families have the same name"


async def test_a_forwarded_address_is_ignored_unless_a_trusted_proxy_sends_it() -> None:
    async with running(authenticator=requiring_keys(Limits(address_failures=1))) as live:
        for _ in range(3):  # this machine is not counted
            async with talk(live, **forwarded_for("203.0.113.7", "gwk_x")) as client:
                assert await refused(client) == UNKNOWN
        assert len(live.state.authenticator.addresses) == 0


async def test_a_client_that_disconnects_during_the_handshake_is_counted_no_more() -> None:
    async with running(authenticator=behind_proxy()) as live:
        for _ in range(5):
            ws = await connect(live.socket, **forwarded_for("203.0.113.7"))
            ws.transport.abort()
        authenticator: Authenticator = live.state.authenticator
        await until(lambda: not authenticator.addresses._open and not live.hub.sessions)
        await asyncio.sleep(0)


# --- resume ---------------------------------------------------------------------------------------


async def test_a_resume_token_stands_for_its_key_as_long_as_the_key_is_valid() -> None:
    async with running_with_keys() as (live, _):
        async with talk(live, "?room=demo", additional_headers=bearer(SPEAKER)) as client:
            welcome = await client.next()
        query = f"?resume={welcome['resume']}"
        async with talk(live, query) as client:
            assert (await client.next())["session"] == welcome["session"]
            (session,) = live.hub.sessions.values()
            assert session.permissions.name == "key 1"
        async with talk(live, query + "&role=moderate") as client:
            assert await refused(client) == BEYOND
        async with talk(live, query, additional_headers=bearer(BOARD)) as client:
            assert await refused(client) == BEYOND  # a presented key counts before the resume token
        live.state.authenticator.keyring = Keyring(VIEWS)
        async with talk(live, query) as client:
            assert await refused(client) == UNKNOWN
        async with talk(live, "?room=demo&resume=nonsense") as client:
            assert await refused(client) == UNKNOWN


async def test_a_resume_token_from_a_time_without_keys_is_refused_once_keys_are_required() -> None:
    async with running() as live:
        async with talk(live, "?room=demo") as client:
            resume = (await client.next())["resume"]
        live.state.authenticator.keyring = Keyring(FILE)
        async with talk(live, f"?resume={resume}") as client:
            assert await refused(client) == UNKNOWN
