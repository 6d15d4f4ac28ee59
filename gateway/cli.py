"""The command ``gateway``: from words on a command line to a gateway, or to a client of one.

Owns: the commands, their flags (those of settings are made from `gateway.settings`), the terminal,
and exit statuses: 0, 1 for a failure, 2 for a command line that cannot be understood, 130 after
Ctrl-C. Must not know: anything that a program could not do by the same calls. What can go wrong is
a sentence on stderr; a traceback is a bug.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from gateway import __version__, keys, languages, schema, settings
from gateway.bench import command as bench
from gateway.chat import converse
from gateway.client import Captions, NotTranslated, Refused, connect
from gateway.engines import build
from gateway.engines.base import Engine
from gateway.errors import ClientFault, ErrorCode, GatewayError
from gateway.flags import count, positive, rooms, seconds, share, tags, views
from gateway.intake import clean
from gateway.job import Job
from gateway.member import Role
from gateway.messages import (
    Cancelled,
    Delta,
    Error,
    Failed,
    Final,
    Source,
)
from gateway.profiles import Profile
from gateway.settings import Loaded, Settings, SettingsError
from gateway.terminal import Screen, printable
from gateway.tune import command as tune

if TYPE_CHECKING:
    from gateway.replay.play import Player
    from gateway.replay.script import Utterance

PATIENCE_S = 30.0
"""Seconds that ``say`` tries to come back to a gateway that is gone."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status. Raises `SystemExit` as argparse does."""
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    try:
        if rest:
            known = [row.flag for row in settings.table().values()]
            raise SettingsError(f"There is no {rest[0]} here.{settings.near(rest[0], known)}")
        status: int = args.run(args)
    except SettingsError as exc:
        return _complain(f"{exc}\nSee: gateway {args.command} --help", 2)
    except BrokenPipeError:  # e.g. `gateway languages | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (GatewayError, Refused, NotTranslated, OSError, ValueError) as exc:
        hint = getattr(exc, "hint", None)
        if isinstance(exc, Refused) and exc.error.code == "unauthenticated":
            return _complain(f"{exc.error.msg} Set {settings.KEY} to a key that is good.", 1)
        return _complain(f"{exc} {hint}" if hint else str(exc), 1)
    except KeyboardInterrupt:
        return 130
    return status


# --- commands ------------------------------------------------------------------------------------


def _serve(args: argparse.Namespace) -> int:
    loaded = _loaded(args)
    settings.refuse_exposure(loaded.settings)
    _log(loaded.settings.log_level)
    if loaded.settings.workers > 1:
        from gateway.server.workers import serve as supervise

        return supervise(loaded.settings)
    from gateway.server.process import serve

    return serve(loaded.settings)


def _say(args: argparse.Namespace) -> int:
    targets = tuple(languages.normalise(tag) for tag in args.to)
    show = Captioned(Screen(sys.stdout), targets)
    if args.url is None:
        loaded = _loaded(args)
        _log("warning")
        asyncio.run(_translate(args.text, loaded.settings, args.source, show))
    else:
        asyncio.run(_ask(args.text, args.url, args.source, show))
    return show.end()


def _chat(args: argparse.Namespace) -> int:
    asyncio.run(_converse(args))
    return 0


def _languages(args: argparse.Namespace) -> int:
    profile = asyncio.run(_profile(_loaded(args).settings))
    rows = [
        {
            "code": source,
            "name": languages.name(source),
            "targets": [t for t in profile.targets if t != source and profile.supports(source, t)],
        }
        for source in profile.sources
    ]
    if args.json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        for row in rows:
            print(f"{row['code']:8}  {row['name']:24}  to {', '.join(row['targets'])}")
    return 0


def _settings(args: argparse.Namespace) -> int:
    if args.markdown:
        print(settings.markdown(), end="")
    else:
        print(settings.listing(_loaded(args)))
    return 0


def _schema(args: argparse.Namespace) -> int:
    document = schema.asyncapi() if args.asyncapi else schema.json_schema()
    print(json.dumps(document, ensure_ascii=False, indent=2))
    return 0


# --- key -----------------------------------------------------------------------------------------


def _key(args: argparse.Namespace) -> int:
    """Make a key, put its hash into the file, and print it: it is written nowhere else."""
    file = Path(args.keys).expanduser()
    until = None
    if args.days is not None:
        until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=args.days)
    fields = {
        "id": secrets.token_hex(keys.ID_BYTES),
        "name": args.name,
        "hash": "0" * 64,
        "role": args.role,
        "rooms": args.rooms,
        "langs": args.langs,
        "tenant": args.tenant,
        "until": until,
        "quota": {"sessions": args.sessions, "inflight": args.inflight, "minute": args.minute},
    }
    try:
        key = msgspec.convert(fields, keys.Key)
    except msgspec.ValidationError as exc:
        raise SettingsError(f"There cannot be such a key: {exc}.") from exc
    token, entry = keys.made(key, secrets.token_hex(keys.SECRET_BYTES))
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    with open(descriptor, "r+", encoding="utf-8") as opened:
        before = opened.read()
        gap = "\n" if before else ""
        keys.Keyring.read(before + gap + entry)  # else a mistake would lock everybody out
        opened.write(gap + entry)
    print(token)
    print(
        f"# The key {args.name!r} is in {file}; it is not shown again. A gateway that runs with"
        f" --keys {file} takes it within seconds.",
        file=sys.stderr,
    )
    return 0


# --- say -----------------------------------------------------------------------------------------


class Captioned:
    """One text on the screen in several languages, each with its translation or what went wrong."""

    def __init__(self, screen: Screen, targets: Sequence[str]) -> None:
        self.targets = targets
        self._screen = screen
        self._shown: dict[str, str | Exception] = {}

    def show(self, lang: str, text: str | Exception) -> None:
        """The text so far; the last call for a language is how it ends."""
        self._shown[lang] = text
        shown = [lang for lang in self.targets if lang in self._shown]
        self._screen.draw([self._line(lang) for lang in shown])

    def end(self) -> int:
        """Print everything in the order it was asked for; the exit status."""
        self._screen.draw([])
        status = 0
        for lang in self.targets:
            if isinstance(self._shown[lang], Exception):
                status = _complain(self._line(lang), 1)
            else:
                self._screen.finish(self._line(lang))
        return status

    def _line(self, lang: str) -> str:
        return f"[{lang}] {self._shown[lang]}" if len(self.targets) > 1 else str(self._shown[lang])


async def _ask(text: str, url: str, source: str | None, out: Captioned) -> None:
    """Let a running gateway translate."""
    captions = Captions()
    left = set(out.targets)
    async with connect(
        url, to=out.targets, source=source, patience_s=PATIENCE_S, key=_shown()
    ) as client:
        id = await client.say(text)
        async for event in client:
            captions.fold(event)
            match event:
                case Delta():
                    out.show(event.lang, captions[id, event.lang].text)
                case Final():
                    out.show(event.lang, event.text)
                    left.discard(event.lang)
                case Failed() | Cancelled(lang=str()):
                    out.show(str(event.lang), NotTranslated(event))
                    left.discard(str(event.lang))
                case Error():
                    raise Refused(event)
            if not left:
                break


async def _translate(text: str, settings: Settings, source: str | None, out: Captioned) -> None:
    """Translate in this process: the engine is started, used once and closed."""
    engine = build(settings)
    try:
        text = clean(text)
        if not text:
            raise ClientFault(ErrorCode.EMPTY_TEXT, "There is nothing to translate.")
        source = languages.normalise(source or _spoken(text, settings, engine.profile))
        pairs = [engine.profile.resolve(source, target) for target in out.targets]
        await engine.start()
        async with asyncio.TaskGroup() as tasks:
            for target, (spoken, made) in zip(out.targets, pairs, strict=True):
                job = Job(id=target, text=text, source=spoken, target=made)
                tasks.create_task(_stream(engine, job, out))
    finally:
        await engine.aclose()


async def _stream(engine: Engine, job: Job, out: Captioned) -> None:
    text = ""
    try:
        async with aclosing(engine.translate(job)) as chunks:
            async for chunk in chunks:
                text = chunk.text if chunk.reset else text + chunk.text
                out.show(job.id, text)
    except GatewayError as fault:
        out.show(job.id, fault)
    else:
        out.show(job.id, text)


def _spoken(text: str, settings: Settings, profile: Profile) -> str:
    """The language of the text, where nobody said it: the rule of `Settings.lang`."""
    if settings.lang is not None:
        return settings.lang
    try:
        from gateway.detect import Detector

        found = Detector(profile.sources)(text)
    except ImportError:
        found = None
    return found or ("en" if "en" in profile.sources else profile.sources[0])


async def _profile(settings: Settings) -> Profile:
    """What the engine could translate; no model is loaded."""
    engine = build(settings)
    try:
        return engine.profile
    finally:
        await engine.aclose()


# --- chat ----------------------------------------------------------------------------------------


async def _converse(args: argparse.Namespace) -> None:
    await converse(
        args.url, to=args.to, source=args.source, room=args.room, speaker=args.speaker, key=_shown()
    )


# --- replay and record ---------------------------------------------------------------------------


def _replay(args: argparse.Namespace) -> int:
    from gateway.replay import play, plot, report, script

    outputs = [Path(name) for name in (args.json, args.plot) if name]
    for path in outputs:
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no directory {path.parent} to write {path.name} to.")
    whole = play.load(Path(args.file), seed=args.seed, langs=args.columns, source=args.source)
    said = script.faster(whole[: args.limit], args.speed)
    to = args.to or tuple(dict.fromkeys(lang for one in said for lang in one.references))
    if not to:
        raise SettingsError(f"{args.file} names no languages to read: say e.g. --to de,fr.")
    to = tuple(languages.normalise(tag) for tag in to)
    player = play.Player(
        args.url, said, to=to, views=args.view, room=args.room, screen=Screen(sys.stdout),
        key=_shown(),
    )  # fmt: skip
    status = 0
    try:
        asyncio.run(_perform(player, args.offline))
    except KeyboardInterrupt:
        status = 130
    except OSError as exc:
        if not player.begun:
            raise
        status = _complain(str(exc), 1)
    made = report.made(player)
    print(report.table(made))
    seen = {lang: player.readings(lang, args.view[0]) for lang in to}
    if args.json:
        Path(args.json).write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    if args.simuleval:
        report.write_instances(Path(args.simuleval), seen)
    if args.plot:
        Path(args.plot).write_text(plot.svg(seen), "utf-8")
    return status


async def _perform(player: Player, offline: bool) -> None:
    await player.play()
    if offline:
        print("# The final texts alone, to compare with ...", file=sys.stderr)
        await player.compare()


def _record(args: argparse.Namespace) -> int:
    from gateway.replay.record import Recorder, record

    path, screen = Path(args.file), Screen(sys.stdout)
    langs = tuple(languages.normalise(tag) for tag in args.to)
    with path.open("xb") as file:

        def write(one: Utterance) -> None:
            file.write(msgspec.json.encode(one) + b"\n")

        def said(source: Source) -> None:
            screen.finish(f"{source.speaker or 'somebody'}: {source.text}")

        recorder = Recorder(langs, write)
        was = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            asyncio.run(record(args.url, args.room, langs, recorder, said, _shown()))
        except KeyboardInterrupt:
            pass  # how a recording is ended
        finally:
            signal.signal(signal.SIGTERM, was)
            recorder.end()
            if not recorder.written:
                path.unlink()
    print(
        f"# {recorder.written} utterances in {path}" if recorder.written else "# Nothing was said."
    )
    return 0


# --- soak ----------------------------------------------------------------------------------------


def _soak(args: argparse.Namespace) -> int:
    from gateway.soak import report
    from gateway.soak.run import Plan, Soak

    plan = Plan(
        seconds=args.seconds if args.hours is None else args.hours * 3600 / args.speed,
        sessions=args.sessions,
        rooms=args.rooms,
        speed=args.speed,
        cut=args.cut,
        stay=args.stay,
        kill=args.kill,
        faults=args.faults,
        seed=args.seed,
        flags=tuple(args.flags),
    )
    _log("error")
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # broken wires are what it is about
    with tempfile.TemporaryDirectory(prefix="gateway-soak-") as folder:
        made = asyncio.run(Soak(plan, Path(folder)).run())
        print(report.table(made))
        if made.broken and args.keep:
            shutil.copy(Path(folder) / "gateway.log", args.keep)
    if args.json:
        Path(args.json).write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    return 1 if made.broken else 0


def _bench(args: argparse.Namespace) -> int:
    return bench.run(args, print, lambda line: print(line, file=sys.stderr))


def _tune(args: argparse.Namespace) -> int:
    _log("error")
    loaded = _loaded(args)

    def note(line: str) -> None:
        print(f"# {printable(line)}", file=sys.stderr)

    return tune.run(args, loaded.settings, key=_shown(), out=print, note=note)


# --- command line --------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"gateway: {message}\nSee: {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="gateway", description="Typed or spoken lines in, live captions out.")
    parser.add_argument("--version", action="version", version=f"gateway {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        made.set_defaults(run=run)
        return made

    _add_settings(command("serve", _serve, "Run the gateway."))

    say = command("say", _say, "Translate one text, here or on a running gateway.")
    say.add_argument("text", metavar="TEXT")
    _add_languages(say, required=True)
    say.add_argument("--url", help="a running gateway; else the engine is started here")
    _add_settings(say)

    chat = command("chat", _chat, "Type lines to a running gateway and read its captions.")
    chat.add_argument("--url", default="ws://127.0.0.1:8000", help="default: %(default)s")
    _add_languages(chat, required=False)
    chat.add_argument("--room", help="default: a room of your own")
    chat.add_argument("--speaker", metavar="NAME", help="name shown to others in the room")
    chat.epilog = f"Where the gateway asks for a key, it is the one in {settings.KEY}."

    replay = command("replay", _replay, "Play a timed meeting to a running gateway, and measure.")
    replay.add_argument("file", metavar="FILE", help="JSON lines, or columns; docs/captions.md")
    replay.add_argument("--url", default="ws://127.0.0.1:8000", help="default: %(default)s")
    replay.add_argument("--room", help="default: a new one")
    replay.add_argument(
        "--to", type=tags, default=(), metavar="LANG[,LANG]", help="default: those of the file"
    )
    replay.add_argument("--view", type=views, default=("live", "stable"), metavar="VIEW[,VIEW]",
                        help="live, stable, final; default: live,stable")  # fmt: skip
    replay.add_argument("--columns", type=tags, default=(), metavar="LANG[,LANG]",
                        help="the languages of the file's columns")  # fmt: skip
    replay.add_argument("--from", dest="source", metavar="LANG", help="the column that is said")
    replay.add_argument("--speed", type=positive, default=1.0, help="times as fast; default: 1")
    replay.add_argument("--seed", type=int, default=0, help="of the recogniser's mistakes")
    replay.add_argument("--limit", type=count, metavar="N", help="only the first N utterances")
    replay.add_argument("--offline", action=argparse.BooleanOptionalAction, default=True,
                        help="have the final texts alone translated too, to compare")  # fmt: skip
    replay.add_argument("--json", metavar="FILE", help="write all figures")
    replay.add_argument("--simuleval", metavar="DIR", help="write logs for SimulEval, OmniSTEval")
    replay.add_argument("--plot", metavar="FILE.svg", help="draw what happened when")

    record = command("record", _record, "Write down a live room, to be replayed. Ctrl-C ends.")
    record.add_argument("room", metavar="ROOM")
    record.add_argument("file", metavar="FILE", help="a new file of JSON lines")
    record.add_argument("--url", default="ws://127.0.0.1:8000", help="default: %(default)s")
    record.add_argument("--to", type=tags, required=True, metavar="LANG[,LANG]",
                        help="to read; with the spoken one, how the originals grew")  # fmt: skip

    soak = command("soak", _soak, "Load a gateway of its own, break what can break, and count.")
    soak.add_argument("--seconds", type=positive, default=60.0, help="default: 60")
    soak.add_argument("--hours", type=positive, help="simulated ones, instead of --seconds")
    soak.add_argument("--speed", type=positive, default=1.0,
                      help="simulated seconds a second; default: 1")  # fmt: skip
    soak.add_argument("--sessions", type=count, default=200, metavar="N", help="default: 200")
    soak.add_argument("--rooms", type=count, default=8, metavar="N", help="default: 8")
    soak.add_argument("--cut", type=seconds, default=20.0, metavar="SECONDS",
                      help="between two faults of one network; default: 20; 0: none")  # fmt: skip
    soak.add_argument("--stay", type=seconds, default=60.0, metavar="SECONDS",
                      help="of a reader; then another comes; default: 60; 0: all")  # fmt: skip
    soak.add_argument("--kill", type=seconds, default=20.0, metavar="SECONDS",
                      help="between two ends of the gateway, by signal 9 and 15 in turn; "
                      "default: 20; 0: none")  # fmt: skip
    soak.add_argument("--faults", type=share, default=0.01, metavar="SHARE",
                      help="of the translations that fail; default: 0.01")  # fmt: skip
    soak.add_argument("--seed", type=int, default=0, help="of chance; default: 0")
    soak.add_argument("--json", metavar="FILE", help="write all figures")
    soak.add_argument("--keep", metavar="FILE", help="the gateway's log, if a promise was broken")
    soak.add_argument("flags", nargs="*", metavar="-- FLAG",
                      help="more flags of gateway serve, after --")  # fmt: skip

    bench.add(command("bench", _bench, "Measure what a gateway can bear, and what it costs."))
    tuned = command("tune", _tune, "Find the settings for the load that a gateway really has.")
    tune.add(tuned)
    _add_settings(tuned)

    langs = command("languages", _languages, "What the engine's model translates into what.")
    langs.add_argument("--json", action="store_true")
    _add_settings(langs)

    show = command("settings", _settings, "Every setting, its value and where that came from.")
    show.add_argument("--markdown", action="store_true", help="print docs/settings.md")
    _add_settings(show)

    key = command("key", _key, "Make an API key. It is printed once; the file has its hash.")
    key.add_argument("name", metavar="NAME", help="for logs, and to find it in the file")
    key.add_argument("--keys", metavar="FILE", required=True, help="made where there is none")
    key.add_argument("--role", choices=[role.value for role in Role], default=Role.SPEAK.value,
                     help="the most its bearer may be; default: %(default)s")  # fmt: skip
    key.add_argument("--rooms", type=rooms, default=("*",), metavar="ROOM[,ROOM]",
                     help="with * and ?; ~* are those without a name; default: all")  # fmt: skip
    key.add_argument("--langs", type=tags, metavar="LANG[,LANG]", help="to read; default: all")
    key.add_argument("--tenant", metavar="NAME", help="whose quota it uses; default: its own")
    key.add_argument("--days", type=positive, metavar="N", help="until it expires; default: never")
    for name, text in (
        ("sessions", "open sockets of its tenant"),
        ("inflight", "utterances of its tenant that have not ended"),
        ("minute", "utterances of its tenant within a minute"),
    ):
        key.add_argument(f"--{name}", type=count, metavar="N", help=text)

    wire = command("schema", _schema, "The protocol as JSON Schema.")
    wire.add_argument("--asyncapi", action="store_true", help="as an AsyncAPI document")
    return parser


def _add_languages(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--to", type=tags, default=(), required=required, metavar="LANG[,LANG]", help="e.g. de,fr"
    )
    parser.add_argument("--from", dest="source", metavar="LANG", help="language of what is said")


def _shown() -> str | None:
    """The key that a running gateway is shown. No flag: other users of the machine read those."""
    return os.environ.get(settings.KEY) or None


def _add_settings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "settings", "Each is also a variable GATEWAY_... and a key of the TOML file."
    )
    group.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="a TOML file")
    for row in settings.table().values():
        text = row.doc.replace("``", "").replace("%", "%%")
        common: dict[str, Any] = {"dest": row.name, "default": argparse.SUPPRESS, "help": text}
        if row.table:
            group.add_argument(row.flag, action="append", metavar="KEY=VALUE", **common)
        elif row.boolean:
            group.add_argument(row.flag, action=argparse.BooleanOptionalAction, **common)
        else:
            group.add_argument(row.flag, metavar=row.name.rpartition("_")[2].upper(), **common)


def _loaded(args: argparse.Namespace) -> Loaded:
    """The settings; what they warn of goes to stderr. Raises `SettingsError`."""
    flags = vars(args)
    for row in settings.table().values():
        if row.table and row.name in flags:
            flags = flags | {row.name: dict(_entry(row.flag, one) for one in flags[row.name])}
    loaded = settings.load(flags, os.environ)
    for warning in loaded.warnings:
        _complain(warning, 0)
    return loaded


def _entry(flag: str, text: str) -> tuple[str, object]:
    """``key=value``, the value as JSON where it is some, else as it stands."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise SettingsError(f"{flag} cannot be {text!r}: it is KEY=VALUE.")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value


def _log(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for each caption otherwise


def _complain(text: str, status: int) -> int:
    print("gateway:", "\n".join(map(printable, text.split("\n"))), file=sys.stderr)
    return status
