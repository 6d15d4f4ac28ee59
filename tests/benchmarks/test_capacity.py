"""The measurements behind ``gateway plan``."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from benchmarks import capacity


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="needs redis-server")
def test_the_time_of_each_redis_command_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["capacity", "redis", "--messages", "200", "--subscribers", "2"]
    monkeypatch.setattr(sys, "argv", given)
    capacity.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(re.search(r" -?[\d.]+ us$", line) for line in lines)


def test_a_measured_load_and_its_simulation_stand_side_by_side(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["capacity", "simulation", "--loads", "0.5", "--seconds", "5"])
    capacity.main()
    out = capfd.readouterr().out
    assert "measured  simulated" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("tokens a caption")]
    assert len(rows) == 1
    assert float(rows[0][3]) > 5
