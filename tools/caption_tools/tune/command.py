"""The command ``gateway tune``: the source of its load, and the output of its result.

Owns: the flags, files and networks of the command. Must not know: what a load consists of, the
order of steps.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import uvicorn
from msgspec.structs import replace

from caption_tools.console import columns, read_text, write_json
from caption_tools.replay import play
from caption_tools.scrape import Scraper
from caption_tools.speech import text as texts
from caption_tools.tune import history
from caption_tools.tune.model import load as loads
from caption_tools.tune.model import steps
from caption_tools.tune.model.load import Load
from caption_tools.tune.sweep import Sweep, searches
from gateway.cli.flags import (
    URL,
    add_settings,
    check_outputs,
    count,
    engine_of,
    loaded,
    positive,
    ranged,
    tags,
)
from gateway.cli.terminal import api_key, note
from gateway.core.base.model import Model
from gateway.engines.wrappers.routed import EngineRoute
from gateway.errors import EngineFault
from gateway.server.process.logs import set_up_logs
from gateway.server.routes.page import PAGE, root
from gateway.settings.catalogue import EngineTable, Settings, SettingsError, engines
from gateway.text import languages

EVERY_S = 1.0  # seconds between two scrapes
LEAST_S = 2.0  # least seconds of a step: whole seconds count, after the first

_seconds = ranged(float, lambda value: LEAST_S <= value < math.inf, f"{LEAST_S:g} or more")

BYTES = 256 * 1024 * 1024  # largest history in bytes
USUAL = ("de", "fr", "es", "ja", "zh")
"""Languages that are read if none are named, as far as the model has them."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command, except for the settings."""
    add = parser.add_argument_group("load", "Exactly one source of the load.").add_argument
    scrapes = "scrapes of /metrics, each after a line `# at SECONDS`, or Prometheus' answer to"
    add("--metrics", metavar="FILE", help=f"{scrapes} query_range")
    watch = "scrape the gateway at --url for this long"
    add("--watch", type=positive, metavar="SECONDS", help=watch)
    add("--replay", metavar="FILE", help="a meeting recorded by gateway record")
    described = "'16 streams, 5-40 words, 3 languages, partials', or '4 a second, ...'"
    add("--describe", metavar="TEXT", help=described)
    add = parser.add_argument_group("details of the load").add_argument
    url = "address for --watch; default: %(default)s"
    add("--url", default=URL, help=url)
    add("--keep", metavar="FILE", help="write the scrapes to a file for --metrics")
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
    table = "tune only the [[engine]] table of this name; default: one after the other"
    add("--table", metavar="NAME", help=table)
    add("--json", metavar="FILE", help="write all results as JSON")
    toml = "write the settings found, for gateway serve --config"
    add("--toml", metavar="FILE", help=toml)
    add_settings(parser, all_topics=False)
    sources = "(--metrics FILE | --watch SECONDS | --replay FILE | --describe TEXT)"
    parser.usage = f"%(prog)s [options] {sources} [--SETTING VALUE ...]"


def run(args: argparse.Namespace) -> int:
    """Search, report the results so far however it ends, and return the exit status.

    Raises `EngineFault`, `OSError`, and `ValueError` with a sentence.
    """
    set_up_logs("error")
    settings = loaded(args).settings
    check_outputs((args.json, args.toml, args.keep))
    wanted = searches(_tables(settings, args.table), dict(args.values))
    tables = tuple(table for table, _ in wanted) if settings.engines else ()
    profile = engine_of(replace(settings, engines=tables)).profile
    load = _load(args, profile)
    if load.uniform and not args.force_uniform:
        raise ValueError(load.uniform)
    to = _targets(args.to, load, profile)
    if load.uniform:
        note(f"Forced: {load.uniform}")
    note(f"{load.told}; into {', '.join(to)}")
    if load.few:
        note(load.few)
    status = 0
    reports: list[steps.TuneReport] = []
    factory = uvicorn.Config(run, loop=settings.loop, log_config=None).get_loop_factory()
    for table, values in wanted:
        engine = engine_of(table.settings)
        name, own, part = None, to, load
        if settings.engines:
            name = str(table.name)
            # Pairs that take two steps are left out: the load does not say how many there are.
            route = EngineRoute(name, engine, pairs=table.pairs)
            own = tuple(lang for lang in to if route.takes(load.plan.source, lang))
            if not own:
                note(f"{name} is not tuned: it has no pair of this load (--from, --to).")
                continue
            part = replace(load, told=f"{load.told}; into {', '.join(own)}")
            note(f"{name}: {engine.name}, into {', '.join(own)}")
        sweep = Sweep(table.settings, part, own, say=note)
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(sweep.run(values))
        except KeyboardInterrupt:
            status = 130
        except (EngineFault, OSError) as fault:
            # With no result at all the fault is the answer; else the results are worth printing.
            if not sweep.tried and name is None:
                raise
            note(f"The search ends early: {fault}")
            status = 1
        if sweep.tried:
            report = steps.made(engine.name, part, sweep.tried, table=name)
            print("\n" * bool(reports) + steps.text(report, columns(sys.stdout)))
            reports.append(report)
        if status == 130:
            break
    if not reports and not status:
        raise ValueError("No engine has a pair of this load. Name languages: --from and --to.")
    if args.json and reports:
        write_json(args.json, reports if settings.engines and not args.table else reports[0])
    if args.toml and reports:
        Path(args.toml).write_text("\n".join(report.toml for report in reports), encoding="utf-8")
    return status


def _tables(settings: Settings, name: str | None) -> Sequence[EngineTable]:
    """Return the engines to tune. Raises `SettingsError` if ``name`` is none of theirs."""
    tables = engines(settings)
    named = [table for table in tables if name in (None, table.name)]
    if not named:
        raise SettingsError(
            f"There is no engine {name!r}. The configuration has:"
            f" {', '.join(str(table.name) for table in tables)}."
        )
    return named


def _load(args: argparse.Namespace, profile: Model) -> Load:
    """Return the load that the flags name. Raises `OSError`, and `ValueError` with a sentence."""
    # argparse's exclusive groups cannot say what the four sources are.
    if sum(map(bool, (args.metrics, args.watch, args.replay, args.describe))) != 1:
        raise SettingsError(
            "Name one load: --metrics FILE, --watch SECONDS, --replay FILE or --describe"
            " '16 streams, 5-40 words, 3 languages, partials'."
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
    of_text = args.seconds, _lines(args.text, lang), lang, Random(0)
    if args.describe:
        return loads.described(args.describe, *of_text)
    metrics = args.metrics
    text = read_text(Path(metrics), BYTES) if metrics else _watched(args.url, args.watch)
    if args.keep:
        Path(args.keep).write_text(text, encoding="utf-8")
    try:
        return loads.remembered(history.recorded(text), *of_text)
    except ValueError as exc:
        raise ValueError(f"{metrics or args.url}: {exc}") from exc


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


def _watched(url: str, seconds: float) -> str:
    """Return scrapes of a running gateway in the form of a history. Ctrl-C ends it early.

    Raises `OSError` if there is no gateway, `ValueError` for an invalid address.
    """
    lines: list[str] = []
    scraper = Scraper(url, api_key())

    async def watch() -> None:
        until, gone = time.monotonic() + seconds, False
        while True:
            try:
                text = await scraper.fetch()
            except OSError as exc:
                if not lines:
                    raise OSError(f"{url}: {exc}") from exc
                if not gone:  # it may be restarting, so that is told once
                    note(f"{exc} Trying again.")
                gone = True
            else:
                gone = False
                # Comments and metrics of libraries would be most of a kept file.
                kept = [line for line in text.splitlines() if line.startswith("gateway_")]
                if not kept:
                    raise ValueError(f"{url} is not a gateway: its /metrics has no gateway_...")
                lines.extend((f"# at {time.time():.3f}", *kept))
            if time.monotonic() >= until:
                return
            await asyncio.sleep(EVERY_S)

    note(f"Watching {url} for {seconds:g} s; Ctrl-C ends it early")
    try:
        asyncio.run(watch())
    except KeyboardInterrupt:
        note("Ended early.")
    return "\n".join(lines) + "\n"


def _values(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, values = text.partition("=")
    try:
        numbers = tuple(sorted({count(value) for value in values.split(",") if value.strip()}))
    except ValueError:
        numbers = ()
    if not numbers or not name.strip():
        raise argparse.ArgumentTypeError("it must be SETTING=N,N,..., e.g. max_num_seqs=8,16,32")
    return name.strip().replace("-", "_"), numbers
