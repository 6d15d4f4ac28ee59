"""A known model, fetched and made into a directory that CTranslate2 reads.

Owns: the steps from addresses to that directory. Must not know: engines, HTTP. Everything here
blocks.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

from gateway.engines.fetched.download import fetch
from gateway.engines.fetched.known_models import KnownModel
from gateway.errors import EngineFault

LARGEST = 2**31
"""Bytes of the largest archive's content. OPUS-MT models have a third of a gigabyte."""


def install(model: KnownModel, cache: Path, report: Callable[[str, int, int | None], None]) -> Path:
    """Return the directory of a model, after fetching and converting it if it is not there.

    :param report: called with the name of a file, the bytes that have come, and all its bytes

    Raises `EngineFault`, with a sentence for the operator.
    """
    directory = model.directory(cache)
    if directory.is_dir():
        return directory
    parts = model.parts(cache)
    for name, address in model.files.items():
        if not (parts / name).is_file():
            told = partial(report, name)
            fetch(address, parts / name, sha256=model.sha256, report=told)
    made = _converted(model, parts) if model.profile == "opus-mt" else parts
    (made / "about.json").write_text(
        json.dumps({"files": dict(model.files), "licence": model.licence}, indent=1)
    )
    made.rename(directory)
    shutil.rmtree(parts, ignore_errors=True)
    return directory


def _converted(model: KnownModel, parts: Path) -> Path:
    """Return a directory in ``parts`` with an OPUS-MT model in CTranslate2's form."""
    import yaml
    from ctranslate2.converters import OpusMTConverter

    archive, made = parts / "model.zip", parts / "made"
    with tempfile.TemporaryDirectory(dir=parts) as unpacked:
        try:
            _unpack(archive, Path(unpacked))
            OpusMTConverter(unpacked).convert(str(made), quantization="int8", force=True)
        except zipfile.BadZipFile as exc:
            archive.unlink()
            raise EngineFault(f"The archive of {model.name} is damaged: {exc}. Try again.") from exc
        except (LookupError, ValueError, TypeError, yaml.YAMLError, OSError) as exc:
            raise EngineFault(
                f"The archive of {model.name} could not be converted: {type(exc).__name__}: {exc}"
            ) from exc
        for name in ("source.spm", "target.spm", "LICENSE", "README.md"):
            if (Path(unpacked) / name).is_file():
                shutil.copyfile(Path(unpacked) / name, made / name)
    config = json.loads((made / "config.json").read_bytes())
    config |= {"gateway_profile": model.profile, "gateway_pair": list(model.pair or ())}
    (made / "config.json").write_text(json.dumps(config, indent=1))
    return made


def _unpack(archive: Path, target: Path) -> None:
    """Unpack the files of an archive, without its folders. `zipfile` checks the sum of each."""
    with zipfile.ZipFile(archive) as opened:
        members = [entry for entry in opened.infolist() if not entry.is_dir()]
        if sum(entry.file_size for entry in members) > LARGEST:
            raise ValueError("it is larger than any OPUS-MT model")
        for member in members:
            name = PurePosixPath(member.filename).name
            with opened.open(member) as source, (target / name).open("wb") as out:
                shutil.copyfileobj(source, out)
    if not (target / "source.spm").is_file():
        raise ValueError("it has no source.spm, so it is of a kind that is not supported")
