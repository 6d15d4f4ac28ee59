"""Tests in Node.js: clients of the protocol and of other services, wscat, the page's modules."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.engines.scripted import ScriptedEngine
from tests.support import npm
from tests.support.live import Live, in_thread

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
PAGE = HERE.parent / "web"
TEXT = "Good morning everybody"
SCRIPT = {
    (TEXT, "de"): ["Guten", " Morgen", " 👋", " zusammen"],
    (TEXT, "fr"): ["Bonjour", " à", " toutes", " et", " à", " tous"],
}
NODE = (20, 19)
"""Oldest version that detects that the page's files are modules."""
PACE = 0.02
"""Seconds between words: the long text of the tests takes 12 s unless it is cancelled."""


@pytest.fixture(scope="module")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("Node.js is not installed; these tests need 20.19 or newer.")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    if tuple(map(int, version.stdout.strip().lstrip("v").split(".")[:2])) < NODE:
        pytest.skip(f"Node.js {version.stdout.strip()} is too old; 20.19 or newer is needed.")
    return found


@pytest.fixture(scope="module")
def packages(node: str) -> None:
    npm.install(HERE)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Live]:
    with in_thread(ScriptedEngine(SCRIPT, pace=PACE)) as live:
        yield live


def run(node: str, *tests: Path, **env: str) -> None:
    npm.run(node, *tests, patience_s=120, **env)


@pytest.mark.usefixtures("packages")
def test_a_client_in_node_gets_what_the_protocol_promises(node: str, gateway: Live) -> None:
    run(node, *sorted(HERE.glob("*.test.js")), GATEWAY_URL=gateway.ws, GATEWAY_HTTP=gateway.http)


def test_the_modules_of_the_demo_page(node: str) -> None:
    run(node, *sorted(PAGE.rglob("*.test.js")))
