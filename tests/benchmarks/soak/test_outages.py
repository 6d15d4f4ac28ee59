"""Short runs of `benchmarks.soak.outages`. The long ones are `make outages`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak.outage_rows import COLUMNS, KINDS, line
from benchmarks.soak.outages import Outages


@pytest.mark.timeout(240)  # so that a broken promise is named, for which the run waits 30 s each
@pytest.mark.parametrize("kind", ["resets", "half-closes"])
async def test_a_fleet_whose_redis_fails_while_an_owner_is_killed_holds_every_promise(
    tmp_path: Path, kind: str
) -> None:
    row = await Outages(KINDS.index(kind), 1, seconds=3.0, rooms=2, folder=tmp_path).play()
    assert row.clean, row
    assert row.kills and row.faults[kind] and row.events
    assert "resets" in line([getattr(row, column) for column in COLUMNS]) or kind != "resets"


async def test_a_key_without_an_end_is_a_broken_promise(tmp_path: Path) -> None:
    play = Outages(0, 1, seconds=1.0, rooms=1, folder=tmp_path)
    with play._redis as redis:
        redis.cli("SET", "captions:room:r:log", "what was said")
        redis.cli("SET", "captions:room:r:lease", "one 1", "PX", "60000")
        await play._look_for_endless_keys()
    assert play.endless == {"captions:room:r:log"}
    assert not play._row().clean
