"""The demo page, served from a checkout or from an installed wheel.

Owns: which of its files are served, and how many bytes that takes. Must not know: what is in them.

A file is served as it is now, so that a change is seen on reload: it is read again when it has
changed, and a browser that has it is told so (304). It travels compressed: nothing in it is secret.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.protocol.handshake import SOCKET_PATH

SUFFIXES = frozenset((".html", ".css", ".js", ".svg", ".txt"))
"""Files that are served; all are text."""

PACKAGE = Path(__file__).resolve().parents[2]
FOLDERS = (PACKAGE.parent / "web_demo", PACKAGE / "web_demo")
"""Where the page is: beside the package in a checkout, else inside it."""


class FileBody(NamedTuple):
    """A file as it is sent."""

    stamp: tuple[int, int]
    plain: bytes
    packed: bytes
    tag: str


class StaticFile:
    """One file of the page."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kind, _ = mimetypes.guess_type(path)  # now: it reads the system's tables once
        self._body: FileBody | None = None

    async def __call__(self, request: Request) -> Response:
        body = self._body = await asyncio.to_thread(self._read, self._body)
        headers = {"cache-control": "no-cache", "etag": body.tag, "vary": "accept-encoding"}
        if body.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(body.packed, headers=headers, media_type=self._kind)
        return Response(body.plain, headers=headers, media_type=self._kind)

    def _read(self, known: FileBody | None) -> FileBody:
        found = self._path.stat()
        stamp = (found.st_mtime_ns, found.st_size)
        if known is not None and known.stamp == stamp:
            return known
        plain = self._path.read_bytes()
        tag = f'"{hashlib.sha256(plain).hexdigest()[:16]}"'
        return FileBody(stamp, plain, gzip.compress(plain, mtime=0), tag)


async def index(request: Request) -> Response:
    """Where the demo page was not installed."""
    return PlainTextResponse(
        "This is a translation gateway without its demo page.\n"
        f"Try: wscat -c 'ws://{request.url.netloc}{SOCKET_PATH}?from=en&to=de'\n"
    )


def routes(folders: tuple[Path, ...] = FOLDERS) -> list[Route]:
    """A route for each file of the page.

    Not a mount at "/": that would answer for every path and method that nothing else serves.
    """
    for folder in folders:
        if (folder / "index.html").is_file():
            files = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)
            return [Route(_path(path.relative_to(folder)), _endpoint(path)) for path in files]
    return [Route("/", index)]


def _path(file: Path) -> str:
    return "/" if file.as_posix() == "index.html" else f"/{file.as_posix()}"


def _endpoint(path: Path) -> Callable[[Request], Awaitable[Response]]:
    file = StaticFile(path)

    async def serve(request: Request) -> Response:
        return await file(request)

    return serve
