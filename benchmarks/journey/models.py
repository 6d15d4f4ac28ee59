"""A model that a worker process calls and waits for: CTranslate2, or ``vllm.LLM``.

Owns: loading, and texts to translations, several together. Blocks. Must not know: queues, requests.

It is the model of the other architectures: same directory, same precision, same prompt, same limit
of the output, and in all the same number of threads.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from benchmarks.journey.plan import SOURCE, TARGET, Made, Plan
from gateway.engines import profiles
from gateway.engines.base import model_files
from gateway.engines.base.tokenizer import Vocabulary
from gateway.engines.ctranslate2 import model as checkpoint
from gateway.engines.profiles import Profile
from gateway.engines.wrappers.piecewise import WHOLE_TEXT_WEIGHT, split_text
from gateway.errors import EngineFault, GatewayError
from gateway.job import Chunk, Job

log = logging.getLogger("benchmarks.journey")

TRIAL = "The figures of the last quarter are better than we thought in spring."
"""Text for finding the best number of threads for one text."""


class Model(Protocol):
    """A loaded model."""

    def translate(self, texts: Sequence[str]) -> list[Made]:
        """Translate together; returns when the longest is done. Raises `EngineFault`."""


def load(plan: Plan) -> Model:
    """Return the model of a worker. Raises `EngineFault`."""
    return Offline(plan) if plan.backend == "vllm" else Embedded(plan)


def prompted(plan: Plan) -> Profile:
    """Return the form of the model's prompts.

    Raises `profiles.UnknownProfile`, `OSError`, `ValueError`.
    """
    if plan.profile:
        return profiles.load(plan.profile)
    path = Path(plan.model)
    return profiles.match(path.resolve().name, _config(path))


class Sink:
    """A collector of one translation; see `gateway.engines.ctranslate2.decode_job.DecodeSink`."""

    def __init__(self, text: str) -> None:
        self.job = Job(id="", text=text, source=SOURCE, target=TARGET)
        self.made = ""
        self.tokens = 0
        self.fault: GatewayError | None = None

    def add(self, chunk: Chunk) -> bool:
        self.made += chunk.text
        self.tokens += chunk.tokens
        return False

    def end(
        self,
        rest: str = "",
        fault: GatewayError | None = None,
        *,
        unsure: bool = False,
        p: float = 1.0,
    ) -> None:
        self.made += rest
        self.fault = self.fault or fault


class Embedded:
    """A CTranslate2 model with the threads of the machine, or of this worker's part of it.

    One text gets one thread or all of them, whichever a trial shows to be faster (for small models
    one often is). A batch is sorted by length and divided among the threads.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._profile = prompted(plan)
        self._parts = 1
        threads = max(1, plan.cpus // plan.workers)
        if plan.batch > 1:
            self._parts = threads
            self._model = self._load(threads, 1)
        else:
            self._model = self._load(1, 1)
            if threads > 1:
                one, alone = self._model, self._timed()
                self._model = self._load(1, threads)
                if self._timed() > alone:
                    self._model, threads = one, 1
        self._pool = ThreadPoolExecutor(self._parts)
        log.info("a worker translates with %d threads", threads)

    def translate(self, texts: Sequence[str]) -> list[Made]:
        """Translate long texts in pieces, one after the other, as the gateway does."""
        whole = [Made("", 0) for _ in texts]
        for pieces in zip_longest(*(self._pieces(text) for text in texts)):
            sinks = {n: Sink(piece) for n, piece in enumerate(pieces) if piece is not None}
            self._decode(sorted(sinks.values(), key=lambda sink: len(sink.job.text)))
            for n, sink in sinks.items():
                if sink.fault is not None:
                    raise sink.fault
                text = f"{whole[n].text} {sink.made}".strip()
                whole[n] = Made(text, whole[n].tokens + sink.tokens)
        return whole

    def _decode(self, sinks: Sequence[Sink]) -> None:
        if self._parts == 1 or len(sinks) == 1:
            self._model.decode(sinks, self._profile)
            return
        size = math.ceil(len(sinks) / self._parts)
        parts = [sinks[n : n + size] for n in range(0, len(sinks), size)]
        for _ in self._pool.map(lambda part: self._model.decode(part, self._profile), parts):
            pass

    def _pieces(self, text: str) -> list[str]:
        return (
            [piece for piece, _ in split_text(text, WHOLE_TEXT_WEIGHT, SOURCE)]
            if self._profile.kind == "ids"
            else [text]
        )

    def _load(self, inter: int, intra: int) -> checkpoint.TranslationModel:
        options = {"compute_type": "int8", "inter_threads": inter, "intra_threads": intra}
        return checkpoint.load(Path(self._plan.model), model_files.user_cache(), options)

    def _timed(self) -> float:
        """Return the seconds of one short text: the least of three, after one to warm up."""
        times = []
        for _ in range(4):
            begun = time.perf_counter()
            self.translate([TRIAL])
            times.append(time.perf_counter() - begun)
        return min(times[1:])


class Prompter:
    """Texts in vLLM's form, the same in each architecture."""

    def __init__(self, plan: Plan) -> None:
        self.profile = prompted(plan)
        self._plan = plan
        self.vocabulary = Vocabulary.load(Path(plan.model))
        most = _config(Path(plan.model)).get("max_position_embeddings", self.profile.max_input)
        self.room = plan.max_model_len or min(self.profile.max_input, most)
        found = (self.vocabulary.control(token) for token in self.profile.stop)
        self.stop = [id for id in found if id is not None]

    def ids(self, text: str) -> tuple[list[int], dict[str, Any]]:
        """Return the prompt and vLLM's sampling parameters. Raises `EngineFault`."""
        prompt = self.profile.prompt(Job(id="", text=text, source=SOURCE, target=TARGET))
        if not prompt.parts:
            raise EngineFault(f"The profile {self.profile.name} leaves the prompt to a server.")
        ids = self.vocabulary.encode(prompt)
        limit = min(self.room - len(ids), self.profile.max_tokens(self.vocabulary.count(text)))
        return ids, {
            "temperature": 0.0,
            "max_tokens": limit,
            "stop_token_ids": self.stop,
            "ignore_eos": self._plan.dummy,
        }

    def engine(self) -> dict[str, Any]:
        """Return vLLM's engine arguments, with a model that it can read: its weights may be int8.

        Its processes must be spawned, as those of the gateway's engine are.
        """
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        model = model_files.widened(Path(self._plan.model), model_files.user_cache())
        return {"max_model_len": self.room} | self._plan.engine() | {"model": str(model)}

    def pieces(self, text: str) -> list[str]:
        """Return the pieces that are translated together; see `Embedded.translate`."""
        return (
            [piece for piece, _ in split_text(text, WHOLE_TEXT_WEIGHT, SOURCE)]
            if self.profile.kind == "ids"
            else [text]
        )


class Offline:
    """``vllm.LLM``: the engine for scripts, which the original called once for each request."""

    def __init__(self, plan: Plan) -> None:
        from vllm import LLM, SamplingParams
        from vllm.inputs import tokens_input

        self._prompter = Prompter(plan)
        self._input = tokens_input
        self._params = SamplingParams
        self._llm = LLM(**self._prompter.engine())

    def translate(self, texts: Sequence[str]) -> list[Made]:
        whole = [Made("", 0) for _ in texts]
        for pieces in zip_longest(*(self._prompter.pieces(text) for text in texts)):
            there = {n: piece for n, piece in enumerate(pieces) if piece is not None}
            asked = [self._prompter.ids(piece) for piece in there.values()]
            outputs = self._llm.generate(
                [self._input(ids) for ids, _ in asked],
                [self._params(**params) for _, params in asked],
                use_tqdm=False,
            )
            for n, output in zip(there, outputs, strict=True):
                (made,) = output.outputs
                text = f"{whole[n].text} {made.text}".strip()
                whole[n] = Made(text, whole[n].tokens + len(made.token_ids))
        return whole


def _config(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "config.json").read_bytes())
    return found
