"""The OpenAPI document describes the HTTP interface completely."""

from __future__ import annotations

import json
import re

from starlette.routing import Route

from gateway.server.routes import api, libretranslate, qr, sse, tickets, transcripts
from scripts.openapi import openapi

ROUTES: tuple[Route, ...] = (
    *api.ROUTES,
    *libretranslate.ROUTES,
    *transcripts.ROUTES,
    *tickets.ROUTES,
    *sse.ROUTES,
    *qr.ROUTES,
)


def test_every_route_is_described_and_nothing_else_is() -> None:
    served = {
        (route.path, method.lower())
        for route in ROUTES
        for method in route.methods or ()
        if method != "HEAD"
    }
    described = {
        (path, method)
        for path, item in openapi()["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert described == served


def test_every_schema_is_referred_to_and_every_reference_has_a_schema() -> None:
    document = openapi()
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert named == set(document["components"]["schemas"])
