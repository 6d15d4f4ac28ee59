"""An input of a fuzzer, read as the choices it stands for.

Owns: where in the bytes we are. Must not know: what is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Tape:
    """Bytes to decide by. One that has run out chooses the first of everything."""

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
        """So many bytes, or what is left."""
        self._at += count
        return self._data[self._at - count : self._at]

    def chunk(self) -> bytes:
        """A length, and so many bytes; now and then all that is left."""
        length = self.byte()
        return self.take(length if length < 255 else len(self._data))

    def text(self) -> str:
        return self.chunk().decode(errors="replace")
