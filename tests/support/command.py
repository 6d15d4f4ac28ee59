"""Commands run as from a shell, and their error messages."""

from __future__ import annotations

import pytest

from gateway.cli.main import main


def run(*argv: object) -> int:
    """Run a command and return its status, also if argparse ends it."""
    try:
        return main([str(one) for one in argv])
    except SystemExit as exc:
        return int(str(exc.code))


def fails(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str]:
    """Run a command that fails; return its status and its error message."""
    status = run(*argv)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gateway: ")
    assert "Traceback" not in err
    return status, err
