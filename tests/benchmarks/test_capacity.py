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
