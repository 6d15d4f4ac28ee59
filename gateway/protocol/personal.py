"""Text that people wrote, found by the types of fields.

Owns: which fields of a message hold such text, and the message without it. Must not know: rooms,
how text is cleaned.

Whether a field is `Personal` is part of its type. Cleaning, the erasure of a retracted utterance in
the log, in the store and in Redis, and its restoration all ask here. So a new field cannot be
forgotten by one of them: a field that does not say whether it is personal raises `TypeError` when
the gateway starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TypeVar

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from gateway.protocol.messages import EVENTS, REQUESTS

Message = TypeVar("Message", bound=msgspec.Struct)


@cache
def personal_fields(kind: type[msgspec.Struct]) -> Mapping[str, str | None]:
    """Return the personal fields of a kind of message, each with the value that it has if erased.

    A field that has to be there is erased by an empty text, another one by None. Raises `TypeError`
    if a text of the message is neither `Personal` nor `Code`.
    """
    empty: dict[str, str | None] = {}
    for part in inspect.type_info(kind).fields:  # type: ignore[attr-defined]
        if True in set(_marks(part.type, f"{kind.__name__}.{part.name}")):
            empty[part.name] = "" if part.required else None
    return empty


def erased(message: Message) -> Message:
    """Return a message without its personal text."""
    return replace(message, **personal_fields(type(message)))


def _marks(kind: inspect.Type, name: str, mark: bool | None = None) -> Iterator[bool]:
    """Yield for each text in a type whether it is personal."""
    match kind:
        case inspect.Metadata(type=inner, extra=extra):
            yield from _marks(inner, name, (extra or {}).get("personal", mark))
        case inspect.StrType():
            if mark is None:
                raise TypeError(f"{name} holds text; let its type be `Personal` or `Code`")
            yield mark
        case inspect.UnionType(types=kinds):
            for member in kinds:
                yield from _marks(member, name, mark)
        case inspect.DictType(key_type=key, value_type=value):
            yield from _marks(key, name)
            yield from _marks(value, name)
        case inspect.VarTupleType(item_type=item):
            yield from _marks(item, name)
        case inspect.StructType(cls=inner):
            for mark in map(bool, personal_fields(inner)):
                yield mark


for _kind in (*REQUESTS, *EVENTS):
    personal_fields(_kind)
