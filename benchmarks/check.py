"""The shipped model in vLLM, compared with CTranslate2 word for word.

    python -m benchmarks.check
    python -m benchmarks.check --write cases.json  # what CTranslate2 writes, on any machine
    python -m benchmarks.check --cases cases.json  # vLLM, where CTranslate2 is not installed

Weights without training cannot show that an integration writes nonsense, so `benchmarks.gpu` runs
this first. The cases are the lines of a meeting in all directions, texts that grow, and
texts with a forced prefix, 64 at once; then half of 64 jobs are aborted after their first text.
CTranslate2 computes with float32 on the weights that ship, so all texts that differ are near ties
or faults. Prints those, and one line with the shares. Ends with 1 if too few are the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from gateway.engines import profiles
from gateway.engines.base.engine import Engine
from gateway.engines.registry import EMBEDDED
from gateway.errors import EngineFault
from gateway.job import Chunk, Job, Priority
from tests.quality import DIRECTIONS, SETS, captions, lines, texts

SAME = 0.97
"""The least share of cases with the same text, of each kind."""

STREAMS = 64

GROWING = ("en-de", "en-ja")
"""Directions of the texts that grow and have a prefix: words with spaces, and without."""


class Case(msgspec.Struct, frozen=True):
    """One job, and the text that CTranslate2 makes of it."""

    job: Job
    text: str

    @property
    def kind(self) -> str:
        return self.job.id.split()[0]


class Report(msgspec.Struct):
    """The result of a check."""

    same: dict[str, float]
    """Share of cases with the same text, by kind."""
    differ: list[tuple[str, str, str]]
    """Id, text of CTranslate2, text of the engine."""
    late: int
    """Chunks that came after an abort, and requests that were left."""

    @property
    def passed(self) -> bool:
        return min(self.same.values()) >= SAME and not self.late


async def cases(most: int | None = None) -> list[Case]:
    """Return the cases of ``most`` lines in each direction; None: all, minutes of work on a CPU."""
    from gateway.engines.ctranslate2.engine import CTranslate2Engine

    async def made(jobs: Sequence[Job]) -> list[Case]:
        profile = profiles.load("embedded")
        engine = CTranslate2Engine(EMBEDDED, profile, compute_type="float32")
        found = await captions(engine, jobs)
        return [Case(job, found[job.id]) for job in jobs]

    whole = [
        Job(id=f"whole {direction} {n}", text=text, source=source, target=target)
        for direction in DIRECTIONS
        for source, target in [direction.split("-")]
        for n, text in enumerate(lines(SETS[0], source)[:most])
    ]
    found = await made(whole)
    return found + await made([job for case in found for job in _growing(case)])


def _growing(case: Case) -> Iterator[Job]:
    """Yield the beginning of a text as one that grows, and the text with half of its translation
    as a forced prefix.
    """
    _, direction, number = case.job.id.split()
    if direction not in GROWING:
        return
    words, rest = case.job.text.split(" "), f"{direction} {number}"
    start = " ".join(words[: max(1, 2 * len(words) // 3)])
    growing = {"id": f"growing {rest}", "partial": True, "priority": Priority.PARTIAL}
    yield msgspec.structs.replace(case.job, text=start, **growing)
    half = case.text[: len(case.text) // 2]
    prefix = half if case.job.target == "ja" else half.rpartition(" ")[0]
    yield msgspec.structs.replace(case.job, id=f"prefixed {rest}", prefix=prefix)


class Stopped:
    """A sink that aborts its job at the first text."""

    def __init__(self, engine: Engine, job: Job) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.chunks = 0
        self._engine, self._job = engine, job
        engine.submit(job, self)

    def chunk(self, chunk: Chunk) -> None:
        self.chunks += 1
        self._engine.abort(self._job.id)

    def end(self, fault: EngineFault | None) -> None:
        self.done.set_result(None)


async def check(engine: Engine, known: Sequence[Case]) -> Report:
    """Start an engine, compare its texts with the known ones, and close it."""
    expected = {case.job.id: case.text for case in known}
    jobs = {case.job.id: case.job for case in known}
    await engine.start()
    try:
        made = await texts(engine, [*jobs.values()])
        some = list(jobs.values())[:STREAMS]
        aborted = [
            Stopped(engine, msgspec.structs.replace(job, id=f"aborted {job.id}"))
            for job in some[::2]
        ]
        beside = [msgspec.structs.replace(job, id=f"beside {job.id}") for job in some[1::2]]
        made |= await texts(engine, beside)
        expected |= {job.id: expected[job.id.removeprefix("beside ")] for job in beside}
        await asyncio.gather(*(sink.done for sink in aborted))
        late = sum(max(0, sink.chunks - 1) for sink in aborted) + engine.unfinished
    finally:
        await engine.aclose()
    kinds: dict[str, list[bool]] = {}
    for id, text in expected.items():
        kinds.setdefault(id.split()[0], []).append(made[id] == text)
    same = {kind: round(sum(found) / len(found), 4) for kind, found in kinds.items()}
    differ = [(id, text, made[id]) for id, text in expected.items() if made[id] != text]
    return Report(same, differ, late)


def main() -> None:
    from gateway.engines.vllm.engine import VllmEngine, VllmOptions

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="a file for the cases; vLLM is not run")
    parser.add_argument("--cases", type=Path, help="such a file: CTranslate2 is not run")
    parser.add_argument("--share", type=float, default=0.5, help="of the GPU's memory")
    args = parser.parse_args()
    if args.cases:
        known = msgspec.json.decode(args.cases.read_bytes(), type=list[Case])
    else:
        known = asyncio.run(cases())
    if args.write:
        args.write.write_bytes(msgspec.json.encode(known))
        return
    options = VllmOptions(max_num_seqs=STREAMS, gpu_memory_utilization=args.share)
    engine = VllmEngine(EMBEDDED, profiles.load("embedded"), options)
    report = asyncio.run(check(engine, known))
    for id, text, other in report.differ:
        print(f"{id}\n  {text}\n  {other}")
    counts = {"cases": len(known), "same": report.same, "differ": len(report.differ)}
    print(json.dumps({"check": "passed" if report.passed else "FAILED"} | counts), flush=True)
    sys.exit(not report.passed)


if __name__ == "__main__":
    main()
