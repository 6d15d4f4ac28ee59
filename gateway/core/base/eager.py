"""The start of a coroutine in the current turn of the event loop.

Owns: the part that runs at once, and the remainder that can be awaited. Must not know: sockets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator
from typing import Any


def run_eagerly(work: Awaitable[None]) -> Awaitable[None] | None:
    """Run a coroutine until it would wait. Return its remainder, or None if it has finished.

    A task would run in another turn of the event loop, and cost as much as a short coroutine. From
    Python 3.12 on, tasks of `asyncio.eager_task_factory` begin in the same way. Raises what the
    coroutine raises.
    """
    steps = work.__await__()
    try:
        waiting_for = next(steps)
    except StopIteration:
        return None
    return _Remainder(steps, waiting_for)


class _Remainder:
    """An awaitable that continues a coroutine, and first waits for the awaitable that the coroutine
    waits for.

    It is an iterator and no coroutine, since not every server implements ``send`` as a coroutine,
    and ``await`` needs an iterator only.
    """

    __slots__ = ("_steps", "_waiting_for")

    def __init__(self, steps: Iterator[Any], waiting_for: object) -> None:
        self._steps = steps
        self._waiting_for = waiting_for

    def __await__(self) -> Generator[Any, Any, None]:
        return self  # type: ignore[return-value]

    def __next__(self) -> object:
        waiting_for, self._waiting_for = self._waiting_for, None
        return next(self._steps) if waiting_for is None else waiting_for

    def throw(self, fault: BaseException) -> object:
        """Raise a fault, such as a cancellation, where the coroutine waits."""
        if hasattr(self._steps, "throw"):
            return self._steps.throw(fault)
        try:
            raise fault
        finally:
            del fault  # it refers to this frame

    def close(self) -> None:
        """Close the coroutine, if it is one."""
        if hasattr(self._steps, "close"):
            self._steps.close()
