"""The churn benchmark on a real gateway, with a few connections of each kind."""

from __future__ import annotations

import pytest

from benchmarks import churn
from tests.support import speech_audio


def test_clients_of_every_kind_come_and_go(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bare: None
) -> None:
    speech_audio.recording("beckett")
    monkeypatch.setattr(churn, "WARM", len(churn.KINDS))
    monkeypatch.setattr(churn, "SETTLE_S", 0.0)
    churn.main(["--connections", str(2 * len(churn.KINDS))])
    shown = capsys.readouterr().out
    assert "failed               0" in shown, shown
    assert "threads" in shown
