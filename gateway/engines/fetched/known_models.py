"""The models that are known by name.

Owns: reading ``known_models.toml``, and where a fetched model lies. Must not know: how a file is
fetched.
"""

from __future__ import annotations

import os.path
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from gateway.engines.base.model_files import FETCHED

OPUS = "opus-mt"
"""Name of all OPUS-MT models together, each for one language pair."""


class KnownModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can be fetched."""

    name: str
    profile: str
    """Name of its prompt profile."""
    files: Mapping[str, str]
    """Address of each file, by its name. One archive, if it is an OPUS-MT model."""
    licence: str
    megabytes: int
    """Size of the files, about."""
    speed: str
    """Class of speed on a CPU, by the number of parameters: ``fast`` for about 75 million, ``slow``
    for 600 million. The model in the package has 44 million."""
    pair: tuple[str, str] | None = None
    """The only language pair; None: those of the profile."""
    sha256: str = ""
    """Digest of the archive; empty: unknown."""

    @property
    def address(self) -> str:
        """Address of the file, or the beginning of all of them."""
        return os.path.commonprefix([*self.files.values()])

    @property
    def terms(self) -> str:
        """Licence for people."""
        only = ", for non-commercial use only" if "-NC" in self.licence else ""
        return self.licence + only

    @property
    def languages(self) -> str:
        """Languages for people."""
        return "{} to {}".format(*self.pair) if self.pair else "about 100, each to each"

    def directory(self, cache: Path) -> Path:
        """Return the directory of the model, which exists once it was fetched."""
        return cache / FETCHED / self.name

    def parts(self, cache: Path) -> Path:
        """Return the directory of a fetch that is not complete."""
        return cache / FETCHED / f".{self.name}"


@cache
def known() -> Mapping[str, KnownModel]:
    """Return the models by name."""
    text = (resources.files("gateway.engines.fetched") / "known_models.toml").read_text("utf-8")
    table = tomllib.loads(text)
    opus = table["opus"]
    shared = {key: opus[key] for key in ("licence", "megabytes", "speed")}
    paths = {pair: f"OPUS-MT-models/{pair}/{release}" for pair, release in opus["pairs"].items()}
    paths |= {pair: f"Tatoeba-MT-models/{release}" for pair, release in opus["tatoeba"].items()}
    models = []
    for row in table["ready"]:
        address, files = row.pop("address"), row.pop("files")
        addresses = {file: address.format(file=file) for file in files}
        models.append(KnownModel(files=addresses, **row))
    models += [
        KnownModel(
            name=f"{OPUS}-{pair}",
            profile=OPUS,
            files={"model.zip": opus["address"].format(path=path)},
            pair=tuple(pair.split("-")),
            sha256=opus["sha256"].get(pair, ""),
            **shared,
        )
        for pair, path in paths.items()
    ]
    return {model.name: model for model in models}


def named() -> Mapping[str, tuple[KnownModel, ...]]:
    """Return the models of each name that can be given: one, or all of `OPUS`."""
    models = known()
    pairs = tuple(model for model in models.values() if model.profile == OPUS)
    return {OPUS: pairs} | {name: (model,) for name, model in models.items()}
