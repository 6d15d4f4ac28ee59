"""Muon for the matrices, AdamW for the rest.

Muon (https://kellerjordan.github.io/posts/muon/) makes the momentum of a matrix orthogonal before
it is applied. The matrices of one shape are treated as a batch, which is what makes it cheap here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor


class Muon(torch.optim.Optimizer):
    def __init__(
        self, matrices: Iterable[Tensor], lr: float, momentum: float = 0.95, decay: float = 0.1
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            alike = defaultdict(list)
            for weight in group["params"]:
                alike[weight.shape].append(weight)
            for weights in alike.values():
                self._apply(weights, group["lr"], group["momentum"], group["decay"])

    def _apply(self, weights: list[Tensor], lr: float, momentum: float, decay: float) -> None:
        gradients = [weight.grad for weight in weights]
        kept = []
        for weight in weights:
            state = self.state[weight]
            if not state:
                state["momentum"] = torch.zeros_like(weight)
            kept.append(state["momentum"])
        torch._foreach_lerp_(kept, gradients, 1 - momentum)
        ahead = torch._foreach_lerp(gradients, kept, momentum)  # Nesterov
        updates = orthogonal(torch.stack(ahead))
        rows, columns = weights[0].shape
        # As large as AdamW's updates are (https://arxiv.org/abs/2502.16982).
        scale = 0.2 * max(rows, columns) ** 0.5
        torch._foreach_mul_(weights, 1 - lr * decay)
        torch._foreach_add_(weights, list(updates.to(weights[0].dtype)), alpha=-lr * scale)


@torch.compile(dynamic=False)
def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """Return approximately the nearest orthogonal matrices (Newton-Schulz iteration)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        y = x @ x.mT
        x = a * x + (b * y + c * (y @ y)) @ x
    return x.mT if tall else x
