"""Files that a training run writes while it goes on. PyTorch is installed only with vLLM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from training import prepare
from training.pairs import Pair


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_the_checkpoint_and_the_model_are_written_while_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from training import export, train

    work, model = tmp_path / "work", tmp_path / "model"
    work.mkdir()
    prepare.write(work / prepare.PAIRS, [Pair("tatoeba", "de", "Good morning.", "Guten Morgen.")])
    (work / prepare.OWN).write_text("Yes.\tJa.\tOui.\tSí.\tはい。\t是。\n", "utf-8")
    shipped = Path("gateway/model") / prepare.TOKENIZER
    (work / prepare.TOKENIZER).write_bytes(shipped.read_bytes())
    shape = "--width 32 --layers 1 --heads 2 --inner 48 --rows 2 --workers 1".split()
    options = [*shape, "--steps", "3", "--every", "0", "--export", str(model)]
    monkeypatch.setattr(sys, "argv", ["train", str(work), *options])
    train.main()
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[0] == "{"]
    assert [one["step"] for one in said] == [1, 2, 3, 3]
    assert (work / "checkpoint.pt").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"work", "model"}

    # Another machine goes on with the weights alone.
    written = export.opened(model).state_dict()
    monkeypatch.setattr(sys, "argv", ["train", str(work), *options, "--init", str(model)])
    train.main()
    assert export.opened(model).state_dict().keys() == written.keys()
