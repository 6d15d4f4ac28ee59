"""The largest and nastiest values of a type that its bounds allow, derived from the type.

A new field of a message has values here without being listed anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import msgspec
from msgspec import inspect

LIMIT = 65_536
"""Bytes of a frame and of a body."""

ALPHABETS = {
    "letters": "a",
    "words": "Good morning everyone ",
    "sentences": "A b. ",
    "lines": "a\n",
    "chinese": "字",
    "chinese sentences": "我们走。",
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "combining": "\u0316\u0301",
    "jamo": "\u1100\u1161\u11a8",
    "ligatures": "\ufdfa",
    "thai": "ก็",
    "spaces": " ",
    "wide spaces": "a\u3000",
    "controls": "\0",
    "digits": "1",
    "amounts": "1,5 € ",
    "dotted": "a.b-",
    "commas": "a,",
    "quotes": "\"'",
    "brackets": "(<[{",
    "address": "a@",
    "escapes": "\\u0041%41&#65;",
    "from": "from  ",
    "sides": "\u202e\u2066",
}
"""Units of which long strings are made."""

TAGS = [
    f"{language}-{script}-{region}"
    for language, script, region in product(
        ("de", "en", "fr", "zh", "sr", "uz", "az", "mn", "pa", "ks"),
        ("Latn", "Cyrl", "Arab", "Hans", "Hant", "Deva"),
        [f"{number:03d}" for number in range(1, 60)] + ["DE", "AT", "CH", "US", "CN", "TW"],
    )
]
"""Different language tags. To normalise one costs more than to see that another is none."""


def nested(depth: int) -> bytes:
    """Return JSON of lists in lists."""
    return b"[" * depth + b"]" * depth


def values(kind: inspect.Type, size: int = LIMIT) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each large value of a type.

    :param size: most characters of a string without a bound of its own
    """
    match kind:
        case inspect.Metadata(type=inner):
            yield from values(inner, size)
        case inspect.StrType(max_length=most):
            length = min(size, most or size)
            for name, unit in ALPHABETS.items():
                yield name, (unit * (length // len(unit) + 1))[:length]
            yield "tags", ",".join(TAGS)[:length]
        case inspect.IntType(le=most):
            yield "largest", most if most is not None else 2**63 - 1
        case inspect.FloatType(le=most):
            yield "largest", most if most is not None else 1e300
        case inspect.BytesType(max_length=most):
            yield "zeros", b"\0" * min(size // 2, most or size)
            yield "noise", bytes(range(256)) * (min(size // 2, most or size) // 256)
        case inspect.LiteralType(values=known):
            yield from ((str(one), one) for one in known)
        case inspect.EnumType(cls=cls):
            yield from ((str(one.value), one.value) for one in cls)
        case inspect.VarTupleType(item_type=item, max_length=most):
            count = most or size // 4
            yield from _lists(item, min(count, size // 4), size)
        case inspect.DictType(key_type=key, value_type=value, max_length=most):
            yield from _maps(key, value, most or size // 8, size)
        case inspect.UnionType(types=types):
            for one in types:
                yield from values(one, size)
        case inspect.StructType(cls=cls):
            for field in fields(cls):
                for name, value in values(field.type, size):
                    yield f"{field.encode_name} {name}", {field.encode_name: value}
        case inspect.AnyType():
            yield "nested", msgspec.Raw(nested(500))
            yield "wide", {str(number): number for number in range(size // 16)}
        case inspect.BoolType():
            yield from (("true", True), ("false", False))
        case inspect.NoneType():
            return
        case _:
            raise NotImplementedError(f"no large values of {kind} are known: add a case")


def _bare(kind: inspect.Type) -> inspect.Type:
    """Return a type without its description."""
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _lists(item: inspect.Type, most: int, size: int) -> Iterator[tuple[str, list[Any]]]:
    item = _bare(item)
    if not isinstance(item, inspect.StrType):
        for name, value in values(item, size // 2):
            yield f"one {name}", [value]
        for name, value in values(item, 8):
            yield f"many {name}", [value] * (most // 8)
        return
    yield "tags", [TAGS[number % len(TAGS)] for number in range(min(most, size // 16))]
    yield "numbers", [f"{number:x}" for number in range(most)]
    for name, text in values(item, max(1, size // min(most, 50))):
        yield name, [text] * min(most, 50)


def _maps(
    key: inspect.Type, value: inspect.Type, most: int, size: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    value = _bare(value)
    kinds = value.types if isinstance(value, inspect.UnionType) else (value,)
    each = max(4, size // most // 2)
    for kind in map(_bare, kinds):
        if isinstance(kind, inspect.DictType):
            tags = [TAGS[number] for number in range(64)]
            yield "by tags", {f"t{n}": dict.fromkeys(tags, "x") for n in range(size // 1_024)}
            wide = {tag: "x" for tag in TAGS[: size // 24]}
            yield "all tags", {"term": wide}
            continue
        for name, text in values(kind, each):
            if isinstance(text, str):
                yield name, {f"{number:x}{text}"[:each]: text for number in range(most)}
                yield f"few {name}", {(text * 100)[:200]: (text * 100)[:200] for _ in range(1)}


def fitted(value: Any, encode: Callable[[Any], bytes], most: int = LIMIT) -> bytes:
    """Return a value encoded; it is halved until it fits the limit of a frame, in bytes."""
    while len(data := encode(value)) > most:
        value = _halved(value)
    return data


def _halved(value: Any) -> Any:
    match value:
        case dict() if len(value) == 1:
            return {key: _halved(inner) for key, inner in value.items()}
        case dict():
            return dict(list(value.items())[: len(value) // 2])
        case _:
            return value[: len(value) // 2]


def fields(shape: type) -> Iterator[inspect.Field]:
    """Yield the fields of a struct."""
    info = inspect.type_info(shape)
    assert isinstance(info, inspect.StructType)
    yield from info.fields


NUMBERS = (b"1" * 60_000, b"-1e999999999", b"NaN", b"Infinity", b"1E400", b"0." + b"1" * 60_000)
"""Numbers in JSON that are none, or that no number type holds."""


def nonsense() -> Iterator[tuple[str, bytes]]:
    """Yield bodies that are broken JSON, or JSON that nobody means."""
    yield "nothing", b""
    yield "lists in lists", b'{"x":' + nested(32_000) + b"}"
    yield "lists that never end", b"[" * LIMIT
    yield "maps in maps", b'{"x":' * 10_000 + b"1" + b"}" * 10_000
    yield "one field many times", b"{" + b'"text":"a",' * 5_000 + b'"text":"a"}'
    yield "many fields", b"{" + b",".join(b'"f%d":1' % n for n in range(6_000)) + b"}"
    for number in NUMBERS:
        yield f"number {number[:12]!r}", b'{"seq":' + number[: LIMIT - 100] + b',"type":"sync"}'
    yield "half a surrogate", b'{"type":"say","text":"\\ud800"}'
    yield "halves of surrogates", b'{"type":"say","text":"' + b"\\udc00" * 10_000 + b'"}'
    yield "no UTF-8", b'{"type":"say","text":"\xff\xfe"}'
    yield "zeros", b"\0" * LIMIT
    yield "a long string", b'"' + b"\\n" * (LIMIT // 2 - 2) + b'"'


assert math.isinf(float(b"1E400"))
