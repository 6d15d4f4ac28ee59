"""The command ``gateway models``: models that are known by name, fetched and removed.

Owns: the table of models and the progress. Must not know: how a model is fetched.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from functools import partial
from pathlib import Path

from gateway.cli.flags import add_settings, loaded
from gateway.engines import registry
from gateway.engines.fetched.known import KnownModel, known
from gateway.settings.catalogue import SettingsError


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    what = "list (the default): all models; fetch: to this machine; remove: from it"
    add("action", nargs="?", choices=("list", "fetch", "remove"), default="list", help=what)
    add("names", nargs="*", metavar="NAME", help="names of models")
    add("--json", action="store_true", help="print the list as JSON")
    add_settings(parser, all_topics=False)


def run(args: argparse.Namespace) -> int:
    """List, fetch or remove models. Raises `EngineFault` and `SettingsError`."""
    cache = registry.cache_directory(loaded(args).settings)
    if unknown := [name for name in args.names if name not in known()]:
        raise SettingsError(f"No model is called {unknown[0]!r}: see `gateway models`.")
    if args.action != "list" and not args.names:
        raise SettingsError(f"Name the models: gateway models {args.action} NAME.")
    models = [known()[name] for name in args.names or known()]
    match args.action:
        case "fetch":
            for model in models:
                print(registry.fetch(model, cache, partial(print, file=sys.stderr)))
        case "remove":
            for model in models:
                shutil.rmtree(model.directory(cache), ignore_errors=True)
        case _:
            _list(models, cache, as_json=args.json)
    return 0


def _list(models: list[KnownModel], cache: Path, *, as_json: bool) -> None:
    rows = [
        {
            "name": model.name,
            "languages": model.languages,
            "licence": model.licence,
            "speed": model.speed,
            "megabytes": model.megabytes,
            "directory": str(model.directory(cache)) if model.directory(cache).is_dir() else None,
        }
        for model in models
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        here = "on this machine" if row["directory"] else ""
        print(
            f"{row['name']:24} {row['languages']:24} {row['licence']:13} {row['speed']:5}"
            f" {row['megabytes']:5} MB  {here}".rstrip()
        )
