"""Tests of the demo page in real browsers with a real gateway, run by `node --test`.

They save pictures of the screens in ``build/browser``, for people to look at.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support import npm

MINUTES = float(os.environ.get("MINUTES", 0))
"""Length of the meeting of six people; 0 is a few lines."""
PATIENCE_S = 500 + round(120 * MINUTES)

pytestmark = [pytest.mark.browser, pytest.mark.timeout(PATIENCE_S + 100)]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BROWSERS = {
    "CHROMIUM": ("chromium", "chromium-browser", "google-chrome"),
    "FIREFOX": ("firefox-esr", "firefox"),
}
"""Programs of each browser. The variable of that name may hold another one."""


@pytest.fixture(scope="module")
def browsers() -> dict[str, str]:
    found = {}
    for name, programs in BROWSERS.items():
        path = os.environ.get(name) or next(filter(None, map(shutil.which, programs)), None)
        if path is None:
            pytest.skip(f"{programs[0]} is not installed; Debian has it under this name.")
        found[name] = path
    return found


@pytest.fixture(scope="module")
def packages() -> None:
    npm.install(HERE)


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.js")), ids=lambda file: file.stem)
def test_the_page_in_a_browser(file: Path, browsers: dict[str, str]) -> None:
    npm.run(
        "node",
        file,
        patience_s=PATIENCE_S,
        **browsers,
        GATEWAY_PYTHON=sys.executable,
        PICTURES=str(ROOT / "build" / "browser"),
        PYTHONPATH=str(ROOT),
    )
