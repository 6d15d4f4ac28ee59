"""The OpenAPI document describes the HTTP interface completely."""

from __future__ import annotations

import json
import re

from gateway.server.app import HTTP_ROUTES
from scripts.openapi import openapi


def test_every_route_is_described_and_nothing_else_is() -> None:
    served = {
        (route.path, method.lower())
        for route in HTTP_ROUTES
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
