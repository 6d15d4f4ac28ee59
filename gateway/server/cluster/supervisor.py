"""Several gateway processes on one port: their start, their end, and what one leaves behind.

Owns: which processes there are. Must not know: connections, rooms, engines; the processes settle
between them whose a room is.

A worker that ends by itself is started again, later each time it fails; the others go on. Its
rooms wait for it, because a room that moved could not move back without being in two processes
for a while. Only a worker that fails again and again is retired: it never comes back, and
the others share its rooms. One that finds no engine is not given up: the others find none, either.
One that lives and says nothing any more is ended by force.

What keeps one from starting keeps all: it is said once, as one process would say it. The file of
keys is watched here, too: who is started again while it cannot be read has those in force.
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
from gateway.server.cluster.fd_passing import possible, private
from gateway.server.cluster.worker import DRAIN, HURRY, RETIRE, TELL, WorkerConfig, WorkerReport
from gateway.server.process.serve import LAST_S, inherited, listen, say
from gateway.settings.catalogue import Settings, SettingsError

log = logging.getLogger("gateway.workers")

BACK_S = (0.1, 10.0)
"""Least and most seconds before a worker is started again: twice as long after each failure."""
STEADY_S = 30.0
"""Seconds after which a worker that was ready counts as one that works."""
FAILURES = 8
"""Failures one after the other, after which a worker is retired: half a minute of trying."""
KILL_S = 5.0
"""Seconds beyond those in which a worker ends itself by force."""
LATE_S = 5.0
"""Seconds without a word of a worker after which that is logged; they speak each second."""
HANG_S = 30.0
"""Seconds without a word after which a worker that was ready is ended by force, and started again:
what it has to do waits for a turn that does not come."""
SLOW_S = 30.0
"""Seconds after which it is logged that a worker is not ready yet, and again after as many."""
TRACE_S = 1.0
"""Seconds in which one that hangs may write down where."""
LAST_WORD_S = 1.0
"""Seconds to read what one that has ended had said."""
LINE_BYTES = 65_536
BEGIN = (
    "import sys; sys.path[:] = sys.argv[1:];"
    " from gateway.server.cluster.worker import main; sys.exit(main())"
)
"""A worker imports what this process imports, whatever lies in the directory it is started in."""
SHARED = ("openai", "scripted")
"""Engines that several processes can use: the one of another server, and none."""


def check(settings: Settings) -> None:
    """Raise `SettingsError` where these settings are for one process only."""
    if not possible() or os.name != "posix":
        raise SettingsError("--workers needs a system that passes sockets between processes.")
    if settings.engine not in SHARED:
        raise SettingsError(
            f"Each worker would have a {settings.engine} engine of its own. Let one server have the"
            " model, such as `vllm serve`, and say --engine openai --openai-url http://HOST:PORT/v1."
        )
    if settings.certfile is not None:
        raise SettingsError(
            "A connection that is encrypted here cannot be handed to another process. Leave TLS to"
            " a proxy before the workers, or have one process."
        )
    if settings.lan:
        raise SettingsError("--lan makes keys for one process: leave out --workers.")
    if settings.keys is not None and single_read(Path(settings.keys).expanduser()):
        raise SettingsError("--workers needs a file of keys that each can read, not a pipe.")
    try:
        import httptools  # noqa: F401
    except ImportError as exc:
        raise SettingsError("--workers needs httptools: pip install httptools.") from exc


def serve(settings: Settings) -> int:
    """Run until a signal says stop, or no worker can; the exit status.

    Raises `SettingsError` and `OSError`; so it does where the workers cannot start.
    """
    check(settings)
    listener = inherited(settings)
    place = listener or _reserved(settings)
    folder = private()
    try:
        if settings.signing_key is None and settings.store is None:
            settings = replace(settings, signing_key=secrets.token_hex(32))
        settings = replace(settings, port=place.getsockname()[1])
        return asyncio.run(WorkerSupervisor(settings, folder, listener).run())
    finally:
        place.close()
        shutil.rmtree(folder, ignore_errors=True)


def _reserved(settings: Settings) -> socket.socket:
    """The port, taken from all who do not share it. Nobody is answered here. Raises `OSError`."""
    if settings.reuse_port:
        return listen(settings.host, settings.port, reuse=True)
    with listen(settings.host, settings.port) as alone:  # that it is free of others who share, too
        port = alone.getsockname()[1]
    return listen(settings.host, port, reuse=True)


class WorkerSupervisor:
    """The workers of one gateway.

    Raises `SettingsError` where nobody could be let in with these settings.

    :param listener: what all of them listen on; None: each has its own on the same port
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
        self._unread: set[int] = set()  # workers that were not there yet when keys were to be read
        self._engineless: set[int] = set()  # workers that have just found no engine
        self._fault: WorkerReport | None = None
        self._announced = False
        self._announcement = ""
        self._ending = asyncio.Event()
        self._status = 0

    async def run(self) -> int:
        """Until all have ended; the exit status.

        Raises `SettingsError` and `OSError` where they never all were ready.
        """
        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reread)
        say(f"Starting {self._settings.workers} workers ...\n")
        keepers = [asyncio.create_task(self._keep(member)) for member in sorted(self._members)]
        watching = asyncio.create_task(self._authenticator.watch_keys(lambda: None))
        try:
            pending: set[asyncio.Task[None]] = set(keepers)
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in (*keepers, watching):
                task.cancel()
            await asyncio.gather(*keepers, watching, return_exceptions=True)
            for process in self._processes.values():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        if self._fault is not None:
            fault = self._fault
            raise (SettingsError if fault.usage else ChildProcessError)(fault.fault)
        return self._status

    async def _keep(self, member: int) -> None:
        """One worker, again and again."""
        failures = 0
        while not self._ending.is_set():
            begun = time.monotonic()
            status = await self._tried(member)
            ready = member in self._ready
            self._ready.discard(member)
            told = status < 0 or (status == 0 and ready)  # to end, by somebody
            if self._ending.is_set():
                clean = status in (0, -signal.SIGTERM)  # the latter while it was starting
                if not clean and self._fault is None:
                    log.error("worker %d ended with status %d", member, status)
                    self._status = self._status or abs(status)
                return
            if self._fault is None:
                log.error("worker %d ended with status %d", member, status)
            if not self._announced and not told:  # it cannot be started at all
                if self._fault is None:
                    log.critical("the others end, too: not all workers could be started")
                self._status = status if status > 0 else 1
                self._stop()
                return
            steady = ready and time.monotonic() - begun > STEADY_S
            failures = 0 if steady or (ready and status == 0) else failures + 1
            if member in self._engineless:
                self._engineless.discard(member)
                failures = min(failures, FAILURES - 1)
            if failures >= FAILURES:
                self._retire(member)
                return
            await self._pause(min(BACK_S[0] * 2**failures, BACK_S[1]))

    async def _tried(self, member: int) -> int:
        """`_once`, where the system has no process for it as well."""
        try:
            return await self._once(member)
        except OSError as exc:
            if not self._announced:
                raise
            log.error("worker %d cannot be started: %s", member, exc)
            return 1

    async def _once(self, member: int) -> int:
        """One worker from its start to its end; its status, negative where a signal ended it."""
        shared = None if self._listener is None else self._listener.fileno()
        self._starts[member] += 1
        brief = WorkerConfig(
            settings=self._settings,
            member=member,
            members=tuple(sorted(self._members)),
            folder=str(self._folder),
            listener=shared,
            starts=self._starts[member],
            keys=self._known(),
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", BEGIN, *sys.path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=() if shared is None else (shared,),
            start_new_session=True,  # Ctrl-C reaches this process alone, which tells them
            limit=LINE_BYTES,
        )
        self._processes[member] = process
        self._order(process, msgspec.json.encode(brief).decode())
        if self._ending.is_set():
            self._order(process, DRAIN)
        hearing = asyncio.create_task(self._hear(member, process))
        try:
            status = await process.wait()
            await asyncio.wait([hearing], timeout=LAST_WORD_S)
            return status
        finally:
            hearing.cancel()
            (heard,) = await asyncio.gather(hearing, return_exceptions=True)
            if isinstance(heard, Exception):
                log.error("worker %d was not understood", member, exc_info=heard)
            self._processes.pop(member, None)
            if process.returncode is None:  # this task was cancelled
                process.kill()
                await process.wait()
            assert process.stdin is not None, "it is a pipe"
            process.stdin.close()

    async def _hear(self, member: int, process: asyncio.subprocess.Process) -> None:
        """All that a worker says, and that it says something."""
        assert process.stdout is not None, "it is a pipe"
        silent = 0.0
        while True:
            patience = LATE_S if member in self._ready else SLOW_S
            try:
                async with asyncio.timeout(patience):
                    line = await process.stdout.readline()
            except TimeoutError:
                silent += patience
                if member not in self._ready:
                    log.warning("worker %d is not ready after %.0f s", member, silent)
                elif silent < HANG_S:
                    log.error("worker %d has said nothing for %.0f s", member, silent)
                else:
                    log.critical("worker %d hangs, and is ended", member)
                    await self._end(process)
                    return
                continue
            if not line:
                return
            silent = 0.0
            self._heard(member, process, msgspec.json.decode(line, type=WorkerReport))

    def _heard(self, member: int, process: asyncio.subprocess.Process, word: WorkerReport) -> None:
        if word.engine:
            self._engineless.add(member)
        if word.fault is not None:
            if self._fault is None and not self._announced and not self._ending.is_set():
                self._fault = word
            elif self._fault is None or word.fault != self._fault.fault:
                log.error("worker %d: %s", member, word.fault)
        if word.ready is None:
            return
        self._ready.add(member)
        if member in self._unread:
            self._unread.discard(member)
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGHUP)
        if self._announced:
            log.info("worker %d is ready again", member)
        self._announcement = word.ready
        self._announce()

    def _announce(self) -> None:
        """Once, when all are ready."""
        if not self._announced and self._ready == self._members:
            self._announced = True
            count = len(self._members)
            say(f"{count} worker{'s' * (count > 1)}: {self._announcement}")

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """By force, and it says where it hangs."""
        with contextlib.suppress(ProcessLookupError):
            if TELL is not None:
                process.send_signal(TELL)
            await asyncio.sleep(TRACE_S)
            process.kill()

    def _stop(self) -> None:
        """The end, for all together; asked for again, at once."""
        order = HURRY if self._ending.is_set() else DRAIN
        if not self._ending.is_set():
            self._ending.set()
            late = self._settings.drain_s + LAST_S + KILL_S
            asyncio.get_running_loop().call_later(late, self._pass_on, signal.SIGKILL)
        for process in self._processes.values():
            self._order(process, order)

    def _retire(self, member: int) -> None:
        """Its rooms are the others' from now on."""
        self._members.discard(member)
        if not self._members:
            log.critical("no worker is left")
            self._status = 1
            return
        log.critical("worker %d is given up; %d are left", member, len(self._members))
        for process in self._processes.values():
            self._order(process, f"{RETIRE} {member}")
        self._announce()

    def _order(self, process: asyncio.subprocess.Process, line: str) -> None:
        assert process.stdin is not None, "it is a pipe"
        if process.returncode is None:
            process.stdin.write(f"{line}\n".encode())

    def _known(self) -> str | None:
        """The keys in force, for who is started again. At the start their file has to be good."""
        ring = self._authenticator.keyring if self._announced else None
        return None if ring is None or self._settings.keys is None else ring.text

    def _reread(self) -> None:
        """Keys are to be read again. Who is not ready yet may not know what to do with SIGHUP."""
        self._authenticator.reload_keys()
        self._unread = self._members - self._ready
        for member in self._ready & self._processes.keys():
            with contextlib.suppress(ProcessLookupError):
                self._processes[member].send_signal(signal.SIGHUP)

    def _pass_on(self, one: signal.Signals) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(one)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()
