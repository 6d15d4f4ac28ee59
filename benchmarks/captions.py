r"""Caption quality for different numbers: meetings played through the core on a simulated clock.

    python -m benchmarks.captions tests/quality/meeting100.tsv --model DIR \
        --vary hold=0,1,2,3 --vary mask=0,1,2,3 [--product] [--to de,zh] [--json FILE]

A simulated recogniser feeds the real room, policy and captions, and their jobs go to the real
engine with its guards. Only time is simulated: a job's first token comes `--first-ms` after its
start and each further one `--token-ms` later, so that other load on the machine does not matter.
Two runs of one command differ in the last digit.

Each utterance is alone in a room of its own: no queue, no context. The room knows the lengths of
the captions before its own. `--vary` takes the fields of `PartialTiming`, `StabilityRules` and
`SegmentLengths` by name. They vary one at a time, the others at their defaults, unless `--product`
asks for all combinations. Equal jobs are translated once.

Prints a line for each setting: means over the languages, and the ``worst`` or ``least`` of them.
``erasure`` is that of the live view, ``stable`` that of the stable view; ``offline`` is the chrF of
the finals minus that of the final texts translated alone, and ``cut`` the share of it that is due
to cuts: the chrF of the parts translated alone, minus the same; ``alike`` is the percentage of
parts whose final is the translation of their text alone; ``first`` goes from the update that
confirmed the second word to the first text, ``final`` from the final text to its caption;
``tokens`` are those of the engine for each token that the final texts take alone.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec.structs import fields, replace

from benchmarks.simulated_meeting import Costs, Offline, Stage, Translator, alone, played
from caption_tools.replay import report
from caption_tools.replay.analysis import measure
from caption_tools.replay.meeting.script import ScriptUtterance
from caption_tools.replay.play import load
from caption_tools.speech.recogniser import heard
from gateway.core.streaming.options import StreamingOptions
from gateway.engines.ctranslate2 import engine as embedded
from gateway.engines.ctranslate2 import model as checkpoint
from gateway.engines.registry import build
from gateway.settings.catalogue import Settings
from gateway.text import word_units


def varied(flow: StreamingOptions, name: str, text: str) -> StreamingOptions:
    """Return ``flow`` with one number changed. Raises `ValueError`."""
    for stage in ("pace", "stability", "lengths"):
        numbers = getattr(flow, stage)
        for field in fields(numbers):
            if field.name == name:
                value = msgspec.convert(text, field.type, strict=False)
                return replace(flow, **{stage: replace(numbers, **{name: value})})
    raise ValueError(f"There is no {name} in Pace, Stability and Lengths.")


def settings(vary: Sequence[str], *, product: bool) -> dict[str, StreamingOptions]:
    """Return the settings to compare, by name; the first are the defaults."""
    axes = []
    for one in vary:
        name, _, values = one.partition("=")
        axes.append([(name, value) for value in values.split(",")])
    rows: list[list[tuple[str, str]]] = [[], *([one] for axis in axes for one in axis)]
    if product:
        rows = [[], *map(list, itertools.product(*axes))]
    found: dict[str, StreamingOptions] = {}
    for row in rows:
        flow = StreamingOptions()
        for name, value in row:
            flow = varied(flow, name, value)
        if flow not in found.values():
            found[" ".join(f"{name}={value}" for name, value in row) or "defaults"] = flow
    return found


# --- results -------------------------------------------------------------------------------------

Figures = dict[str, float]

COLUMNS = {
    "erasure": 3,
    "worst": 3,
    "stable": 3,
    "chrF": 1,
    "offline": 2,
    "least": 2,
    "cut": 2,
    "alike": 1,
    "first p50": 0,
    "p95": 0,
    "final p95": 0,
    "LAAL": 0,
    "updates": 1,
    "tokens": 2,
    "lost": 0,
}
"""Digits behind the point, by column."""


def figures(
    stages: Sequence[Stage], to: Sequence[str], offline: Offline, parts: Offline
) -> Figures:
    """Return the figures of one setting: means over the languages, or the worst of them.

    :param offline: the final texts alone
    :param parts: the parts of all final texts alone, in order
    """
    live, stable, chrf, cost, cut, alike = [], [], [], [], [], []
    for lang in to:
        made_alone = iter(parts.texts[lang])
        pieces = [list(itertools.islice(made_alone, len(stage.texts))) for stage in stages]
        gap = " " if word_units.spaced(lang) else ""
        alike += [
            100.0 * (made == text)
            for stage, piece in zip(stages, pieces, strict=True)
            for made, text in zip(stage.finals(lang), piece, strict=True)
        ]
        readings = [stage.reading(lang, "live") for stage in stages]
        live.append(measure.figures(readings, lang))
        stable.append(measure.figures([stage.reading(lang, "stable") for stage in stages], lang))
        rows = [
            (one.final.text if one.final else "", reference, text, gap.join(piece))
            for one, text, piece in zip(readings, offline.texts[lang], pieces, strict=True)
            if (reference := one.said.references.get(lang))
        ]
        if rows:
            made, references, texts, joint = zip(*rows, strict=True)
            whole = report.chrf(texts, references)
            chrf.append(report.chrf(made, references))
            cost.append(chrf[-1] - whole)
            cut.append(report.chrf(joint, references) - whole)
    first = [one.agreed_ms for one in live if one.agreed_ms]
    final = [one.final_ms for one in live if one.final_ms]
    return {
        "erasure": mean(one.erasure or 0.0 for one in live),
        "worst": max(one.erasure or 0.0 for one in live),
        "stable": max(one.erasure or 0.0 for one in stable),
        "chrF": mean(chrf),
        "offline": mean(cost),
        "least": min(cost, default=0.0),
        "cut": mean(cut),
        "alike": mean(alike),
        "first p50": mean(one.p50 for one in first),
        "p95": max((one.p95 for one in first), default=0.0),
        "final p95": max((one.p95 for one in final), default=0.0),
        "LAAL": mean(one.laal_ms or 0.0 for one in live),
        "updates": mean(one.updates or 0.0 for one in live),
        "tokens": sum(stage.tokens for stage in stages) / max(1, offline.tokens),
        "lost": sum(one.lost + one.failed for one in live),
    }


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / max(1, len(found))


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="as for gateway replay")
    parser.add_argument("--model", help="a directory; default: the embedded one")
    parser.add_argument("--cache-dir", help="where converted models are kept")
    parser.add_argument("--to", help="e.g. de,zh; default: the languages of the files")
    parser.add_argument("--vary", action="append", default=[], metavar="NAME=VALUE[,VALUE]")
    parser.add_argument("--product", action="store_true", help="all combinations")
    parser.add_argument("--first-ms", type=float, default=40.0, help="default: %(default)s")
    parser.add_argument("--token-ms", type=float, default=8.0, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the recogniser's mistakes")
    parser.add_argument("--limit", type=int, help="only the first utterances of each file")
    parser.add_argument("--sample", type=int, help="only so many of each file, drawn at random")
    parser.add_argument("--least", type=int, default=1, help="fewest words of an utterance")
    parser.add_argument(
        "--spoken", action="store_true", help="final texts in lower case, without punctuation"
    )
    parser.add_argument("--greedy", action="store_true", help="no beam search for finals")
    parser.add_argument("--no-checks", action="store_true", help="check no draft")
    parser.add_argument("--json", type=Path, help="write all figures")
    args = parser.parse_args()
    if args.no_checks:
        checkpoint.CHECKED_SCORES = 0
    # Jobs of all rooms are decoded together, but each room stands for an engine with time.
    embedded.BEAM_JOBS = 0 if args.greedy else sys.maxsize
    flows = settings(args.vary, product=args.product)
    costs = Costs(args.first_ms / 1000, args.token_ms / 1000)
    meetings: list[tuple[list[ScriptUtterance], list[str]]] = []
    for file in args.files:
        said = load(file, seed=args.seed)[: args.limit]
        said = [one for one in said if len(one.text.split()) >= args.least]
        if args.spoken:
            said = [replace(one, text=heard(one.text)) for one in said]
        if args.sample:
            Random(3).shuffle(said)
            said = said[: args.sample]
        known = dict.fromkeys(lang for one in said for lang in one.references)
        to = [lang for lang in known if not args.to or lang in args.to.split(",")]
        if to:
            meetings.append((said, to))
    engine = build(Settings(model=args.model, cache_dir=args.cache_dir, hang_s=3600.0))
    await engine.start()
    report: dict[str, Any] = {}
    try:
        translator = Translator(engine)
        compared = [
            await alone([(one.lang, one.text) for one in said], to, translator)
            for said, to in meetings
        ]
        width = max(map(len, flows))
        print(f"{len(flows)} settings on {engine.name}, {args.first_ms:g} + {args.token_ms:g} ms")
        print(" " * width, *(f"{name:>9}" for name in COLUMNS))
        for name, flow in flows.items():
            rows = []
            for (said, to), offline in zip(meetings, compared, strict=True):
                stages = await played(said, to, flow, translator, costs, offline)
                texts = [
                    (one.lang, text)
                    for one, stage in zip(said, stages, strict=True)
                    for text in stage.texts
                ]
                parts = await alone(texts, to, translator)
                rows.append(figures(stages, to, offline, parts))
            whole = {column: mean(row[column] for row in rows) for column in COLUMNS}
            report[name] = {"files": dict(zip(map(str, args.files), rows, strict=False)), **whole}
            cells = (f"{whole[column]:9.{digits}f}" for column, digits in COLUMNS.items())
            print(f"{name:{width}}", *cells, flush=True)
        print(f"{translator.asked} translations")
    finally:
        await engine.aclose()
    if args.json:
        args.json.write_text(json.dumps(report, indent=1), "utf-8")


if __name__ == "__main__":
    asyncio.run(main())
