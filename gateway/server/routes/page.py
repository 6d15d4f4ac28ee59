"""The demo page, served from a checkout or from an installed wheel.

Owns: which files are served, their addresses, caching and compression. Must not know: what is in
them, beyond the addresses in the HTML files.

HTML files name all other files below ``static/`` and a version, a hash of all of them. A browser
keeps such a file for a year, until the version has changed. Below it lie the folders of the
repository, so modules import each other by the same relative paths as on disk. Compression leaks
nothing, because no file holds a secret.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
import re
from functools import lru_cache
from pathlib import Path
from posixpath import normpath
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from gateway.auth.permissions import Permissions
from gateway.protocol.handshake import SOCKET_PATH
from gateway.server.access.guarded_route import PUBLIC, Endpoint, GuardedRoute

SUFFIXES = frozenset((".html", ".css", ".js", ".svg", ".txt"))
"""Suffixes of the files that are served; all are text."""

PACKAGE = Path(__file__).resolve().parents[2]
ROOTS = (PACKAGE.parent, PACKAGE)
"""Folders that may hold the folders of the page: a checkout, else the package itself."""

PAGE = "web_demo"
FOLDERS = (PAGE, "clients/js")
"""Folders with files of the page, below a root."""
CACHED = 256
"""Most files in memory. The page has some ninety; one that has changed counts again."""
VERSION_LENGTH = 16
"""Hexadecimal digits of a version and of an entity tag."""
ADDRESS = re.compile(r'(?<= )((?:src|href)=")([^":#?]+)')
"""An attribute of HTML with a relative path."""


class FileBody(NamedTuple):
    """The content of a file, ready to send, and its entity tag in quotes."""

    plain: bytes
    compressed: bytes
    etag: str


class PageFiles:
    """The files of the page. A reload shows a changed file, and a restart an added one."""

    def __init__(self, root: Path) -> None:
        paths = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*")))
        self._paths = {
            path.relative_to(root).as_posix(): path for path in paths if path.suffix in SUFFIXES
        }
        # Guessed at the start: the first guess reads the tables of the system.
        self._media_types = {path: mimetypes.guess_type(path)[0] for path in self._paths}

    def routes(self) -> list[GuardedRoute]:
        """Return the routes of the HTML files and of all that they load."""
        pages = [path for path in self._paths if path.endswith(".html")]
        return [
            *(GuardedRoute(_address(path), self._page(path), PUBLIC) for path in pages),
            GuardedRoute("/static/{version}/{path:path}", self.serve_file, PUBLIC),
        ]

    async def serve_file(self, request: Request, _: Permissions) -> Response:
        """Answer with a file that an HTML file names, or with 404."""
        path = request.path_params["path"]
        if path not in self._paths:
            return PlainTextResponse("There is no such file.", 404)
        files, version = await asyncio.to_thread(self._refresh)
        # Another version comes from a page that another gateway served, or that was edited since.
        current = request.path_params["version"] == version
        caching = "public, max-age=31536000, immutable" if current else "no-cache"
        return self._answer(request, path, files[path], caching)

    def _page(self, path: str) -> Endpoint:
        async def serve(request: Request, _: Permissions) -> Response:
            body = await asyncio.to_thread(self._html, path)
            return self._answer(request, path, body, "no-cache")

        return serve

    def _answer(self, request: Request, path: str, body: FileBody, caching: str) -> Response:
        headers = {"cache-control": caching, "etag": body.etag, "vary": "accept-encoding"}
        # The header may list several tags, and a weak one ends in the same quotes.
        if body.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        media_type = self._media_types[path]
        # Every browser accepts gzip; programs may not.
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(body.compressed, headers=headers, media_type=media_type)
        return Response(body.plain, headers=headers, media_type=media_type)

    def _html(self, path: str) -> FileBody:
        """Return an HTML file with the addresses of the current version."""
        files, version = self._refresh()
        folder = path.rpartition("/")[0]

        def versioned(match: re.Match[str]) -> str:
            other = normpath(f"{folder}/{match[2]}")
            if other not in files or other.endswith(".html"):
                return match[0]
            return f"{match[1]}static/{version}/{other}"

        return _body(ADDRESS.sub(versioned, files[path].plain.decode()).encode())

    def _refresh(self) -> tuple[dict[str, FileBody], str]:
        """Return all files by path below the root, and their version. Runs in threads."""
        stats = {path: file.stat() for path, file in self._paths.items()}
        files = {
            path: _read(self._paths[path], stat.st_mtime_ns, stat.st_size)
            for path, stat in stats.items()
        }
        tags = "".join(f"{path} {file.etag}\n" for path, file in files.items())
        return files, _digest(tags.encode())


async def index(request: Request, _: Permissions) -> Response:
    """Answer for the demo page if it is not installed."""
    prefix = request.scope.get("root_path", "")
    return PlainTextResponse(
        "This is a translation gateway without its demo page.\n"
        f"Try: wscat -c 'ws://{request.url.netloc}{prefix}{SOCKET_PATH}?from=en&to=de'\n"
    )


def root(roots: tuple[Path, ...] = ROOTS) -> Path | None:
    """Return the folder that holds the folders of the page; None if the page is not installed."""
    return next((folder for folder in roots if (folder / PAGE / "index.html").is_file()), None)


def routes(roots: tuple[Path, ...] = ROOTS) -> list[GuardedRoute]:
    """Return the routes of the page."""
    folder = root(roots)
    return [GuardedRoute("/", index, PUBLIC)] if folder is None else PageFiles(folder).routes()


def _address(path: str) -> str:
    name = path.removeprefix(f"{PAGE}/")
    return "/" if name == "index.html" else f"/{name}"


@lru_cache(maxsize=CACHED)
def _read(path: Path, changed: int, size: int) -> FileBody:
    """Return a file that was changed at this time and has this size: it is read once."""
    return _body(path.read_bytes())


def _body(plain: bytes) -> FileBody:
    return FileBody(plain, gzip.compress(plain, mtime=0), f'"{_digest(plain)}"')


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:VERSION_LENGTH]
