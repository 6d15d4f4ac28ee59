"""The command ``gateway``: its parser, its commands and its exit statuses.

Owns: the list of commands, the smallest of them, and exit statuses: 0, 1 for a failure, 2 for a
wrong command line, 130 after Ctrl-C. Must not know: anything that a program could not do by the
same calls. Every expected failure is a sentence on stderr; a traceback is a bug.

All other commands are modules with ``add``, which adds the flags, and ``run``, which returns the
exit status. Such a module is imported only when its command is given. Other distributions add
commands by entry points in the group `COMMANDS`, see `AddedCommand`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from typing import Any, NamedTuple, NoReturn

from gateway import __version__
from gateway.cli.flags import add_settings, engine_of, loaded
from gateway.cli.terminal import complain
from gateway.client import NotTranslated, Refused
from gateway.errors import GatewayError
from gateway.server.process.logs import set_up_logs
from gateway.settings import catalogue, loading
from gateway.settings.catalogue import SettingsError
from gateway.text import languages

COMMANDS = "caption_gateway.commands"
"""Group of entry points: other distributions add commands, under the commands' names."""

TOOLS = frozenset(("bench", "plan", "record", "replay", "top", "tune"))
"""Commands of the distribution ``caption-gateway-tools``, which may not be installed."""

Fill = Callable[[argparse.ArgumentParser], None]  # A function that adds the flags of a command
Run = Callable[[Any], int]  # A function that runs a command and returns the exit status


class AddedCommand(NamedTuple):
    """A command of another distribution: the object that its entry point names.

    The module of this object is imported whenever ``gateway`` is called, so it should be small.
    """

    help: str  # a sentence
    module: str  # full name of the module with `add` and `run`


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
        return status
    except SettingsError as exc:
        # The help of the command says nothing about a fault inside a file or a variable.
        about_flags = re.search(r"(?<!Check )--\w", str(exc))
        complain(f"{exc}\nSee: {args.prog} --help" if about_flags else str(exc))
        return 2
    except BrokenPipeError:  # e.g. `gateway languages | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (GatewayError, Refused, NotTranslated, OSError, ValueError) as exc:
        complain(_sentence(exc))
    except KeyboardInterrupt:
        return 130
    return 1


def _sentence(exc: Exception) -> str:
    """Return an expected failure for people."""
    if isinstance(exc, OSError) and exc.strerror:
        return f"{exc.filename}: {exc.strerror}" if exc.filename is not None else exc.strerror
    if isinstance(exc, Refused) and exc.error.code == "unauthenticated":
        return f"{exc.error.msg} Set {catalogue.KEY} to a valid API key."
    hint = getattr(exc, "hint", None)
    return f"{exc} {hint}" if hint else str(exc)


# --- small commands ------------------------------------------------------------------------------


def _serve(args: argparse.Namespace) -> int:
    settings = loaded(args).settings
    catalogue.check(settings)
    set_up_logs(settings.log_level, settings.log_format)
    from gateway.server.process.serve import serve

    return serve(settings)


def _add_languages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings(parser, all_topics=False)


def _languages(args: argparse.Namespace) -> int:
    profile = engine_of(loaded(args).settings).profile
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
        return 0
    for row in rows:
        direct = [target for target in row["targets"] if target not in row["pivoted"]]
        line = f"{row['code']:8}  {row['name']:24}  to {', '.join(direct)}"
        if row["pivoted"]:
            line += f"; through {profile.pivot} to {', '.join(row['pivoted'])}"
        print(line)
    return 0


def _add_listing(parser: argparse.ArgumentParser) -> None:
    text = "print JSON: value and origin by name"
    parser.add_argument("--json", action="store_true", help=text)
    add_settings(parser)


def _settings(args: argparse.Namespace) -> int:
    given = loaded(args)
    if args.json:
        print(json.dumps(loading.as_json(given), ensure_ascii=False, indent=2))
    else:
        print(loading.as_text(given))
    return 0


def _add_schema(parser: argparse.ArgumentParser) -> None:
    asyncapi = "print an AsyncAPI document instead"
    parser.add_argument("--asyncapi", action="store_true", help=asyncapi)


def _schema(args: argparse.Namespace) -> int:
    from gateway.server.routes.description import read

    name = "asyncapi.v1.json" if args.asyncapi else "gateway.v1.schema.json"
    print(read(name), end="")
    return 0


# --- command line --------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """The parser of the command or of one of its sub-commands.

    It refuses an unknown argument with its own flags and its own ``--help``. `argparse` would leave
    that to the outermost parser.

    :param fill: adds the flags when the parser is first used
    """

    def __init__(self, *args: Any, fill: Fill | None = None, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.set_defaults(prog=self.prog)
        self._fill = fill

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)
        known, rest = super().parse_known_args(args, namespace)
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
        return known, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as exc:
            if action.dest == "command" and value in TOOLS:
                self.error(f"gateway {value} is not installed: pip install caption-gateway-tools")
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

    def add(name: str, text: str, fill: Fill | None = None, run: Run | None = None) -> None:
        """Add a command; by default it is the module of its name."""
        fill = fill or _module(f"gateway.cli.{name}")
        made = commands.add_parser(name, help=text, description=text, allow_abbrev=False, fill=fill)
        made.set_defaults(run=run)

    add("serve", "Run the gateway.", add_settings, _serve)
    add("doctor", "Check whether a gateway with these settings can start on this machine.")
    add("say", "Translate one text, in this process or by a running gateway.")
    add("chat", "Type lines to a running gateway and read the captions.")
    add("listen", "Send speech to a running gateway, and show or save its captions.")
    names = "List the languages that the engine translates."
    add("languages", names, _add_languages, _languages)
    values = "List all settings, their values and where each comes from."
    add("settings", values, _add_listing, _settings)
    add("models", "List the models that can be named, fetch one, or remove one.")
    add("key", "Make an API key. The key is printed once; the file keeps only its hash.")
    add("backup", "Copy the store to a new file, also while a gateway uses it.")
    add("schema", "Print the protocol as JSON Schema.", _add_schema, _schema)
    for point in sorted(metadata.entry_points(group=COMMANDS)):
        added: AddedCommand = point.load()
        add(point.name, added.help, _module(added.module))
    return parser


def _module(name: str) -> Fill:
    """Return a function that imports the module of a command and adds its flags."""

    def fill(parser: argparse.ArgumentParser) -> None:
        command = import_module(name)
        command.add(parser)
        parser.set_defaults(run=command.run)

    return fill
