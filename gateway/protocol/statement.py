"""Details that a speaker states beside a text.

Owns: their names, and their way from a ``say`` into the utterance, its events and its transcript.
Must not know: what a detail means.
"""

from __future__ import annotations

from functools import cache
from itertools import repeat
from typing import Any

import msgspec

from gateway.protocol.fields import Personal


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Details that a speaker states beside a text.

    A field of `Say` with one of these names is kept with the utterance. `stated` copies it into
    every event and transcript that has a field of the same name.
    """

    speaker: Personal | None = None
    t0: float | None = None
    t1: float | None = None


def stated(message: msgspec.Struct, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the details of a message that ``kind`` has fields for."""
    names = _shared(type(message), kind)
    return dict(zip(names, map(getattr, repeat(message), names), strict=True))


@cache
def _shared(source: type[msgspec.Struct], target: type[msgspec.Struct]) -> tuple[str, ...]:
    names = {*source.__struct_fields__} & {*target.__struct_fields__}
    return tuple(name for name in Statement.__struct_fields__ if name in names)
