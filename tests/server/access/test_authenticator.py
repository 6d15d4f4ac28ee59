"""Who is let in, on real sockets: keys, pages, names, addresses."""

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
from tests.server.visitors import (
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
    asking,
    bearer,
    guarded,
    key,
    refused,
)
from tests.support.live import running, until
from tests.support.talk import talk

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
async def test_a_key_lets_in_as_a_header_and_as_a_sub_protocol(options: dict[str, Any]) -> None:
    async with guarded() as (live, _), talk(live, "?to=de", **options) as client:
        assert (await client.next())["type"] == "welcome"
        if "subprotocols" in options:
            assert client.ws.subprotocol == "gw.v1.json"
        await client.send("hello")
        await client.until("final")


async def test_a_token_alone_is_named_in_the_answer_since_browsers_want_one_of_theirs() -> None:
    offered = [f"gw.bearer.{SPEAKER}"]
    async with guarded() as (live, _), talk(live, subprotocols=offered) as client:
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
async def test_without_a_valid_key_a_socket_is_told_and_closed_with_4401(
    options: dict[str, Any],
) -> None:
    async with guarded() as (live, _), talk(live, **options) as client:
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
async def test_what_goes_beyond_the_key_is_closed_with_4403(token: str, query: str) -> None:
    options = {"additional_headers": bearer(token)}
    async with guarded() as (live, _), talk(live, query, **options) as client:
        assert await refused(client) == BEYOND
        assert not live.hub.rooms


async def test_a_key_of_one_room_and_role_needs_neither_in_the_query() -> None:
    options = {"additional_headers": bearer(VIEWER)}
    async with guarded() as (live, _), talk(live, "?to=de", **options) as client:
        assert (await client.next())["room"] == "demo"
        (session,) = live.hub.sessions.values()
        assert (session.role, session.grant.tenant) == (Role.VIEW, "key 2")
        await client.send({"type": "want", "langs": ["fr"]})
        assert (await client.until("error"))[-1]["code"] == "forbidden"


async def test_where_nobody_is_asked_a_key_is_not_looked_at() -> None:
    async with running() as live, talk(live, additional_headers=bearer("x")) as client:
        assert (await client.next())["type"] == "welcome"


async def test_auth_takes_a_socket_over_to_another_key() -> None:
    options = {"additional_headers": bearer(SPEAKER)}
    async with guarded() as (live, _), talk(live, **options) as client:
        await client.next()
        await client.send({"type": "auth", "token": MODERATOR, "ref": "a"})
        error = (await client.until("error"))[-1]
        assert (error["code"], error["ref"]) == ("forbidden", "a")  # of another tenant
        await client.send({"type": "auth", "token": SPEAKER})
        assert (await client.until("authenticated"))[-1]["name"] == "key 1"
        await client.send({"type": "auth", "token": "x"})
        assert (await client.until("error"))[-1]["code"] == "unauthenticated"


async def test_auth_takes_any_token_where_nobody_is_asked_for_one() -> None:
    async with running() as live, talk(live) as client:
        await client.next()
        await client.send({"type": "auth", "token": "x", "ref": "a"})
        assert (await client.until("authenticated"))[-1]["ref"] == "a"


def test_a_file_of_keys_that_is_being_written_is_not_believed_yet(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(FILE)
    authenticator = asking(keys_file=file)
    assert [authenticator._reread(file) for _ in range(3)] == [False, True, False]
    ring = authenticator.keyring
    file.write_text("")  # as it is for a moment, before its text
    assert not authenticator._reread(file)
    assert authenticator.keyring is ring
    file.write_text("\n".join((VIEWS, BOARDS)))
    assert [authenticator._reread(file) for _ in range(2)] == [False, True]


def test_a_file_of_keys_is_read_again_where_others_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(FILE)
    authenticator = asking(keys_file=file)
    assert [authenticator._reread(file) for _ in range(3)] == [False, True, False]
    file.chmod(0o400)
    assert [authenticator._reread(file) for _ in range(3)] == [False, True, False]


async def test_a_key_that_is_taken_out_of_the_file_stops_to_work_on_open_sockets_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WATCH_S", 0.01)
    file = tmp_path / "keys.toml"
    file.write_text(FILE)
    async with guarded(keys_file=file) as (live, _):
        async with (
            talk(live, additional_headers=bearer(SPEAKER)) as gone,
            talk(live, "?room=demo", additional_headers=bearer(MODERATOR)) as less,
            talk(live, "?room=team-a", additional_headers=bearer(BOARD)) as same,
        ):
            for client in (gone, less, same):
                await client.next()
            authenticator: Authenticator = live.server.config.app.state.authenticator
            await until(lambda: authenticator._read_stamp is not None)
            ring = authenticator.keyring
            file.write_text("not TOML")  # by mistake: those known stay in force
            await until(lambda: authenticator._read_stamp == module._stamp(file))
            assert authenticator.keyring is ring
            _, fewer = key(3, role=Role.MODERATE, rooms=("board",))
            file.write_text("\n".join((VIEWS, fewer, BOARDS)))
            assert await refused(gone) == UNKNOWN
            assert await refused(less) == BEYOND
            await same.send("still here")
            await same.until("ack")
        async with talk(live, additional_headers=bearer(SPEAKER)) as again:
            assert await refused(again) == UNKNOWN


async def test_keys_that_changed_while_the_gateway_started_are_those_in_force(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(VIEWS)  # after the ring of the authenticator was read
    async with guarded(keys_file=file) as (live, _):
        authenticator: Authenticator = live.server.config.app.state.authenticator
        await until(lambda: len(authenticator.keyring or ()) == 1)


# --- pages and names ------------------------------------------------------------------------------


async def test_a_page_from_elsewhere_opens_no_socket_and_asks_nothing() -> None:
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


async def test_the_own_page_and_listed_ones_may() -> None:
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
        asked = headers | {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, content-type",
        }
        answer = await client.options("/v1/translate", headers=asked)
        assert answer.status_code == 200
        assert "authorization" in answer.headers["access-control-allow-headers"].lower()


async def test_a_name_that_was_pointed_here_is_not_answered_to_unless_keys_are_asked_for() -> None:
    named = {"host": "evil.example"}
    async with running() as live, httpx.AsyncClient(base_url=live.http) as client:
        answer = await client.post("/v1/translate", json=ASK, headers=named)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert (await client.get("/readyz", headers=named)).status_code == 200
    async with guarded() as (_, client):
        answer = await client.post("/v1/translate", json=ASK, headers=named | bearer(SPEAKER))
        assert answer.status_code == 200


# --- addresses ------------------------------------------------------------------------------------


def behind(**limits: float) -> Authenticator:
    """A gate that believes this machine who is behind it."""
    return asking(Limits(**limits), proxies=TrustedProxies(["127.0.0.1"]))  # type: ignore[arg-type]


def coming(address: str, token: str = SPEAKER) -> dict[str, Any]:
    return {"additional_headers": bearer(token) | {"x-forwarded-for": address}}


async def test_one_address_has_so_many_sockets_and_another_has_its_own() -> None:
    async with running(authenticator=behind(address_sockets=1)) as live:
        async with talk(live, **coming("203.0.113.7")) as first:
            await first.next()
            async with talk(live, **coming("203.0.113.7")) as second:
                assert await refused(second) == FULL
            async with talk(live, **coming("203.0.113.8")) as other:
                assert (await other.next())["type"] == "welcome"
        authenticator: Authenticator = live.server.config.app.state.authenticator
        await until(lambda: not authenticator.addresses._open)


async def test_who_guesses_keys_is_not_answered_for_a_while() -> None:
    async with running(authenticator=behind(address_failures=2)) as live:
        for _ in range(2):
            async with talk(live, **coming("203.0.113.7", "gwk_x")) as client:
                assert await refused(client) == UNKNOWN
        async with talk(live, **coming("203.0.113.7")) as client:
            assert await refused(client) == FULL
        async with httpx.AsyncClient(base_url=live.http) as http:
            headers = coming("203.0.113.7")["additional_headers"]
            answer = await http.post("/v1/translate", json=ASK, headers=headers)
            assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 1
            text = (await http.get("/metrics", headers=bearer(MODERATOR))).text
        assert 'gateway_turned_away_total{code="unauthenticated"} 2.0' in text
        families = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP ")]
        assert len(families) == len(set(families)), "a name that two families have"


async def test_a_header_of_somebody_who_is_no_proxy_is_not_believed() -> None:
    async with running(authenticator=asking(Limits(address_failures=1))) as live:
        for _ in range(3):  # this machine is not counted, whatever it says of itself
            async with talk(live, **coming("203.0.113.7", "gwk_x")) as client:
                assert await refused(client) == UNKNOWN
        assert len(live.server.config.app.state.authenticator.addresses) == 0


async def test_a_client_that_goes_before_it_is_let_in_leaves_nothing_behind() -> None:
    async with running(authenticator=behind()) as live:
        for _ in range(5):
            ws = await connect(live.socket, **coming("203.0.113.7"))
            ws.transport.abort()
        authenticator: Authenticator = live.server.config.app.state.authenticator
        await until(lambda: not authenticator.addresses._open and not live.hub.sessions)
        await asyncio.sleep(0)


# --- resume ---------------------------------------------------------------------------------------


async def test_a_resume_token_is_proof_of_its_key_for_as_long_as_that_is_good() -> None:
    async with guarded() as (live, _):
        async with talk(live, "?room=demo", additional_headers=bearer(SPEAKER)) as client:
            welcome = await client.next()
        query = f"?resume={welcome['resume']}"
        async with talk(live, query) as client:
            assert (await client.next())["session"] == welcome["session"]
            (session,) = live.hub.sessions.values()
            assert session.grant.name == "key 1"
        async with talk(live, query + "&role=moderate") as client:
            assert await refused(client) == BEYOND
        async with talk(live, query, additional_headers=bearer(BOARD)) as client:
            assert await refused(client) == BEYOND  # what is shown counts before it
        live.server.config.app.state.authenticator.keyring = Keyring.read(VIEWS)
        async with talk(live, query) as client:
            assert await refused(client) == UNKNOWN
        async with talk(live, "?room=demo&resume=nonsense") as client:
            assert await refused(client) == UNKNOWN


async def test_a_resume_token_from_before_there_were_keys_is_no_key() -> None:
    async with running() as live:
        async with talk(live, "?room=demo") as client:
            resume = (await client.next())["resume"]
        live.server.config.app.state.authenticator.keyring = Keyring.read(FILE)
        async with talk(live, f"?resume={resume}") as client:
            assert await refused(client) == UNKNOWN
