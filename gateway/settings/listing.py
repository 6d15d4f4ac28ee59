"""Settings as text: the output of ``gateway settings``.

Owns: the format of listings, and hiding secrets in them. Must not know: how settings are loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.settings.catalogue import (
    EngineTable,
    engine_table,
    table,
    value,
)
from gateway.settings.loading import LoadedSettings


def as_text(loaded: LoadedSettings) -> str:
    """Return one line for each setting, with value and origin. Secrets are masked."""
    return "\n".join(f"{name:24} {text:24}  {origin}" for name, text, origin in _in_force(loaded))


def as_json(loaded: LoadedSettings) -> dict[str, dict[str, Any]]:
    """Return ``value`` and ``origin`` of every setting by its name. Secrets are masked."""
    return {
        name: {
            "value": text if text == _MASK else msgspec.json.decode(text or "null"),
            "origin": origin,
        }
        for name, text, origin in _in_force(loaded)
    }


_MASK = "****"


def _in_force(loaded: LoadedSettings) -> Iterator[tuple[str, str, str]]:
    """Yield name, value (JSON; empty for none, masked if secret) and origin of each setting."""
    for row in table().values():
        now = value(loaded.settings, row.name)
        text = _MASK if row.secret and now else shown(now)
        yield row.name, text, loaded.origins.get(row.name, "default")
    for output in loaded.settings.outputs:
        # The address of an output contains a secret.
        yield f"output.{output.label}", shown([output.kind, output.room]), "[[output]]"
    for engine in loaded.settings.engines:
        for row in engine_table().values():
            name = f"engine.{engine.name}.{row.name}"
            if name in loaded.origins:
                own = row.name in EngineTable.__struct_fields__
                now = getattr(engine if own else engine.settings, row.name)
                text = _MASK if row.secret and now else shown(now)
                yield name, text, loaded.origins[name]


def shown(value: object) -> str:
    """Return a value as TOML writes it, without the login that a URL may contain."""
    # TOML and JSON write strings, numbers, switches and lists in the same way.
    text = "" if value is None else msgspec.json.encode(value).decode()
    return re.sub(r"//[^/@]*@", f"//{_MASK}@", text)
