"""An event loop with virtual time, which stands during work and skips every wait.

What depends on times is then the same on every machine, however busy it is: seconds of waiting take
none, and nothing is ever late. Real sockets may be read in it, but no time passes while it waits
for them alone.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

RESOLUTION_S = 1e-6
"""Seconds by which a wait ends late. Without them, rounding could leave the clock just before the
end of the wait, again and again."""


class Jumping(selectors.DefaultSelector):
    """A selector that skips waits for timers."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return super().select()
        events = super().select(0)
        if not events and timeout > 0:
            self.now += timeout + RESOLUTION_S
        return events


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Callable[[Callable[[], float]], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function as `asyncio.run` does, with the clock as its argument."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main(runner.get_loop().time))
