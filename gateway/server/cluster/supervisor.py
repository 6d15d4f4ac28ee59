"""The parent of several gateway processes on one port.

Owns: which workers run, their starts and ends, and what one that ended leaves to the others. Must
not know: connections, rooms, engines. The workers agree among themselves where a room lives.

A worker that ends by itself is started again, with a longer pause after each failure; the others go
on. Its rooms wait for it: a room that moved to another worker could not move back without being in
two processes for a while. Only a worker that fails again and again is retired: it never comes back,
and the others share its rooms. A worker whose engine does not start is not retired, because the
others have the same engine. A worker that does not report any more is ended by force.

If one worker cannot start at all, the gateway ends: what keeps one from starting keeps all. The
reason is written once, as a single process would write it. The supervisor also watches the file of
keys: a worker that is started again while the file cannot be read gets the keys in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gateway.server.access.authenticator import build as build_authenticator
from gateway.server.access.authenticator import single_read
from gateway.server.cluster.fd_passing import supported
from gateway.server.cluster.socket_folder import socket_folder
from gateway.server.cluster.worker import (
    DRAIN,
    HURRY,
    RETIRE,
    TRACE_SIGNAL,
    WorkerConfig,
    WorkerReport,
)
from gateway.server.process.console import say
from gateway.server.process.listener import inherited, listen
from gateway.server.process.serve import LAST_S
from gateway.server.runtime.tasks import BackgroundTasks
from gateway.settings.catalogue import Settings, SettingsError, engines

log = logging.getLogger("gateway.workers")

RESTART_S = (0.1, 10.0)
"""Least and most seconds before a worker is started again. The pause doubles with each failure."""
STEADY_S = 30.0
"""Seconds after which a worker that was ready counts as one that works."""
FAILURES = 8
"""Failures in a row after which a worker is retired: half a minute of attempts."""
KILL_S = 5.0
"""Seconds after the time at which a worker ends itself by force; then it is killed."""
LATE_S = 5.0
"""Seconds without a report after which that is logged. Workers report each second."""
HANG_S = 30.0
"""Seconds without a report after which a worker that was ready is killed and started again."""
SLOW_S = 30.0
"""Seconds between two log lines about a worker that is not ready yet."""
TRACE_S = 1.0
"""Seconds in which a worker that hangs may write its stacks before it is killed."""
LAST_REPORT_S = 1.0
"""Seconds to read the remaining reports of a worker that has ended."""
LINE_BYTES = 65_536
"""Bytes of one report."""
WORKER_CODE = (
    "import sys; sys.path[:] = sys.argv[1:];"
    " from gateway.server.cluster.worker import main; sys.exit(main())"
)
"""A program that imports what this process imports, whatever is in its working directory."""
SHARED = ("openai", "scripted")
"""Engines that several processes can use. The others load a model into their own process."""


def check(settings: Settings) -> None:
    """Raise `SettingsError` if these settings are for one process only."""
    if not supported() or os.name != "posix":
        raise SettingsError("--workers needs a system that passes sockets between processes.")
    own = [one.settings.engine for one in engines(settings) if one.settings.engine not in SHARED]
    if own:
        raise SettingsError(
            f"Each worker would load a {own[0]} engine of its own. Load the model in one"
            " server, such as `vllm serve`, and pass --engine openai --openai-url"
            " http://HOST:PORT/v1."
        )
    if settings.certfile is not None:
        raise SettingsError(
            "A connection that is encrypted here cannot be handed to another process. Let a proxy"
            " in front of the workers do TLS, or run one process."
        )
    if settings.lan:
        raise SettingsError("--lan makes keys for one process: leave out --workers.")
    if settings.keys is not None and single_read(Path(settings.keys).expanduser()):
        raise SettingsError("--workers needs a file of keys that each worker can read, not a pipe.")
    try:
        import httptools  # noqa: F401
    except ImportError as exc:
        raise SettingsError("--workers needs httptools: pip install httptools.") from exc


def serve(settings: Settings) -> int:
    """Run until a signal says stop or no worker is left; return the exit status.

    Raises `SettingsError` and `OSError`, also if the workers cannot start.
    """
    check(settings)
    listener = inherited(settings)
    reservation = listener or _reserve_port(settings)
    folder = socket_folder()
    try:
        if settings.signing_key is None and settings.store is None:
            settings = replace(settings, signing_key=secrets.token_hex(32))
        settings = replace(settings, port=reservation.getsockname()[1])
        return asyncio.run(WorkerSupervisor(settings, folder, listener).run())
    finally:
        reservation.close()
        shutil.rmtree(folder, ignore_errors=True)


def _reserve_port(settings: Settings) -> socket.socket:
    """Return a socket that keeps the port from programs that do not share it.

    This process never listens on it; the workers bind the same port. Raises `OSError`.
    """
    if settings.reuse_port:
        return listen(settings.host, settings.port, reuse=True)
    # A socket that does not share fails if anybody has the port, also with SO_REUSEPORT.
    with listen(settings.host, settings.port) as alone:
        port = alone.getsockname()[1]
    return listen(settings.host, port, reuse=True)


class WorkerSupervisor:
    """The workers of one gateway.

    Raises `SettingsError` if no client could be admitted with these settings.

    :param folder: directory of the workers' sockets
    :param listener: socket that all workers listen on; None: each has its own on the same port
    """

    def __init__(self, settings: Settings, folder: Path, listener: socket.socket | None) -> None:
        self._settings = settings
        self._authenticator = build_authenticator(settings)
        self._folder = folder
        self._listener = listener
        self._members = set(range(settings.workers))
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._starts: Counter[int] = Counter()
        self._ready: set[int] = set()
        self._reload_when_ready: set[int] = set()  # not ready when the keys had to be read again
        self._no_engine: set[int] = set()  # workers whose engine has just failed to start
        self._fault: WorkerReport | None = None
        self._announced = False
        self._announcement = ""
        self._ending = asyncio.Event()
        self._status = 0

    async def run(self) -> int:
        """Run until all workers have ended; return the exit status.

        Raises `SettingsError` and `OSError` if the workers were never all ready.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload_keys)
        say(f"Starting {self._settings.workers} workers ...\n")
        keepers = [asyncio.create_task(self._keep_running(n)) for n in sorted(self._members)]
        watching = BackgroundTasks(log, "the file of keys is no longer watched")
        watching.start(self._authenticator.watch_keys(lambda: None))
        try:
            pending: set[asyncio.Task[None]] = set(keepers)
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in keepers:
                task.cancel()
            # The first fault is raised; the event loop reports those of other keepers.
            await asyncio.wait(keepers)
            await watching.aclose()
            self._signal_all(signal.SIGKILL)
        if self._fault is not None:
            fault = self._fault
            raise (SettingsError if fault.usage else ChildProcessError)(fault.fault)
        return self._status

    async def _keep_running(self, member: int) -> None:
        """Start a worker, and start it again whenever it ends, until the end or its retirement."""
        failures = 0
        while not self._ending.is_set():
            begun = time.monotonic()
            status = await self._run_or_fail(member)
            ready = member in self._ready
            self._ready.discard(member)
            # A signal, or a clean end of a worker that was ready: somebody asked for that.
            asked_to_end = status < 0 or (status == 0 and ready)
            if self._ending.is_set():
                # SIGTERM ends a worker that has no handler for it yet.
                clean = status in (0, -signal.SIGTERM)
                if not clean and self._fault is None:
                    log.error("worker %d ended with status %d", member, status)
                    self._status = self._status or abs(status)
                return
            if self._fault is None:
                log.error("worker %d ended with status %d", member, status)
            if not self._announced and not asked_to_end:  # workers cannot start at all
                if self._fault is None:
                    log.critical("the others end, too: not all workers could be started")
                self._status = status if status > 0 else 1
                self._stop()
                return
            steady = ready and time.monotonic() - begun > STEADY_S
            failures = 0 if steady or (ready and status == 0) else failures + 1
            if member in self._no_engine:
                # The others have no engine either: retiring this one would help nobody.
                self._no_engine.discard(member)
                failures = min(failures, FAILURES - 1)
            if failures >= FAILURES:
                self._retire(member)
                return
            await self._pause(min(RESTART_S[0] * 2**failures, RESTART_S[1]))

    async def _run_or_fail(self, member: int) -> int:
        """Run a worker; return 1 if the system cannot start another process for a while."""
        try:
            return await self._run(member)
        except OSError as exc:
            if not self._announced:
                raise
            log.error("worker %d cannot be started: %s", member, exc)
            return 1

    async def _run(self, member: int) -> int:
        """Run a worker from its start to its end.

        Returns its exit status, which is negative if a signal ended it. Raises `OSError` if it
        cannot be started.
        """
        shared = None if self._listener is None else self._listener.fileno()
        self._starts[member] += 1
        config = WorkerConfig(
            settings=self._settings,
            member=member,
            members=tuple(sorted(self._members)),
            folder=str(self._folder),
            listener=shared,
            starts=self._starts[member],
            keys=self._keys_in_force(),
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", WORKER_CODE, *sys.path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=() if shared is None else (shared,),
            start_new_session=True,  # Ctrl-C reaches this process only, which orders the end
            limit=LINE_BYTES,
        )
        self._processes[member] = process
        self._order(process, msgspec.json.encode(config).decode())
        if self._ending.is_set():  # the end began while the process was created
            self._order(process, DRAIN)
        reading = asyncio.create_task(self._read_reports(member, process))
        try:
            status = await process.wait()
            await asyncio.wait([reading], timeout=LAST_REPORT_S)
            return status
        finally:
            reading.cancel()
            (fault,) = await asyncio.gather(reading, return_exceptions=True)
            if isinstance(fault, Exception):
                log.error("the reports of worker %d could not be read", member, exc_info=fault)
            self._processes.pop(member, None)
            if process.returncode is None:  # this task was cancelled
                process.kill()
                await process.wait()
            assert process.stdin is not None, "it is a pipe"
            process.stdin.close()

    async def _read_reports(self, member: int, process: asyncio.subprocess.Process) -> None:
        """Read the reports of a worker, and kill it if they stop."""
        assert process.stdout is not None, "it is a pipe"
        silent = 0.0
        while True:
            patience = LATE_S if member in self._ready else SLOW_S
            try:
                async with asyncio.timeout(patience):
                    line = await process.stdout.readline()
            except TimeoutError:
                silent += patience
                if member not in self._ready:  # a model may take long to load
                    log.warning("worker %d is not ready after %.0f s", member, silent)
                elif silent < HANG_S:
                    log.error("worker %d has not reported for %.0f s", member, silent)
                else:
                    log.critical("worker %d hangs and is killed", member)
                    await self._kill(process)
                    return
                continue
            if not line:
                return
            silent = 0.0
            self._on_report(member, process, msgspec.json.decode(line, type=WorkerReport))

    def _on_report(
        self, member: int, process: asyncio.subprocess.Process, report: WorkerReport
    ) -> None:
        if report.engine:
            self._no_engine.add(member)
        if report.fault is not None:
            if self._fault is None and not self._announced and not self._ending.is_set():
                self._fault = report  # `run` raises it
            elif self._fault is None or report.fault != self._fault.fault:
                log.error("worker %d: %s", member, report.fault)
        if report.ready is None:
            return
        self._ready.add(member)
        if member in self._reload_when_ready:
            self._reload_when_ready.discard(member)
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGHUP)
        if self._announced:
            log.info("worker %d is ready again", member)
        self._announcement = report.ready
        self._announce_if_ready()

    def _announce_if_ready(self) -> None:
        """Say once that all workers are ready."""
        if not self._announced and self._ready == self._members:
            self._announced = True
            count = len(self._members)
            say(f"{count} worker{'s' * (count > 1)}: {self._announcement}")

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        """End a process by force, after it had time to write where it hangs."""
        with contextlib.suppress(ProcessLookupError):
            if TRACE_SIGNAL is not None:
                process.send_signal(TRACE_SIGNAL)
            await asyncio.sleep(TRACE_S)
            process.kill()

    def _stop(self) -> None:
        """Begin the end of all workers, or cut it short if it has begun."""
        order = HURRY if self._ending.is_set() else DRAIN
        if not self._ending.is_set():
            self._ending.set()
            late = self._settings.drain_s + LAST_S + KILL_S
            asyncio.get_running_loop().call_later(late, self._signal_all, signal.SIGKILL)
        for process in self._processes.values():
            self._order(process, order)

    def _retire(self, member: int) -> None:
        """Give the rooms of a worker to the others for good."""
        self._members.discard(member)
        if not self._members:
            log.critical("no worker is left")
            self._status = 1
            return
        log.critical("worker %d is given up; %d are left", member, len(self._members))
        for process in self._processes.values():
            self._order(process, f"{RETIRE} {member}")
        self._announce_if_ready()  # it may have been the only one that was not ready

    def _order(self, process: asyncio.subprocess.Process, line: str) -> None:
        assert process.stdin is not None, "it is a pipe"
        if process.returncode is None:
            process.stdin.write(f"{line}\n".encode())

    def _keys_in_force(self) -> str | None:
        """Return the keys for a worker that is started again; None if it has to read their file.

        At the start of the gateway the file has to be readable.
        """
        ring = self._authenticator.keyring if self._announced else None
        return None if ring is None or self._settings.keys is None else ring.text

    def _reload_keys(self) -> None:
        """Let all workers read the keys again.

        SIGHUP would end a worker that has no handler for it yet, so others get it when ready.
        """
        self._authenticator.reload_keys()
        self._reload_when_ready = self._members - self._ready
        for member in self._ready & self._processes.keys():
            with contextlib.suppress(ProcessLookupError):
                self._processes[member].send_signal(signal.SIGHUP)

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the beginning of the end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()
