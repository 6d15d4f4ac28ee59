"""The architectures, and everything that they have in common.

Owns: the names, the plan that every process of a run gets, and the profile for random weights. Must
not know: how an architecture works, sockets, clocks.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Letter = Literal["a", "b", "c", "d", "e", "f"]

ARCHITECTURES: dict[str, str] = {
    "a": "one worker process behind queues",
    "b": "two workers sharing the device",
    "c": "static batches of 16, 50 ms wait",
    "d": "AsyncLLMEngine, max_num_seqs 64",
    "e": "AsyncLLMEngine, 16 and 8192 tokens",
    "f": "this gateway",
}

STAND_INS = {"d": "in-process engine, 64 places", "e": "in-process engine, 16 places"}
"""Nearest equivalents of (d) and (e) if there is no AsyncLLMEngine: on a CPU."""

TASKS = 300
"""Requests that the queue of (a), (b) and (c) holds, as in the original; a further one gets a 503.
"""

BATCH, WAIT_S = 16, 0.05
"""Requests of a batch of (c), and seconds that the first of them waits for others."""

WORKERS = {"a": 1, "b": 2, "c": 1}

PLACES = {"d": 64, "e": 16, "f": 16}
"""Sequences in a batch: ``max_num_seqs``."""

SOURCE, TARGET = "en", "de"

_INVENTED = """
title = "Invented weights: the text is the prompt, and the output is as long as it, less {less}"
kind = "raw"
licence = "none"
languages = ["en", "de"]
stop = []
max_input = 2048

[output]
factor = 1.0
extra = -{less}
cap = 256

[models]
names = ['no-model-is-called-so']

[[template]]
text = "{{text}}"
"""


def invented(less: int = 0) -> str:
    """Return the profile, as TOML, of a model with random weights.

    Such a model never ends by itself. The profile makes all architectures produce the same number
    of tokens for the same text.

    :param less: tokens by which an output is shorter than its text
    """
    return _INVENTED.format(less=less)


def name(letter: str, backend: str) -> str:
    """Return the name of an architecture with this backend."""
    there = ARCHITECTURES[letter]
    return STAND_INS.get(letter, there) if backend == "embedded" else there


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one architecture, for its process.

    ``model`` is a directory; ``profile`` a name or file, None: found by the model. ``cpus`` are the
    threads that a CPU model has in all, however they are divided. ``share`` is how much of the
    GPU's memory all workers together may take. ``extra`` are further engine arguments by vLLM's own
    names.
    """

    architecture: str
    backend: Literal["embedded", "vllm"]
    model: str
    profile: str | None = None
    load_format: str = "auto"
    dtype: str = "auto"
    max_model_len: int | None = None
    share: float = 0.85
    cpus: int = 1
    extra: dict[str, Any] = {}

    @property
    def workers(self) -> int:
        return WORKERS[self.architecture]

    @property
    def batch(self) -> int:
        """Return the requests that a worker takes at once."""
        return BATCH if self.architecture == "c" else 1

    @property
    def dummy(self) -> bool:
        return self.load_format == "dummy"

    def engine(self) -> dict[str, Any]:
        """Return vLLM's arguments: equal for all, except for what an architecture is about.

        A worker that makes one sequence at a time needs no place for more, and a pair of workers
        halves the memory.
        """
        found: dict[str, Any] = {
            "model": self.model,
            "dtype": self.dtype,
            "load_format": self.load_format,
            "gpu_memory_utilization": self.share / WORKERS.get(self.architecture, 1),
            "max_num_seqs": PLACES.get(self.architecture, self.batch),
        }
        if self.architecture == "e":
            found["max_num_batched_tokens"] = 8192
        if self.max_model_len is not None:
            found["max_model_len"] = self.max_model_len
        return found | self.extra


class Made(msgspec.Struct, frozen=True):
    """One translation of a model, and how many tokens it took."""

    text: str
    tokens: int


class Task(msgspec.Struct):
    """A request as the manager's dict holds it, for the web server and for the workers.

    ``begun`` and ``ended`` are seconds of the machine's monotonic clock, which all its processes
    share: when a worker began with it, and when the model was done.
    """

    text: str
    begun: float = 0.0
    ended: float = 0.0
    made: str = ""
    tokens: int = 0
    error: str | None = None


class Answer(msgspec.Struct):
    """The answer of (a) to (e): the translation, and seconds until the model began, and in it."""

    text: str
    tokens: int
    queue: float
    engine: float
