"""A load test from beginning to end: the client processes and their results.

Owns: the processes, the common beginning, the progress bar, the scrapes. Must not know: what a
virtual user does, what a report looks like.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from gateway.cli.loadtest import pipe
from gateway.cli.loadtest.model import report
from gateway.cli.loadtest.model.plan import Goal, Plan
from gateway.cli.loadtest.model.report import LoadReport
from gateway.cli.loadtest.model.tally import LoadTally
from gateway.cli.loadtest.scrape import Scraper
from gateway.cli.report.stats import Histogram
from gateway.client.transport import Route

T = TypeVar("T")

LEAD_S = 0.3
"""Seconds between the message to begin and the beginning, so that all processes have it in time."""
ANSWER_S = 20.0
"""Seconds to wait for the first ``welcome``."""
END_S = 10.0
"""Seconds that a stopped process has to send its results."""
SHOW_S = 0.5
BAR = 16
"""Letters of the progress bar."""


class LoadRun:
    """One run against a gateway.

    :param key: API key of the gateway
    :param draw: shows the progress, one line; called about twice a second
    :param every: seconds between two scrapes of ``/metrics``
    """

    def __init__(
        self,
        plan: Plan,
        lines: Sequence[str],
        *,
        key: str | None = None,
        goals: Sequence[Goal] = (),
        draw: Callable[[str], None] = lambda line: None,
        every: float = 1.0,
    ) -> None:
        self.plan = plan
        self.stopped = False
        """True after `stop`."""
        self.tally = LoadTally.of(plan)
        """Results of all processes, once `run` has returned."""
        self._lines = list(lines)
        self._key = key
        self._goals = goals
        self._draw = draw
        self._every = every
        self._scraper = Scraper(plan.url, key)
        self._processes: list[Process] = []
        self._samples: dict[int, pipe.ProgressSample] = {}
        self._zero = math.inf
        self._until: float | None = None

    def stop(self) -> None:
        """End the run; the report then covers the time until now."""
        self.stopped = True
        self._until = max(0.1, time.monotonic() - self._zero)
        for process in self._processes:
            _tell(process, pipe.StopRun())

    async def run(self, begun: Callable[[], None] = lambda: None) -> LoadReport:
        """Run the load and return the report.

        :param begun: called when all sockets are open; from then on there is a report

        Raises `Refused`, `ConnectionError` and `ChildProcessError` with a sentence if it could not
        begin, `ValueError` for an invalid address.
        """
        engine = await self._probe()
        whole = True
        async with self._children() as children:
            self._draw(f"opening {self.plan.sockets} sockets ...")
            await _all(self._ready(process) for process in children)
            self._zero = time.monotonic() + LEAD_S
            for process in children:
                _tell(process, pipe.BeginRun(self._zero))
            begun()
            looking = [
                asyncio.create_task(self._scraper.watch(self._zero, self._every)),
                asyncio.create_task(self._show()),
            ]
            try:
                for done in await _all(
                    self._done(number, process) for number, process in enumerate(children)
                ):
                    self.tally.merge(done.tally)
                    whole = whole and done.whole
            finally:
                for task in looking:
                    task.cancel()
                await asyncio.gather(*looking, return_exceptions=True)
        # The last scrape has the final counters, after all captions have ended.
        await self._scraper.scrape_once(self._zero)
        self._draw("")
        return report.made(
            self.plan,
            self.tally,
            engine=engine,
            whole=whole and not self.stopped,
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
        route = Route(self.plan.url, query, self._key, "json", ANSWER_S, {})
        # One short connection finds a wrong address, key or language before processes start.
        line = await route.dial({})
        welcome = line.welcome
        await line.socket.close()
        known = {_base(lang) for lang in welcome.languages}
        missing = [lang for lang in self.plan.langs if _base(lang) not in known]
        if missing:
            raise ConnectionError(
                f"The gateway does not translate into {', '.join(missing)}; it has"
                f" {', '.join(welcome.languages)}."
            )
        return welcome.engine

    # --- processes ------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _children(self) -> AsyncIterator[list[Process]]:
        try:
            for number in range(self.plan.processes):
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "gateway.cli.loadtest.child"),
                    stdin=PIPE,
                    stdout=PIPE,
                    start_new_session=True,  # Ctrl-C is for the process that prints the report
                )
                self._processes.append(process)
                start = pipe.ClientConfig(
                    plan=self.plan, process=number, key=self._key, lines=self._lines
                )
                _tell(process, start)
            yield self._processes
        finally:
            await asyncio.gather(*map(_end, self._processes))

    async def _ready(self, process: Process) -> None:
        answer = await _receive(process)
        if isinstance(answer, pipe.SocketFailed):
            raise ConnectionError(f"Not all sockets could be opened: {answer.msg}")
        if not isinstance(answer, pipe.SocketsReady):
            raise ChildProcessError("A client process ended before it had begun.")

    async def _done(self, number: int, process: Process) -> pipe.RunDone:
        while True:
            answer = await _receive(process)
            if isinstance(answer, pipe.ProgressSample):
                self._samples[number] = answer
            elif isinstance(answer, pipe.RunDone):
                return answer
            else:
                raise ChildProcessError("A client process died; its figures are lost.")

    # --- progress -------------------------------------------------------------------------------

    async def _show(self) -> None:
        while True:
            self._draw(self.progress(time.monotonic() - self._zero))
            await asyncio.sleep(SHOW_S)

    def progress(self, now: float) -> str:
        """Return the progress in a line of 80 letters.

        The latencies are those until the first text and until the finished caption.

        :param now: seconds since the beginning
        """
        seconds = self.plan.seconds
        full = round(BAR * min(1.0, max(0.0, now / seconds)))
        first, final = Histogram(), Histogram()
        for sample in self._samples.values():
            first.merge(sample.first)
            final.merge(sample.final)
        counts = {
            name: sum(sample.counts[name] for sample in self._samples.values())
            for name in ("said", "captions")
        }
        wrong = sum(sample.errors for sample in self._samples.values())
        return (
            f"[{'#' * full}{'.' * (BAR - full)}] {min(seconds, max(0.0, now)):.0f}/{seconds:g} s"
            f"  {counts['said']} said, {counts['captions']} captions"
            f"  p95 {1000 * first.at(0.95):.0f}, {1000 * final.at(0.95):.0f} ms"
            f"  {wrong} errors"
        )


async def perform(load: LoadRun) -> LoadReport:
    """Run a load test that Ctrl-C and SIGTERM can end.

    Once it has begun, the first signal ends it with a report of the time so far, the second ends it
    at once. Before that, signals end it as they end any program.
    """
    loop = asyncio.get_running_loop()
    signs = (signal.SIGINT, signal.SIGTERM)

    def end() -> None:
        load.stop()
        # A second signal then ends the process at once.
        for sign in signs:
            loop.remove_signal_handler(sign)

    def begun() -> None:
        for sign in signs:
            loop.add_signal_handler(sign, end)

    try:
        return await load.run(begun)
    finally:
        for sign in signs:
            loop.remove_signal_handler(sign)


def _base(lang: str) -> str:
    """Return a language without region and script, which the gateway resolves itself."""
    return lang.partition("-")[0]


def _tell(process: Process, message: pipe.Message) -> None:
    assert process.stdin is not None, "it has a pipe"
    if not process.stdin.is_closing():
        process.stdin.write(pipe.pack(message))


async def _receive(process: Process) -> pipe.Message | None:
    assert process.stdout is not None, "it has a pipe"
    return await pipe.receive(process.stdout)


async def _end(process: Process) -> None:
    """Close the pipe, at which the process ends by itself; kill it if it does not."""
    assert process.stdin is not None, "it has a pipe"
    process.stdin.close()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return all results in order. The first fault cancels the others and is raised alone."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
