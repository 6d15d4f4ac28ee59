"""A person at a terminal: lines that are typed, captions that grow.

Owns: reading lines without a thread, and redrawing what changes. Must not know: gateways, events.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import shutil
import unicodedata
from collections.abc import AsyncGenerator
from typing import TextIO


async def lines(fd: int) -> AsyncGenerator[str]:
    """Lines of a terminal, pipe or file, as they come. No thread: one would outlive Ctrl-C."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    while data := await _bytes(fd):
        *whole, rest = (rest + decoder.decode(data)).split("\n")
        for line in whole:
            yield line
    if rest:
        yield rest


async def _bytes(fd: int) -> bytes:
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(fd, _ready, readable)
    except PermissionError:
        return os.read(fd, 4096)  # a regular file never makes one wait
    try:
        await readable
    finally:
        loop.remove_reader(fd)
    return os.read(fd, 4096)


def _ready(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


class Screen:
    """Finished lines above, growing ones below, which are redrawn in place.

    On anything but a terminal only finished lines are written. Somebody who types while captions
    grow sees the letters again when the line is finished.
    """

    def __init__(self, out: TextIO) -> None:
        self.live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._out = out
        self._rows = 0  # to go up to where the growing lines begin
        self._growing: list[str] = []

    def finish(self, line: str) -> None:
        """Write a line that stays."""
        self._erase()
        self._out.write(printable(line) + "\n")
        self._redraw()

    def draw(self, growing: list[str]) -> None:
        """Show these below what is finished, each on one row, its end where it is too long."""
        if self.live and growing != self._growing:
            self._erase()
            self._growing = growing
            self._redraw()

    def typed(self, line: str) -> None:
        """The terminal echoed a line and its end: put it above the growing ones."""
        if self.live:
            self._rows += 1 + max(0, width(line) - 1) // self._columns
            self.finish(f"> {line}")

    @property
    def _columns(self) -> int:
        return shutil.get_terminal_size().columns

    def _erase(self) -> None:
        if self._rows:
            self._out.write(f"\x1b[{self._rows}F\x1b[J")
            self._rows = 0

    def _redraw(self) -> None:
        for line in self._growing:
            self._out.write(tail(printable(line), self._columns - 1) + "\n")
        self._rows = len(self._growing)
        self._out.flush()


def columns(out: TextIO) -> int | None:
    """Letters of a line; None for what is no terminal, such as a file, which has any number."""
    return shutil.get_terminal_size().columns if out.isatty() else None


def printable(text: str) -> str:
    """``text`` without what could steer a terminal: it was written by somebody else."""
    return "".join(char if char.isprintable() else " " for char in text)


def width(text: str) -> int:
    """Columns that ``text`` takes on a terminal (UAX 11)."""
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def tail(text: str, columns: int) -> str:
    """``text``, or as much of its end as fits behind an ellipsis."""
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[1:]
    return "…" + text


def head(text: str, columns: int) -> str:
    """``text``, or as much of its beginning as fits before an ellipsis."""
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[:-1]
    return text + "…"
