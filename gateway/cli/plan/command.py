"""The command ``gateway plan``: its flags, the reports that it reads, and its output.

Owns: the command line and the files. Must not know: formulas, the simulation.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec

from gateway.cli.console.args import count, need, number, positive, share, word_range
from gateway.cli.console.files import check_outputs, read_text, write_json
from gateway.cli.console.terminal import columns

if TYPE_CHECKING:
    from gateway.cli.loadtest.model.plan import Plan
    from gateway.cli.loadtest.model.report import LoadReport
    from gateway.cli.plan.model.figures import EngineFigures, EngineShare
    from gateway.cli.plan.model.load import SourceText
    from gateway.cli.tune.model.steps import TuneReport

BYTES = 64 * 1024 * 1024
"""Largest report in bytes."""
_SHARE = re.compile(r"(?:([1-9]\d*):)?(.+)")
"""Value of ``--engine``: the number of languages, and the engine."""
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
        f"{', '.join(ENGINES)}, or files that gateway bench load --json or gateway tune --json"
        " wrote. For several engines repeat it, with the number of languages that each makes:"
        " --engine 2:h200-4b --engine 1:little.json,much.json"
    )
    name = "[N:]NAME|FILE[,FILE]"
    add("--engine", action="append", required=True, metavar=name, help=engine)
    core = "reports of gateway bench load --json with few and with many readers in a room"
    add("--core", nargs=2, metavar="FILE", help=core)
    add = parser.add_argument_group("output").add_argument
    add("--explain", action="store_true", help="print the formulas and the sources of all figures")
    simulate = "simulate one engine and its share of the meetings"
    add("--simulate", action="store_true", help=simulate)
    seconds = "seconds of the simulation; default: %(default)g"
    add("--seconds", type=positive, default=60.0, metavar="N", help=seconds)
    add("--json", metavar="FILE", help="write all results as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the plan and return the exit status. Raises `OSError`, and `ValueError`."""
    from gateway.cli.plan.model import capacity, figures, output
    from gateway.cli.plan.model.load import MeetingLoad, caption_work
    from gateway.cli.report import text

    check_outputs((args.json,))
    names = MeetingLoad.__struct_fields__
    load = MeetingLoad(**{name: getattr(args, name) for name in names}).checked()
    shares = _shares(args.engine, load.languages)
    core = figures.CORE
    if args.core:
        few, many = (_report(Path(name)) for name in args.core)
        core = figures.core_of(few, many)
    work = caption_work(load, text.lines(), Random(0))
    made = capacity.capacity(load, work, shares, core, figures.REDIS)
    simulated = {}
    if args.simulate:
        need("simpy", "--simulate")
        from gateway.cli.plan.model import simulation

        simulated = {
            share.label: simulation.of_share(load, made, share, core, args.seconds, speech)
            for share in shares
        }
    sources = (*(share.figures.source for share in shares), core.source, figures.REDIS.source)
    width = columns(sys.stdout) or WIDTH
    print(output.text(made, simulated, sources, explain=args.explain, width=width))
    if args.json:
        write_json(
            args.json,
            {
                "load": load,
                "engines": shares,
                "core": core,
                "plan": made,
                "simulated": [*simulated.values()],
            },
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


def _shares(given: Sequence[str], languages: int) -> list[EngineShare]:
    """Return the engines that make the languages of a meeting.

    :param given: the values of ``--engine``
    :param languages: of a meeting

    Raises `OSError`, and `ValueError` with a sentence.
    """
    from gateway.cli.plan.model.figures import EngineShare

    found: list[EngineShare] = []
    for one in given:
        share = _SHARE.fullmatch(one)
        number, name = share.groups() if share else (None, one)
        if number is None and len(given) > 1:
            raise ValueError(
                f"Say how many of the {languages} languages {one} makes: --engine 1:{one}."
                f" The files of one engine are joined: --engine little.json,much.json."
            )
        label = Path(name.partition(",")[0]).stem if len(given) > 1 else ""
        if any(label == other.name for other in found):
            raise ValueError(f"Two engines are called {label}: add up their languages, or rename.")
        made = languages if number is None else int(number)
        found.append(EngineShare(figures=_engine(name), languages=made, name=label))
    made = sum(share.languages for share in found)
    if made != languages:
        raise ValueError(
            f"The engines make {made} languages, and a meeting has {languages} (--languages)."
        )
    return found


def _engine(name: str) -> EngineFigures:
    from gateway.cli.plan.model.figures import ENGINES, engine_of

    if name in ENGINES:
        return ENGINES[name]
    return engine_of([_report(Path(one)) for one in name.split(",")])


def _report(path: Path) -> LoadReport | TuneReport:
    """Return a report from its file. Raises `OSError`, and `ValueError` with a sentence."""
    from gateway.cli.plan.model.figures import report_of

    try:
        return report_of(read_text(path, BYTES))
    except msgspec.MsgspecError as exc:
        raise ValueError(
            f"{path} is not a report of gateway bench load --json or gateway tune --json: {exc}."
        ) from exc
