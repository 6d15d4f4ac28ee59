"""`make audit` fails for what is known, and says plainly when it could not look."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit.py"

SOUND = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found"}


def audited(*packages: object) -> tuple[str, ...]:
    """Return a command that prints what pip-audit would."""
    return (sys.executable, "-c", f"print({json.dumps({'dependencies': packages})!r})")


FAILING = (sys.executable, "-c", "raise SystemExit('ConnectionError: no such host')")


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        (audited(SOUND, UNKNOWN), 0, "1 packages, 0 known vulnerabilities"),
        (audited(SOUND, UNKNOWN), 0, "not known to the service: c"),
        (audited(SOUND, BAD), 1, "b 2: CVE-1, mended in 3"),
        (audited(UNKNOWN), 0, "SKIPPED, nothing was audited: the service knows none of 1"),
        (FAILING, 0, "SKIPPED, nothing was audited: ConnectionError: no such host"),
    ],
)
def test_known_vulnerabilities_fail_and_a_failed_audit_is_reported(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], status: int, says: str
) -> None:
    main: Callable[[tuple[str, ...]], int] = runpy.run_path(str(SCRIPT))["main"]
    assert main(command) == status
    assert says in capsys.readouterr().out
