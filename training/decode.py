"""Greedy translation of many texts at once, on the machine that trains.

Texts of one length in tokens are decoded together, so that nothing is padded. Those that have
ended leave the batch every few steps, so that the longest translation does not cost as much as all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training import export
from training.model import POSITIONS, Llama
from training.pairs import LOOPS
from training.prepare import TOKENIZER
from training.prompt import END, Text, prompted

BATCH = 16_384
ROOM = 1 << 20
"""Tokens that the cache of a batch has room for: 24 GB in half precision for the shipped shape."""

EVERY = 4
"""Steps after which those that have ended leave the batch, if they are a quarter of it."""

LONG = 12
"""Tokens of a translation from which on it is checked for loops."""


class Torch:
    """A translator with a model that is in memory."""

    def __init__(self, model: Llama, tokenizer: Path) -> None:
        # cuDNN makes a plan for each new shape, and here every step has one: 400 sentences took an
        # H200 24 s with it, and 8,000 take 5 s without.
        torch.backends.cuda.enable_cudnn_sdp(False)
        # Half the memory to read for a token is half the time.
        self.model = (model.half() if next(model.parameters()).is_cuda else model).eval()
        self.tokenizer = Tokenizer.from_file(str(tokenizer))

    def __call__(self, texts: Sequence[Text]) -> list[list[int]]:
        """Return the token ids of each translation, with the forced ones at its beginning."""
        return [ids for ids, _ in self.scored(texts)]

    def scored(self, texts: Sequence[Text], *, loops: bool = True) -> list[tuple[list[int], float]]:
        """Return the same with the mean log probability of the chosen tokens.

        Without ``loops``, a translation that begins to repeat itself is left where it is.
        """
        prompts = prompted(texts, self.tokenizer)
        found: list[tuple[list[int], float]] = [([], 0.0) for _ in texts]
        for which, most in _groups(prompts):
            made = self._greedy([prompts[n] for n in which], most, loops)
            for n, (ids, score) in zip(which, made, strict=True):
                found[n] = ([*texts[n].begun, *ids], score)
        return found

    def text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids))

    def texts(self, many: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of many translations, decoded on all cores."""
        return self.tokenizer.decode_batch([list(ids) for ids in many])

    @torch.inference_mode()
    def _greedy(
        self, prompts: list[list[int]], most: int, loops: bool
    ) -> list[tuple[list[int], float]]:
        weight = next(self.model.parameters())
        shape = self.model.shape
        tokens = torch.tensor(prompts, device=weight.device)
        count, length = tokens.shape
        size = (2, count, shape.heads, length + most, shape.head)
        cache = [
            torch.empty(size, device=weight.device, dtype=weight.dtype) for _ in range(shape.layers)
        ]
        made = torch.full((count, most), END, device=weight.device)
        sums = torch.zeros(count, device=weight.device)
        # Of the rows that are still in the batch: which they are, and whether they have ended.
        rows = torch.arange(count, device=weight.device)
        done = torch.zeros(count, dtype=torch.bool, device=weight.device)
        start = 0
        for step in range(most):
            logits = self.model.logits(self.model.cached(tokens, start, cache))
            start += tokens.shape[1]
            top, best = logits.max(-1)
            score = top.float() - logits.float().logsumexp(-1)
            sums[rows] += score.masked_fill(done, 0.0)
            best = best.masked_fill(done, END)
            made[rows, step] = best
            done |= best == END
            tokens = best[:, None]
            if step % EVERY == EVERY - 1:
                if not loops and step + 1 >= LONG:
                    done |= repeating(made[rows, : step + 1])
                left = int((~done).sum())
                if not left:
                    break
                if left <= 0.75 * len(rows):
                    alive = (~done).nonzero()[:, 0]
                    rows, done, tokens = rows[alive], done[alive], tokens[alive]
                    for n, kept in enumerate(cache):
                        cache[n] = kept.index_select(1, alive)
        cut = [row[: row.index(END)] if END in row else row for row in made.tolist()]
        return [(row, s / (len(row) + 1)) for row, s in zip(cut, sums.tolist(), strict=True)]


def _groups(prompts: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], int]]:
    """Yield the prompts that are decoded together, and the most tokens that are added to them."""
    alike = defaultdict(list)
    for n, ids in enumerate(prompts):
        alike[len(ids)].append(n)
    for length, which in sorted(alike.items()):
        most = min(POSITIONS - length, length + length // 2 + 12)
        if most <= 0:
            continue  # no room for a translation
        count = min(BATCH, max(1, ROOM // (length + most)))
        for at in range(0, len(which), count):
            yield which[at : at + count], most


def repeating(made: Tensor) -> Tensor:
    """Return which rows end with the same few tokens three times, see `training.pairs.looped`."""
    found = torch.zeros(len(made), dtype=torch.bool, device=made.device)
    for size in LOOPS:
        if made.shape[1] >= 3 * size:
            last = made[:, -3 * size :].unflatten(1, (3, size))
            found |= (last[:, 1:] == last[:, :1]).all(-1).all(-1)
    return found


def devices() -> list[str]:
    """Return the names of all GPUs that can be used, or that of the CPU."""
    return [f"cuda:{n}" for n in range(torch.cuda.device_count())] or ["cpu"]


def loaded(path: Path, raw: bool = False, device: str = "") -> Torch:
    """Return the model of a directory, or of a checkpoint with its weights rounded as they ship.

    :param device: name of the device that it is put on; the first of `devices` if empty
    """
    device = device or devices()[0]
    if path.is_dir():
        return Torch(export.opened(path).to(device), path / TOKENIZER)
    state = torch.load(path, map_location="cpu", weights_only=True)
    return Torch(export.restored(state, raw).to(device), path.parent / TOKENIZER)
