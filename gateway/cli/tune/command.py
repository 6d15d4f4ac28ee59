"""The command ``gateway tune``: the source of its load, and the output of its result.

Owns: the flags, files and networks of the command. Must not know: what a load consists of, the
order of steps.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from gateway.cli.console.args import count, positive, tags
from gateway.cli.console.files import check_outputs, read_text, write_json
from gateway.cli.console.terminal import columns
from gateway.errors import EngineFault
from gateway.settings.catalogue import Settings, SettingsError
from gateway.text import languages

if TYPE_CHECKING:
    from gateway.cli.loadtest.scrape import Scraper
    from gateway.cli.tune.model.load import Load
    from gateway.engines.profiles import Profile

EVERY_S = 1.0
"""Seconds between two scrapes."""

LEAST_S = 2.0
"""Least seconds of a step: whole seconds count, after the first."""

BYTES = 256 * 1024 * 1024
"""Largest history in bytes."""

USUAL = ("de", "fr", "es", "ja", "zh")
"""Languages that are read if none are named, as far as the model has them."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command, except those of settings."""
    load = parser.add_argument_group("load", "Exactly one source of the load.")
    load.add_argument(
        "--metrics",
        metavar="FILE",
        help="scrapes of /metrics, each after a line "
        "`# at SECONDS`, or Prometheus' answer to query_range",
    )
    load.add_argument(
        "--watch",
        type=positive,
        metavar="SECONDS",
        help="scrape the gateway at --url for this long",
    )
    load.add_argument("--replay", metavar="FILE", help="a meeting recorded by gateway record")
    load.add_argument(
        "--describe",
        metavar="TEXT",
        help="'16 streams, 5-40 words, 3 languages, partials', or '4 a second, ...'",
    )
    more = parser.add_argument_group("details of the load")
    more.add_argument(
        "--url", default="ws://127.0.0.1:8000", help="address for --watch; default: %(default)s"
    )
    more.add_argument("--keep", metavar="FILE", help="write the scrapes to a file for --metrics")
    more.add_argument(
        "--times",
        type=count,
        default=1,
        metavar="N",
        help="parallel copies of the replayed meeting; default: 1",
    )
    more.add_argument(
        "--columns",
        type=tags,
        default=(),
        metavar="LANG[,LANG]",
        help="languages of the columns of the --replay file",
    )
    more.add_argument(
        "--whole", action="store_true", help="texts of --replay do not grow while they are spoken"
    )
    more.add_argument(
        "--from",
        dest="source",
        metavar="LANG",
        help="spoken language; default: en, or that of the recording",
    )
    more.add_argument(
        "--to",
        type=tags,
        default=(),
        metavar="LANG[,LANG]",
        help="languages read; default: as many as the load has",
    )
    more.add_argument(
        "--text", metavar="FILE", help="file of sentences to say, one a line; default: a meeting"
    )
    more.add_argument(
        "--force-uniform",
        action="store_true",
        help="accept a load whose texts are all of one length",
    )
    steps = parser.add_argument_group("steps")
    steps.add_argument(
        "--seconds", type=_seconds, default=20.0, help="seconds of each step; default: 20"
    )
    steps.add_argument(
        "--try",
        dest="values",
        type=_values,
        action="append",
        default=[],
        metavar="SETTING=N[,N]",
        help="try only these settings and values; "
        "default: max_num_seqs=1,2,4,8,16,32,64 and "
        "max_num_batched_tokens=512,2048,8192,16384; for the embedded engine "
        "batch and inter_threads",
    )
    steps.add_argument("--json", metavar="FILE", help="write all results as JSON")
    steps.add_argument(
        "--toml", metavar="FILE", help="write the settings found, for gateway serve --config"
    )


def run(
    args: argparse.Namespace,
    settings: Settings,
    *,
    key: str | None,
    out: Callable[[str], None],
    note: Callable[[str], None],
) -> int:
    """Search, report what was found so far however it ends, and return the exit status.

    :param out: prints the report
    :param note: prints a line of progress

    Raises `EngineFault`, `OSError`, and `ValueError` with a sentence.
    """
    from gateway.cli.tune.model import load as loads
    from gateway.cli.tune.model import report
    from gateway.cli.tune.sweep import Sweep, loop, tunable

    check_outputs((args.json, args.toml, args.keep))
    chosen = tunable(settings, dict(args.values))
    engine, profile = asyncio.run(_known(settings))
    load = _load(args, profile, key=key, note=note)
    forced = False
    try:
        loads.check(load)
    except loads.Uniform as fault:
        if not args.force_uniform:
            raise
        forced = True
        note(f"Forced: {fault}")
    to = _targets(args.to, load, profile)
    note(f"{load.told}; into {', '.join(to)}")
    if load.few:
        note(load.few)
    sweep = Sweep(settings, load, to, say=note)
    status = 0
    try:
        with asyncio.Runner(loop_factory=loop(settings)) as runner:
            runner.run(sweep.run(chosen))
    except KeyboardInterrupt:
        status = 130
    except (EngineFault, OSError) as fault:
        # With no result at all the fault is the answer; else the results are worth printing.
        if not sweep.tried:
            raise
        note(f"The search ends early: {fault}")
        status = 1
    if not sweep.tried:
        return status
    found = report.made(engine, load, sweep.tried, forced=forced)
    out(report.text(found, columns(sys.stdout)))
    if args.json:
        write_json(args.json, found)
    if args.toml:
        Path(args.toml).write_text(found.toml, encoding="utf-8")
    return status


async def _known(settings: Settings) -> tuple[str, Profile]:
    """Return name and profile of the engine, without loading its model."""
    from gateway.engines.registry import build

    engine = build(settings)
    try:
        return engine.name, engine.profile
    finally:
        await engine.aclose()


def _load(
    args: argparse.Namespace,
    profile: Profile,
    *,
    key: str | None,
    note: Callable[[str], None],
) -> Load:
    """Return the load that the flags name. Raises `OSError`, and `ValueError` with a sentence."""
    from gateway.cli.replay import play
    from gateway.cli.tune import scrapes
    from gateway.cli.tune.model import history
    from gateway.cli.tune.model import load as loads

    given = [name for name in ("metrics", "watch", "replay", "describe") if getattr(args, name)]
    # argparse's exclusive groups cannot say what the four sources are.
    if len(given) != 1:
        raise SettingsError(
            "Name one load: --metrics FILE, --watch SECONDS, --replay FILE or --describe"
            " '16 streams, 5-40 words, 3 languages, partials'."
        )
    if args.replay:
        meeting = play.load(Path(args.replay), langs=args.columns, source=args.source)
        langs = {lang for one in meeting for lang in one.references}
        return loads.replayed(
            meeting,
            args.seconds,
            times=args.times,
            languages=max(1, len(langs)),
            partials=not args.whole,
        )
    lang = languages.normalise(args.source or "en")
    if not any(profile.supports(lang, target) for target in profile.targets):
        raise ValueError(
            f"This model does not translate from {lang}. Name the spoken language with --from LANG."
        )
    lines = _lines(args.text, lang)
    if args.describe:
        return loads.imagined(loads.described(args.describe), args.seconds, lines, lang, Random(0))
    if args.metrics:
        text = read_text(Path(args.metrics), BYTES)
    else:
        text = _watched(args.url, args.watch, key, note)
    if args.keep:
        Path(args.keep).write_text(text, encoding="utf-8")
    try:
        recorded = history.recorded(scrapes.parse(text))
    except ValueError as exc:
        raise ValueError(f"{args.metrics or args.url}: {exc}") from exc
    return loads.remembered(recorded, args.seconds, lines, lang, Random(0))


def _lines(name: str | None, lang: str) -> list[str]:
    """Return the lines to say: those of a file, else the meeting of the demo page."""
    from gateway.cli.report import text
    from gateway.server.routes.page import FOLDERS

    meetings = (folder / "meeting" / f"{lang}.txt" for folder in FOLDERS)
    path = Path(name) if name else next((one for one in meetings if one.is_file()), None)
    if path is None:
        raise ValueError(
            f"There is no built-in text in {lang}. Name a file of sentences with --text."
        )
    return text.lines(path)


def _targets(asked: Sequence[str], load: Load, profile: Profile) -> tuple[str, ...]:
    """Return the languages to read. Raises `ValueError`, or `ClientFault` for a pair that the model
    does not translate.
    """
    source = load.plan.source
    if asked:
        for target in asked:
            profile.resolve(source, languages.normalise(target))
        return tuple(languages.normalise(target) for target in asked)
    known = dict.fromkeys((*(one for one in USUAL if one in profile.targets), *profile.targets))
    able = [one for one in known if one != source and profile.supports(source, one)]
    if len(able) < load.languages:
        raise ValueError(
            f"This load has {load.languages} languages, and the model has {len(able)} to translate"
            f" {source} into. Name fewer, e.g. --to {','.join(able[:3])}."
        )
    return tuple(able[: load.languages])


def _watched(url: str, seconds: float, key: str | None, note: Callable[[str], None]) -> str:
    """Return scrapes of a running gateway in the form of a history. Ctrl-C ends it early.

    Raises `OSError` if there is no gateway, `ValueError` for an invalid address.
    """
    from gateway.cli.loadtest.scrape import Scraper

    found: list[str] = []
    scraper = Scraper(url, key)
    note(f"Watching {url} for {seconds:g} s; Ctrl-C ends it early")
    try:
        asyncio.run(_watch(scraper, url, seconds, note, found))
    except KeyboardInterrupt:
        note("Ended early.")
    return "\n".join(found) + "\n"


async def _watch(
    scraper: Scraper, url: str, seconds: float, note: Callable[[str], None], found: list[str]
) -> None:
    """Add scrapes to ``found`` until the time is over."""
    until = time.monotonic() + seconds
    gone = False
    while True:
        try:
            text = await scraper.fetch()
        except OSError as exc:
            if not found:
                raise OSError(f"{url}: {exc}") from exc
            if not gone:  # it may be restarting, so that is told once
                note(f"{exc} Trying again.")
            gone = True
        else:
            gone = False
            # Comments and metrics of libraries would be most of a kept file.
            kept = [line for line in text.splitlines() if line.startswith("gateway_")]
            if not kept:
                raise ValueError(f"{url} is not a gateway: its /metrics has no metric gateway_...")
            found += (f"# at {time.time():.3f}", *kept)
        if time.monotonic() >= until:
            return
        await asyncio.sleep(EVERY_S)


def _seconds(text: str) -> float:
    value = positive(text)
    if value < LEAST_S:
        raise argparse.ArgumentTypeError(f"it must be {LEAST_S:g} or more")
    return value


def _values(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, values = text.partition("=")
    try:
        found = tuple(sorted({count(value) for value in values.split(",") if value.strip()}))
    except ValueError:
        found = ()
    if not found or not name.strip():
        raise argparse.ArgumentTypeError("it must be SETTING=N,N,..., e.g. max_num_seqs=8,16,32")
    return name.strip().replace("-", "_"), found
