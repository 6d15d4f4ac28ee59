"""The demo page, served from a checkout or from an installed wheel.

Owns: which files are served, their caching and compression. Must not know: what is in them.

A file is read again when it has changed, so that a reload shows the change. A browser that has the
current file gets 304. Compression leaks nothing here, because no file holds a secret.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.protocol.handshake import SOCKET_PATH

SUFFIXES = frozenset((".html", ".css", ".js", ".svg", ".txt"))
"""Suffixes of the files that are served; all are text."""

PACKAGE = Path(__file__).resolve().parents[2]
FOLDERS = (PACKAGE.parent / "web_demo", PACKAGE / "web_demo")
"""Folders that may hold the page: beside the package in a checkout, else inside it."""


class FileBody(NamedTuple):
    """The content of a file, ready to send.

    ``stamp``      time of change in ns and size in bytes, when it was read
    ``etag``       of the content, in quotes
    """

    stamp: tuple[int, int]
    plain: bytes
    compressed: bytes
    etag: str


class StaticFile:
    """A file of the page."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Guessed at the start: the first guess reads the tables of the system.
        self._media_type, _ = mimetypes.guess_type(path)
        self._body: FileBody | None = None

    async def serve(self, request: Request) -> Response:
        """Answer with the file, compressed if the client accepts that."""
        body = self._body = await asyncio.to_thread(self._read, self._body)
        headers = {"cache-control": "no-cache", "etag": body.etag, "vary": "accept-encoding"}
        # The header may list several tags, and a weak one ends in the same quotes.
        if body.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        # Every browser accepts gzip; programs may not.
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(body.compressed, headers=headers, media_type=self._media_type)
        return Response(body.plain, headers=headers, media_type=self._media_type)

    def _read(self, cached: FileBody | None) -> FileBody:
        stat = self._path.stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        if cached is not None and cached.stamp == stamp:
            return cached
        plain = self._path.read_bytes()
        etag = f'"{hashlib.sha256(plain).hexdigest()[:16]}"'
        return FileBody(stamp, plain, gzip.compress(plain, mtime=0), etag)


async def index(request: Request) -> Response:
    """Answer for the demo page if it is not installed."""
    prefix = request.scope.get("root_path", "")
    return PlainTextResponse(
        "This is a translation gateway without its demo page.\n"
        f"Try: wscat -c 'ws://{request.url.netloc}{prefix}{SOCKET_PATH}?from=en&to=de'\n"
    )


def routes(folders: tuple[Path, ...] = FOLDERS) -> list[Route]:
    """Return a route for each file of the page.

    A mount at "/" would answer every path and method that no other route serves.
    """
    for folder in folders:
        if (folder / "index.html").is_file():
            paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)
            return [Route(_path(one.relative_to(folder)), StaticFile(one).serve) for one in paths]
    return [Route("/", index)]


def _path(file: Path) -> str:
    return "/" if file.as_posix() == "index.html" else f"/{file.as_posix()}"
