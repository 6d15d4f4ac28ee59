"""The OpenAPI document says what is served over HTTP: no less, no more, and as new as the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from starlette.routing import Route

from gateway.server.routes import api, libretranslate, openapi, qr, sse, tickets, transcripts

FILE = Path(__file__).parents[3] / "docs" / openapi.PATH
ROUTES: tuple[Route, ...] = (
    *api.ROUTES,
    *libretranslate.ROUTES,
    *transcripts.ROUTES,
    *tickets.ROUTES,
    *sse.ROUTES,
    *qr.ROUTES,
)


def test_the_file_is_as_new_as_the_code() -> None:
    assert FILE.read_text(encoding="utf-8") == openapi.render(), "run `make docs`"


def test_every_route_is_described_and_nothing_else() -> None:
    served = {
        (route.path, method.lower())
        for route in ROUTES
        for method in route.methods or ()
        if method != "HEAD"
    }
    described = {
        (path, method)
        for path, item in openapi.openapi()["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert described == served


def test_what_it_refers_to_is_in_it() -> None:
    text = openapi.render()
    named = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert named == set(json.loads(text)["components"]["schemas"])
