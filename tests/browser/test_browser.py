"""Tests of the demo page in a real browser with a real gateway, run by `node --test`.

They save pictures of the screens in ``build/browser``, for people to look at.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support import npm

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> str:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("Chromium is not installed; Debian has it as `chromium`.")
    return found


@pytest.fixture(scope="module")
def packages() -> None:
    npm.install(HERE)


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.js")), ids=lambda file: file.stem)
def test_the_page_in_a_browser(file: Path, browser: str) -> None:
    npm.run(
        "node",
        file,
        patience_s=500,
        CHROMIUM=browser,
        GATEWAY_PYTHON=sys.executable,
        PICTURES=str(ROOT / "build" / "browser"),
        PYTHONPATH=str(ROOT),
    )
