"""The fairness benchmark on a real gateway, with a small flood."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.speech import fairness
from tests.support import speech_audio


async def test_a_flood_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bare: None
) -> None:
    speech_audio.recording("two_cities")
    await fairness.run([2], ["64 KiB"], 2.0, tmp_path)
    figures = json.loads(capsys.readouterr().out)
    assert figures["flood"] == "64 KiB" and figures["texts"] and not figures["errors"], figures
