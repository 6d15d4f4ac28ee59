"""Commands as they are typed, for tests: what they say when they fail."""

from __future__ import annotations

import pytest

from gateway.cli.main import main


def run(*argv: object) -> int:
    """The status of a command, also where argparse ends it."""
    try:
        return main([str(one) for one in argv])
    except SystemExit as exc:
        return int(str(exc.code))


def fails(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str]:
    """The status and the complaint of a command that prints nothing else."""
    status = run(*argv)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gateway: ")
    assert "Traceback" not in err
    return status, err
