"""The command ``gateway tune``: the source of its load, and the output of its result.

Owns: the flags, files and networks of the command. Must not know: what a load consists of, the
order of steps.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import uvicorn
from msgspec.structs import replace

from caption_tools.console import columns, write_json
from caption_tools.replay import play
from caption_tools.speech import text as texts
from caption_tools.tune.model import load as loads
from caption_tools.tune.model import steps
from caption_tools.tune.model.load import Load
from caption_tools.tune.sweep import Sweep, searched
from gateway.cli.flags import (
    add_settings,
    check_outputs,
    count,
    engine_of,
    loaded,
    ranged,
    tags,
)
from gateway.cli.terminal import note
from gateway.core.base.model import Model
from gateway.errors import EngineFault
from gateway.server.process.logs import set_up_logs
from gateway.server.routes.page import PAGE, root
from gateway.settings.catalogue import EngineTable, Settings, SettingsError, engines
from gateway.text import languages

LEAST_S = 2.0  # least seconds of a step: whole seconds count, after the first

_seconds = ranged(float, lambda value: LEAST_S <= value < math.inf, f"{LEAST_S:g} or more")

USUAL = ("de", "fr", "es", "ja", "zh")
"""Languages that are read if none are named, as far as the model has them."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command, except for the settings."""
    add = parser.add_argument_group("load", "Exactly one source of the load.").add_argument
    add("--replay", metavar="FILE", help="a meeting recorded by gateway record")
    described = "'16 streams, 5-40 words, 3 languages, partials', or '4 a second, ...'"
    add("--describe", metavar="TEXT", help=described)
    add = parser.add_argument_group("details of the load").add_argument
    times = "parallel copies of the replayed meeting; default: 1"
    add("--times", type=count, default=1, metavar="N", help=times)
    langs: dict[str, Any] = {"type": tags, "default": (), "metavar": "LANG[,LANG]"}
    add("--columns", help="languages of the columns of the --replay file", **langs)
    whole = "texts of --replay do not grow while they are spoken"
    add("--whole", action="store_true", help=whole)
    spoken = "spoken language; default: en, or that of the recording"
    add("--from", dest="source", metavar="LANG", help=spoken)
    add("--to", help="languages read; default: as many as the load has", **langs)
    text = "file of sentences to say, one a line; default: a meeting"
    add("--text", metavar="FILE", help=text)
    uniform = "accept a load whose texts are all of one length"
    add("--force-uniform", action="store_true", help=uniform)
    add = parser.add_argument_group("steps").add_argument
    add("--seconds", type=_seconds, default=20.0, help="seconds of each step; default: 20")
    values = (
        "try only these settings and values; default: max_num_seqs=1,2,4,8,16,32,64 and"
        " max_num_batched_tokens=512,2048,8192,16384; for the embedded engine batch and"
        " inter_threads"
    )
    some: dict[str, Any] = {"dest": "values", "metavar": "SETTING=N[,N]", "help": values}
    add("--try", type=_values, action="append", default=[], **some)
    table = "name of the [[engine]] table to tune, if there are such tables"
    add("--table", metavar="NAME", help=table)
    add("--json", metavar="FILE", help="write all results as JSON")
    toml = "write the settings found, for gateway serve --config"
    add("--toml", metavar="FILE", help=toml)
    add_settings(parser, all_topics=False)
    parser.usage = "%(prog)s [options] (--replay FILE | --describe TEXT) [--SETTING VALUE ...]"


def run(args: argparse.Namespace) -> int:
    """Search, report the results so far however it ends, and return the exit status.

    Raises `EngineFault`, `OSError`, and `ValueError` with a sentence.
    """
    set_up_logs("error")
    settings = loaded(args).settings
    check_outputs((args.json, args.toml))
    table = _table(settings, args.table)
    name = str(table.name) if settings.engines else None
    values = searched(table.settings, dict(args.values))
    engine = engine_of(table.settings)
    profile = engine.profile
    if name is not None:
        # Only the pairs of the table: the gateway sends all others to other engines.
        profile = engine_of(replace(settings, engines=(table,))).profile
    load = _load(args, profile)
    if load.uniform and not args.force_uniform:
        raise ValueError(load.uniform)
    to = _targets(args.to, load, profile)
    if load.uniform:
        note(f"Forced: {load.uniform}")
    note(f"{load.told}; into {', '.join(to)}")
    if load.few:
        note(load.few)
    sweep, status = Sweep(table.settings, load, to, say=note), 0
    factory = uvicorn.Config(run, loop=settings.loop, log_config=None).get_loop_factory()
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(sweep.run(values))
    except KeyboardInterrupt:
        status = 130
    except (EngineFault, OSError) as fault:
        # With no result at all the fault is the answer; else the results are worth printing.
        if not sweep.tried:
            raise
        note(f"The search ends early: {fault}")
        status = 1
    if sweep.tried:
        report = steps.made(engine.name, load, sweep.tried, table=name)
        print(steps.text(report, columns(sys.stdout)))
        if args.json:
            write_json(args.json, report)
        if args.toml:
            Path(args.toml).write_text(report.toml, encoding="utf-8")
    return status


def _table(settings: Settings, name: str | None) -> EngineTable:
    """Return the engine to tune. Raises `SettingsError` if ``name`` does not tell which."""
    tables = engines(settings)
    if not settings.engines:
        if name is None:
            return tables[0]
        raise SettingsError("Without [[engine]] tables there is one engine: leave out --table.")
    for table in tables:
        if table.name == name:
            return table
    names = ", ".join(str(table.name) for table in tables)
    raise SettingsError(f"Name one of the engines with --table: {names}.")


def _load(args: argparse.Namespace, profile: Model) -> Load:
    """Return the load that the flags name. Raises `OSError`, and `ValueError` with a sentence."""
    # argparse's exclusive groups cannot say what the two sources are.
    if bool(args.replay) == bool(args.describe):
        raise SettingsError(
            "Name one load: --replay FILE or --describe '16 streams, 5-40 words, 3 languages,"
            " partials'."
        )
    if args.replay:
        meeting = play.load(Path(args.replay), langs=args.columns, source=args.source)
        number = max(1, len({lang for said in meeting for lang in said.references}))
        return loads.replayed(
            meeting, args.seconds, times=args.times, languages=number, grow=not args.whole
        )
    lang = languages.normalise(args.source or "en")
    if not any(profile.supports(lang, target) for target in profile.targets):
        raise ValueError(
            f"This model does not translate from {lang}. Name the spoken language with --from LANG."
        )
    lines = _lines(args.text, lang)
    return loads.described(args.describe, args.seconds, lines, lang, Random(0))


def _lines(name: str | None, lang: str) -> list[str]:
    """Return the lines to say: those of a file, else the meeting of the demo page."""
    path = Path(name) if name else (root() or Path()) / PAGE / "meeting" / f"{lang}.txt"
    if not name and not path.is_file():
        raise ValueError(
            f"There is no built-in text in {lang}. Name a file of sentences with --text."
        )
    return texts.lines(path)


def _targets(asked: Sequence[str], load: Load, profile: Model) -> tuple[str, ...]:
    """Return the languages to read. Raises `ValueError`, or `ClientFault` for a pair that the model
    does not translate.
    """
    source = load.plan.source
    if asked:
        to = tuple(map(languages.normalise, asked))
        for target in to:
            profile.resolve(source, target)
        return to
    known = dict.fromkeys((*(tag for tag in USUAL if tag in profile.targets), *profile.targets))
    able = [tag for tag in known if tag != source and profile.supports(source, tag)]
    if len(able) < load.languages:
        raise ValueError(
            f"This load has {load.languages} languages, and the model has {len(able)} to translate"
            f" {source} into. Name fewer, e.g. --to {','.join(able[:3])}."
        )
    return tuple(able[: load.languages])


def _values(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, values = text.partition("=")
    try:
        numbers = tuple(sorted({count(value) for value in values.split(",") if value.strip()}))
    except ValueError:
        numbers = ()
    if not numbers or not name.strip():
        raise argparse.ArgumentTypeError("it must be SETTING=N,N,..., e.g. max_num_seqs=8,16,32")
    return name.strip().replace("-", "_"), numbers
