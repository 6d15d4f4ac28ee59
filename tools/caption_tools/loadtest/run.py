"""A load test from beginning to end: the client processes and their results.

Owns: the processes, the common beginning, the progress bar, the scrapes. Must not know: what a
virtual user does, what a report looks like.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from caption_tools.loadtest import child
from caption_tools.loadtest.child import ANSWER_S, ProgressSample
from caption_tools.loadtest.model import report
from caption_tools.loadtest.model.plan import Goal, Plan
from caption_tools.loadtest.model.report import LoadReport
from caption_tools.loadtest.model.tally import LoadTally
from caption_tools.report.stats import Histogram
from caption_tools.scrape import Scraper
from gateway.cli.terminal import Screen, readable
from gateway.client.transport import Route
from gateway.io.tasks import running

T = TypeVar("T")
LEAD_S = 0.3
"""Seconds between the message to begin and the beginning, so that all processes have it in time."""
END_S = 10.0  # seconds that a process has to end when its pipe is closed
SHOW_S = 0.5  # seconds between two progress bars
BAR = 16  # letters of the progress bar


class LoadRun:
    """One run against a gateway.

    :param screen: shows the progress; None shows nothing
    :param every: seconds between two scrapes of ``/metrics``
    """

    def __init__(
        self,
        plan: Plan,
        lines: Sequence[str],
        screen: Screen | None = None,
        *,
        key: str | None = None,
        goals: Sequence[Goal] = (),
        every: float = 1.0,
    ) -> None:
        self.plan = plan
        self.stopped = False  # True after `stop`
        self.tally = LoadTally.of(plan)  # results of all processes, once `run` has returned
        self._lines = lines
        self._key = key
        self._goals = goals
        self._screen = screen
        self._every = every
        self._scraper = Scraper(plan.url, key)
        self._pipes: list[Connection] = []
        self._samples: dict[int, ProgressSample] = {}
        self._zero = math.inf
        self._until: float | None = None

    def stop(self) -> None:
        """End the run; the report then covers the time until now."""
        self.stopped = True
        self._until = max(0.1, time.monotonic() - self._zero)
        self._tell(None)

    async def run(self, begun: Callable[[], None] = lambda: None) -> LoadReport:
        """Run the load and return the report.

        :param begun: called when all sockets are open; from then on there is a report

        Raises `Refused`, `ConnectionError` and `ChildProcessError` with a sentence if it could not
        begin, `ValueError` for an invalid address.
        """
        engine = await self._probe()
        async with self._children():
            self._draw(f"opening {self.plan.sockets} sockets ...")
            await _all(map(_ready, self._pipes))
            # The first scrape has the counters before anything is said.
            await self._scraper.scrape_once(self._zero)
            self._zero = time.monotonic() + LEAD_S
            self._tell(self._zero)
            begun()
            async with (
                running(self._scraper.watch(self._zero, self._every)),
                running(self._show()),
            ):
                for tally in await _all(self._done(*item) for item in enumerate(self._pipes)):
                    self.tally.merge(tally)
        # The last scrape has the final counters, after all captions have ended.
        await self._scraper.scrape_once(self._zero)
        self.tally.whole = self.tally.whole and not self.stopped
        return report.made(
            self.plan,
            self.tally,
            engine=engine,
            goals=self._goals,
            samples=self._scraper.samples,
            why=self._scraper.why,
            until=self._until,
        )

    async def _probe(self) -> str:
        """Return the name of the engine. Check first that the gateway has the languages."""
        query: dict[str, str | None] = {
            "room": f"bench-{self.plan.run}-0",
            "role": "view",
            "to": ",".join(self.plan.langs),
        }
        # One short connection finds a wrong address, key or language before processes start.
        line = await Route(self.plan.url, query, self._key, "json", ANSWER_S, {}).dial({})
        await line.socket.close()
        has = line.welcome.languages
        known = {_base(lang) for lang in has}
        if missing := [lang for lang in self.plan.langs if _base(lang) not in known]:
            raise ConnectionError(
                f"The gateway does not translate into {', '.join(missing)}; it has"
                f" {', '.join(has)}."
            )
        return line.welcome.engine

    # --- processes ------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _children(self) -> AsyncIterator[None]:
        """Start the client processes. They end when their pipes are closed."""
        context = get_context("spawn")
        processes: list[BaseProcess] = []
        try:
            for number in range(self.plan.processes):
                pipe, theirs = context.Pipe()
                self._pipes.append(pipe)
                # Keys never stand on a command line, which other users can read.
                given = (theirs, self.plan, number, self._key, self._lines)
                processes.append(context.Process(target=child.run, args=given, daemon=True))
                processes[-1].start()
                theirs.close()
            yield
        finally:
            for pipe in self._pipes:
                pipe.close()
            await asyncio.gather(*(asyncio.to_thread(_end, process) for process in processes))

    def _tell(self, message: float | None) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(ConnectionError):  # `_done` reports a process that died
                pipe.send(message)

    async def _done(self, number: int, pipe: Connection) -> LoadTally:
        while True:
            match await _receive(pipe):
                case ProgressSample() as sample:
                    self._samples[number] = sample
                case LoadTally() as tally:
                    return tally
                case _:
                    raise ChildProcessError("A client process died; its figures are lost.")

    # --- progress -------------------------------------------------------------------------------

    def _draw(self, line: str) -> None:
        if self._screen is not None:
            self._screen.draw([line])

    async def _show(self) -> None:
        while True:
            self._draw(self.progress(time.monotonic() - self._zero))
            await asyncio.sleep(SHOW_S)

    def progress(self, now: float) -> str:
        """Return the progress in a line of 80 letters.

        The latencies are those until the first text and until the finished caption.
        """
        seconds = self.plan.seconds
        now = min(seconds, max(0.0, now))
        full = round(BAR * now / seconds)
        first, final = Histogram(), Histogram()
        said = captions = errors = 0
        for sample in self._samples.values():
            first.merge(sample.first)
            final.merge(sample.final)
            said += sample.counts["said"]
            captions += sample.counts["captions"]
            errors += sample.counts["errors"]
        return (
            f"[{'#' * full}{'.' * (BAR - full)}] {now:.0f}/{seconds:g} s"
            f"  {said} said, {captions} captions"
            f"  p95 {1000 * first.at(0.95):.0f}, {1000 * final.at(0.95):.0f} ms  {errors} errors"
        )


async def perform(load: LoadRun) -> LoadReport:
    """Run a load test that Ctrl-C and SIGTERM can end.

    Once it has begun, the first signal ends it with a report of the time so far, the second ends it
    at once. Before that, signals end it as they end any program.
    """
    loop = asyncio.get_running_loop()
    # What the shell ignores, as for a command in the background, stays ignored.
    ends = (signal.SIGINT, signal.SIGTERM)
    signs = [sign for sign in ends if signal.getsignal(sign) is not signal.SIG_IGN]

    def release() -> None:
        for sign in signs:
            loop.remove_signal_handler(sign)

    def end() -> None:
        load.stop()
        release()  # a second signal then ends the process at once

    def begun() -> None:
        for sign in signs:
            loop.add_signal_handler(sign, end)

    try:
        return await load.run(begun)
    finally:
        release()


def _base(lang: str) -> str:
    """Return a language without region and script, which the gateway resolves itself."""
    return lang.partition("-")[0]


async def _ready(pipe: Connection) -> None:
    match await _receive(pipe):
        case None:
            pass
        case str() as why:
            raise ConnectionError(f"Not all sockets could be opened: {why}")
        case _:
            raise ChildProcessError("A client process ended before it had begun.")


async def _receive(pipe: Connection) -> object:
    """Return the next message of a client process (see `child.run`), or `EOFError` if it has
    ended.
    """
    await readable(pipe.fileno())
    try:
        return pipe.recv()
    except (EOFError, ConnectionError):
        return EOFError


def _end(process: BaseProcess) -> None:
    process.join(END_S)
    process.kill()
    process.join()


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results in order. The first fault cancels the others and is raised alone."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
