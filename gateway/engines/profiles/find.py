"""The choice of the profile for a model.

Owns: the TOML files in this folder and in the packages that an entry point of the group `POINTS`
names, reading one, and matching a model by its name or configuration.
Must not know: the content of a profile, except for which models it is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from gateway.engines.profiles.profile import Profile
from gateway.text import languages

POINTS = "caption_gateway.profiles"
"""Group of the entry points with which other packages offer profiles: each names a package with
TOML files."""

LAST_RESORT = "chat"
"""Profile of a model with a chat template that no other profile fits."""


class UnknownProfile(LookupError):
    """The error that no profile has a name or fits a model. The message says what to do."""


@lru_cache(maxsize=64)
def load(name: str) -> Profile:
    """Return the installed profile ``name``, or the one in a file whose name ends in ``.toml``.
    Raises `UnknownProfile` if there is none, and `ValueError` if it is malformed.
    """
    try:
        return msgspec.convert(_table(name), Profile)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as exc:
        raise ValueError(f"The profile {name} is malformed: {exc}.") from exc


def names() -> tuple[str, ...]:
    """Return the names of the installed profiles."""
    return tuple(sorted(_files()))


@cache
def _files() -> Mapping[str, Traversable]:
    """Return the files of the installed profiles by name. Those of the gateway come first."""
    files: dict[str, Traversable] = {}
    packages = [("gateway.engines.profiles", "gateway")]
    packages += [(point.value, point.name) for point in metadata.entry_points(group=POINTS)]
    for package, name in packages:
        try:
            folder = resources.files(package)
        except ImportError as exc:
            raise UnknownProfile(f"The profiles {name} cannot be imported: {exc}.") from exc
        for file in folder.iterdir():
            if file.name.endswith(".toml"):
                files.setdefault(file.name.removesuffix(".toml"), file)
    return files


def match(model: str, config: Mapping[str, object] | None = None) -> Profile:
    """Return the profile for a model.

    The first of these decides: ``gateway_profile`` in ``config``; the profile that matches the
    longest part of the name; the profile that matches most keys of ``config``; the generic profile
    for models with a chat template. A model has one if ``chat_template`` is in ``config`` or if
    there is no ``config``, because then it is on a server.

    :param model: path or hub id
    :param config: content of ``config.json``, if it is available

    Raises `UnknownProfile` if no profile fits.
    """
    known = config or {}
    profile, hit = _find_profile(model, known, last_resort=config is None)
    if profile.languages:
        return profile
    # The profile is for models of one language pair, which is in the configuration or the name.
    pair = known.get("gateway_pair") or [hit.get("source"), hit.get("target")]
    if not (isinstance(pair, list) and len(pair) == 2 and all(pair)):
        raise UnknownProfile(
            f"The model {model!r} translates one pair of languages, which its name does not say."
            ' Put "gateway_pair": ["en", "de"] into its config.json.'
        )
    source, target = (languages.normalise(str(tag)) for tag in pair)
    return msgspec.structs.replace(profile, languages=(source, target), pairs=((source, target),))


def _find_profile(
    model: str, config: Mapping[str, object], last_resort: bool
) -> tuple[Profile, Mapping[str, str]]:
    """Return the profile for a model, and the named groups of the expression that matched."""
    if chosen := config.get("gateway_profile"):
        return load(str(chosen)), {}
    profiles = [load(name) for name in names()]
    # A name says more than a configuration, because many families share an architecture.
    for name in (model, str(config.get("_name_or_path", ""))):
        hits = [
            (hit, profile)
            for profile in profiles
            for expression in profile.models.names
            if (hit := re.search(expression, name, re.IGNORECASE))
        ]
        if hits:
            hit, profile = max(hits, key=lambda pair: len(pair[0][0]))
            return profile, hit.groupdict()
    fitting = [
        (len(wanted), profile)
        for profile in profiles
        for wanted in profile.models.config
        if all(config.get(key) == value for key, value in wanted.items())
    ]
    if fitting:
        return max(fitting, key=lambda pair: pair[0])[1], {}
    if last_resort or config.get("chat_template"):
        return load(LAST_RESORT), {}
    raise UnknownProfile(
        f'No profile fits the model {model!r}. Name one with --profile, or as "gateway_profile"'
        f" in the model's config.json. There are {', '.join(names())}."
    )


def _table(name: str) -> dict[str, Any]:
    """Return the keys of a profile."""
    # They override the keys of the profile it ``extends``, from which ``without`` removes some.
    if name.endswith(".toml"):
        text, stem = Path(name).read_text(encoding="utf-8"), Path(name).stem
    elif name in _files():
        text, stem = _files()[name].read_text("utf-8"), name
    else:
        raise UnknownProfile(f"There is no profile {name!r}. There are {', '.join(names())}.")
    table = tomllib.loads(text)
    base = _table(table.pop("extends")) if "extends" in table else {}
    for key in table.pop("without", ()):
        del base[key]
    return base | table | {"name": stem}
