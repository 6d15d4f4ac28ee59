"""The published figures of the original service, and their differences from this measurement.

Owns: those numbers, what each stands for, what differs here. Must not know: what was measured here.

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

DIFFERS = (
    "Model, precision, GPU and texts were theirs and are not known in full, so only ratios can be"
    " compared, and those with care.",
    "Their uniform and variable texts had different means; here both have the same, so that (a)"
    " does about as well on both.",
    "Their service was FastAPI; here (a) to (e) are Starlette, on which FastAPI stands, without"
    " what FastAPI adds to it. That is in their favour.",
    "Their vLLM is of 2025. What made (d) fall to 3.5 on variable lengths is not told in full. Of"
    " 25 requests at once 64 places never fill: here (d) makes all of them together and (e) 16 at"
    " a time, so (d) need not be the slower one.",
    "(f) streams every token over a WebSocket, and the others answer once: its first text is really"
    " the first, theirs is the whole.",
)

EMBEDDED = (
    "On a CPU there is no AsyncLLMEngine. (d) and (e) are the engine of this gateway in the process"
    " of the web server, given at most 64 and 16 requests at once: continuous in that whoever is"
    " done leaves at once, and that a free thread takes what waits, up to 16 at a time.",
    "Two workers on a CPU are two devices that have half of the threads each, and not two that take"
    " turns: (b) gains here what it lost on the GPU.",
    "A worker of (a) has all threads for its one text, if that is faster than one thread: that is"
    " tried at its start.",
)
