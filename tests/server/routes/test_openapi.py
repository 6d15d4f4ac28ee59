"""The OpenAPI document describes the HTTP interface completely and is up to date."""

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


def test_the_document_in_docs_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == openapi.render(), "run `make docs`"


def test_every_route_is_described_and_nothing_else_is() -> None:
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


def test_every_schema_is_referred_to_and_every_reference_has_a_schema() -> None:
    text = openapi.render()
    named = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert named == set(json.loads(text)["components"]["schemas"])
