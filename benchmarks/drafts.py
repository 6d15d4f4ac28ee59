"""CPU time of updates with and without a check of the draft, by the number of jobs in a batch.

    python -m benchmarks.drafts flores-devtest.en-de.tsv [--jobs 1,2,4,8,16] [--updates 48]

An update is a text of at least 14 words without its last three words, whose translation without its
own last three words is known. ``plain`` decodes it whole; ``forced`` begins with the translation
that is known, without its last ten words, which is what a batch that is not checked does;
``checked`` has the rest as a draft with the default bias as well, and ``needed`` ends where readers
are shown no more, as its draft did. Each batch is decoded with each in turn, in one thread.

Prints CPU milliseconds and decoded tokens of an update for each, and the share of ``plain`` that
``needed`` takes. Figures of different runs cannot be compared, shares can.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from caption_tools.replay.play import load
from gateway.core.streaming.length_ratios import LengthRatios
from gateway.core.streaming.stability import StabilityRules
from gateway.engines import profiles
from gateway.engines.base import model_files
from gateway.engines.ctranslate2 import model as checkpoint
from gateway.engines.registry import EMBEDDED
from gateway.errors import GatewayError
from gateway.job import Chunk, Job
from gateway.text import word_units

KEPT = StabilityRules()
STEP = 3
"""Words between two updates; the default of ``pace_step``."""


class Output:
    """The output of one job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.text = job.prefix
        self.tokens = 0

    def add(self, chunk: Chunk) -> bool:
        self.text += chunk.text
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
        assert fault is None, fault
        self.text += rest


def decoded(
    model: checkpoint.TranslationModel, profile: profiles.Profile, jobs: Sequence[Job], size: int
) -> tuple[list[Output], float]:
    """Translate jobs in batches. Return their outputs and the CPU seconds of all."""
    outputs = [Output(job) for job in jobs]
    begun = time.process_time()
    for at in range(0, len(outputs), size):
        model.decode(outputs[at : at + size], profile)
    return outputs, time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path, help="as for gateway replay")
    parser.add_argument("--jobs", default="1,2,4,8,16", help="sizes of batches")
    parser.add_argument("--updates", type=int, default=48)
    args = parser.parse_args()
    options = {"compute_type": "int8", "inter_threads": 1, "intra_threads": 1}
    model = checkpoint.load(EMBEDDED, model_files.user_cache(), options)
    profile = profiles.load("embedded")
    lines = [one for one in load(args.file) if len(one.text.split()) >= 14][: args.updates]
    target = next(iter(lines[0].references))

    def job(text: str, prefix: str = "", draft: str = "") -> Job:
        return Job(
            id="",
            text=text,
            source=lines[0].lang,
            target=target,
            partial=True,
            prefix=prefix,
            draft=draft,
            draft_bias=KEPT.bias,
        )

    def said(text: str, less: int) -> str:
        return " ".join(text.split()[:-less])

    # Jobs of similar length share a batch, as in the engine.
    texts = sorted((said(one.text, STEP) for one in lines), key=len)
    earlier, _ = decoded(model, profile, [job(said(text, STEP)) for text in texts], 16)
    ratios = LengthRatios(KEPT)
    for text, output in zip(texts, earlier, strict=True):
        ratios.learn(lines[0].lang, target, said(text, STEP), output.text)
    jobs, ended = [], []
    for text, output in zip(texts, earlier, strict=True):
        words = word_units.split(output.text, word_units.spaced(target))
        hold = KEPT.hold * (1 if word_units.spaced(target) else KEPT.dense)
        prefix = "".join(words[: max(0, len(words) - hold)])
        jobs.append(job(text, prefix, output.text[len(prefix) :]))
        before, now = (
            ratios.needed(lines[0].lang, target, one, prefix) for one in (said(text, STEP), text)
        )
        ended.append(replace(job(text, prefix, output.text[len(prefix) :][:before]), needed=now))
    ways = {
        "plain": [replace(one, prefix="", draft="") for one in jobs],
        "forced": [replace(one, draft="") for one in jobs],
        "checked": jobs,
        "unchecked": [replace(one, draft="") for one in ended],
        "needed": ended,
    }
    print(f"{len(jobs)} updates, {lines[0].lang}-{target}")
    for size in map(int, args.jobs.split(",")):
        taken: dict[str, float] = {}
        line = f"{size:3} jobs:"
        for name, ones in ways.items():
            outputs, seconds = decoded(model, profile, ones, size)
            taken[name] = seconds
            line += f"  {name} {1000 * seconds / len(ones):.0f} ms"
            line += f" {sum(one.tokens for one in outputs) / len(ones):.1f} tokens,"
        print(f"{line}  needed / plain {taken['needed'] / taken['plain']:.2f}", flush=True)


if __name__ == "__main__":
    main()
