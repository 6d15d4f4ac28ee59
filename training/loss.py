"""The cross entropy of a model on pairs it has learnt and on pairs it has not.

    python -m training.loss WORK MODEL ... --data DATA [--count 1000]

For each ``MODEL``, a model directory or a checkpoint in ``WORK``, and each direction, it prints
nats a token of the translation: on pairs drawn from those in ``WORK``, and on the held-out sets of
``DATA/dev``. A model that is far better on the first than on the second remembers sentences.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn import functional as F

from training import decode, evaluate, prepare
from training.prompt import END, Text, prompted

BATCH = 64
LEARNT = "tatoeba"
"""The corpus that learnt pairs are drawn from: talk, as the held-out sets are."""


class Reference(NamedTuple):
    """A text and the translation that it should have."""

    text: Text
    target: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1000, help="learnt pairs a direction")
    options = parser.parse_args()
    sets = {"learnt": learnt(options.work, options.count), "held out": held_out(options.data)}
    for name in options.models:
        model = decode.loaded(options.work / name)
        for kind, references in sets.items():
            found = losses(model, references)
            each = " ".join(f"{direction} {loss:.3f}" for direction, loss in found.items())
            print(f"{name} {kind}: mean {sum(found.values()) / len(found):.4f}; {each}", flush=True)


def learnt(work: Path, count: int) -> list[Reference]:
    """Return ``count`` pairs of each direction that training has seen."""
    rows = [pair for pair in prepare.read(work) if pair.corpus == LEARNT]
    random.Random(0).shuffle(rows)
    drawn: dict[str, list[Reference]] = defaultdict(list)
    for pair in rows:
        some = drawn[pair.language]
        if len(some) < 2 * count:
            some.append(Reference(Text(pair.english, "en", pair.language), pair.other))
            some.append(Reference(Text(pair.other, pair.language, "en"), pair.english))
    return [one for some in drawn.values() for one in some]


def held_out(data: Path) -> list[Reference]:
    """Return the pairs of the held-out sets as people write them."""
    return [
        Reference(text, reference)
        for test in evaluate.held(data)
        if not test.spoken
        for text, reference in zip(test.texts, test.references, strict=True)
    ]


def losses(engine: decode.Torch, references: Sequence[Reference]) -> Mapping[str, float]:
    """Return for each direction the mean negative log probability of a token, in nats."""
    model, tokenizer = engine.model, engine.tokenizer
    device = next(model.parameters()).device
    prompts = prompted([one.text for one in references], tokenizer)
    targets = tokenizer.encode_batch([one.target for one in references], add_special_tokens=False)
    sums: dict[str, float] = defaultdict(float)
    tokens: dict[str, int] = defaultdict(int)
    rows = [
        (f"{one.text.source}-{one.text.target}", prompt, [*target.ids, END])
        for one, prompt, target in zip(references, prompts, targets, strict=True)
    ]
    rows.sort(key=lambda row: len(row[1]) + len(row[2]))
    for some in _batches(rows):
        length = max(len(prompt) + len(target) for _, prompt, target in some)
        ids = torch.zeros(len(some), length, dtype=torch.long)
        for n, (_, prompt, target) in enumerate(some):
            ids[n, : len(prompt) + len(target)] = torch.tensor([*prompt, *target])
        ids = ids.to(device)
        # The padding is behind the targets, where no target sees it.
        mask = torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]
        places = torch.arange(length, device=device)[None].expand_as(ids)
        with torch.inference_mode():
            logits = model.logits(model(ids, places, mask)).float()
        for n, (direction, prompt, target) in enumerate(some):
            end = len(prompt) + len(target)
            wanted = ids[n, len(prompt) : end]
            given = logits[n, len(prompt) - 1 : end - 1]
            sums[direction] += F.cross_entropy(given, wanted, reduction="sum").item()
            tokens[direction] += len(target)
    return {direction: sums[direction] / tokens[direction] for direction in sorted(sums)}


Row = tuple[str, list[int], list[int]]
"""A direction, a prompt, and the target, as ids."""


def _batches(rows: Sequence[Row]) -> Iterable[Sequence[Row]]:
    """Yield rows of about one length. Longer ones than there are positions for are left out."""
    fitting = [row for row in rows if len(row[1]) + len(row[2]) <= 512]
    for at in range(0, len(fitting), BATCH):
        yield fitting[at : at + BATCH]


if __name__ == "__main__":
    main()
