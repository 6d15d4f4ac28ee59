"""The command ``gateway``: its parser, its commands and its exit statuses.

Owns: the commands, the flags of small commands, the flags of settings (made from
`gateway.settings.catalogue`), the terminal, and exit statuses: 0, 1 for a failure, 2 for a wrong
command line, 130 after Ctrl-C. Must not know: anything that a program could not do by the same
calls. Every expected failure is a sentence on stderr; a traceback is a bug.

The tools for operators (`gateway.cli.plan`, `gateway.cli.report`, `gateway.cli.replay`,
`gateway.cli.top`, `gateway.cli.tune`) are imported only when their command is given, so that a
serving gateway does not hold them in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from gateway import __version__
from gateway.cli import key as key_command
from gateway.cli import say
from gateway.cli.chat import converse
from gateway.cli.console.args import URL, tags
from gateway.cli.console.settings_flags import add_settings, load_flags
from gateway.cli.console.terminal import Screen, printable
from gateway.client import NotTranslated, Refused
from gateway.core.base.model import Model
from gateway.engines.registry import build
from gateway.errors import GatewayError
from gateway.server.process.logs import set_up_logs
from gateway.settings import catalogue, listing, loading
from gateway.settings.catalogue import Settings, SettingsError
from gateway.settings.loading import LoadedSettings
from gateway.text import languages

PACKAGE = Path(__file__).resolve().parents[1]
SCHEMAS = (PACKAGE.parent / "docs" / "schema", PACKAGE / "schema")
"""Folders that may hold the generated schemas: in a checkout, or in an installed wheel."""

NEEDS_KEY = f"If the gateway requires an API key, set the variable {catalogue.KEY}."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Raises `SystemExit` as argparse does."""
    parser = _parser()
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["help"]:  # as people try it: `gateway help serve`
        words = [*words[1:], "--help"]
    args = parser.parse_args(words)
    if args.command is None:
        parser.print_help()
        return 2
    try:
        status: int = args.run(args)
    except SettingsError as exc:
        # The help of the command says nothing about a fault inside a file or a variable.
        about_flags = re.search(r"(?<!Check )--\w", str(exc))
        return _complain(f"{exc}\nSee: {args.prog} --help" if about_flags else str(exc), 2)
    except BrokenPipeError:  # e.g. `gateway languages | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (GatewayError, Refused, NotTranslated, OSError, ValueError) as exc:
        hint = getattr(exc, "hint", None)
        if isinstance(exc, OSError) and exc.strerror:
            where = f"{exc.filename}: " if exc.filename is not None else ""
            return _complain(f"{where}{exc.strerror}", 1)
        if isinstance(exc, Refused) and exc.error.code == "unauthenticated":
            return _complain(f"{exc.error.msg} Set {catalogue.KEY} to a valid API key.", 1)
        return _complain(f"{exc} {hint}" if hint else str(exc), 1)
    except KeyboardInterrupt:
        return 130
    return status


# --- commands ------------------------------------------------------------------------------------


def _serve(args: argparse.Namespace) -> int:
    loaded = _loaded(args)
    catalogue.refuse_exposure(loaded.settings)
    catalogue.refuse_two_stores(loaded.settings)
    set_up_logs(loaded.settings.log_level, loaded.settings.log_format)
    from gateway.server.process.serve import serve

    return serve(loaded.settings)


def _doctor(args: argparse.Namespace) -> int:
    from gateway.cli import doctor

    set_up_logs("error")
    return doctor.run(load_flags(args), partial(print, flush=True))


def _say(args: argparse.Namespace) -> int:
    targets = tuple(languages.normalise(tag) for tag in args.to)
    show = say.CaptionPrinter(Screen(sys.stdout), targets, _fault)
    if args.url is None:
        loaded = _loaded(args)
        set_up_logs("warning")
        asyncio.run(say.translate(args.text, loaded.settings, args.source, show))
    else:
        asyncio.run(say.ask(args.text, args.url, args.source, _shown(), show))
    return show.end()


def _chat(args: argparse.Namespace) -> int:
    asyncio.run(_converse(args))
    return 0


async def _converse(args: argparse.Namespace) -> None:
    await converse(
        args.url, to=args.to, source=args.source, room=args.room, speaker=args.speaker, key=_shown()
    )


def _listen(args: argparse.Namespace) -> int:
    from gateway.cli import listen

    if args.source is None:
        _complain(
            f"Name a file, or - for a pipe. To send the microphone:\n  {listen.microphone()}", 2
        )
        return 2
    to = tuple(languages.normalise(tag) for tag in args.to)
    if args.save is not None:
        listen.saved_format(args.save)
    listen.check_source(args.source)
    screen = listen.SpeechScreen(Screen(sys.stdout), several=len(to) > 1, complain=_fault)
    try:
        asyncio.run(
            listen.listen(
                args.source, args.url, to=to, spoken=args.spoken, room=args.room,
                speaker=args.speaker, key=_shown(), listener=screen,
            )
        )  # fmt: skip
    finally:  # after Ctrl-C too
        if args.save is not None and screen.heard:
            _note("saved " + ", ".join(map(str, screen.save(args.save, to))))
    if not screen.heard:
        _note("No speech was heard.")
    return 1 if screen.failed else 0


def _replay(args: argparse.Namespace) -> int:
    from gateway.cli.replay import command

    return command.replay(args, key=_shown(), out=print, note=_note, complain=_fault)


def _record(args: argparse.Namespace) -> int:
    from gateway.cli.replay import command

    return command.record(args, key=_shown(), out=print)


def _bench_load(args: argparse.Namespace) -> int:
    from gateway.cli.loadtest import command

    return command.run(args, print, lambda line: print(line, file=sys.stderr))


def _tune(args: argparse.Namespace) -> int:
    from gateway.cli.tune import command

    set_up_logs("error")
    loaded = _loaded(args)
    return command.run(args, loaded.settings, key=_shown(), out=print, note=_note)


def _plan(args: argparse.Namespace) -> int:
    from gateway.cli.plan import command

    return command.run(args, print)


def _top(args: argparse.Namespace) -> int:
    from gateway.cli.top import command

    return command.run(args, key=_shown())


def _languages(args: argparse.Namespace) -> int:
    profile = asyncio.run(_profile(_loaded(args).settings))
    rows = [
        {
            "code": source,
            "name": languages.name(source),
            "targets": [t for t in profile.targets if t != source and profile.supports(source, t)],
            "pivoted": [t for t in profile.targets if profile.pivots(source, t)],
        }
        for source in profile.sources
    ]
    if args.json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        for row in rows:
            direct = [target for target in row["targets"] if target not in row["pivoted"]]
            line = f"{row['code']:8}  {row['name']:24}  to {', '.join(direct)}"
            if row["pivoted"]:
                line += f"; through {profile.pivot} to {', '.join(row['pivoted'])}"
            print(line)
    return 0


async def _profile(settings: Settings) -> Model:
    """Return the languages of the engine's model, without loading the model."""
    engine = build(settings)
    try:
        return engine.profile
    finally:
        await engine.aclose()


def _settings(args: argparse.Namespace) -> int:
    if args.markdown:
        print(listing.markdown(), end="")
    elif args.json:
        print(json.dumps(listing.as_json(_loaded(args)), ensure_ascii=False, indent=2))
    else:
        print(listing.as_text(_loaded(args)))
    return 0


def _schema(args: argparse.Namespace) -> int:
    name = "asyncapi.v1.json" if args.asyncapi else "gateway.v1.schema.json"
    files = (folder / name for folder in SCHEMAS)
    print(next(file for file in files if file.is_file()).read_text(encoding="utf-8"), end="")
    return 0


# --- command line --------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """The parser of the command or of one of its sub-commands.

    It refuses an unknown argument with its own flags and its own ``--help``. `argparse` would leave
    that to the outermost parser.

    :param fill: adds the flags when the parser is first used, so that a tool is imported only when
        its command is given
    """

    def __init__(
        self, *args: Any, fill: Callable[[argparse.ArgumentParser], None] | None = None, **kw: Any
    ) -> None:
        super().__init__(*args, **kw)
        self.set_defaults(prog=self.prog)
        self._fill = fill

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            name = rest[0].partition("=")[0]
            if not name.startswith("-"):
                self.error(f"Unexpected argument: {rest[0]!r}.")
            try:
                loading.refuse_removed(name, name)
            except SettingsError as exc:
                self.error(str(exc))
            near = loading.near(name, self._option_string_actions)
            self.error(f"Unknown option {name}.{near}")
        return found, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as exc:
            exc.message += "." + loading.near(str(value), map(str, action.choices or ()))
            raise

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"gateway: {message}\nSee: {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gateway",
        description="A real-time translation gateway: text in, live captions out.",
        epilog="To begin: gateway serve, then open http://127.0.0.1:8000/ in a browser."
        " gateway COMMAND --help explains a command.",
    )
    shown = f"gateway {__version__}"
    parser.add_argument("--version", action="version", version=shown, help="show the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(
        name: str,
        run: Callable[[argparse.Namespace], int],
        text: str,
        fill: Callable[[argparse.ArgumentParser], None] | None = None,
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, allow_abbrev=False, fill=fill)
        made.set_defaults(run=run)
        return made

    add_settings(command("serve", _serve, "Run the gateway."))
    checked = "Check whether a gateway with these settings can start on this machine."
    add_settings(command("doctor", _doctor, checked))

    once = command("say", _say, "Translate one text, in this process or by a running gateway.")
    once.add_argument("text", metavar="TEXT", help="text to translate")
    _add_languages(once, required=True)
    once.add_argument(
        "--url", help="address of a running gateway; default: start the engine in this process"
    )
    add_settings(once, all_topics=False)
    once.epilog = NEEDS_KEY

    chat = command("chat", _chat, "Type lines to a running gateway and read the captions.")
    chat.add_argument("--url", default=URL, help="address of the gateway; default: %(default)s")
    _add_languages(chat, required=False)
    chat.add_argument("--room", help="room to join; default: a new private room")
    chat.add_argument("--speaker", metavar="NAME", help="your name, shown to others in the room")
    chat.epilog = NEEDS_KEY

    heard = command(
        "listen", _listen, "Send speech to a running gateway, and show or save its captions."
    )
    heard.add_argument(
        "source", nargs="?", metavar="FILE", help="file with sound or film, or - for a pipe"
    )
    heard.add_argument("--url", default=URL, help="address of the gateway; default: %(default)s")
    heard.add_argument(
        "--to", type=tags, default=(), metavar="LANG[,LANG]", help="languages to translate into"
    )
    heard.add_argument(
        "--from", dest="spoken", metavar="LANG[,LANG]",
        help="languages that are spoken; default: as the gateway detects",
    )  # fmt: skip
    heard.add_argument("--room", help="room that others read; default: a new private room")
    heard.add_argument("--speaker", metavar="NAME", help="name that others in the room see")
    heard.add_argument(
        "--save", type=Path, metavar="FILE",
        help="subtitles of what was said, as .vtt, .srt or .txt; each language beside it",
    )  # fmt: skip
    heard.epilog = NEEDS_KEY

    played = "Play a meeting from a file to a running gateway, and measure its captions."
    command("replay", _replay, played, _add_replay)
    written = "Record a live room to a file for gateway replay. Ctrl-C ends the recording."
    command("record", _record, written, _add_record)
    takes = "Load-test a running gateway."
    bench = commands.add_parser("bench", help=takes, description=takes, allow_abbrev=False)
    loaded = "Put a load on a running gateway, and measure latencies."
    bench.add_subparsers(dest="bench", metavar="load", required=True).add_parser(
        "load", help=loaded, description=loaded, allow_abbrev=False, fill=_add_bench_load
    ).set_defaults(run=_bench_load)
    found = "Find the engine settings that fit the load of a gateway."
    command("tune", _tune, found, _add_tune)
    planned = "Compute how many engines, gateways and Redis servers a number of meetings needs."
    command("plan", _plan, planned, _add_plan)
    shown = "Show how one or several gateways are doing, live, in the terminal."
    command("top", _top, shown, _add_top)

    langs = command("languages", _languages, "List the languages that the engine translates.")
    langs.add_argument("--json", action="store_true", help="print JSON")
    add_settings(langs, all_topics=False)

    show = command(
        "settings", _settings, "List all settings, their values and where each comes from."
    )
    forms = show.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print JSON: value and origin by name")
    forms.add_argument(
        "--markdown", action="store_true", help="print the page docs/reference/settings.md"
    )
    add_settings(show)

    made = "Make an API key. The key is printed once; the file keeps only its hash."
    key_command.add(command("key", key_command.make, made))

    wire = command("schema", _schema, "Print the protocol as JSON Schema.")
    wire.add_argument("--asyncapi", action="store_true", help="print an AsyncAPI document instead")
    return parser


def _add_replay(parser: argparse.ArgumentParser) -> None:
    from gateway.cli.replay import command

    command.add_replay(parser)


def _add_record(parser: argparse.ArgumentParser) -> None:
    from gateway.cli.replay import command

    command.add_record(parser)


def _add_bench_load(parser: argparse.ArgumentParser) -> None:
    from gateway.cli.loadtest import command

    command.add(parser)


def _add_tune(parser: argparse.ArgumentParser) -> None:
    from gateway.cli.tune import command

    command.add(parser)
    add_settings(parser, all_topics=False)
    load = "(--metrics FILE | --watch SECONDS | --replay FILE | --describe TEXT)"
    parser.usage = f"%(prog)s [options] {load} [--SETTING VALUE ...]"


def _add_plan(parser: argparse.ArgumentParser) -> None:
    from gateway.cli.plan import command

    command.add(parser)


def _add_top(parser: argparse.ArgumentParser) -> None:
    from gateway.cli.top import command

    command.add(parser, URL)


def _add_languages(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--to",
        type=tags,
        default=(),
        required=required,
        metavar="LANG[,LANG]",
        help="languages to translate into, e.g. de,fr",
    )
    parser.add_argument(
        "--from", dest="source", metavar="LANG", help="language of the text; default: detected"
    )


def _shown() -> str | None:
    """Return the API key from the environment. No flag has it: other users of the machine can read
    those.
    """
    return os.environ.get(catalogue.KEY) or None


def _loaded(args: argparse.Namespace) -> LoadedSettings:
    """Return the settings and print their warnings on stderr. Raises `SettingsError`."""
    loaded = load_flags(args)
    for warning in loaded.warnings:
        _complain(warning, 0)
    return loaded


def _note(line: str) -> None:
    """Print a line of progress on stderr, beside what a command prints."""
    print(f"# {printable(line)}", file=sys.stderr)


def _fault(text: str) -> None:
    """Print a failure after which the command goes on."""
    _complain(text, 1)


def _complain(text: str, status: int) -> int:
    with contextlib.suppress(OSError):  # a full disk must not stop a gateway that serves
        print("gateway:", "\n".join(map(printable, text.split("\n"))), file=sys.stderr)
    return status
