"""The published figures of the original service.

Owns: those numbers, and what each stands for. Must not know: what was measured here. How this
measurement differs is in docs/design/bench.md.

The team told it in two articles of 2025:
https://voiceping.net/en/blog/research-translation-throughput and the one before it, about the
bottleneck. Their service answers HTTP requests with whole translations; the load is 25 requests at
once unless stated otherwise.
"""

from __future__ import annotations

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """Requests a second of one architecture, where they were published."""

    architecture: str
    uniform: float | None
    variable: float | None
    note: str


FIGURES = (
    Figure("a", 2.2, 1.1, "300-450 ms in the model for each; 1.4 s to 11.3 s until the answer"),
    Figure("b", 2.0, None, "two workers took turns on the GPU, and each was slower"),
    Figure(
        "c", 5.9, None, "452 ms -> 171 ms in the model for each; short texts wait for long ones"
    ),
    Figure("d", 15.0, 3.5, "what even lengths promised, and what came of it"),
    Figure("e", None, 10.7, "as many sequences as there were requests"),
    Figure("f", None, None, "in production: 9.0 -> 16.4 requests a second"),
)

UTILISATION = "The GPU was at 93 %, then at 0 %, then at 93 % again; with (e) it was steady."
