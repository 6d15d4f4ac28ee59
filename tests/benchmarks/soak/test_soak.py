"""A soak of seconds: people, a gateway of their own, and faults. A bad network is in `make soak`,
which CI runs for a minute.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.soak.child import Child
from benchmarks.soak.command import main
from benchmarks.soak.report import table
from benchmarks.soak.run import Plan, Soak
from tests.support.redis import RedisServer


async def test_one_of_several_gateways_on_a_port_is_killed_and_every_promise_holds(
    tmp_path: Path,
) -> None:
    with RedisServer(tmp_path) as redis:
        plan = replace(
            Plan(seconds=12, sessions=16, rooms=4, speed=10, cut=0, stay=5, kill=2),
            gateways=3,
            redis=redis.url,
        )
        report = await Soak(plan, tmp_path).run()
    assert report.broken == [], table(report)
    assert min(report.restarts, report.kills) >= 1
    assert report.rss_mb[0] > 100, "of all processes together"


async def test_a_soak_lasts_until_a_gateway_was_killed_and_one_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Child.start

    async def start_slowly(child: Child) -> None:
        await start(child)
        await asyncio.sleep(plan.seconds)  # as on a busy machine

    monkeypatch.setattr(Child, "start", start_slowly)
    plan = Plan(seconds=0.4, sessions=4, rooms=1, speed=20, cut=0, stay=0, kill=0.2)
    report = await Soak(plan, tmp_path).run()
    assert (report.kills, report.restarts) == (1, 1)


def test_several_gateways_without_redis_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gateways", "2"]) == 1
    assert "--gateways needs --redis" in capsys.readouterr().err


def test_the_command_prints_a_table_and_its_status_is_the_verdict(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    figures = tmp_path / "figures.json"
    words = "--seconds 1 --sessions 4 --rooms 1 --speed 20 --cut 0 --stay 0 --kill 0 --json"
    assert main([*words.split(), str(figures)]) == 0
    assert "Every promise held." in capsys.readouterr().out
    assert figures.stat().st_size


async def test_a_gateway_that_does_not_start_is_reported_with_its_output(tmp_path: Path) -> None:
    child = Child(("--engine", "nonsense"), tmp_path / "log")
    with pytest.raises(ChildProcessError, match="nonsense"):
        await child.start()
