"""The files of the demo page are served, and are as small as they must be."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from urllib.parse import urljoin

import httpx2 as httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from gateway.server.routes import page
from tests.support.live import Live

PAGES = {"/": "main.js", "/join.html": "join.js", "/overlay.html": "overlay.js"}
"""Main module of each page, by the path of the page."""

COLD = 75_000
"""Most compressed bytes of a page with all its files: half of what issue 6 allows."""

NAMES = re.compile(
    r"""(?:src|href)="([^":#]+)[#"]|(?:from|import) "(\.\.?/[^"]+)"|fetch\("(/?[a-z.]+)"\)"""
)


def load(http: httpx.Client, first: str) -> dict[str, bytes]:
    """Return a page, the files that it loads and the files that those load, by path."""
    found: dict[str, bytes] = {}
    waiting = [first]
    while waiting:
        path = waiting.pop()
        if path in found or path.startswith("/v1/"):
            continue
        answer = http.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        found[path] = answer.content
        if path.endswith((".svg", ".css")):
            continue
        waiting += [
            urljoin(path, next(filter(None, groups))) for groups in NAMES.findall(answer.text)
        ]
    return found


@pytest.mark.parametrize("path", PAGES)
def test_a_page_and_all_files_that_it_loads_are_served_and_are_small(live: Live, path: str) -> None:
    with httpx.Client(base_url=live.http) as http:
        found = load(http, path)
    assert len(found) > 3
    assert sum(len(gzip.compress(content)) for content in found.values()) <= COLD
    html = found[path].decode()
    assert not re.search(r"\son[a-z]+=|<style|style=|<script(?! type=\"module\" src=)", html)


@pytest.mark.parametrize(("path", "main"), PAGES.items())
def test_a_page_preloads_the_modules_that_it_imports(live: Live, path: str, main: str) -> None:
    with httpx.Client(base_url=live.http) as http:
        found = load(http, path)
    early = set(re.findall(r'"modulepreload" href="([^"]+)"', found[path].decode()))
    modules = {path.lstrip("/") for path in found if path.endswith(".js")}
    assert early == modules - {main}


def test_the_demo_meeting_is_served_in_six_languages(live: Live) -> None:
    with httpx.Client(base_url=live.http) as http:
        for lang in ("en", "de", "fr", "es", "ja", "zh"):
            answer = http.get(f"/meeting/{lang}.txt")
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert len(answer.text.splitlines()) == 100


def test_texts_never_become_markup() -> None:
    folder = Path(__file__).parents[3] / "web_demo"
    for path in folder.rglob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(",
                             path.read_text(encoding="utf-8")), path.name  # fmt: skip


def test_a_browser_that_has_the_current_file_gets_304(live: Live) -> None:
    first = httpx.get(live.http + "/styles/theme.css")
    assert first.headers["cache-control"] == "no-cache"
    again = httpx.get(
        live.http + "/styles/theme.css", headers={"if-none-match": first.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")


def test_a_file_is_compressed_for_a_client_that_accepts_gzip(live: Live) -> None:
    packed = httpx.get(live.http + "/styles/meeting.css")
    plain = httpx.get(live.http + "/styles/meeting.css", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip" and packed.text == plain.text
    assert int(packed.headers["content-length"]) < len(plain.content) / 2


def test_a_changed_file_is_served_with_its_new_content(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text("one")
    (tmp_path / "sub" / "a.js").write_text("1")
    (tmp_path / "notes.md").write_text("not a part of it")
    found = page.routes((tmp_path / "none", tmp_path))
    assert [route.path for route in found] == ["/", "/sub/a.js"]
    client = TestClient(Starlette(routes=found))
    assert client.get("/").text == "one"
    (tmp_path / "index.html").write_text("another")
    assert client.get("/").text == "another"


def test_without_the_demo_page_the_root_path_explains_how_to_open_a_socket(tmp_path: Path) -> None:
    client = TestClient(Starlette(routes=page.routes((tmp_path,))))
    assert "wscat -c 'ws://testserver/v1/ws" in client.get("/").text
