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

PAGES = {"/": "index.html", "/join.html": "join.html", "/overlay.html": "overlay.html"}
"""File of each page, by its path."""

COLD = 90_000
"""Most compressed bytes of a page with all its files and the texts of one language.

Issue 6 allows 150,000.
"""

NAMES = re.compile(r"""(?:src|href)="([^":#]+)[#"]|(?:from|import) "(\.\.?/[^"]+)\"""")

FILE = re.compile(r"/static/([0-9a-f]{16})/(.+)")
"""Version and name of a file that a page loads."""

ROOT = Path(__file__).parents[3]

TEXTS = ROOT / "web_demo" / "page" / "strings"
"""Folder with the texts of the page in each language; a visit loads one of them."""


def load(http: httpx.Client, first: str) -> dict[str, bytes]:
    """Return a page, the files that it loads and the files that these load, by path."""
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
    texts = max(len(gzip.compress(table.read_bytes())) for table in TEXTS.glob("*.js"))
    assert texts + sum(len(gzip.compress(content)) for content in found.values()) <= COLD
    html = found[path].decode()
    assert not re.search(r"\son[a-z]+=|<style|style=|<script(?! type=\"module\" src=)", html)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_preloads_the_modules_that_it_imports(live: Live, path: str) -> None:
    with httpx.Client(base_url=live.http) as http:
        found = load(http, path)
    html = found[path].decode()
    early = re.findall(r'"modulepreload" href="([^"]+)"', html)
    main = re.findall(r'<script type="module" src="([^"]+)"', html)
    assert {f"/{name}" for name in early + main} == {path for path in found if path.endswith(".js")}


@pytest.mark.parametrize("path", PAGES)
def test_all_that_a_page_loads_is_kept_by_the_browser_until_the_version_changes(
    live: Live, path: str
) -> None:
    with httpx.Client(base_url=live.http) as http:
        found = {name for name in load(http, path) if name.startswith("/static/")}
        for name in found:
            answer = http.get(name)
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable", name
        assert http.get(path).headers["cache-control"] == "no-cache"
    versions = {match[1] for name in found if (match := FILE.fullmatch(name))}
    assert len(found) > 3 and len(versions) == 1


@pytest.mark.parametrize("lang", ["en", "de", "fr", "es", "ja", "zh"])
def test_the_demo_meeting_is_served_in_six_languages(live: Live, lang: str) -> None:
    answer = httpx.get(f"{live.http}/static/any/web_demo/meeting/{lang}.txt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert len(answer.text.splitlines()) == 100


def test_texts_never_become_markup() -> None:
    for folder in page.FOLDERS:
        for path in (ROOT / folder).rglob("*.js"):
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(",
                                 path.read_text(encoding="utf-8")), path.name  # fmt: skip


def test_a_browser_that_has_the_current_page_gets_304(live: Live) -> None:
    first = httpx.get(live.http + "/")
    again = httpx.get(live.http + "/", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_file_is_compressed_for_a_client_that_accepts_gzip(live: Live) -> None:
    address = live.http + "/static/any/web_demo/styles/meeting.css"
    packed = httpx.get(address)
    plain = httpx.get(address, headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip" and packed.text == plain.text
    assert int(packed.headers["content-length"]) < len(plain.content) / 2


def test_a_file_that_is_no_part_of_the_page_is_not_found(live: Live) -> None:
    for name in ("web_demo/none.js", "pyproject.toml", "clients/js/package.json"):
        assert httpx.get(f"{live.http}/static/any/{name}").status_code == 404


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with a small page."""
    for name, content in {
        "web_demo/index.html": '<script src="sub/a.js"></script><a href="other.html">',
        "web_demo/other.html": '<use href="sub/b.svg#x"/><link href="../clients/js/c.js">',
        "web_demo/sub/a.js": "1",
        "web_demo/sub/b.svg": "",
        "web_demo/notes.md": "not a part of it",
        "clients/js/c.js": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path


def test_the_addresses_in_html_name_the_version_and_other_pages_do_not(root: Path) -> None:
    client = TestClient(Starlette(routes=page.routes((root / "none", root))))
    found = re.fullmatch(
        r'<script src="(static/\w{16}/)web_demo/sub/a.js"></script><a href="other.html">',
        client.get("/").text,
    )
    assert found is not None
    assert client.get("/other.html").text == (
        f'<use href="{found[1]}web_demo/sub/b.svg#x"/><link href="{found[1]}clients/js/c.js">'
    )


def test_a_changed_file_gets_another_address(root: Path) -> None:
    client = TestClient(Starlette(routes=page.routes((root,))))
    before = "/" + re.findall(r'src="([^"]+)', client.get("/").text)[0]
    assert "immutable" in client.get(before).headers["cache-control"]
    (root / "web_demo" / "sub" / "a.js").write_text("another")
    late = client.get(before)
    assert (late.text, late.headers["cache-control"]) == ("another", "no-cache")
    after = "/" + re.findall(r'src="([^"]+)', client.get("/").text)[0]
    assert after != before
    assert "immutable" in client.get(after).headers["cache-control"]
    assert client.get(before).headers["cache-control"] == "no-cache"


def test_a_file_may_be_asked_for_before_any_page(root: Path) -> None:
    """Requests for the files of a page may reach a gateway that has not served the page itself."""
    client = TestClient(Starlette(routes=page.routes((root,))))
    first = client.get("/static/any/web_demo/sub/a.js")
    assert (first.text, first.headers["cache-control"]) == ("1", "no-cache")


def test_without_the_demo_page_the_root_path_explains_how_to_open_a_socket(tmp_path: Path) -> None:
    client = TestClient(Starlette(routes=page.routes((tmp_path,))))
    assert "wscat -c 'ws://testserver/v1/ws" in client.get("/").text
