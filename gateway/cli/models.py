"""The command ``gateway models``: models that are known by name, fetched and removed.

Owns: the table of models and the progress. Must not know: how a model is fetched.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gateway.cli.flags import add_settings, loaded
from gateway.engines import registry
from gateway.engines.fetched.known_models import KnownModel, named
from gateway.settings import loading
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
    """List, fetch or remove models. Raises `EngineFault`, `SettingsError` and `OSError`."""
    cache = registry.cache_directory(loaded(args).settings)
    for name in args.names:
        if name not in named():
            near = loading.near(name, named()) or " See `gateway models`."
            raise SettingsError(f"No model is called {name!r}.{near}")
    if args.action != "list" and not args.names:
        raise SettingsError(f"Name the models: gateway models {args.action} NAME.")
    chosen = {name: named()[name] for name in args.names or named()}
    match args.action:
        case "fetch":
            for name, models in chosen.items():
                if len(models) > 1:
                    what = f"{name} is {len(models)} models of {models[0].megabytes} MB each."
                    raise SettingsError(f"{what} Name those you need, such as {models[0].name}.")
            for (model,) in chosen.values():
                print(registry.fetch(model, cache, partial(print, file=sys.stderr)))
        case "remove":
            for name, models in chosen.items():
                size = _megabytes(models, cache)
                for directory in _directories(models, cache):
                    shutil.rmtree(directory)
                print(f"{name}: {size} MB removed")
        case _:
            _list(chosen, cache, as_json=args.json)
    return 0


def _directories(models: Sequence[KnownModel], cache: Path) -> list[Path]:
    """Return the directories of models on this machine, and of unfinished fetches."""
    places = [place for model in models for place in (model.directory(cache), model.parts(cache))]
    return [place for place in places if place.is_dir()]


def _megabytes(models: Sequence[KnownModel], cache: Path) -> int:
    """Return the space that models take on this machine."""
    files = [file for place in _directories(models, cache) for file in place.rglob("*")]
    return round(sum(file.stat().st_size for file in files) / 1e6)


def _list(chosen: Mapping[str, Sequence[KnownModel]], cache: Path, *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "languages": models[0].languages if len(models) == 1 else f"{len(models)} pairs",
            "licence": models[0].terms,
            "speed": models[0].speed,
            "megabytes": models[0].megabytes,
            "here": [model.name for model in models if model.directory(cache).is_dir()],
            "megabytes_here": _megabytes(models, cache),
        }
        for name, models in chosen.items()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        models, each = len(chosen[row["name"]]), ""
        part = "all" if row["here"] else "not complete"
        if models > 1:
            each, part = " each", f"{len(row['here'])} of {models}"
        size = row["megabytes_here"]
        here = f"on this machine: {size} MB, {part}" if size or row["here"] else ""
        print(
            f"{row['name']:14} {row['languages']:23} {row['megabytes']:4} MB{each:5}"
            f" {row['speed']:5} {row['licence']:13}  {here}".rstrip()
        )
