"""Instructions that a delta costs, which other load on the machine does not change.

    python -m benchmarks.instructions [--json FILE]

Valgrind counts every instruction outside the kernel. A process in which all sockets are open forks
for each number of steps. The difference of two such numbers is the cost of the deltas between them,
without imports, start and handshakes. The exit status is 1 if a ratio exceeds its ceiling by more
than `SLACK`. Owns: the scenarios and the ceilings. Must not know: how a server works.

The server, its clients' sockets and the engine are in one process, and the engine steps when it is
told to: no timer decides anything. Clients only empty their sockets, which costs the same for all.
Most of a frame's cost is in the kernel and not counted (see ``docs/figures/benchmarks.md``), so
these ratios differ from those of `benchmarks.delta` and should only be compared with themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from benchmarks import host

if TYPE_CHECKING:
    from benchmarks.stepper import Stepper

SLACK = 1.05
STEPS = (16, 46)
"""Steps of the shorter and the longer run; an utterance has some tokens more."""
SETTLE_S = 1.5
"""Seconds in which presence messages of new sockets pass."""
EMPTY = 20
"""Steps after which clients empty their sockets."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of load. ``turns`` of the event loop are needed until all deltas of a step are
    written.

    With a ``batch`` a step is for some streams, those that have waited longest. The cost of a token
    depends a little on its place in the utterance. So streams whose turn comes later are further
    ahead from the beginning, and every step writes the same for any number of streams.
    """

    kind: str
    streams: int = 32
    readers: int = 0
    turns: int = 1
    batch: int | None = None

    @property
    def deltas(self) -> int:
        """Deltas that all clients together get in one step."""
        return self.batch or self.readers or self.streams


SCENARIOS = {
    "raw": Scenario(kind="raw"),
    "bare": Scenario(kind="bare", turns=3),
    "gateway": Scenario(kind="gateway", turns=1),
    "served": Scenario(kind="served", turns=1),
    "stock": Scenario(kind="stock"),
    "raw, 200 readers": Scenario(kind="raw", streams=1, readers=200),
    "served, 200 readers": Scenario(kind="served", streams=1, readers=200, turns=1),
    "served, 10 sessions": Scenario(kind="served", streams=10, batch=10),
    "served, 100 sessions": Scenario(kind="served", streams=100, batch=10),
    "served, 500 sessions": Scenario(kind="served", streams=500, batch=10),
    "served, 2000 sessions": Scenario(kind="served", streams=2000, batch=10),
}


class Ceiling(msgspec.Struct, frozen=True):
    """The most that one scenario may cost, relative to another one."""

    ours: str
    theirs: str
    most: float
    why: str


CEILINGS = (
    Ceiling("gateway", "raw", 3.8, "the core, encoding and writing"),
    Ceiling("served", "raw", 5.3, "with guards and supervisor"),
    Ceiling("served", "bare", 0.65, "beside what one would write first, without any guard"),
    Ceiling("stock", "bare", 1.24, "through ASGI's send, guards and supervisor included"),
    Ceiling("served, 200 readers", "raw, 200 readers", 1.16, "a reader more is a write more"),
    Ceiling("served, 100 sessions", "served, 10 sessions", 1.05, "ten of them have a token"),
    Ceiling("served, 500 sessions", "served, 10 sessions", 1.05, "ten of them have a token"),
    Ceiling("served, 2000 sessions", "served, 10 sessions", 1.05, "ten of them have a token"),
)
"""Measured with CPython 3.11.7 and rounded up; runs differed by less than 0.5 %, those with many
sessions by 3 %. A change that makes something cheaper lowers them.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="write all numbers there too")
    parser.add_argument("--inside", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(Path(options.inside))
        return
    host.files(3 * max(scenario.streams for scenario in SCENARIOS.values()))
    costs = count()
    print(f"instructions for each delta (and reader); CPython {sys.version.split()[0]}")
    for name, cost in costs.items():
        print(f"  {name:<21} {cost:>9,.0f}")
    worst = []
    for ceiling in CEILINGS:
        ratio = costs[ceiling.ours] / costs[ceiling.theirs]
        met = ratio <= ceiling.most * SLACK
        worst += [] if met else [ceiling]
        print(
            f"  {'met    ' if met else 'NOT MET'}  {ceiling.ours} to {ceiling.theirs}: {ratio:.3f},"
            f" ceiling {ceiling.most:g} ({ceiling.why})"
        )
    if options.json:
        Path(options.json).write_text(json.dumps(costs, indent=1) + "\n")
    sys.exit(bool(worst))


def count() -> dict[str, float]:
    """Return instructions for each delta and reader of every scenario."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit("valgrind is not installed: apt install valgrind.")
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told.json")
        command = (
            *(valgrind, "-q", "--tool=cachegrind", "--cache-sim=no"),
            f"--cachegrind-out-file={folder}/%p",
            *(sys.executable, "-m", __spec__.name if __spec__ else __name__, "--inside", str(told)),
        )
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(command, check=True, env=environment)
        runs: dict[str, list[tuple[int, int]]] = json.loads(told.read_text())
        return {
            name: (_total(folder, long) - _total(folder, short)) / (more - less)
            for name, ((short, less), (long, more)) in runs.items()
        }


def _total(folder: str, pid: int) -> int:
    found = re.search(r"^summary: (\d+)", Path(folder, str(pid)).read_text(), re.MULTILINE)
    assert found is not None, f"{folder}/{pid} is no output of cachegrind"
    return int(found[1])


def inside(told: Path) -> None:
    """Run every scenario in its own process, and report their process ids and deltas."""
    import benchmarks.servers
    from benchmarks.stepper import Stepper
    from gateway.engines.base.language_detection import Detector
    from gateway.server.runtime import hub

    assert benchmarks.servers  # so that no child has to import it
    Detector(Stepper.profile.sources).load()  # nor to load its model, in a thread beside the steps
    hub.HOUSEKEEPING_S = 1e6  # else how often there is any would be chance
    runs: dict[str, Any] = {}
    for name, scenario in SCENARIOS.items():
        part = told.with_name(f"part{len(runs)}.json")
        pid = os.fork()
        if not pid:
            _run(scenario, part)
        if os.waitpid(pid, 0)[1]:
            raise SystemExit(f"{name} failed")
        runs[name] = json.loads(part.read_text())
    told.write_text(json.dumps(runs))


def _run(scenario: Scenario, told: Path) -> NoReturn:
    status = 1
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            told.write_text(json.dumps(runner.run(scene(scenario))))
            status = 0
            os._exit(status)  # how a server ends is no part of it
    finally:
        sys.stderr.flush()
        os._exit(status)


async def scene(scenario: Scenario) -> list[tuple[int, int]]:
    """Serve the streams, and run each number of steps in a child. Return process ids and deltas."""
    from benchmarks.client import HANDSHAKE
    from benchmarks.delta import say
    from benchmarks.raw import Floor
    from benchmarks.servers import LIMITS, PATIENCE_S, build, frames
    from benchmarks.stepper import Plan, Stepper
    from gateway.engines.base.engine import Engine
    from gateway.engines.wrappers.guarded import GuardedEngine
    from gateway.engines.wrappers.supervised import Supervisor
    from gateway.server.process.listener import listen
    from gateway.settings.catalogue import Settings

    loop = asyncio.get_running_loop()
    stepper = Stepper()
    stepper.begin(Plan(streams=scenario.streams, step_s=0, batch=scenario.batch))
    engine: Engine = stepper
    if scenario.kind in ("served", "stock"):
        engine = GuardedEngine(Supervisor(lambda: stepper, hang=PATIENCE_S), Counter())
    await engine.start()
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    if scenario.kind == "raw":
        await loop.create_server(Floor(stepper, frames()), sock=listener)
    else:
        server = build(scenario.kind, engine, stepper, Settings(limits=LIMITS, ping_s=0))
        serving = loop.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.01)
        assert not serving.done()

    async def enter(query: str) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(HANDSHAKE.format(query=query).encode())
        client.setblocking(False)
        await loop.sock_recv(client, 65_536)  # the welcome may be in it, or come later
        return client

    if scenario.readers:
        speakers = [await enter("from=en&room=r")]
        readers = [await enter("role=view&to=de&room=r") for _ in range(scenario.readers)]
    else:
        speakers = readers = [await enter("from=en&to=de") for _ in range(scenario.streams)]
    for speaker in speakers:
        text = say()[1].encode()
        speaker.sendall(bytes((0x81, 0xFE)) + len(text).to_bytes(2) + b"\0\0\0\0" + text)
    while stepper.unfinished < scenario.streams:  # noqa: ASYNC110  # nor has anybody for this
        await asyncio.sleep(0.01)
    await asyncio.sleep(SETTLE_S)
    # A child's count begins with ours. Threads would add to it while we wait for the child before.
    await loop.shutdown_default_executor()
    if scenario.batch is not None:
        for n, stream in enumerate(stepper.running):
            turn = n // scenario.batch
            for _ in range(1 + turn if turn < max(STEPS) else 1):
                stepper.step([stream])
        await asyncio.sleep(0.1)
    _empty({*speakers, *readers})
    gc.collect()
    gc.disable()  # when it looks, and at how much, is chance
    pairs = []
    for steps in STEPS:  # and nothing else between them: a child goes on with our count
        pid = os.fork()
        if not pid:
            await _take(loop, stepper, steps, scenario, readers)
        if os.waitpid(pid, 0)[1]:  # noqa: ASYNC222  # nothing else is to happen
            raise RuntimeError(f"{scenario.kind} failed at {steps} steps")
        pairs.append((pid, steps * scenario.deltas))
    return pairs


async def _take(
    loop: asyncio.AbstractEventLoop,
    stepper: Stepper,
    steps: int,
    scenario: Scenario,
    readers: Sequence[socket.socket],
) -> NoReturn:
    """Run some steps, and end the process."""
    status = 1
    try:
        from benchmarks.servers import FRAME_BYTES

        asyncio._set_running_loop(loop)  # asyncio asks in which process that was

        received = -_waiting(readers)  # what the shorter run has left there
        for step in range(steps):
            stepper.step()
            for _ in range(scenario.turns):
                await asyncio.sleep(0)
            if scenario.batch is None and step % EMPTY == EMPTY - 1:
                received += _empty(readers)
        await asyncio.sleep(0.1)
        received += _waiting(readers)
        due = steps * scenario.deltas * FRAME_BYTES
        assert 0.9 < received / due < 1.2, f"{received} of {due} bytes arrived"
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def _empty(clients: Iterable[socket.socket]) -> int:
    """Read everything, and return the number of bytes."""
    found = 0
    for client in clients:
        try:
            found += client.recv_into(_BUFFER)
        except BlockingIOError:
            pass
    return found


def _waiting(clients: Iterable[socket.socket]) -> int:
    """Return the number of bytes to read. Asking costs the same whether there are any."""
    count = array("i", [0])
    found = 0
    for client in clients:
        ioctl(client, FIONREAD, count)
        found += count[0]
    return found


_BUFFER = bytearray(65_536)


if __name__ == "__main__":
    main()
