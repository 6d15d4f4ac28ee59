"""Throughput of several worker processes, and the cost of handing connections between them.

``python -m benchmarks.cores`` prints a row for each number of workers: CPU of the gateway per
delta, deltas a second, and the time of a handshake. Owns: the load, the table. Must not know: how a
server or a client works.

Each session says lines in a room of its own and reads them. Clients are processes on the same
machine: if it has fewer cores than workers and clients together, deltas a second say nothing about
scaling. CPU per delta does not depend on that.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks.client import Socket
from benchmarks.host import ROOMY, Host, gateway
from gateway.server.cluster import placement
from gateway.server.cluster.fd_passing import FdPassing

LINE = (
    "we have looked at the figures of last year and now I would like to say a word about the next"
)
QUERY = "room={}&from=en&to=de"


class Row(NamedTuple):
    """The results for one number of workers.

    Times are microseconds; ``given`` is the share of sockets that were handed over, ``spread`` the
    CPU of the busiest worker over the mean.
    """

    workers: int
    deltas: int
    seconds: float
    cpu: float
    given: float
    spread: float
    opened: float
    late: float


async def load(port: int, name: str, sessions: int, seconds: float) -> int:
    """Return the deltas that came to the sessions."""
    sockets = [await Socket.connect(port, QUERY.format(f"{name}-{n}")) for n in range(sessions)]
    until = time.monotonic() + seconds

    async def talk(one: Socket) -> None:
        while time.monotonic() < until:
            final = one.wait("f")
            one.send(LINE)
            await final

    await asyncio.gather(*map(talk, sockets))
    for one in sockets:
        one.close()
    return sum(one.deltas for one in sockets)


def client(port: int, name: str, sessions: int, seconds: float, pipe: Connection) -> None:
    """Run a process of clients."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pipe.send(runner.run(load(port, name, sessions, seconds)))


async def opening(port: int, count: int) -> list[float]:
    """Return the microseconds of a connection and its handshake, one socket after the other."""
    times = []
    for n in range(count):
        begun = time.monotonic_ns()
        opened = await Socket.connect(port, QUERY.format(f"opening-{n}"))
        times.append((time.monotonic_ns() - begun) / 1000)
        opened.close()
    return times


def used(host: Host) -> list[float]:
    """Return the CPU seconds of each worker."""
    found = host.metrics().items()
    return [value for name, value in found if name.startswith("process_cpu_seconds_total")]


def handed(host: Host) -> float:
    """Return the number of connections that went to another worker."""
    return sum(
        value
        for name, value in host.metrics().items()
        if name.startswith("gateway_handover_total") and 'how="sent"' in name
    )


def up(host: Host) -> float:
    """Return the number of workers that answer."""
    found = host.metrics().items()
    return sum(value for name, value in found if name.startswith("gateway_up"))


def measure(workers: int, clients: int, sessions: int, seconds: float, pace: float) -> Row:
    """Return one row."""
    with gateway("--workers", str(workers), "--scripted-pace", str(pace), *ROOMY) as host:
        while workers > 1 and up(host) < workers:  # one is ready before the others
            time.sleep(0.1)
        times = asyncio.run(opening(host.port, 300))
        given, before, begun = handed(host), used(host), time.monotonic()
        context = multiprocessing.get_context("spawn")
        pipes, processes = [], []
        for n in range(clients):
            ours, theirs = context.Pipe()
            given_args = (host.port, f"client-{n}", sessions // clients, seconds, theirs)
            processes.append(context.Process(target=client, args=given_args))
            processes[-1].start()
            pipes.append(ours)
        deltas = sum(pipe.recv() for pipe in pipes)
        for process in processes:
            process.join()
        spent = [b - a for a, b in zip(before, used(host), strict=True)]
        cpu = 1e6 * sum(spent) / max(1, deltas)
        quantiles = statistics.quantiles(times, n=100)
        return Row(
            workers=workers,
            deltas=deltas,
            seconds=time.monotonic() - begun,
            cpu=cpu,
            given=given / 300,
            spread=max(spent) / statistics.mean(spent),
            opened=quantiles[49],
            late=quantiles[98],
        )


async def handing(rounds: int = 30, each: int = 100) -> tuple[float, float, float]:
    """Return the CPU microseconds of routing a request, sending a connection and receiving it.

    It is the least of all rounds, in one process, without the HTTP handling of the connection.
    """
    head = [(b"host", b"x"), (b"sec-websocket-protocol", b"gw.v1.json")]
    found = []
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        one, two = (FdPassing(Path(folder), member, (0, 1)) for member in (0, 1))
        taken = 0

        def take(connection: socket.socket, data: bytes) -> None:
            nonlocal taken
            connection.close()
            taken += 1

        two.listen(take, bytes)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
        with near, far:
            for n in range(1, rounds + 1):
                marks = [time.process_time()]
                for _ in range(each):
                    asked = placement.room_hint(b"/v1/ws?room=demo&from=en&to=de,fr", head)
                    assert asked is not None and asked.room is not None
                    one.owner(asked.room)
                marks.append(time.process_time())
                for _ in range(each):
                    assert one.send(1, far.fileno(), bytes(400))
                marks.append(time.process_time())
                while taken < n * each:  # noqa: ASYNC110  # no event tells it
                    await asyncio.sleep(0)
                marks.append(time.process_time())
                found.append([b - a for a, b in zip(marks, marks[1:], strict=False)])
        await two.aclose()
    pinned, sent, got = (1e6 * min(row[at] for row in found) / each for at in range(3))
    return pinned, sent, got


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--clients", type=int, default=1, help="processes of clients")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pace", type=float, default=0.02, help="seconds between two tokens")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {args.sessions} sessions, {args.clients} processes of clients")
    print("workers  deltas/s  us CPU/delta  busiest/mean  handed over  open p50 us  p99 us")
    pinned, sent, taken = asyncio.run(handing())
    for workers in args.workers:
        row = measure(workers, args.clients, args.sessions, args.seconds, args.pace)
        print(
            f"{row.workers:7}  {row.deltas / row.seconds:8.0f}  {row.cpu:12.2f}"
            f"  {row.spread:12.2f}  {row.given:11.0%}  {row.opened:11.0f}  {row.late:6.0f}",
            flush=True,
        )
    print(
        f"CPU: {pinned:.1f} us to pin, {sent:.1f} us to send, {taken:.1f} us to take a connection"
    )


if __name__ == "__main__":
    main()
