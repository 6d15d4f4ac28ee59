"""The command ``gateway bench load``: its flags, and what is done with the report.

Owns: the command line and the output files. Must not know: how a load is produced.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from caption_tools.console import columns, word_range, write_json
from caption_tools.loadtest.model import report
from caption_tools.loadtest.model.plan import KINDS, SHARES, Goal, Plan, Wire
from caption_tools.loadtest.run import LoadRun, perform
from caption_tools.speech import text
from caption_tools.speech.text import Arrivals
from gateway.cli.flags import check_outputs, count, number, positive, seconds, share, tags
from gateway.cli.terminal import NEEDS_KEY, Screen, api_key
from gateway.protocol.messages import View
from gateway.text import languages

MOST_PROCESSES = 4  # client processes by default, at most


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command ``load`` to ``gateway bench``."""
    measured = "Put a load on a running gateway, and measure latencies."
    commands = parser.add_subparsers(dest="bench", metavar="load", required=True)
    _add_flags(commands.add_parser("load", help=measured, description=measured, allow_abbrev=False))


def _add_flags(parser: argparse.ArgumentParser) -> None:
    default = Plan(url="", langs=())
    add = parser.add_argument
    add("url", metavar="URL", help="address of the gateway, e.g. ws://127.0.0.1:8000")

    def flag(name: str, kind: Callable[[str], object], value: object, text: str) -> None:
        word = name.rpartition("-")[2].upper()
        add(f"--{name}", type=kind, default=value, metavar=word, help=f"{text}; default: {value:g}")

    to = "languages; a speaker reads all, each reader one in turn; default: de"
    add("--to", type=tags, default=("de",), metavar="LANG[,LANG]", help=to)
    source = "language of the text; default: en"
    add("--from", dest="source", default="en", metavar="LANG", help=source)
    flag("rooms", count, default.rooms, "rooms")
    flag("speakers", count, default.speakers, "speakers in each room")
    flag("readers", number, default.readers, "readers in each room, besides its speakers")
    flag("rate", positive, default.rate, "utterances a second of all speakers together")
    arrivals = "random or evenly spaced utterances; default: poisson"
    add("--arrivals", choices=get_args(Arrivals), default="poisson", help=arrivals)
    flag("seconds", positive, default.seconds, "seconds during which utterances begin")
    flag("warm", seconds, default.warm, "warm-up seconds that are not counted")
    flag("drain", seconds, default.drain, "seconds to wait at the end for unfinished captions")
    grow = "share of the utterances (0 to 1) that grow while they are spoken"
    flag("partials", share, default.partials, grow)
    flag("cancel", share, default.cancel, "share of the utterances (0 to 1) that are cancelled")
    flag("pace", positive, default.pace, "words a minute that a speaker says")
    text = "file of texts, one a line; default: a meeting in English"
    add("--text", metavar="FILE", help=text)
    words = (
        "join lines to utterances of this many words; default: 2-40, or with --text each line is an"
        " utterance"
    )
    add("--words", type=word_range, metavar="LOW-HIGH", help=words)
    wire = "encoding of frames; default: json"
    add("--wire", choices=get_args(Wire), default="json", help=wire)
    view = "view that all users read; default: live"
    add("--view", choices=get_args(View), default="live", help=view)
    cores = max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) // 2))
    flag("processes", count, cores, "client processes")
    flag("ramp", positive, default.ramp, "sockets opened a second")
    late = "milliseconds; the run is invalid if more than one send in 100 is later than this"
    flag("late", positive, 1000 * default.late, late)
    flag("seed", int, default.seed, "seed of all random numbers")
    flag("scrape", positive, 1.0, "seconds between two scrapes of /metrics")
    add("--json", metavar="FILE", help="write all results as JSON")
    goals = parser.add_argument_group(
        "goals", "The exit status is 1 if a goal is missed, or if the run is invalid or incomplete."
    )
    for kind, span in KINDS.items():
        for part in SHARES:
            text = f"{part}th percentile, {span}"
            goals.add_argument(f"--goal-{kind}-p{part}", type=positive, metavar="MS", help=text)
    errors = "share (0 to 1) of the expected captions that were refused, failed or never ended"
    goals.add_argument("--goal-errors", type=share, metavar="SHARE", help=errors)
    # Forty flags would fill a screen.
    parser.usage = "%(prog)s [-h] [--OPTION VALUE ...] [--goal-NAME VALUE ...] URL"
    parser.epilog = NEEDS_KEY


def run(args: argparse.Namespace) -> int:
    """Run the load test and return the exit status.

    Raises what `LoadRun.run` raises, `OSError` and `ValueError`.
    """
    check_outputs((args.json,))
    plan = planned(args)
    lines = text.lines(Path(args.text) if args.text else None)
    screen, goals = Screen(sys.stderr), goals_of(args)
    load = LoadRun(plan, lines, screen, key=api_key(), goals=goals, every=args.scrape)
    try:
        made = asyncio.run(perform(load))
    finally:
        screen.draw([])
    for line in report.lines(made, columns(sys.stdout)):
        print(line)
    if args.json:
        write_json(args.json, made)
    if load.stopped:
        return 130
    return 0 if made.good else 1


def planned(args: argparse.Namespace) -> Plan:
    """Return the plan of a command line. Raises `ValueError`."""
    given = {name: value for name, value in vars(args).items() if name in Plan.__struct_fields__}
    if args.words is None and args.text is None:
        del given["words"]  # else the lines of a file are said as they are
    given |= {
        "run": secrets.token_hex(4),
        "langs": tuple(languages.normalise(tag) for tag in args.to),
        "source": languages.normalise(args.source),
        "late": args.late / 1000,
    }
    return Plan(**given).checked()


def goals_of(args: argparse.Namespace) -> list[Goal]:
    """Return the goals of a command line."""
    flags = {f"goal_{kind}_p{part}": (kind, part) for kind in KINDS for part in SHARES}
    flags["goal_errors"] = ("errors", 0)
    given = {name: getattr(args, name) for name in flags}
    return [Goal(*flags[name], most) for name, most in given.items() if most is not None]
