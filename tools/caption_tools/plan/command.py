"""The command ``gateway plan``: its flags, the reports that it reads, and its output.

Owns: the command line and the files. Must not know: formulas.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import msgspec

from caption_tools.console import columns, read_text, word_range, write_json
from caption_tools.loadtest.model.report import LoadReport
from caption_tools.plan.model import capacity, figures
from caption_tools.plan.model.capacity import CapacityPlan, rough
from caption_tools.plan.model.figures import ENGINES, EngineShare, engine_of
from caption_tools.plan.model.load import MeetingLoad, caption_work
from caption_tools.report import table
from caption_tools.speech import text
from gateway.cli.flags import check_outputs, count, number, positive, share

BYTES = 64 * 1024 * 1024  # largest report in bytes
_SHARE = re.compile(r"(?:([1-9]\d*):)?(.+)")
"""Value of ``--engine``: the number of languages, and the engine."""
WIDTH = 100  # letters of a line, if the output is no terminal
MEANT = (
    "First text: from the second agreed word of a growing text, or from a whole one, to the first"
    " text of its caption. Final: from the end of an utterance to its finished caption. Both"
    " without the network. Two digits at most mean anything."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
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
        f"{', '.join(ENGINES)}, or files that gateway bench load --json wrote. For several engines"
        " repeat it, with the number of languages that each makes: --engine 2:h200-4b --engine"
        " 1:little.json,much.json"
    )
    name = "[N:]NAME|FILE[,FILE]"
    add("--engine", action="append", required=True, metavar=name, help=engine)
    core = "reports of gateway bench load --json with few and with many readers in a room"
    add("--core", nargs=2, metavar="FILE", help=core)
    add = parser.add_argument_group("output").add_argument
    add("--explain", action="store_true", help="print the formulas and the sources of all figures")
    add("--json", metavar="FILE", help="write all results as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the plan and return the exit status. Raises `OSError`, and `ValueError`."""
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
    sources = (*(share.figures.source for share in shares), core.source, figures.REDIS.source)
    width = columns(sys.stdout) or WIDTH
    print(text_of(made, sources, explain=args.explain, width=width))
    if args.json:
        write_json(args.json, {"load": load, "engines": shares, "core": core, "plan": made})
    return 0


def text_of(
    plan: CapacityPlan, sources: Sequence[str], *, explain: bool, width: int | None = None
) -> str:
    """Return the report."""
    values = {row.name: f"{rough(row.value)} {row.unit}".rstrip() for row in plan.rows}
    rows = [*values.items()]
    if explain:
        rows = [(f"{row.name}: {values[row.name]}", row.how) for row in plan.rows]
    parts = [table.pairs(rows, width)]
    parts += ["\n".join(table.prose(line, width) for line in (MEANT, *plan.limits))]
    if explain:
        parts.append("\n".join(table.prose(f"Figures: {source}", width) for source in sources))
    return "\n\n".join(parts)


def _shares(given: Sequence[str], languages: int) -> list[EngineShare]:
    """Return the engines that make the languages of a meeting.

    Raises `OSError`, and `ValueError` with a sentence.
    """
    shares: list[EngineShare] = []
    for choice in given:
        share = _SHARE.fullmatch(choice)
        number, name = share.groups() if share else (None, choice)
        if number is None and len(given) > 1:
            raise ValueError(
                f"Say how many of the {languages} languages {choice} makes: --engine 1:{choice}."
                f" The files of one engine are joined: --engine little.json,much.json."
            )
        label = Path(name.partition(",")[0]).stem if len(given) > 1 else ""
        if any(label == other.name for other in shares):
            raise ValueError(f"Two engines are called {label}: add up their languages, or rename.")
        made = languages if number is None else int(number)
        engine = ENGINES.get(name) or engine_of(
            [_report(Path(choice)) for choice in name.split(",")]
        )
        shares.append(EngineShare(figures=engine, languages=made, name=label))
    made = sum(share.languages for share in shares)
    if made != languages:
        raise ValueError(
            f"The engines make {made} languages, and a meeting has {languages} (--languages)."
        )
    return shares


def _report(path: Path) -> LoadReport:
    """Return a report from its file. Raises `OSError`, and `ValueError` with a sentence."""
    try:
        return msgspec.json.decode(read_text(path, BYTES), type=LoadReport)
    except msgspec.MsgspecError as exc:
        raise ValueError(f"{path} is not a report of gateway bench load --json: {exc}.") from exc
