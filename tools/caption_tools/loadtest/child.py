"""A client process: its sockets and its timer.

Owns: opening the sockets, sending what is due, the end of a run. Must not know: other processes,
reports, the terminal. `caption_tools.loadtest.run` starts it and talks to it over a pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from multiprocessing.connection import Connection
from random import Random
from typing import NamedTuple

import msgspec

from caption_tools.loadtest.model import script
from caption_tools.loadtest.model.plan import Plan, VirtualUser, assigned
from caption_tools.loadtest.model.script import Send
from caption_tools.loadtest.model.session import UserSession
from caption_tools.loadtest.model.tally import LoadTally
from caption_tools.loadtest.socket import Socket, tls
from caption_tools.report.stats import Histogram
from caption_tools.speech import text
from caption_tools.speech.recogniser import RecogniserRandom
from gateway.cli.terminal import first_fault, readable
from gateway.client.transport import address
from gateway.protocol.codec import Codec

ANSWER_S = 20.0  # seconds to wait for the handshake and ``welcome``
TICK_S = 0.1  # seconds between two checks of how late the process is, besides those at each send
SAMPLE_S = 0.5  # seconds between two samples for the progress bar
SLICE_S = 0.02
"""Seconds of sending at a time. A process that cannot keep up still reads, and can still be
stopped.
"""
POLL_S = 0.05  # seconds between two checks whether all captions have ended
QUIET_S = 0.3  # seconds without a frame after which nothing more is expected


class ProgressSample(NamedTuple):
    """Counters and latencies so far, for the progress bar."""

    counts: dict[str, int]
    first: Histogram
    final: Histogram


class UserConnection:
    """A virtual user and its socket."""

    def __init__(self, client: ClientProcess, user: VirtualUser) -> None:
        self.member = UserSession(client.plan, user, client.tally)
        self.welcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.welcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._client = client
        self._tally = client.tally
        made = client.plan
        query: dict[str, str | None] = {
            "room": user.room,
            "to": ",".join(user.langs),
            "view": made.view,
            "role": "view" if user.speaker is None else "speak",
            "from": None if user.speaker is None else made.source,
        }
        self.socket = Socket(
            address(made.url, query),
            client.tls,
            Codec[made.wire.upper()].value,
            client.key,
            self._on_first,
            self._on_closed,
        )

    async def join(self) -> None:
        """Open the socket and wait for ``welcome``. Raises `OSError` with a sentence."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self.socket.connect()
                await self.welcome
        except TimeoutError:
            raise TimeoutError(f"The gateway did not answer within {ANSWER_S:g} s.") from None
        self._tally.counts["sockets"] += 1

    def say(self, send: Send, now: float) -> None:
        """Send a frame, or count it as unsent."""
        if self.socket.open and not self.socket.full:
            self.socket.send(self.member.frame(send, now))
        elif send.final:
            self._tally.counts["unsent"] += 1

    def _read(self, payload: bytes) -> None:
        now = self._client.now()
        try:
            self.member.read(payload, now)
        except msgspec.MsgspecError:
            self._tally.error("unreadable", now)

    def _on_first(self, payload: bytes) -> None:
        """Handle the first frame: ``welcome``, or the reason why there is none."""
        # All later frames go to the session without this check.
        self.socket.heard = self._read
        if self.welcome.done():  # the wait for it has timed out
            return
        first = self.member.decode(payload)
        if first.type == "welcome":
            self.welcome.set_result(None)
        else:
            self.welcome.set_exception(ConnectionError(first.msg or f"It began: {first.type}."))

    def _on_closed(self, code: int, reason: str) -> None:
        if not self.welcome.done():
            self.welcome.set_exception(
                ConnectionError(f"The gateway closed a socket ({code}). {reason}".strip())
            )
            return
        self._tally.counts["lost"] += 1
        self._tally.closes[str(code)] += 1
        self._tally.counts["unended"] += self.member.open


class ClientProcess:
    """The sockets of one process.

    :param number: number of this process, among those of the plan
    :param tell: sends a sample to the process that reports
    """

    def __init__(
        self,
        plan: Plan,
        number: int,
        key: str | None,
        lines: Sequence[str],
        tell: Callable[[ProgressSample], None],
    ) -> None:
        self.plan = plan
        self.key = key
        self.tally = LoadTally.of(plan)
        self.tls = tls(plan.url)
        self._tell = tell
        self._lines = lines
        self._connections = [UserConnection(self, user) for user in assigned(plan, number)]
        self._zero = time.monotonic()
        self._sends: Iterator[tuple[Send, UserConnection]] = iter(())
        """All that is to be said, ordered by due time."""
        self._next: tuple[Send, UserConnection] | None = None
        self._timer: asyncio.Handle | None = None

    def now(self) -> float:
        """Return the seconds since the beginning of the run."""
        return time.monotonic() - self._zero

    async def open(self) -> None:
        """Open all sockets at the plan's pace. Raises `OSError` with a sentence."""
        pace = self.plan.processes / self.plan.ramp
        with first_fault(OSError):
            async with asyncio.TaskGroup() as tasks:
                for connection in self._connections:
                    tasks.create_task(connection.join())
                    # The gateway bounds new sockets of one address by the second.
                    await asyncio.sleep(pace)

    async def run(self, begin: float, stop: asyncio.Event) -> LoadTally:
        """Run the load from ``begin`` (of `time.monotonic`) until its end or ``stop``."""
        self._zero = begin
        every = map(self._scheduled, self._connections)
        self._sends = merge(*every, key=lambda item: item[0].due)
        self._next = next(self._sends, None)
        # A collection during the run would delay sends, and would count as the gateway's latency.
        gc.collect()
        gc.freeze()
        cpu, wall = time.process_time(), time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            looking = [tasks.create_task(self._tick()), tasks.create_task(self._samples())]
            self._turn()
            while not stop.is_set() and (self._next or self.now() < self.plan.seconds):
                if not any(connection.socket.open for connection in self._connections):
                    break
                await _wait(stop, POLL_S)
            cut = stop.is_set() or self._next is not None
            # Only the loaded time counts: the drain would make the process look idle.
            used = time.process_time() - cpu
            self.tally.busiest = used / max(1e-3, time.monotonic() - wall)
            await self._drain(stop)
            self.tally.cpu = time.process_time() - cpu  # that of frames in the drain, too
            for task in looking:
                task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._connections:
            if connection.socket.open:
                self.tally.counts["unended"] += connection.member.open
            connection.socket.close()
        self.tally.whole = not cut and not self.tally.counts["unsent"]
        return self.tally.settle()

    # --- speaking -------------------------------------------------------------------------------

    def _scheduled(self, connection: UserConnection) -> Iterator[tuple[Send, UserConnection]]:
        """Yield all that one user says, by due time."""

        def said(draw: RecogniserRandom) -> str:
            if self.plan.words is None:
                return str(draw.choice(self._lines))
            return text.mixed(self._lines, draw, *self.plan.words, self.plan.source)

        speaker = connection.member.user.speaker
        if speaker is not None:
            draw = Random(f"{self.plan.seed}:{speaker}")
            for send in script.sends(self.plan, speaker, said, draw):
                yield send, connection

    def _turn(self) -> None:
        """Send all frames that are due, and set the timer for the next one."""
        now = self.now()
        until = now + SLICE_S
        while self._next is not None and self._next[0].due <= now < until:
            send, connection = self._next
            connection.say(send, now)
            self.tally.late.add(now - send.due)
            self._next = next(self._sends, None)
            now = self.now()
        if self._next is not None:
            # Sends that are late go on after the sockets were read.
            wait = max(0.0, self._next[0].due - now)
            self._timer = asyncio.get_running_loop().call_later(wait, self._turn)

    # --- looking --------------------------------------------------------------------------------

    async def _drain(self, stop: asyncio.Event) -> None:
        """Wait until all captions have ended.

        A reader far behind may not know yet what was said, so frames must have stopped too.
        """
        until = time.monotonic() + self.plan.drain
        counts, read, since = self.tally.counts, -1, time.monotonic()
        while not stop.is_set() and (now := time.monotonic()) < until:
            if counts["frames"] != read:
                read, since = counts["frames"], now
            waits = any(user.member.waits for user in self._connections if user.socket.open)
            if not waits and now - since >= QUIET_S:
                return
            await _wait(stop, POLL_S)

    async def _tick(self) -> None:
        """Measure how late this process is, also while nothing is sent."""
        due = max(0.0, self.now())
        while True:
            due += TICK_S
            await asyncio.sleep(due - self.now())
            # After a halt those that were missed follow at once, each as late as it is.
            self.tally.late.add(self.now() - due)

    async def _samples(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            tally = self.tally.settle()
            self._tell(ProgressSample(tally.counts, tally.times["first"], tally.times["final"]))


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def _work(client: ClientProcess, pipe: Connection) -> None:
    """Open the sockets, wait for the beginning, and send the results.

    Raises `ConnectionError` and `EOFError` if the process at the other end has gone.
    """
    opening = asyncio.create_task(client.open())
    told = asyncio.create_task(readable(pipe.fileno()))
    await asyncio.wait((opening, told), return_when=asyncio.FIRST_COMPLETED)
    # Nothing is told before the sockets are open: the parent process has gone.
    if not opening.done():
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        return
    try:
        opening.result()
    except OSError as exc:
        pipe.send(str(exc))
        return
    pipe.send(None)
    await told
    begin = pipe.recv()
    stop = asyncio.Event()
    stopping = asyncio.create_task(readable(pipe.fileno()))
    stopping.add_done_callback(lambda _: stop.set())
    pipe.send(await client.run(begin, stop))


def run(pipe: Connection, plan: Plan, number: int, key: str | None, lines: Sequence[str]) -> None:
    """Run as a client process, on uvloop if there is one.

    It sends None when its sockets are open, or the reason as text why they are not; then samples
    and the tally. It is sent the moment 0 of the run, by the monotonic clock that all processes
    share, and then anything to end early.
    """
    # Ctrl-C is for the process that prints the report.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # As many open files as this user may have; a socket too many says so.
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        from uvloop import new_event_loop as loop
    except ImportError:
        loop = asyncio.new_event_loop  # type: ignore[assignment]

    async def work() -> None:
        await _work(ClientProcess(plan, number, key, lines, pipe.send), pipe)

    # The parent process may have gone, and then nothing reads the pipe.
    with (
        contextlib.suppress(EOFError, ConnectionError),
        asyncio.Runner(loop_factory=loop) as runner,
    ):
        runner.run(work())
