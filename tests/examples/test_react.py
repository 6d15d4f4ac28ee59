"""The example in React, checked by TypeScript with the types of the client."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import npm

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "react"


def test_the_example_in_react_is_correct_typescript() -> None:
    npm.install(EXAMPLE)
    checked = subprocess.run(
        ["npm", "run", "--silent", "check"], cwd=EXAMPLE, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
