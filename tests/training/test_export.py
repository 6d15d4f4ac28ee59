"""The model that is written from checkpoints. PyTorch is there only where vLLM is."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from training import prepare

if TYPE_CHECKING:
    from training.model import Shape

pytestmark = pytest.mark.vllm

Export = Callable[..., dict[str, Any]]
"""Writes the model of checkpoints in the folder of the test, by name, and returns its weights."""


@pytest.fixture
def shape() -> Shape:
    from training.model import Shape

    return Shape(vocabulary=64, width=32, layers=1, heads=2, inner=48)


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Export:
    from training import export

    (tmp_path / prepare.TOKENIZER).write_text("{}")

    def run(*checkpoints: str) -> dict[str, Any]:
        target = tmp_path / "made"
        arguments = ["export", str(tmp_path), str(target), "--checkpoint", *checkpoints]
        monkeypatch.setattr(sys, "argv", arguments)
        export.main()
        return dict(export.opened(target).state_dict())

    return run


def test_of_several_checkpoints_the_mean_of_the_weights_is_written(
    tmp_path: Path, shape: Shape, export: Export
) -> None:
    import torch

    from training.model import Llama

    states = [Llama(shape).state_dict() for _ in range(2)]
    for name, state in zip(("a.pt", "b.pt"), states, strict=True):
        torch.save({"shape": dataclasses.asdict(shape), "average": state}, tmp_path / name)
    for name, weight in export("a.pt", "b.pt").items():
        mean = (states[0][name] + states[1][name]) / 2
        step = mean.abs().amax(-1, keepdim=True) / 127
        assert ((weight - mean).abs() <= step).all(), name


def test_a_model_directory_stands_for_a_checkpoint_of_its_weights(
    tmp_path: Path, shape: Shape, export: Export
) -> None:
    import torch

    from training.export import opened, write
    from training.model import Llama

    model = tmp_path / "model"
    model.mkdir()
    write(Llama(shape).state_dict(), shape, model)
    made = export("model", "model")
    for name, weight in opened(model).state_dict().items():
        torch.testing.assert_close(made[name], weight)
