"""Loading of settings from flags, environment variables and a TOML file, and listing them.

Owns: the order flag > environment > file > default, the errors for values that cannot be used,
suggestions for misspelled names, and hiding secrets in a list. Must not know: what a setting is
used for.

In the file a prefix can be a table: ``[limit]`` with ``text = 500`` is ``limit_text = 500``. Each
``[[engine]]`` table describes one of several engines; what it leaves out is as outside of the
tables.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.stability import WITHOUT_CHECKS, StabilityRules
from gateway.errors import ClientFault
from gateway.limits import Limits
from gateway.settings import catalogue
from gateway.settings.catalogue import EngineTable, OutputTable, Settings, SettingsError
from gateway.settings.setting import PREFIX, Setting
from gateway.text import languages


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings with the origins of their values."""

    settings: Settings
    origins: dict[str, str]  # flag, variable or file of each setting that was set, by its name
    warnings: tuple[str, ...] = ()  # sentences about variables that look like settings


def load(flags: Mapping[str, object], environ: Mapping[str, str]) -> LoadedSettings:
    """Load the settings from flags, environment variables and the TOML file.

    Raises `SettingsError` for a value that cannot be used, an unknown key of the file, and a
    setting that was removed.

    :param flags: values by the names of the settings; ``config`` is the path of the TOML file
    """
    settings = catalogue.table()
    path = flags.get("config") or environ.get(catalogue.CONFIG)
    file = _flat(_toml(Path(str(path)).expanduser())) if path else {}
    if isinstance(file.get("engine"), dict):
        raise SettingsError(f"{path}: write [[engine]], with two brackets, for each engine.")
    tables = file.pop("engine") if isinstance(file.get("engine"), list) else []
    outputs = file.pop("output", [])
    for key in file:
        if key not in settings:
            refuse_removed(key, f"{key} in {path}")
            raise SettingsError(f"{path}: there is no setting {key!r}.{near(key, settings)}")
    given: dict[str, tuple[object, str]]
    given = {key: (value, f"{key} in {path}") for key, value in file.items()}
    # `PORT` is a convention of hosting platforms. It wins over the file, which is often part of an
    # image, but not over a setting that is meant for the gateway alone.
    if environ.get("PORT"):
        given["port"] = (environ["PORT"], "PORT")
    variables = {row.variable: row.name for row in settings.values()}
    warnings = []
    for name in sorted(environ):
        if name in variables:
            # An empty variable counts as not set, as in `GATEWAY_MODEL= gateway serve`.
            if environ[name]:
                given[variables[name]] = (environ[name], name)
        elif name.startswith(PREFIX) and name not in (catalogue.CONFIG, catalogue.KEY):
            if environ[name]:
                refuse_removed(name.removeprefix(PREFIX), name)
            # Another program may use a variable with the same prefix.
            warnings.append(f"{name} is set, but it is not a setting.{near(name, variables)}")
    given |= {
        name: (value, settings[name].flag) for name, value in flags.items() if name in settings
    }
    values = {name: settings[name].read(value, origin) for name, (value, origin) in given.items()}
    limits, pace, stable = (_taken(values, group.prefix) for group in catalogue.GROUPS)
    named = [values] if "engine" in values or not tables else tables
    checks = any(entry.get("engine", "ctranslate2") == "ctranslate2" for entry in named)
    checks = {"checked": True, "forced": False}.get(values.get("stability", "auto"), checks)
    rules = StabilityRules() if checks else WITHOUT_CHECKS
    settings_given = Settings(
        **values,
        outputs=_outputs(outputs, str(path)),
        limits=Limits(**limits),
        flow=StreamingOptions(pace=PartialTiming(**pace), stability=replace(rules, **stable)),
    )
    origins = {name: origin for name, (_, origin) in given.items()}
    # A flag or variable that names an engine wins over the file, also over its tables.
    if tables and "engine" not in given:
        engines, of_tables = _engines(tables, settings_given, str(path))
        settings_given = replace(settings_given, engines=engines)
        origins |= of_tables
    return LoadedSettings(settings=settings_given, origins=origins, warnings=tuple(warnings))


def _taken(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Remove the values whose names have a prefix, and return them without it."""
    names = [name for name in values if name.startswith(prefix)]
    return {name.removeprefix(prefix): values.pop(name) for name in names}


def _engines(
    tables: Sequence[Mapping[str, Any]], settings: Settings, path: str
) -> tuple[tuple[EngineTable, ...], dict[str, str]]:
    """Return the engines of ``[[engine]]`` tables, and origins by ``engine.NAME.KEY``."""
    engines: dict[str, EngineTable] = {}
    origins: dict[str, str] = {}
    for number, given in enumerate(tables, 1):
        where = f"[[engine]] {number} in {path}"
        values = _read(given, catalogue.engine_table(), where)
        own = {key: values.pop(key) for key in EngineTable.__struct_fields__ if key in values}
        merged = replace(settings, **values)
        name = own.pop("name", None)
        if name is None:
            names = (merged.engine, *(f"{merged.engine}-{n}" for n in range(2, len(tables) + 1)))
            name = next(free for free in names if free not in engines)
        elif name in engines:
            raise SettingsError(f"{where}: another engine is called {name!r}, too.")
        if "pairs" in own:
            if not own["pairs"]:
                raise SettingsError(
                    f"pairs of {where} are empty, so this engine would get no job. Leave them out"
                    " to give it all pairs of its model."
                )
            own["pairs"] = tuple(_pair(pair, where) for pair in own["pairs"])
        if "gpus" in own and (not own["gpus"] or merged.engine != "vllm"):
            raise SettingsError(f"gpus of {where} need the engine vllm and at least one number.")
        engines[name] = EngineTable(name=name, settings=merged, **own)
        origins |= {f"engine.{name}.{key}": where for key in given}
    return tuple(engines.values()), origins


def _outputs(tables: Sequence[Mapping[str, Any]], path: str) -> tuple[OutputTable, ...]:
    """Return the outputs of ``[[output]]`` tables. Raises `SettingsError`."""
    outputs: list[OutputTable] = []
    for number, given in enumerate(tables, 1):
        where = f"[[output]] {number} in {path}"
        values = _read(given, catalogue.output_table(), where, ("kind", "url", "room"))
        output = OutputTable(**values)
        try:
            catalogue.check_output(output)
        except SettingsError as fault:
            raise SettingsError(f"{where}: {fault}") from fault
        if output.label in (other.label for other in outputs):
            raise SettingsError(f"{where}: another output is called {output.label!r}, too.")
        outputs.append(output)
    return tuple(outputs)


def _read(
    given: Mapping[str, Any], rows: Mapping[str, Setting], where: str, required: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the values of a table of the file, with the keys ``rows``. Raises `SettingsError`."""
    if unknown := next((key for key in given if key not in rows), None):
        hint = near(unknown, rows)
        if unknown in catalogue.table():
            hint = " It is a setting of the whole gateway: move it above the tables."
        raise SettingsError(f"{where}: there is no key {unknown!r}.{hint}")
    if missing := next((key for key in required if key not in given), None):
        raise SettingsError(f"{where} needs the key {missing!r}.")
    return {key: rows[key].read(value, f"{key} of {where}") for key, value in given.items()}


def _pair(pair: tuple[str, str], where: str) -> tuple[str, str]:
    """Return a language pair with normalised tags. Raises `SettingsError`."""
    try:
        source, target = (tag if tag == "*" else languages.normalise(tag) for tag in pair)
    except ClientFault as fault:
        raise SettingsError(f"pairs of {where}: {fault} {fault.hint}") from fault
    return source, target


def refuse_removed(name: str, origin: str) -> None:
    """Raise `SettingsError` with the replacement if a key, a flag or a variable without its prefix
    names a removed setting. The message names its origin.
    """
    why = REMOVED.get(name.lstrip("-").lower().replace("-", "_"))
    if why is not None:
        raise SettingsError(f"{origin} is no setting any more. {why}")


_OF_VLLM = "Give it to vLLM: `--vllm-arg NAME=VALUE`, or the table [vllm] of the TOML file."

REMOVED = {
    "workers": (
        "Start several gateways with `redis` and `reuse_port` instead:"
        " see docs/how-to/fleet.md, Several gateways."
    ),
    **dict.fromkeys(("dtype", "enforce_eager", "load_format"), _OF_VLLM),
    **dict.fromkeys(("stable_hold", "stable_agree"), "Set `stability` and `stable_mask` instead."),
    "ping_timeout_s": "It is `ping_s`.",
    "recogniser_download": "It is `download`, for models of both kinds.",
    "data_parallel_size": (
        "Write a table [[engine]] with `gpus` for each copy of the model: see"
        " docs/how-to/engines.md, Several GPUs."
    ),
}
"""The replacements of settings that were removed. To ignore such a setting could end the service of
somebody who relied on it."""


def near(name: str, names: Iterable[str]) -> str:
    """Return a sentence that suggests the most similar of ``names``, or an empty string."""
    # Names are compared without their common prefix, which would make all of them similar.
    bare = {_COMMON.sub("", known): known for known in names}
    matches = get_close_matches(_COMMON.sub("", name), bare, n=1, cutoff=_ALIKE)
    return f" Did you mean {bare[matches[0]]}?" if matches else ""


_COMMON = re.compile(rf"^(-+|/|{PREFIX})")

_ALIKE = 0.75
"""Minimum similarity (`difflib`) of a suggested name. It allows two swapped letters in ``port``,
but does not take ``json`` for ``store``."""


def _toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Raises `SettingsError`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise SettingsError(f"{path} cannot be read: {exc.strerror}. Check --config.") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        # TOML allows one of the two, and its error names neither.
        both = "overwrite" in str(exc) and "[[engine]]" in path.read_text(encoding="utf-8")
        hint = " Write `engine = ...` inside of each [[engine]] table." if both else ""
        raise SettingsError(f"{path} is not TOML: {exc}.{hint}") from exc


def _flat(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a file, with tables that are no settings themselves as prefixes."""
    flat: dict[str, Any] = {}
    for key, given in file.items():
        # `[vllm]` is a setting whose value is a table, `[limit]` a prefix of several settings.
        if isinstance(given, dict) and key not in catalogue.table():
            flat |= {f"{key}_{name}": inner for name, inner in given.items()}
        else:
            flat[key] = given
    return flat


def as_text(loaded: LoadedSettings) -> str:
    """Return one line for each setting, with value and origin. Secrets are masked."""
    return "\n".join(f"{name:24} {text:24}  {origin}" for name, text, origin in _in_force(loaded))


def as_json(loaded: LoadedSettings) -> dict[str, dict[str, Any]]:
    """Return ``value`` and ``origin`` of every setting by its name. Secrets are masked."""
    values: dict[str, dict[str, Any]] = {}
    for name, text, origin in _in_force(loaded):
        value = text if text == _MASK else msgspec.json.decode(text or "null")
        values[name] = {"value": value, "origin": origin}
    return values


_MASK = "****"


def _in_force(loaded: LoadedSettings) -> Iterator[tuple[str, str, str]]:
    """Yield name, value (JSON; empty for none, masked if secret) and origin of each setting."""
    for row in catalogue.table().values():
        text = _shown_of(row, catalogue.value(loaded.settings, row.name))
        yield row.name, text, loaded.origins.get(row.name, "default")
    for output in loaded.settings.outputs:
        # The address of an output contains a secret.
        yield f"output.{output.label}", shown([output.kind, output.room]), "[[output]]"
    for engine in loaded.settings.engines:
        for row in catalogue.engine_table().values():
            name = f"engine.{engine.name}.{row.name}"
            if name in loaded.origins:
                own = row.name in EngineTable.__struct_fields__
                text = _shown_of(row, getattr(engine if own else engine.settings, row.name))
                yield name, text, loaded.origins[name]


def _shown_of(row: Setting, value: object) -> str:
    return _MASK if row.secret and value else shown(value)


def shown(value: object) -> str:
    """Return a value as TOML writes it, without the login that a URL may contain."""
    # TOML and JSON write strings, numbers, switches and lists in the same way.
    text = "" if value is None else msgspec.json.encode(value).decode()
    return re.sub(r"//[^/@]*@", f"//{_MASK}@", text)
