"""A watchdog that ends a process that does not stop.

Owns: the thread that waits, and the stack traces that it writes. Must not know: why the process
stops, and for how long it may take.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import sys
import threading


class Watchdog:
    """A thread that ends the process by force if it does not end by itself."""

    def __init__(self) -> None:
        # A signal handler may call `put` while the same thread is inside another `put`.
        # `SimpleQueue` allows that; `queue.Queue` and `threading.Event` would wait for themselves.
        self._orders: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        threading.Thread(target=self._wait, daemon=True).start()

    def begin(self, seconds: float) -> None:
        """End the process after ``seconds``, unless `stop` is called. Safe in a signal handler."""
        self._orders.put(seconds)

    def stop(self) -> None:
        """Let the process live, and end the thread."""
        self._orders.put(None)

    def _wait(self) -> None:
        seconds = self._orders.get()
        with contextlib.suppress(queue.Empty):
            while seconds is not None:
                seconds = self._orders.get(timeout=seconds)
            return
        _exit_with_traces()


def _exit_with_traces() -> None:
    """Write where each thread hangs, and end the process with status 1."""
    sys.stderr.write("The gateway does not end by itself:\n")
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)
