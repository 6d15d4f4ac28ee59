"""The model that is written from checkpoints. PyTorch is there only where vLLM is."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from training import prepare


@pytest.mark.vllm
def test_of_several_checkpoints_the_mean_of_the_weights_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from training import export
    from training.model import Llama, Shape

    shape = Shape(vocabulary=64, width=32, layers=1, heads=2, inner=48)
    (tmp_path / prepare.TOKENIZER).write_text("{}")
    states = [Llama(shape).state_dict() for _ in range(2)]
    for name, state in zip(("a.pt", "b.pt"), states, strict=True):
        torch.save({"shape": dataclasses.asdict(shape), "average": state}, tmp_path / name)
    target = tmp_path / "made"
    monkeypatch.setattr(
        sys, "argv", ["export", str(tmp_path), str(target), "--checkpoint", "a.pt", "b.pt"]
    )
    export.main()
    for name, weight in export.opened(target).state_dict().items():
        mean = (states[0][name] + states[1][name]) / 2
        step = mean.abs().amax(-1, keepdim=True) / 127
        assert ((weight - mean).abs() <= step).all(), name


@pytest.mark.vllm
def test_a_model_directory_stands_for_a_checkpoint_of_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from training import export
    from training.model import Llama, Shape

    shape = Shape(vocabulary=64, width=32, layers=1, heads=2, inner=48)
    (tmp_path / prepare.TOKENIZER).write_text("{}")
    (tmp_path / "model").mkdir()
    export.write(Llama(shape).state_dict(), shape, tmp_path / "model")
    target = tmp_path / "made"
    arguments = ["export", str(tmp_path), str(target), "--checkpoint", "model", "model"]
    monkeypatch.setattr(sys, "argv", arguments)
    export.main()
    before, after = (export.opened(tmp_path / name).state_dict() for name in ("model", "made"))
    for name, weight in before.items():
        torch.testing.assert_close(after[name], weight)
