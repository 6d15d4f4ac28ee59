"""`make audit` fails for known faults, and says plainly when it could not look."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit.py"

SOUND = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "c", "skip_reason": "Dependency not found"}


def audited(*packages: object) -> tuple[str, ...]:
    """Return a command that prints the same as pip-audit."""
    return (sys.executable, "-c", f"print({json.dumps({'dependencies': packages})!r})")


FAILING = (sys.executable, "-c", "raise SystemExit('ConnectionError: no such host')")


@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        (audited(SOUND, UNKNOWN), 0, "c\naudit: 1 packages, 0 known vulnerabilities\n"),
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


@pytest.mark.parametrize(
    "line", ["audit: SKIPPED, nothing was audited: no net", "audit: 9 packages"]
)
def test_the_last_line_of_ci_says_whether_the_audit_was_skipped(tmp_path: Path, line: str) -> None:
    script = SCRIPT.parents[1] / ".ci" / "run"
    programs = re.findall(r"^need (\S+)|^type (\S+)", script.read_text(), re.MULTILINE)
    for program in {name for pair in programs for name in pair if name}:
        (tmp_path / program).write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").write_text("#!/bin/sh\nexit 1\n")  # nothing is missing
    (tmp_path / "make").write_text(f'#!/bin/sh\necho "ran $1"\n[ $1 != audit ] || echo "{line}"\n')
    for stub in tmp_path.iterdir():
        stub.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run([script], env={"PATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"All checks passed. {line}"
    assert line in done.stderr
