"""Authentication of HTTP requests, and tickets."""

from __future__ import annotations

from typing import Any

import httpx2 as httpx
import pytest

from gateway.auth.api_keys import Keyring
from gateway.auth.permissions import Role
from tests.server.access.credentials import (
    ASK,
    BEYOND,
    BOARD,
    FILE,
    MODERATOR,
    SPEAKER,
    UNKNOWN,
    VIEWER,
    bearer,
    refused,
    running_with_keys,
)
from tests.support.live import running
from tests.support.talk import talk

Token = dict[str, str]


# --- tickets --------------------------------------------------------------------------------------


async def ticket(client: httpx.AsyncClient, token: str, **wanted: str) -> str:
    answer = await client.post("/v1/tickets", json=wanted, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["expires_s"] == 60
    return str(answer.json()["ticket"])


async def test_a_ticket_is_accepted_once_and_only_in_its_room() -> None:
    async with running_with_keys() as (live, http):
        shown = await ticket(http, SPEAKER, room="demo", role="view", to="de")
        async with talk(live, f"?ticket={shown}&to=de") as client:
            assert (await client.next())["room"] == "demo"
            (session,) = live.hub.sessions.values()
            assert (session.member.role, session.permissions.langs) == (Role.VIEW, ("de",))
            assert session.permissions.tenant == "key 1"
        async with talk(live, f"?ticket={shown}") as client:
            assert await refused(client) == UNKNOWN
        shown = await ticket(http, SPEAKER, room="demo", to="de")
        async with talk(live, f"?ticket={shown}") as client:
            assert "hint" not in await client.next()  # the ticket says which languages it reads
        for query in ("&room=other", "&room=demo&role=speak"):
            shown = await ticket(http, SPEAKER, room="demo")
            async with talk(live, f"?ticket={shown}{query}") as client:
                assert await refused(client) == BEYOND


@pytest.mark.parametrize(
    "wanted",
    [
        {"room": "other"},
        {"room": "demo", "role": "speak"},
        {"room": "demo", "to": "fr"},
    ],
)
async def test_a_ticket_beyond_the_permissions_of_the_key_is_refused(
    wanted: dict[str, str],
) -> None:
    async with running_with_keys() as (_, client):
        answer = await client.post("/v1/tickets", json=wanted, headers=bearer(VIEWER))
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"room": "demo\n"}, "bad_frame"),
        ({"room": ""}, "bad_frame"),
        ({"room": "demo", "to": ""}, "lang_unsupported"),
        ({"room": "demo", "to": ","}, "lang_unsupported"),
        ({"room": "demo", "to": "de," * 257}, "too_many_targets"),
    ],
)
async def test_a_ticket_for_no_room_or_too_many_languages_is_refused(
    wanted: dict[str, str], code: str
) -> None:
    async with running() as live, httpx.AsyncClient(base_url=live.http) as http:
        answer = await http.post("/v1/tickets", json=wanted)
        assert (answer.status_code, answer.json()["code"]) == (400, code)


async def test_a_ticket_states_room_and_role_even_if_no_keys_are_required() -> None:
    async with running() as live, httpx.AsyncClient(base_url=live.http) as http:
        answer = await http.post("/v1/tickets", json={"room": "demo"})
        async with talk(live, f"?ticket={answer.json()['ticket']}") as client:
            assert (await client.next())["room"] == "demo"


@pytest.mark.parametrize("place", ["header", "query"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/tickets", {"room": "demo"}),
        ("GET", "/v1/rooms/demo/transcript.json", None),
        ("DELETE", "/v1/rooms/demo", None),
        ("GET", "/metrics", None),
    ],
)
async def test_a_ticket_is_refused_for_tickets_and_other_requests(
    place: str, method: str, path: str, body: Any
) -> None:
    async with running_with_keys() as (_, http):
        shown = await ticket(http, MODERATOR, room="demo", role="moderate")
        headers = bearer(shown) if place == "header" else {}
        params = {"ticket": shown} if place == "query" else {}
        answer = await http.request(method, path, json=body, headers=headers, params=params)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def test_a_ticket_from_a_time_without_keys_is_refused_once_keys_are_required() -> None:
    async with running() as live, httpx.AsyncClient(base_url=live.http) as http:
        wanted = {"room": "demo", "role": "moderate"}
        first, second = [
            (await http.post("/v1/tickets", json=wanted)).json()["ticket"] for _ in "ab"
        ]
        async with talk(live, f"?ticket={first}") as client:
            resume = (await client.next())["resume"]
        live.state.authenticator.keyring = Keyring(FILE)
        for query in (f"?ticket={second}", f"?resume={resume}"):
            async with talk(live, query) as client:
                assert await refused(client) == UNKNOWN


# --- HTTP -----------------------------------------------------------------------------------------


LIBRE = {"q": "good morning", "source": "en", "target": "de"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/translate", ASK),
        ("POST", "/translate", LIBRE),
        ("POST", "/detect", {"q": "x"}),
        ("POST", "/v1/tickets", {"room": "demo"}),
        ("GET", "/v1/rooms/demo/transcript.txt", None),
        ("GET", "/v1/rooms/demo/events?to=de", None),
        ("DELETE", "/v1/rooms/demo", None),
        ("GET", "/metrics", None),
    ],
)
async def test_a_request_without_a_key_is_answered_401(method: str, path: str, body: Any) -> None:
    async with running_with_keys() as (live, client):
        answer = await client.request(method, path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert not live.hub.sessions


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/translate", 401),
        ("/v1/tickets", 401),
        ("/v1/chat/completions", 401),
        ("/v2/translate", 403),
        ("/v2/languages?type=nonsense", 403),
        ("/v1/rooms/demo/transcript.nonsense?lang=nonsense", 401),
    ],
)
async def test_a_request_without_a_key_is_refused_before_it_is_read(path: str, status: int) -> None:
    async with running_with_keys() as (_, client):
        method = "GET" if "?" in path else "POST"
        answer = await client.request(method, path, content=None if "?" in path else b"{nonsense")
        assert answer.status_code == status


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/v1/languages", "/languages"])
async def test_public_paths_need_no_key(path: str) -> None:
    async with running_with_keys() as (_, client):
        assert (await client.get(path)).status_code == 200


async def test_a_request_is_served_or_refused_by_the_permissions_of_its_key() -> None:
    async with running_with_keys() as (live, client):
        speaker, viewer, moderator = map(bearer, (SPEAKER, VIEWER, MODERATOR))

        async def status(method: str, path: str, token: Token, body: Any = None) -> int:
            return (await client.request(method, path, json=body, headers=token)).status_code

        assert await status("POST", "/v1/translate", speaker, ASK) == 200
        assert await status("POST", "/v1/translate", viewer, ASK) == 403
        assert await status("POST", "/v1/translate", bearer(BOARD), ASK) == 403
        async with talk(live, "?room=demo&to=de", additional_headers=speaker) as there:
            await there.send("hello")
            await there.until("final")
        demo = "/v1/rooms/demo/transcript.txt"
        assert await status("GET", demo, viewer) == 200
        assert await status("GET", demo + "?lang=de", viewer) == 200
        assert await status("GET", demo + "?lang=fr", viewer) == 403
        assert await status("GET", demo, bearer(BOARD)) == 403
        assert await status("GET", "/metrics", speaker) == 403
        assert await status("GET", "/metrics", moderator) == 200
        assert await status("DELETE", "/v1/rooms/demo", speaker) == 403
        assert await status("DELETE", "/v1/rooms/demo", moderator) == 204


async def test_a_key_in_the_body_of_a_libretranslate_request_is_accepted() -> None:
    async with running_with_keys() as (_, client):
        bodies: tuple[dict[str, Any], ...] = (
            {"json": LIBRE | {"api_key": SPEAKER}},
            {"data": LIBRE | {"api_key": SPEAKER}},
        )
        for body in bodies:
            answer = await client.post("/translate", **body)
            assert answer.json() == {"translatedText": "[de] good morning"}
        answer = await client.post("/translate", json=LIBRE | {"api_key": ""})
        assert answer.status_code == 401
