"""The cross entropy by which learnt and held-out pairs are compared. PyTorch is there with vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from training import prepare
from training.prompt import Text


@pytest.mark.vllm
def test_the_loss_of_a_pair_is_the_same_alone_and_beside_a_longer_one(tmp_path: Path) -> None:
    import torch

    from training.decode import Torch
    from training.loss import Reference, losses
    from training.model import Llama, Shape

    torch.manual_seed(0)
    prepare.cut(iter(["Guten Tag"]), 300).save(str(tmp_path / prepare.TOKENIZER))
    shape = Shape(vocabulary=300, width=32, layers=1, heads=2, inner=48)
    engine = Torch(Llama(shape), tmp_path / prepare.TOKENIZER)
    short = Reference(Text("Good day.", "en", "de"), "Guten Tag.")
    long = Reference(Text("Good day to all of you.", "en", "fr"), "Bonjour à tous, et merci.")
    alone, beside = losses(engine, [short]), losses(engine, [long, short])
    assert beside.keys() == {"en-de", "en-fr"}
    assert beside["en-de"] == pytest.approx(alone["en-de"], rel=1e-4)
    # Of a model that knows nothing, each of 300 tokens is about as probable as another.
    assert alone["en-de"] == pytest.approx(5.7, abs=0.3)
