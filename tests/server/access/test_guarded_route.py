"""The right of every route, tried with and without keys."""

from __future__ import annotations

from typing import Any

import httpx2 as httpx
import pytest
from starlette.routing import Route

from gateway.auth.permissions import Role
from gateway.engines.scripted import ScriptedEngine
from gateway.server import app
from gateway.server.access.guarded_route import ROOM, GuardedRoute
from gateway.server.routes import page
from tests.server.access.credentials import (
    BOARD,
    MODERATOR,
    VIEWER,
    bearer,
    requiring_keys,
    running_with_keys,
)
from tests.support.talk import talk

ROUTES = (*app.HTTP_ROUTES, *page.routes())
GUARDED = [route for route in ROUTES if route.right.role is not None]
PUBLIC = {
    "/",
    "/frontend/settings",
    "/healthz",
    "/join.html",
    "/languages",
    "/openapi.json",
    "/overlay.html",
    "/readyz",
    "/readyz/rooms",
    "/static/{version}/{path:path}",
    "/v1/languages",
    "/v1/rooms/{room}/qr.svg",
    "/v1/ws",
}
"""Paths that everybody may request. The page and the answers hold nothing of a meeting."""
BODIES: dict[str, dict[str, Any]] = {
    "/translate": {"q": "good morning", "source": "en", "target": "de"},
    "/detect": {"q": "good morning"},
}
"""Bodies of APIs whose key is in the body, which is therefore read first."""
PLACES = {"room": "demo", "format": "vtt", "model": "translate-de"}


async def status(client: httpx.AsyncClient, route: GuardedRoute, key: str | None) -> int:
    (method,) = (route.methods or {"GET"}) - {"HEAD"}
    headers = {} if key is None else bearer(key)
    path = route.path.format(**PLACES)
    async with client.stream(
        method, path, headers=headers, json=BODIES.get(route.path, {})
    ) as answer:
        return answer.status_code


def named(route: GuardedRoute) -> str:
    return f"{','.join(sorted(route.methods or ()))} {route.path}"


def test_the_public_routes_are_these() -> None:
    assert {route.path for route in ROUTES if route.right.role is None} == PUBLIC


@pytest.mark.parametrize("route", GUARDED, ids=named)
async def test_a_route_with_a_right_is_closed_without_a_key(route: GuardedRoute) -> None:
    async with running_with_keys() as (_, client):
        # DeepL's clients expect 403 for a missing key.
        assert await status(client, route, None) in (401, 403)


@pytest.mark.parametrize("route", [r for r in GUARDED if r.right.room is not None], ids=named)
async def test_a_key_of_another_room_opens_no_route_of_a_room(route: GuardedRoute) -> None:
    async with running_with_keys() as (_, client):
        assert await status(client, route, BOARD) == 403


@pytest.mark.parametrize("route", [r for r in GUARDED if r.right.role is not Role.VIEW], ids=named)
async def test_a_key_of_a_lower_role_is_refused(route: GuardedRoute) -> None:
    async with running_with_keys() as (_, client):
        assert await status(client, route, VIEWER) == 403


@pytest.mark.parametrize("route", GUARDED, ids=named)
async def test_a_key_with_the_right_opens_the_route(route: GuardedRoute) -> None:
    async with running_with_keys() as (live, client):
        async with talk(live, "?room=demo&to=de", additional_headers=bearer(MODERATOR)) as peer:
            await peer.next()
            assert await status(client, route, MODERATOR) not in (401, 403)


def test_every_route_of_a_room_asks_for_a_right_in_that_room() -> None:
    for route in GUARDED:
        assert ("{room}" in route.path) == (route.right.room == ROOM), route.path


def test_an_application_with_a_route_without_a_right_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def forgotten(request: object) -> None:
        """Answer every caller."""

    monkeypatch.setattr(app, "HTTP_ROUTES", (*app.HTTP_ROUTES, Route("/v1/new", forgotten)))
    with pytest.raises(TypeError, match="/v1/new does not state the right"):
        app.create_app(ScriptedEngine(), authenticator=requiring_keys())
