"""The flags of settings, made from the catalogue, and the settings that they give.

Owns: the form of these flags and of their help. Must not know: commands.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.cli.console.output import complain
from gateway.settings import catalogue, loading
from gateway.settings.catalogue import Settings, SettingsError
from gateway.settings.loading import LoadedSettings
from gateway.settings.setting import Setting

if TYPE_CHECKING:
    from gateway.engines.base.engine import Engine

ENGINE_TOPICS = frozenset(
    catalogue.TOPICS[first]
    for first in ("engine", "compute_type", "max_num_seqs", "openai_url", "scripted_delay")
)
"""Topics of the settings that a command needs which only translates."""


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


def load_flags(args: argparse.Namespace) -> LoadedSettings:
    """Return the settings of a command line, of the environment and of the file.

    Raises `SettingsError`.
    """
    flags = vars(args)
    for row in catalogue.table().values():
        if row.table and row.name in flags:
            flags = flags | {row.name: dict(_entry(row.flag, one) for one in flags[row.name])}
    return loading.load(flags, os.environ)


def loaded(args: argparse.Namespace) -> LoadedSettings:
    """Return the settings and print their warnings on stderr. Raises `SettingsError`."""
    found = load_flags(args)
    for warning in found.warnings:
        complain(warning)
    return found


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
