"""``gateway tune``: where a load comes from, and where what was found goes.

Owns: the flags, files and networks of the command. Must not know: what a load is made of, how steps
are taken. What is imported only here, once it runs, is not needed by the other commands.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import msgspec

from gateway import languages
from gateway.errors import EngineFault
from gateway.flags import count, positive, tags
from gateway.settings import KEY, Settings, SettingsError
from gateway.terminal import columns

if TYPE_CHECKING:
    from gateway.profiles import Profile
    from gateway.tune.load import Description, Load

SCRAPE_S = 10.0
"""Seconds that a gateway has to answer a scrape."""

BYTES = 256 * 1024 * 1024
"""The largest file that is read."""

USUAL = ("de", "fr", "es", "ja", "zh")
"""Languages that are read where none are named, as far as the model has them."""


def add(parser: argparse.ArgumentParser) -> None:
    """The flags of the command, but for those of settings."""
    load = parser.add_argument_group("load", "Where it is known from; one of them.")
    load.add_argument("--metrics", metavar="FILE", help="scrapes of /metrics, each after `# at "
                      "SECONDS`, or Prometheus' answer to query_range")  # fmt: skip
    load.add_argument("--watch", type=positive, metavar="SECONDS",
                      help="scrape the gateway at --url for so long")  # fmt: skip
    load.add_argument("--replay", metavar="FILE", help="a recorded meeting, as of gateway record")
    load.add_argument("--describe", metavar="TEXT", help="'16 streams, 5-40 words, 3 languages, "
                      "partials', '4 a second, ...', or a .toml file of these")  # fmt: skip
    more = parser.add_argument_group("more about it")
    more.add_argument("--url", default="http://127.0.0.1:8000", help="default: %(default)s")
    more.add_argument("--every", type=positive, default=1.0, metavar="SECONDS",
                      help="between two scrapes; default: 1")  # fmt: skip
    more.add_argument("--keep", metavar="FILE", help="write the scrapes, for --metrics")
    more.add_argument("--times", type=count, default=1, metavar="N",
                      help="so many of the replayed meeting at once; default: 1")  # fmt: skip
    more.add_argument("--columns", type=tags, default=(), metavar="LANG[,LANG]",
                      help="the languages of the replayed file's columns")  # fmt: skip
    more.add_argument("--whole", action="store_true",
                      help="replayed texts come whole, and do not grow")  # fmt: skip
    more.add_argument("--from", dest="source", metavar="LANG",
                      help="spoken language of a described load, or the replayed column; "
                      "default: en, the first column")  # fmt: skip
    more.add_argument("--to", type=tags, default=(), metavar="LANG[,LANG]",
                      help="languages read; default: as many as the load has")  # fmt: skip
    more.add_argument("--text", metavar="FILE", help="sentences, one a line, that described "
                      "loads are made of; default: a meeting")  # fmt: skip
    more.add_argument("--force-uniform", action="store_true",
                      help="go on although all texts are of one length")  # fmt: skip
    more.add_argument("--seed", type=int, default=0, help="of chance; default: 0")
    steps = parser.add_argument_group("steps")
    steps.add_argument("--seconds", type=positive, default=20.0, help="of each; default: 20")
    steps.add_argument("--try", dest="values", type=_values, action="append", default=[],
                       metavar="SETTING=N[,N]", help="only these settings, and these values of "
                       "them; default: max_num_seqs=1,2,4,8,16,32,64 and "
                       "max_num_batched_tokens=512,2048,8192,16384; of the embedded engine "
                       "batch and inter_threads")  # fmt: skip
    steps.add_argument("--restart", action="store_true", help="start an engine for each "
                       "max_num_seqs, instead of giving one fewer jobs")  # fmt: skip
    steps.add_argument("--json", metavar="FILE", help="write all figures")
    steps.add_argument("--plot", metavar="FILE.svg", help="draw the steps")
    steps.add_argument("--html", metavar="FILE", help="write the report as a page")
    steps.add_argument("--toml", metavar="FILE", help="write the settings, for gateway serve")


def run(
    args: argparse.Namespace,
    settings: Settings,
    *,
    key: str | None,
    out: Callable[[str], None],
    note: Callable[[str], None],
) -> int:
    """Search, and report what was found until then, however it ends; the exit status.

    :param out: takes the report, ``note`` what is being done

    Raises `EngineFault`, `OSError`, and `ValueError` with a sentence.
    """
    from gateway.tune import load as loads
    from gateway.tune import report
    from gateway.tune.sweep import Sweep, knobs

    files = {name: Path(getattr(args, name)) for name in ("json", "plot", "html", "toml", "keep")
             if getattr(args, name)}  # fmt: skip
    for path in files.values():
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no directory {path.parent} to write {path.name} to.")
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory; name a file in it.")
    chosen = knobs(settings, dict(args.values))
    engine, profile = asyncio.run(_known(settings))
    load = _load(args, profile, key=key, note=note, keep=files.get("keep"))
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
    sweep = Sweep(settings, load, to, restart=args.restart, say=note)
    status = 0
    try:
        asyncio.run(sweep.run(chosen))
    except KeyboardInterrupt:
        status = 130
    except EngineFault as fault:
        if not sweep.tried:
            raise
        note(f"It ends here: {fault}")
        status = 1
    if not sweep.tried:
        return status
    found = report.made(engine, load, sweep.tried, forced=forced)
    out(report.text(found, columns(sys.stdout)))
    for name, text in (
        ("json", msgspec.json.format(msgspec.json.encode(found)).decode() + "\n"),
        ("plot", report.svg(found)),
        ("html", report.html(found)),
        ("toml", found.toml),
    ):
        if name in files:
            files[name].write_text(text, encoding="utf-8")
    return status


async def _known(settings: Settings) -> tuple[str, Profile]:
    """Name and profile of the engine; no model is loaded."""
    from gateway.engines import build

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
    keep: Path | None,
) -> Load:
    """The load that the flags name. Raises `OSError`, and `ValueError` with a sentence."""
    from gateway.replay import play
    from gateway.tune import history
    from gateway.tune import load as loads

    given = [name for name in ("metrics", "watch", "replay", "describe") if getattr(args, name)]
    if len(given) != 1:
        raise SettingsError(
            "Which load? Name one of --metrics FILE, --watch SECONDS, --replay FILE and --describe"
            " '16 streams, 5-40 words, 3 languages, partials'."
        )
    draw = Random(args.seed)
    if args.replay:
        meeting = play.load(
            Path(args.replay), seed=args.seed, langs=args.columns, source=args.source
        )
        langs = {lang for one in meeting for lang in one.references}
        return loads.replayed(
            meeting,
            args.seconds,
            draw,
            times=args.times,
            languages=max(1, len(langs)),
            partials=not args.whole,
        )
    lang = languages.normalise(args.source or "en")
    if not any(profile.supports(lang, target) for target in profile.targets):
        raise ValueError(
            f"This model translates nothing from {lang}; say what is spoken with --from LANG."
        )
    sentences = _sentences(args.text, lang)
    if args.describe:
        if args.describe.endswith(".toml"):
            described = _described(Path(args.describe))
        else:
            described = loads.described(args.describe)
        return loads.imagined(described, args.seconds, sentences, lang, draw)
    if args.metrics:
        text = _read(Path(args.metrics))
    else:
        text = _watched(args.url, args.watch, args.every, key, note)
    if keep is not None:
        keep.write_text(text, encoding="utf-8")
    try:
        recorded = history.recorded(history.parse(text))
    except ValueError as exc:
        raise ValueError(f"{args.metrics or args.url}: {exc}") from exc
    return loads.remembered(recorded, args.seconds, sentences, lang, draw)


def _described(path: Path) -> Description:
    from gateway.tune import load as loads

    try:
        return loads.checked(msgspec.convert(tomllib.loads(_read(path)), loads.Description))
    except ValueError as exc:  # msgspec's and tomllib's are ValueErrors
        raise ValueError(f"{path}: {exc}") from exc


def _sentences(name: str | None, lang: str) -> list[str]:
    """What voices say: the lines of a file, else the meeting of the demo page."""
    from gateway.server.page import FOLDERS

    paths = [Path(name)] if name else [one / "meeting" / f"{lang}.txt" for one in FOLDERS]
    for path in paths:
        if name or path.is_file():
            if found := [line.strip() for line in _read(path).splitlines() if line.strip()]:
                return found
            raise ValueError(f"There is no text in {path}.")
    raise ValueError(f"There are no sentences in {lang} here; name a file of some with --text.")


def _targets(asked: Sequence[str], load: Load, profile: Profile) -> tuple[str, ...]:
    """What is read. Raises `ValueError`, `ClientFault` where the model does not translate so."""
    source = load.voices[0][0].lang
    if asked:
        for target in asked:
            profile.resolve(source, languages.normalise(target))
        return tuple(languages.normalise(target) for target in asked)
    known = dict.fromkeys((*(one for one in USUAL if one in profile.targets), *profile.targets))
    able = [one for one in known if one != source and profile.supports(source, one)]
    if len(able) < load.languages:
        raise ValueError(
            f"This load has {load.languages} languages, and the model has {len(able)} to translate"
            f" {source} into: say --to {','.join(able[:3])}"
        )
    return tuple(able[: load.languages])


def _watched(
    url: str, seconds: float, every: float, key: str | None, note: Callable[[str], None]
) -> str:
    """Scrapes of a running gateway, as `history` reads them. Ctrl-C ends it early."""
    parts = urlsplit(url)
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    try:
        known = scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is none
        known = False
    if not known:
        raise ValueError(f"{url} is no address of a gateway; say e.g. http://127.0.0.1:8000.")
    page = urlunsplit((scheme, parts.netloc, "/metrics", "", ""))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    found: list[str] = []
    begin = time.monotonic()
    note(f"{page} is read for {seconds:g} s; Ctrl-C ends it early")
    gone = False
    try:
        while True:
            try:
                lines = _scraped(urllib.request.Request(page, headers=headers)).splitlines()
            except OSError as exc:
                if not found:
                    raise
                if not gone:  # it may be starting anew
                    note(f"{exc} It is tried again")
                gone = True
            else:
                gone = False
                kept = [line for line in lines if line.startswith("gateway_")]
                if not kept:
                    raise ValueError(f"{page} is not of a gateway: nothing in it is gateway_...")
                found += (f"# at {time.time():.3f}", *kept)
            if time.monotonic() - begin >= seconds:
                break
            time.sleep(every)
    except KeyboardInterrupt:
        note("ended early")
    return "\n".join(found) + "\n"


def _scraped(request: urllib.request.Request) -> str:
    """Raises `OSError` with a sentence."""
    try:
        with urllib.request.urlopen(request, timeout=SCRAPE_S) as answer:
            return str(answer.read(BYTES).decode(errors="replace"))
    except urllib.error.HTTPError as exc:
        exc.close()
        why = f"{request.full_url} answers {exc.code}."
        if exc.code in (401, 403):
            why += f" Set {KEY} to the key of a moderator."
        raise OSError(why) from exc
    except urllib.error.URLError as exc:
        raise OSError(f"{request.full_url} cannot be read: {exc.reason}.") from exc
    except (OSError, http.client.HTTPException) as exc:
        raise OSError(f"{request.full_url} cannot be read: {exc or type(exc).__name__}.") from exc


def _read(path: Path) -> str:
    if path.stat().st_size > BYTES:
        raise ValueError(f"{path} is larger than {BYTES} bytes.")
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ValueError(f"{path} is not UTF-8: {exc.reason} at byte {exc.start}.") from exc


def _values(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, values = text.partition("=")
    try:
        found = tuple(sorted({count(value) for value in values.split(",") if value.strip()}))
    except ValueError:
        found = ()
    if not found or not name.strip():
        raise argparse.ArgumentTypeError("it is SETTING=N,N,...: say e.g. max_num_seqs=8,16,32")
    return name.strip().replace("-", "_"), found
