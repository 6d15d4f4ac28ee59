"""The descriptions of the interfaces that are generated: OpenAPI, AsyncAPI, JSON Schema.

Owns: where their files are, and the answer with the OpenAPI document. Must not know: what they say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway.auth.permissions import Permissions
from gateway.server.access.guarded_route import PUBLIC, GuardedRoute
from gateway.server.routes.api import reply

OPENAPI_PATH: Final = "/openapi.json"
PACKAGE = Path(__file__).resolve().parents[2]
FOLDERS = (PACKAGE.parent / "docs" / "schema", PACKAGE / "schema")
"""Folders that may hold the files: in a checkout, or in an installed wheel."""


def read(name: str) -> str:
    """Return the text of a file. Raises `StopIteration` if it was not installed."""
    file = next(folder / name for folder in FOLDERS if (folder / name).is_file())
    return file.read_text(encoding="utf-8")


async def openapi(request: Request, _: Permissions) -> Response:
    """Answer with the OpenAPI document, whose paths begin where the gateway is mounted."""
    document = msgspec.json.decode(read("openapi.json"))
    document["servers"] = [{"url": request.scope.get("root_path") or "/"}]
    return reply(document)


ROUTES = (GuardedRoute(OPENAPI_PATH, openapi, PUBLIC),)
