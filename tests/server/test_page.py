"""The demo page as it is served: every file that it names, and no more bytes than it may have."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urljoin

import httpx2 as httpx
import pytest

from tests.live import Live

PAGES = {"/": "main.js", "/join.html": "join.js", "/overlay.html": "overlay.js"}
"""Pages, and the module that each begins with."""

COLD = 150_000
"""Bytes that a browser with an empty cache loads, without the meeting that is played."""

NAMES = re.compile(
    r"""(?:src|href)="([^":#]+)[#"]|(?:from|import) "(\./[^"]+)"|fetch\("(/?[a-z.]+)"\)"""
)


def load(http: httpx.Client, page: str) -> dict[str, bytes]:
    """A page and all that it names, and what these name."""
    found: dict[str, bytes] = {}
    waiting = [page]
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


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_served_with_all_that_it_names_and_is_small(live: Live, page: str) -> None:
    with httpx.Client(base_url=live.http) as http:
        found = load(http, page)
    assert len(found) > 3
    assert sum(map(len, found.values())) <= COLD
    html = found[page].decode()
    assert not re.search(r"\son[a-z]+=|<style|style=|<script(?! type=\"module\" src=)", html)


@pytest.mark.parametrize(("page", "main"), PAGES.items())
def test_what_is_loaded_first_is_what_the_page_needs(live: Live, page: str, main: str) -> None:
    with httpx.Client(base_url=live.http) as http:
        found = load(http, page)
    early = set(re.findall(r'"modulepreload" href="([^"]+)"', found[page].decode()))
    modules = {path.lstrip("/") for path in found if path.endswith(".js")}
    assert early == modules - {main}


def test_the_meeting_is_there_in_six_languages(live: Live) -> None:
    with httpx.Client(base_url=live.http) as http:
        for lang in ("en", "de", "fr", "es", "ja", "zh"):
            answer = http.get(f"/meeting/{lang}.txt")
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert len(answer.text.splitlines()) == 100


def test_texts_never_become_markup() -> None:
    folder = Path(__file__).parents[2] / "web_demo"
    for path in folder.rglob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(",
                             path.read_text(encoding="utf-8")), path.name  # fmt: skip
