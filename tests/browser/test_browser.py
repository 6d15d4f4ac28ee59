"""The demo page in a real browser, against a real gateway: `node --test` on the files beside this.

Pictures of the screens are left in ``build/browser``, for people to look at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed; it fetches playwright-core and axe-core.")
    done = HERE / "node_modules" / ".package-lock.json"
    if done.exists() and done.stat().st_mtime >= (HERE / "package.json").stat().st_mtime:
        return
    install = subprocess.run([npm, "install"], cwd=HERE, capture_output=True, text=True)
    if install.returncode:
        pytest.skip(f"npm could not install the packages of {HERE.name}: {install.stderr[-500:]}")
    done.touch()


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.js")), ids=lambda file: file.stem)
def test_the_page_does_what_it_promises(file: Path, browser: str) -> None:
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", "--test-timeout=500000", str(file)],
        cwd=HERE,
        env={
            **os.environ,
            "CHROMIUM": browser,
            "GATEWAY_PYTHON": sys.executable,
            "PICTURES": str(ROOT / "build" / "browser"),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # `node --test` is content with files in which it finds nothing.
    assert "\n# fail 0\n" in done.stdout and "\n# tests 0\n" not in done.stdout, done.stdout
