"""Flags of commands: types of arguments, shared flags and checks, and the flags of settings.

Owns: parsing, range checks, and the form of settings' flags and of their help. Must not know:
commands. Each type raises `argparse.ArgumentTypeError`, which argparse turns into a sentence.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from gateway.cli.terminal import complain
from gateway.settings import catalogue, loading
from gateway.settings.catalogue import Settings, SettingsError
from gateway.settings.loading import LoadedSettings
from gateway.settings.setting import Setting

if TYPE_CHECKING:
    from gateway.engines.base.engine import Engine

N = TypeVar("N", int, float)
URL = "ws://127.0.0.1:8000"  # address of a gateway with its usual settings on this machine


ENGINE_TOPICS = frozenset(
    catalogue.TOPICS[first]
    for first in ("engine", "compute_type", "max_num_seqs", "openai_url", "scripted_delay")
)
"""Topics of the settings that a command needs which only translates."""


def add_url(parser: argparse.ArgumentParser) -> None:
    """Add the flag for the address of a gateway."""
    parser.add_argument("--url", default=URL, help="address of the gateway; default: %(default)s")


def add_languages(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the flags of commands that send text."""
    add = parser.add_argument
    to = "languages to translate into, e.g. de,fr"
    add("--to", type=tags, default=(), required=required, metavar="LANG[,LANG]", help=to)
    source = "language of the text; default: detected"
    add("--from", dest="source", metavar="LANG", help=source)


def check_outputs(names: Iterable[str | Path | None]) -> None:
    """Raise `OSError` with a sentence if one of the files cannot be written.

    A command checks this first, since it may run for minutes before it writes.
    """
    for path in (Path(name) for name in names if name):
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no directory {path.parent} to write {path.name} to.")
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory; name a file in it.")


def tags(text: str) -> tuple[str, ...]:
    """Parse language tags separated by commas; drop repeated ones."""
    tags = tuple(dict.fromkeys(rooms(text)))
    if not tags:
        raise argparse.ArgumentTypeError("it names no language; write e.g. de,fr")
    return tags


def rooms(text: str) -> tuple[str, ...]:
    """Parse room names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def ranged(kind: Callable[[str], N], fits: Callable[[N], bool], range: str) -> Callable[[str], N]:
    """Return a parser of numbers in a range."""
    word = "a whole number" if kind is int else "a number"

    def parse(text: str) -> N:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {word}") from None
        if not fits(value):
            raise argparse.ArgumentTypeError(f"it must be {range}")
        return value

    return parse


positive = ranged(float, lambda value: 0 < value < math.inf, "above 0")
seconds = ranged(float, lambda value: 0 <= value < math.inf, "0 or more")
share = ranged(float, lambda value: 0 <= value <= 1, "between 0 and 1")
count = ranged(int, lambda value: value >= 1, "1 or more")
number = ranged(int, lambda value: value >= 0, "0 or more")


def add_settings(parser: argparse.ArgumentParser, *, all_topics: bool = True) -> None:
    """Add a flag for every setting.

    :param all_topics: False: the help lists only the settings of engines. The command takes the
        others too, because they may be in a file or a script that several commands share
    """
    # The usage lists the command's own arguments; those of settings would fill half a screen.
    own = parser.format_usage().removeprefix(f"usage: {parser.prog} [-h]").split()
    parser.usage = " ".join(["%(prog)s [-h] [--config FILE] [--SETTING VALUE ...]", *own])
    others = "" if all_topics else " The command takes all that gateway serve --help lists."
    group = parser.add_argument_group(
        "settings",
        "Each is also an environment variable GATEWAY_... and a key of the TOML file. [[engine]]"
        f" tables of the file describe several engines.{others}",
    )
    file = "TOML file of settings"
    group.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=file)
    for title, rows in catalogue.by_topic().items():
        shown = all_topics or title in ENGINE_TOPICS
        group = parser.add_argument_group(title.lower() if shown else None)
        for row in rows:
            text = _help(row) if shown else argparse.SUPPRESS
            common: dict[str, Any] = {"dest": row.name, "default": argparse.SUPPRESS, "help": text}
            if row.table:
                group.add_argument(row.flag, action="append", metavar="KEY=VALUE", **common)
            elif row.boolean:
                group.add_argument(row.flag, action=argparse.BooleanOptionalAction, **common)
            else:
                group.add_argument(row.flag, metavar=_placeholder(row), **common)


def _help(row: Setting) -> str:
    """Return the text of a setting for argparse, with its default."""
    text = row.doc.replace("``", "").replace("%", "%%")
    if row.default in (None, {}, False):  # absent, which the text explains, or off
        return text
    plain = f"{row.default:g}" if isinstance(row.default, float) else row.default
    return f"{text} Default: {'on' if row.default is True else plain}."


def _placeholder(row: Setting) -> str:
    """Return the placeholder for the value of a setting in the help."""
    last = row.name.rpartition("_")[2]
    return "|".join(row.choices) or {"s": "SECONDS", "ms": "MILLISECONDS"}.get(last, last.upper())


def loaded(args: argparse.Namespace) -> LoadedSettings:
    """Return the settings of command line, environment and file, and print their warnings.

    Raises `SettingsError`.
    """
    flags = vars(args)
    for row in catalogue.table().values():
        if row.table and row.name in flags:
            flags = flags | {row.name: dict(_entry(row.flag, text) for text in flags[row.name])}
    given = loading.load(flags, os.environ)
    for warning in given.warnings:
        complain(warning)
    return given


def engine_of(settings: Settings) -> Engine:
    """Return the engine with its name and its languages. No model is loaded, and it is closed."""
    from gateway.engines.registry import build

    engine = build(settings)
    asyncio.run(engine.aclose())
    return engine


def _entry(flag: str, text: str) -> tuple[str, object]:
    """Split ``key=value``. The value is decoded as JSON if possible, else it stays text."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise SettingsError(f"{flag} cannot be {text!r}: it is KEY=VALUE.")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value
