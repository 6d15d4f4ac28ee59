"""The core of (a), (b) and (c): worker processes behind queues, and the way back to asyncio.

Owns: both ends of the queues. Must not know: HTTP, models.

As in the original, the web server puts a task into a manager's dict and its name into a
`JoinableQueue`. A worker takes the name, fetches the task, calls the model and waits for it, puts
the task back and its name into a queue of events. A thread of the web server reads that and sets
the `asyncio.Event` for which the request waits, and the request fetches its task from the manager.
The calls to the manager block the event loop, since that is how a manager's dict is used.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import queue
import signal
import threading
import time
from multiprocessing.managers import DictProxy, SyncManager
from multiprocessing.process import BaseProcess
from typing import Any

from benchmarks.journey.plan import TASKS, WAIT_S, Answer, Plan, Task

log = logging.getLogger("benchmarks.journey")

READY = "ready"
"""Message of a worker, in the place of a task's name, when its model is loaded."""
END_S = 10.0
"""Seconds that a worker has to end by itself."""


class Full(Exception):
    """The error for a queue that holds `TASKS` requests."""


class Workers:
    """The worker processes of an architecture, from the side of its web server."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._serial = 0
        self._waiting: dict[str, asyncio.Event] = {}
        self._ready = 0
        self._fault: str | None = None
        self._changed = asyncio.Event()
        self._processes: list[BaseProcess] = []
        self._manager: SyncManager | None = None
        self._tasks: DictProxy[str, Task] | None = None
        context = multiprocessing.get_context("spawn")
        self._context = context
        self._names: Any = context.JoinableQueue(TASKS)
        self._events: Any = context.Queue()
        self._bridge: threading.Thread | None = None

    async def start(self) -> None:
        """Start the processes, and wait until each has its model. Raises `ChildProcessError`."""
        self._manager = self._context.Manager()
        self._tasks = self._manager.dict()
        loop = asyncio.get_running_loop()
        self._bridge = threading.Thread(
            target=self._follow, args=(loop,), name="bridge", daemon=True
        )
        self._bridge.start()
        for _ in range(self._plan.workers):
            process = self._context.Process(
                target=work, args=(self._plan, self._names, self._tasks, self._events)
            )
            process.start()
            self._processes.append(process)
        while self._ready < self._plan.workers:
            if any(process.exitcode is not None for process in self._processes):
                raise ChildProcessError("A worker ended before its model was loaded.")
            self._changed.clear()
            try:
                async with asyncio.timeout(1):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def translate(self, text: str) -> Answer:
        """Have a worker translate. Raises `Full`, `RuntimeError`."""
        assert self._tasks is not None, "it was not started"
        came = time.monotonic()
        self._serial += 1
        name = str(self._serial)
        done = self._waiting[name] = asyncio.Event()
        try:
            self._tasks[name] = Task(text)
            try:
                self._names.put_nowait(name)
            except queue.Full as exc:
                raise Full from exc
            await done.wait()
            task = self._tasks[name]
        finally:
            del self._waiting[name]
            self._tasks.pop(name, None)
        if task.error is not None:
            raise RuntimeError(task.error)
        return Answer(task.made, task.tokens, task.begun - came, task.ended - task.begun)

    async def aclose(self) -> None:
        """End the processes and the thread."""
        for process in self._processes:
            if process.is_alive():
                process.terminate()
        for process in self._processes:
            await asyncio.to_thread(process.join, END_S)
            if process.is_alive():
                log.warning("a worker does not end by itself")
                process.kill()
        self._events.put(None)
        if self._bridge is not None:
            await asyncio.to_thread(self._bridge.join)
        if self._manager is not None:
            self._manager.shutdown()

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass names from the queue of events to the event loop, in a thread."""
        while (name := self._events.get()) is not None:
            loop.call_soon_threadsafe(self._heard, name)

    def _heard(self, name: str) -> None:
        if name == READY:
            self._ready += 1
            self._changed.set()
        elif name in self._waiting:
            self._waiting[name].set()


def work(plan: Plan, names: Any, tasks: DictProxy[str, Task], events: Any) -> None:
    """Run a worker process: load the model, then translate tasks until the process is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process
    signal.signal(signal.SIGTERM, _end)
    from benchmarks.journey import models

    logging.basicConfig(level="INFO")
    model = models.load(plan)
    events.put(READY)
    while True:
        batch = collect(names, plan.batch, WAIT_S)
        begun = time.monotonic()
        taken = [tasks[name] for name in batch]
        try:
            made = model.translate([task.text for task in taken])
            for task, one in zip(taken, made, strict=True):
                task.made, task.tokens = one.text, one.tokens
        except Exception as exc:
            log.exception("a batch of %d failed", len(batch))
            for task in taken:
                task.error = f"{type(exc).__name__}: {exc}"
        ended = time.monotonic()
        # A batch is answered as one: none of it is told before the longest is done.
        for name, task in zip(batch, taken, strict=True):
            task.begun, task.ended = begun, ended
            tasks[name] = task
            names.task_done()
            events.put(name)


def collect(names: Any, most: int, wait: float) -> list[str]:
    """Return the next name, and up to ``most`` that come within ``wait`` seconds of it."""
    found = [names.get()]
    until = time.monotonic() + wait
    while len(found) < most and (left := until - time.monotonic()) > 0:
        try:
            found.append(names.get(timeout=left))
        except queue.Empty:
            break
    return found


def _end(*_: object) -> None:
    raise SystemExit(0)
