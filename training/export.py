"""A checkpoint written as the model that ships: Hugging Face's layout, 8-bit weights with scales.

    python -m training.export WORK TARGET [--checkpoint checkpoint.pt ...] [--raw]

Of several checkpoints, runs with other seeds from one beginning, the mean of the weights is written
(https://arxiv.org/abs/2203.05482). A model directory stands for a checkpoint of its weights: the
mean of a run and of the model that it began with can be better than either.

Each matrix is int8 with one float32 scale a row beside it (``<name>_scale``), which is the grid
that CTranslate2 rounds to anyway; vectors are float16.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.model import Llama, Shape
from training.prepare import TOKENIZER


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--checkpoint", nargs="+", default=["checkpoint.pt"])
    parser.add_argument("--raw", action="store_true", help="not the average of the weights")
    options = parser.parse_args()
    states = [loaded(options.work / name) for name in options.checkpoint]
    options.target.mkdir(parents=True, exist_ok=True)
    tensors = mean([weights(state, options.raw) for state in states])
    write(tensors, Shape(**states[0]["shape"]), options.target)
    shutil.copyfile(options.work / TOKENIZER, options.target / TOKENIZER)


def loaded(path: Path) -> dict[str, Any]:
    """Return a checkpoint, or the weights of a model directory as one."""
    if not path.is_dir():
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    model = opened(path)
    state = model.state_dict()
    return {"model": state, "average": state, "shape": dataclasses.asdict(model.shape)}


def weights(state: Mapping[str, Any], raw: bool = False) -> dict[str, Tensor]:
    return dict(state["model"] if raw else state["average"])


def mean(each: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each tensor of models of one shape."""
    return {name: torch.stack([one[name] for one in each]).mean(0) for name in each[0]}


def restored(state: Mapping[str, Any], raw: bool = False) -> Llama:
    """Return the model of a checkpoint, with its weights rounded as they ship."""
    model = Llama(Shape(**state["shape"]))
    model.load_state_dict(
        {name: _back(*eighth(w)) if w.dim() == 2 else w for name, w in weights(state, raw).items()}
    )
    model.eval()
    return model


def opened(path: Path) -> Llama:
    """Return the model of a directory that `write` made."""
    config = json.loads((path / "config.json").read_text("utf-8"))
    stored = load_file(path / "model.safetensors")
    model = Llama(Shape.of(config))
    model.load_state_dict(
        {
            name: _back(weight, stored[f"{name}_scale"]) if weight.dim() == 2 else weight.float()
            for name, weight in stored.items()
            if not name.endswith("_scale")
        }
    )
    model.eval()
    return model


def write(tensors: Mapping[str, Tensor], shape: Shape, target: Path) -> None:
    stored: dict[str, Tensor] = {}
    for name, weight in tensors.items():
        if weight.dim() == 2:
            stored[name], stored[name + "_scale"] = eighth(weight)
        else:
            stored[name] = weight.half()
    save_file(
        {name: weight.contiguous().cpu() for name, weight in stored.items()},
        target / "model.safetensors",
        metadata={"format": "pt"},
    )
    (target / "config.json").write_text(json.dumps(shape.config(), indent=1) + "\n")
    (target / "generation_config.json").write_text(
        json.dumps({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}, indent=1) + "\n"
    )
    (target / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<s>",
                "eos_token": "</s>",
                "pad_token": "<pad>",
                "model_max_length": shape.config()["max_position_embeddings"],
                "clean_up_tokenization_spaces": False,
            },
            indent=1,
        )
        + "\n"
    )


def eighth(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix in int8, and the scale of each row."""
    scale = weight.float().abs().amax(-1).clamp(min=1e-8) / 127
    return (weight.float() / scale[:, None]).round().to(torch.int8), scale


def _back(matrix: Tensor, scale: Tensor) -> Tensor:
    return matrix.float() * scale[:, None]


if __name__ == "__main__":
    main()
