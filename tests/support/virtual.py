"""An event loop whose clock stands while work is done and jumps over every wait.

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
"""Seconds that a wait ends late: what was added to a clock may be short of what was waited for by
a rounding, and would be waited for again and again."""


class Jumping(selectors.DefaultSelector):  # type: ignore[valid-type,misc]
    """Waits for nothing that is only a matter of time."""

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
    """Like `asyncio.run`; ``main`` is called with the clock."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main(runner.get_loop().time))
