"""The command ``gateway plan``: its flags, the reports that it reads, and its output.

Owns: the command line and the files. Must not know: formulas, the simulation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

from gateway.cli.console.args import count, number, positive, share, word_range
from gateway.cli.console.extra import need
from gateway.cli.console.files import check_outputs, read_text, write_json
from gateway.cli.console.terminal import columns

if TYPE_CHECKING:
    from gateway.cli.loadtest.model.plan import Plan
    from gateway.cli.loadtest.model.report import LoadReport
    from gateway.cli.plan.model.figures import EngineFigures
    from gateway.cli.plan.model.load import SourceText
    from gateway.cli.tune.model.steps import TuneReport

BYTES = 64 * 1024 * 1024
"""Largest report in bytes."""
WIDTH = 100
"""Letters of a line, if the output is no terminal."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    from gateway.cli.plan.model.figures import ENGINES
    from gateway.cli.plan.model.load import MeetingLoad

    usual = MeetingLoad()
    add = parser.add_argument_group("load").add_argument

    def flag(name: str, kind: Callable[[str], object], text: str) -> None:
        value = getattr(usual, name)
        add(f"--{name}", type=kind, default=value, metavar="N", help=f"{text}; default: {value}")

    flag("meetings", count, "meetings at the same time")
    flag("speakers", count, "sockets of a meeting that speak, and read all its languages")
    flag("readers", number, "sockets of a meeting that read one of its languages")
    flag("languages", count, "languages that a meeting is translated into")
    flag("talk", share, "share of the time (0 to 1) in which somebody speaks")
    flag("pace", positive, "words a minute of a speaker")
    low, high = usual.words
    spread = f"words of an utterance; default: {low}-{high}"
    add("--words", type=word_range, default=usual.words, metavar="LOW-HIGH", help=spread)
    whole = "texts are sent when they are whole, not while they are spoken"
    add("--whole", dest="growing", action="store_false", help=whole)
    add = parser.add_argument_group("measured figures").add_argument
    engine = (
        f"{', '.join(ENGINES)}, or a file that gateway bench load --json or gateway tune --json"
        " wrote; repeat it for several files of one engine"
    )
    add("--engine", action="append", required=True, metavar="NAME|FILE", help=engine)
    core = "reports of gateway bench load --json with few and with many readers in a room"
    add("--core", nargs=2, metavar="FILE", help=core)
    add = parser.add_argument_group("output").add_argument
    add("--explain", action="store_true", help="print the formulas and the sources of all figures")
    simulate = "simulate one engine and its share of the meetings"
    add("--simulate", action="store_true", help=simulate)
    seconds = "seconds of the simulation; default: %(default)g"
    add("--seconds", type=positive, default=60.0, metavar="N", help=seconds)
    add("--json", metavar="FILE", help="write all results as JSON")


def run(args: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Print the plan and return the exit status. Raises `OSError`, and `ValueError`.

    :param say: prints a line
    """
    from gateway.cli.plan.model import capacity, figures, output
    from gateway.cli.plan.model.load import MeetingLoad, caption_work
    from gateway.cli.report import text

    check_outputs((args.json,))
    names = MeetingLoad.__struct_fields__
    load = MeetingLoad(**{name: getattr(args, name) for name in names}).checked()
    engine = _engine(args.engine)
    core = figures.CORE
    if args.core:
        few, many = (_report(Path(name)) for name in args.core)
        core = figures.core_of(few, many)
    work = caption_work(load, text.lines(), Random(0))
    made = capacity.capacity(load, work, engine, core, figures.REDIS)
    simulated = None
    if args.simulate:
        need("simpy", "--simulate")
        from gateway.cli.plan.model import simulation

        simulated = simulation.of_share(load, made, engine, core, args.seconds, speech)
    sources = (engine.source, core.source, figures.REDIS.source)
    width = columns(sys.stdout) or WIDTH
    say(output.text(made, simulated, sources, explain=args.explain, width=width))
    if args.json:
        write_json(
            args.json,
            {"load": load, "engine": engine, "core": core, "plan": made, "simulated": simulated},
        )
    return 0


def speech(plan: Plan) -> list[Iterator[SourceText]]:
    """Return what is said in a plan, by speaker: as `gateway bench load` says it."""
    from gateway.cli.plan.model.load import spoken
    from gateway.cli.report import text

    lines = text.lines()
    return [
        spoken(plan, speaker, lines, Random(f"{plan.seed}:{speaker}"))
        for speaker in range(plan.rooms * plan.speakers)
    ]


def _engine(given: list[str]) -> EngineFigures:
    from gateway.cli.plan.model.figures import ENGINES, engine_of

    if len(given) == 1 and given[0] in ENGINES:
        return ENGINES[given[0]]
    return engine_of([_report(Path(name)) for name in given])


def _report(path: Path) -> LoadReport | TuneReport:
    """Return a report from its file. Raises `OSError`, and `ValueError` with a sentence."""
    from gateway.cli.plan.model.figures import report_of

    try:
        return report_of(read_text(path, BYTES))
    except msgspec.MsgspecError as exc:
        raise ValueError(
            f"{path} is not a report of gateway bench load --json or gateway tune --json: {exc}."
        ) from exc
