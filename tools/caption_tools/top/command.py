"""The command ``gateway top``: its flags, and one frame for a pipe or frames until a key ends them.

Owns: when gateways are asked, when the screen is drawn, colours, keys, the modes of the terminal.
Must not know: where figures come from. The answers of a gateway or a proxy are not trusted: no text
is read as markup, and control characters become spaces.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from caption_tools.top.model.figures import DOWN
from caption_tools.top.model.table import COLUMNS, table
from caption_tools.top.poll import WINDOW_S, Poller
from gateway.cli.flags import URL, positive
from gateway.cli.terminal import api_key, printable, readable, width
from gateway.settings.catalogue import KEY

ONCE_S = 1.0  # seconds between the two readings of a single frame. Rates need two
PIPE = 200  # columns of a frame that is written to a pipe or a file: all columns of the table
STYLES = {"ready": "green", "starting": "yellow", "draining": "yellow"}
"""Colours of states; any other is red."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add("urls", nargs="*", metavar="URL", help=f"addresses of gateways; default: {URL}")
    once = (
        "print one table and end, with status 1 if a gateway is not ready; the default if the"
        " output is no terminal"
    )
    add("--once", action="store_true", help=once)
    every = "seconds between two readings; default: %(default)g"
    add("--every", type=positive, default=2.0, metavar="SECONDS", help=every)
    parser.epilog = (
        "Keys: q ends, s sorts by the next column, r reverses the order. first: from the end of a"
        " text to the first text of its caption. final: to the end of the caption. If the gateways"
        f" require an API key, set the variable {KEY} to one that may moderate."
    )


def run(args: argparse.Namespace) -> int:
    """Run the command, and return its exit status. Raises `ValueError` for a wrong address."""
    urls = dict.fromkeys(args.urls or [URL])
    screen = TopScreen([Poller(url, api_key()) for url in urls], args.every)
    # Frames that replace each other are of no use in a pipe or a file.
    once = args.once or not sys.stdout.isatty()
    return asyncio.run(screen.once() if once else screen.live())


class TopScreen:
    """The view of several gateways.

    :param console: terminal to draw on; default: standard output
    """

    def __init__(
        self,
        pollers: Sequence[Poller],
        every: float,
        *,
        console: Console | None = None,
        keys: int = 0,
    ) -> None:
        self._pollers = pollers
        self._every = every
        self._console = console or Console()
        self._keys = keys
        self._sort = 0
        self._reverse = False
        self._over = False
        self._wake = asyncio.Event()

    async def once(self) -> int:
        """Print one frame; return 0 if all gateways are ready, else 1."""
        await self._poll_all()
        await asyncio.sleep(min(self._every, ONCE_S))
        await self._poll_all()
        if not self._console.is_terminal:
            self._console.width = PIPE
        self._console.print(self._frame(latencies_of_all=True))
        rows = [poller.figures(latencies_of_all=True) for poller in self._pollers]
        return 0 if all(row.status == "ready" for row in rows) else 1

    async def live(self) -> int:
        """Draw frames until q is pressed. Ctrl-C works as well."""
        tasks = [asyncio.create_task(self._keep_polling(poller)) for poller in self._pollers]
        tasks.append(asyncio.create_task(self._read_keys()))
        try:
            with Live(console=self._console, screen=True, auto_refresh=False) as live:
                while not self._over:
                    live.update(self._frame(latencies_of_all=False), refresh=True)
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return 0

    def press(self, key: str) -> None:
        """Carry out the meaning of a key."""
        if key == "q":
            self._over = True
        elif key == "s":
            self._sort = (self._sort + 1) % len(COLUMNS)
        elif key == "r":
            self._reverse = not self._reverse
        self._wake.set()

    async def _poll_all(self) -> None:
        await asyncio.gather(*(poller.poll() for poller in self._pollers))

    async def _keep_polling(self, poller: Poller) -> None:
        """Ask one gateway at a fixed interval. A slow one does not hold up the others."""
        while True:
            begun = time.monotonic()
            await poller.poll()
            self._wake.set()
            await asyncio.sleep(max(0.0, begun + self._every - time.monotonic()))

    def _frame(self, *, latencies_of_all: bool) -> Group:
        over = "since the start" if latencies_of_all else f"of the last {WINDOW_S:g} s"
        title = f"{time.strftime('%H:%M:%S')}  latencies {over}"
        if not latencies_of_all:
            order = "descending" if self._reverse else "ascending"
            sorting = f"sorted by {COLUMNS[self._sort].title}, {order}"
            several = len(self._pollers) > 1
            title += f"  {sorting}  (q ends, s sorts, r reverses)" if several else "  (q ends)"
        figures = [poller.figures(latencies_of_all=latencies_of_all) for poller in self._pollers]
        columns, rows = table(
            figures,
            width=self._console.width,
            sort=self._sort,
            reverse=self._reverse,
            measure=width,
        )
        drawn = Table(
            box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold"
        )
        for column in columns:
            # An arrow beside the title would make the column wider, and another might not fit.
            sorted_by = column is COLUMNS[self._sort] and len(figures) > 1
            head = Text(column.title, "bold reverse" if sorted_by else "bold")
            drawn.add_column(head, justify="left" if column.left else "right", no_wrap=True)
        for cells in rows:
            drawn.add_row(
                *(
                    Text(
                        printable(cell), STYLES.get(cell, "red") if column.title == "state" else ""
                    )
                    for column, cell in zip(columns, cells, strict=True)
                )
            )
        notes = (
            Text(printable(f"{row.name}: {note}"), "red" if row.status == DOWN else "yellow")
            for row in figures
            for note in row.notes
        )
        return Group(Text(title, "dim"), drawn, *notes)

    async def _read_keys(self) -> None:
        """Read single keys, without their echo, until standard input is closed."""
        # A file, or Windows: only Ctrl-C ends.
        with _single_keys(self._keys), contextlib.suppress(PermissionError, NotImplementedError):
            await readable(self._keys)
            while keys := os.read(self._keys, 64):
                for key in keys.decode(errors="replace"):
                    self.press(key)
                await readable(self._keys)


@contextlib.contextmanager
def _single_keys(descriptor: int) -> Iterator[None]:
    """Let a terminal pass on each key at once. Anything else is left as it is."""
    if not os.isatty(descriptor) or sys.platform == "win32":
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
