"""The OpenAPI document describes the HTTP interface completely."""

from __future__ import annotations

import json
import re

import pytest
from starlette.requests import Request

from gateway.auth.permissions import EVERYTHING
from gateway.server.app import HTTP_ROUTES
from gateway.server.routes import description
from scripts.openapi import ACCEPTED, openapi


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


def test_every_operation_says_which_key_it_needs() -> None:
    paths = openapi()["paths"]
    for route in HTTP_ROUTES:
        operation = paths[route.path][next(iter((route.methods or set()) - {"HEAD"})).lower()]
        role = route.right.role
        assert bool(operation["security"]) == (role is not None), route.path
        assert (role is None) or f"role `{role.value}`" in operation["description"], route.path
        assert (role is None) == ("401" not in operation["responses"]), route.path


def test_a_value_that_is_refused_in_other_services_requests_is_not_in_the_schema() -> None:
    schemas = openapi()["components"]["schemas"]
    assert "html" not in schemas["TranslateQuery"]["properties"]["format"]["enum"]
    assert "more" not in schemas["DeepLRequest"]["properties"]["formality"]["enum"]
    for name, fields in ACCEPTED.items():
        assert fields.keys() <= schemas[name]["properties"].keys()


@pytest.mark.parametrize(("mount", "server"), [("", "/"), ("/captions", "/captions")])
async def test_a_gateway_serves_the_document_with_the_address_of_its_routes(
    mount: str, server: str
) -> None:
    scope = {"type": "http", "root_path": mount, "headers": []}
    answer = await description.openapi(Request(scope), EVERYTHING)
    assert json.loads(bytes(answer.body)) == openapi() | {"servers": [{"url": server}]}
