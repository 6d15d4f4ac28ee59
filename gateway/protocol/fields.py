"""The types of the fields of messages, and the base classes of messages.

Owns: bounds and descriptions of these fields, which are published in the JSON Schema; the way of a
speaker's `Statement` from a ``say`` into the utterance, its events and its transcript. Must not
know: any message.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import repeat
from typing import Annotated, Any

import msgspec
from msgspec import Meta

Personal = Annotated[str, Meta(extra={"personal": True})]
"""Text that a person wrote, or that was made of it. Such a field is cleaned when it comes in, and
erased when its utterance is retracted (`gateway.protocol.personal`)."""
Code = Annotated[str, Meta(extra={"personal": False})]
"""An id, a language tag or a word of the protocol. It is never erased."""

Id = Annotated[
    Code, Meta(min_length=1, max_length=64, description="Chosen by the client, unique in its room.")
]
Part = Annotated[
    Code,
    Meta(min_length=1, max_length=80, description="An utterance, or a part of a long one: `u1.2`."),
]  # longer than an id, because the gateway appends the number of the part
# JavaScript keeps integers exact up to 2**53 - 1 only.
Rev = Annotated[int, Meta(ge=1, le=2**53 - 1, description="Revision number, rising.")]
Ref = Annotated[Code, Meta(max_length=128, description="Echoed in the answer to this frame.")]
Tag = Annotated[Code, Meta(max_length=64, description="BCP 47 language tag.")]
Tags = Annotated[
    Code,
    Meta(max_length=256, description="BCP 47 language tags with commas between them, or `auto`."),
]
Seconds = Annotated[float, Meta(ge=0, le=1e9, description="Seconds of the speaker's clock.")]
Name = Annotated[Personal, Meta(max_length=128, description="Display name.")]
Term = Annotated[Personal, Meta(min_length=1, max_length=200)]
Terms = Annotated[
    Mapping[Term, Term | Annotated[Mapping[Tag, Term], Meta(min_length=1)]],
    Meta(
        max_length=500,
        description="Translations by term: one for all languages, or one for each BCP 47 tag.",
    ),
]
Translations = Mapping[Personal, Personal | Mapping[Code, Personal]]
"""`Terms` as the server has understood them: normalisation may have made a text longer."""
Context = Annotated[Personal, Meta(max_length=4000)]


class RequestStruct(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True
):
    """Base of the messages of clients. The answer carries the same ``ref``."""

    ref: Ref | None = None


class EventStruct(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of the messages of the server."""


class LimitsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of this socket: bytes of a frame, characters of a text, utterances in flight,
    languages it reads, frames a second.
    """

    frame: int
    text: int
    inflight: int
    targets: int
    rate: float


class RoomSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a room as they are, and the number of their version."""

    version: int
    context: Personal | None = None
    glossary: Translations | None = None
    style: Personal | None = None


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
