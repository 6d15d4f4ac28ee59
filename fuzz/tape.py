"""An input of a fuzzer, read as a sequence of choices.

Owns: the position in the bytes. Must not know: the meaning of a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Tape:
    """Bytes that decide choices. After its end it chooses the first of everything."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        return (self.take(1) or b"\0")[0]

    def pick(self, items: Sequence[T]) -> T:
        return items[self.byte() % len(items)]

    def take(self, count: int) -> bytes:
        """Return this number of bytes, or the rest."""
        self._at += count
        return self._data[self._at - count : self._at]

    def chunk(self) -> bytes:
        """Return a number of bytes that the tape chooses; sometimes all that is left."""
        length = self.byte()
        return self.take(length if length < 255 else len(self._data))

    def text(self) -> str:
        return self.chunk().decode(errors="replace")
