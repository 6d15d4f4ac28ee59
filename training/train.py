"""Train the model on one GPU, in stretches if it must be.

    python -m training.train WORK --steps 9000 [--until 600] [--resume]

``WORK`` is what `training.prepare` made; the checkpoint goes there too. ``--until`` ends a stretch
after so many seconds; ``--resume`` goes on where the last one ended, to the same result. The
checkpoint is written every few minutes, so that a machine that is lost takes little with it; with
``--export MODEL``, the weights are then written as a model as well, which ``--init`` can begin with
on another machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training import export
from training.examples import Batch, Mix, Packer, Source
from training.model import Llama, Shape, apart
from training.optimiser import Muon
from training.pairs import WEIGHTS
from training.prepare import TOKENIZER

STEPS = 9000
SMOOTHING = 0.1
WARMUP = 200
PACE = 30
"""Steps over which loss and speed are taken."""

SHOWN = 300
"""Steps after which they are printed."""

PLANNED = 90
"""Steps of a stretch after which speed is taken for ``--minutes``; compiled by then."""

AGAIN = 500
"""Steps after which the number of steps is planned anew: the machine may have other work."""

EVERY = 150.0
"""Seconds after which the checkpoint is written again; to write one takes two."""

AVERAGE = 0.998
"""Decay of the average of weights that is evaluated and shipped."""


def main() -> None:
    began = time.monotonic()
    options = arguments()
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(options.seed)
    run = Run(options)
    if options.resume:
        run.load()
    first = run.step
    kept = time.monotonic()
    with batches(options, run.step) as made:
        for batch in made:
            if run.step >= run.steps or time.monotonic() - began > options.until:
                break
            run.learn(batch)
            done = run.step - first
            if options.minutes and done == PLANNED:
                timed = time.monotonic()
            elif options.minutes and done > PLANNED and done % AGAIN == PLANNED * 2:
                now = time.monotonic()
                run.plan(options.minutes * 60 - (now - began), (now - timed) / (done - PLANNED))
            if time.monotonic() - kept > options.every:
                run.save()
                kept = time.monotonic()
    run.save()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--steps", type=int, help=f"{STEPS}, or those of the run resumed")
    parser.add_argument("--minutes", type=float, help="as many steps as this time allows for")
    parser.add_argument("--until", type=float, default=1e9, help="seconds of this stretch")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument(
        "--every", type=float, default=EVERY, help="seconds after which to write the checkpoint"
    )
    parser.add_argument("--export", type=Path, help="write the weights as a model there as well")
    parser.add_argument("--init", type=Path, help="begin with the weights of a model directory")
    parser.add_argument("--save-as", help="another name for the checkpoint that is written")
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--workers", type=int, default=max(2, (os.cpu_count() or 4) - 3))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--reading", type=float, default=0.0, help="weight of source tokens")
    parser.add_argument("--rdrop", type=float, default=0.0, help="weight of the KL divergence")
    parser.add_argument("--muon", type=float, default=0.0, help="learning rate of Muon; 0: AdamW")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--round-from", type=float, default=0.8, help="share after which to round")
    parser.add_argument("--cool-from", type=float, default=0.0, help="share after which lr falls")
    parser.add_argument("--synthetic", type=float, default=0.0, help="weight of synthetic pairs")
    parser.add_argument("--own", type=float, default=WEIGHTS["own"], help="weight of own sentences")
    for field in dataclasses.fields(Shape):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    for field in dataclasses.fields(Mix):
        parser.add_argument(f"--{field.name}", type=float, default=field.default)
    return parser.parse_args()


class Run:
    """The state of a training run: all that a checkpoint holds."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.step, self.steps = 0, options.steps or STEPS
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.shape = Shape(**{f.name: getattr(options, f.name) for f in dataclasses.fields(Shape)})
        self.model = Llama(self.shape, options.dropout).to(self.device)
        matrices = [
            weight
            for name, weight in self.model.named_parameters()
            if weight.dim() == 2 and "embed" not in name
        ]
        muon = matrices if options.muon else []
        chosen = set(map(id, muon))
        rest = [weight for weight in self.model.parameters() if id(weight) not in chosen]
        decayed = [weight for weight in rest if weight.dim() == 2]
        plain = [weight for weight in rest if weight.dim() != 2]
        adam = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
            lr=options.lr,
            betas=(0.9, 0.98),
            fused=self.device == "cuda",
        )
        self.optimisers: list[torch.optim.Optimizer] = [adam]
        if muon:
            self.optimisers.append(Muon(muon, options.muon))
        self.rates = [[group["lr"] for group in each.param_groups] for each in self.optimisers]
        if options.init:
            self.model.load_state_dict(export.opened(options.init).state_dict())
        self.average = {n: w.detach().clone() for n, w in self.model.named_parameters()}
        self.path = options.work / options.checkpoint
        self.losses: list[Tensor] = []
        self.pace, self.clock = 0.0, time.monotonic()
        blocks = self.device == "cuda"
        self.blocks = blocks
        self._trunk: Any = torch.compile(self.model, dynamic=False) if blocks else self.model
        self._head = torch.compile(self._loss, dynamic=False) if blocks else self._loss
        self._apart = torch.compile(apart, dynamic=False) if blocks else apart

    def plan(self, seconds: float, pace: float) -> None:
        """Set the number of steps by the seconds that are left and that a step takes."""
        self.steps = self.step + int(seconds / pace)
        print(f"planned {self.steps} steps of {pace * 1e3:.0f} ms", flush=True)

    def learn(self, batch: Batch) -> None:
        done = self.step / self.steps
        cool = self.options.cool_from
        rate = min(1.0, (self.step + 1) / WARMUP) * min(1.0, (1 - done) / (1 - cool))
        for optimiser, rates in zip(self.optimisers, self.rates, strict=True):
            for group, full in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = full * rate
        self.model.round(done >= self.options.round_from)
        # Dropout is a function of the step as well, so that a resumed run goes on as it would have.
        torch.manual_seed((self.options.seed << 32) + self.step)

        def there(array: Any) -> Tensor:
            return torch.from_numpy(array.astype("int32")).to(self.device, non_blocking=True)

        tokens, positions, which = map(there, (batch.tokens, batch.positions, batch.examples))
        places, targets = there(batch.places).long(), there(batch.targets).long()
        counts = torch.from_numpy(batch.weights).to(self.device, non_blocking=True)
        if self.options.rdrop:
            tokens, positions, which = (torch.cat((x, x)) for x in (tokens, positions, which))
        mask = self._apart(which, blocks=self.blocks)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            hidden = self._trunk(tokens, positions, mask).flatten(0, 1)
            loss, plain = self._head(hidden, places, targets, counts)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        weights = [weight.detach() for weight in self.model.parameters()]
        keep = min(AVERAGE, self.step / (self.step + 10))
        torch._foreach_lerp_(list(self.average.values()), weights, 1 - keep)
        self.losses.append(plain.detach())
        self.step += 1
        if len(self.losses) == PACE:
            mean = torch.stack(self.losses).mean().item()
            now = time.monotonic()
            first, self.pace = not self.pace, (now - self.clock) / PACE
            self.clock = now
            self.losses.clear()
            if first or self.step % SHOWN < PACE:
                speed = tokens.numel() / self.pace / 1e6
                print(f"{self.step} loss {mean:.3f} {speed:.2f} M tokens/s", flush=True)

    def _loss(
        self, hidden: Tensor, places: Tensor, targets: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the loss to minimise, and the cross entropy of the translations alone."""
        first = self.model.logits(hidden[places]).float().log_softmax(-1)
        loss, plain = smoothed(first, targets, counts)
        if not self.options.rdrop:
            return loss, plain
        half = hidden.shape[0] // 2
        second = self.model.logits(hidden[places + half]).float().log_softmax(-1)
        other, _ = smoothed(second, targets, counts)
        apart = ((first.exp() - second.exp()) * (first - second)).sum(-1)  # KL both ways
        divergence = (apart * counts).sum() / counts.sum() / 4
        return (loss + other) / 2 + self.options.rdrop * divergence, plain

    def save(self) -> None:
        """Write the checkpoint, and the model of ``--export``; a reader never sees half of one."""
        state = {
            "shape": dataclasses.asdict(self.shape),
            "model": self.model.state_dict(),
            "average": self.average,
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "step": self.step,
            "steps": self.steps,
        }
        path = self.path.with_name(self.options.save_as or self.path.name)
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").rename(path)
        if self.options.export:
            made: Path = self.options.export.with_name(self.options.export.name + ".new")
            made.mkdir(parents=True, exist_ok=True)
            export.write(self.average, self.shape, made)
            shutil.copyfile(self.options.work / TOKENIZER, made / TOKENIZER)
            self.options.export.mkdir(exist_ok=True)
            for file in made.iterdir():
                file.replace(self.options.export / file.name)
            made.rmdir()
        told = {"step": self.step, "steps": self.steps, "done": self.step >= self.steps}
        print(json.dumps(told), flush=True)

    def load(self) -> None:
        state = torch.load(self.path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.average = state["average"]
        for optimiser, kept in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(kept)
        self.step, self.steps = state["step"], self.options.steps or state["steps"]


def smoothed(logs: Tensor, targets: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return cross entropy with label smoothing, and without for targets of full weight."""
    right = -logs.gather(-1, targets[:, None])[:, 0]
    flat = -logs.mean(-1)
    loss = (((1 - SMOOTHING) * right + SMOOTHING * flat) * counts).sum() / counts.sum()
    full = (counts == 1).float()
    return loss, (right * full).sum() / full.sum()


class batches:
    """Batches from ``step`` on, made by processes of their own, a bounded number ahead."""

    AHEAD = 64
    PATIENCE = 180.0
    """Seconds after which a batch that does not come is an error: its process has died, say."""

    def __init__(self, options: argparse.Namespace, step: int) -> None:
        self._options, self._step = options, step

    def __enter__(self) -> Iterator[Batch]:
        context = multiprocessing.get_context("spawn")
        self._pool = context.Pool(self._options.workers, _start, (vars(self._options),))
        return self._made()

    def __exit__(self, *_: object) -> None:
        self._pool.terminate()
        self._pool.join()

    def _made(self) -> Iterator[Batch]:
        step = self._step
        waiting: deque[Any] = deque()
        while True:
            while len(waiting) < self.AHEAD:
                waiting.append(self._pool.apply_async(_make, (step,)))
                step += 1
            yield waiting.popleft().get(self.PATIENCE)


_options: dict[str, Any]


def _start(options: dict[str, Any]) -> None:
    global _options
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _options = options


@cache
def _packer() -> Packer:
    """Make the packer with the first batch, so that its errors are raised where that is awaited."""
    given = _options
    mix = Mix(**{field.name: given[field.name] for field in dataclasses.fields(Mix)})
    return Packer(
        Source(given["work"], mix, given["synthetic"], given["own"]),
        given["work"] / TOKENIZER,
        given["rows"] // (2 if given["rdrop"] else 1),
        given["seed"],
        given["reading"],
    )


def _make(step: int) -> Batch:
    return _packer().batch(step)


if __name__ == "__main__":
    main()
