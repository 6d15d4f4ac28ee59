"""The terminal: input by lines, growing lines at the bottom of a screen, notes and faults.

Owns: reading lines without a thread, redrawing, prefixes and streams, and the API key, which is
never printed. Must not know: commands. Results go to standard output by `print`.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
import sys
import unicodedata
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import ParamSpec, TextIO, TypeVar

from gateway.client import Refused
from gateway.settings.catalogue import KEY

P = ParamSpec("P")
T = TypeVar("T")
NEEDS_KEY = f"If the gateway requires an API key, set the variable {KEY}."
"""End of the help of commands that talk to a gateway."""


async def lines(fd: int) -> AsyncGenerator[str]:
    """Yield the lines of a terminal, pipe or file, without a thread, which would outlive Ctrl-C."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    while data := await _bytes(fd):
        *whole, rest = (rest + decoder.decode(data)).split("\n")
        for line in whole:
            yield line
    if rest:
        yield rest


async def _bytes(fd: int) -> bytes:
    # epoll refuses regular files, whose reads never block.
    with contextlib.suppress(PermissionError):
        await readable(fd)
    return os.read(fd, 4096)


async def readable(fd: int) -> None:
    """Wait until a descriptor can be read. Raises `PermissionError` for that of a file."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


class Screen:
    """A terminal with finished lines above growing lines, which are redrawn in place.

    If the output is no terminal, only finished lines are written. Somebody who types while captions
    grow sees the typed letters again when the line is finished.
    """

    def __init__(self, out: TextIO) -> None:
        self.live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._out = out
        self._rows = 0  # to go up to where the growing lines begin
        self._growing: list[str] = []

    def finish(self, line: str) -> None:
        """Write a line that does not change any more."""
        self._erase()
        self._out.write(printable(line) + "\n")
        self._redraw()

    def draw(self, growing: list[str]) -> None:
        """Show growing lines below the finished ones, one row each: of a long line the end."""
        if self.live and growing != self._growing:
            self._erase()
            self._growing = growing
            self._redraw()

    def typed(self, line: str) -> None:
        """Account for a line that the terminal has echoed, and put it above the growing lines."""
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


def printable(text: str) -> str:
    """Replace control characters, which could steer the terminal: the text is untrusted."""
    return "".join(char if char.isprintable() else " " for char in text)


def width(text: str) -> int:
    """Return the columns that a text takes on a terminal (UAX 11)."""
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def tail(text: str, columns: int) -> str:
    """Return a text, or the part of its end that fits behind an ellipsis."""
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[1:]
    return "…" + text


def head(text: str, columns: int) -> str:
    """Return a text, or the part of its beginning that fits before an ellipsis."""
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[:-1]
    return text + "…"


def note(line: str) -> None:
    """Print a line of progress on stderr, beside the output of a command."""
    print(f"# {printable(line)}", file=sys.stderr)


def complain(text: str) -> None:
    """Print a failure or a warning on stderr."""
    with contextlib.suppress(OSError):  # a full disk must not stop a gateway that serves
        print("gateway:", "\n".join(map(printable, text.split("\n"))), file=sys.stderr)


def api_key() -> str | None:
    """Return the API key from the environment: other users of the machine can read flags."""
    return os.environ.get(KEY) or None


@contextlib.contextmanager
def first_fault(*kinds: type[Exception]) -> Iterator[None]:
    """Raise the first fault of these kinds alone if a group of tasks ends with it."""
    try:
        yield
    except ExceptionGroup as group:
        fault: Exception | None = group.subgroup(kinds)
        # Anything else is a bug and keeps its traceback.
        if fault is None:
            raise
        while isinstance(fault, ExceptionGroup):
            fault = fault.exceptions[0]
        raise fault from None


async def accepted(ask: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
    """Ask until the gateway does not refuse it for the moment only. Raises `Refused`."""
    while True:
        try:
            return await ask(*args, **options)
        except Refused as exc:
            # A permanent refusal would be repeated for ever.
            if not exc.error.retry:
                raise
            ms = exc.error.retry_ms
            await asyncio.sleep(1.0 if ms is None else ms / 1000)
