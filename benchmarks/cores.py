"""What several worker processes bring, and what handing connections between them costs.

``python -m benchmarks.cores`` prints a row for each number of workers: CPU of the gateway per
delta, deltas a second, and how long a handshake takes. Owns: the load, the table. Must not know:
how a server or a client works.

Each session says lines in a room of its own and reads them. Clients are processes, too, on the same
machine: where it has not more cores than workers and clients together, deltas a second say nothing
about scaling. CPU per delta does not depend on that.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

import uvloop

from benchmarks.client import Socket
from benchmarks.host import ROOMY, Host, gateway

LINE = (
    "we have looked at the figures of last year and now I would like to say a word about the next"
)
QUERY = "room={}&from=en&to=de"


class Row(NamedTuple):
    """Of one number of workers. Times are microseconds; ``given`` is the share of sockets that were
    handed over, ``spread`` the CPU of the busiest worker over the mean."""

    workers: int
    deltas: int
    seconds: float
    cpu: float
    given: float
    spread: float
    opened: float
    late: float


async def load(port: int, name: str, sessions: int, seconds: float) -> int:
    """Deltas that came to so many sessions."""
    sockets = [await Socket.connect(port, QUERY.format(f"{name}-{n}")) for n in range(sessions)]
    until = time.monotonic() + seconds

    async def talk(socket: Socket) -> None:
        while time.monotonic() < until:
            final = socket.wait("f")
            socket.send(LINE)
            await final

    await asyncio.gather(*map(talk, sockets))
    for socket in sockets:
        socket.close()
    return sum(socket.deltas for socket in sockets)


def client(port: int, name: str, sessions: int, seconds: float, pipe: Connection) -> None:
    """A process of clients."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pipe.send(runner.run(load(port, name, sessions, seconds)))


async def opening(port: int, count: int) -> list[float]:
    """Microseconds of a connection and its handshake, one socket after the other."""
    times = []
    for n in range(count):
        begun = time.monotonic_ns()
        socket = await Socket.connect(port, QUERY.format(f"opening-{n}"))
        times.append((time.monotonic_ns() - begun) / 1000)
        socket.close()
    return times


def used(host: Host) -> list[float]:
    """CPU seconds of each worker."""
    found = host.metrics().items()
    return [value for name, value in found if name.startswith("process_cpu_seconds_total")]


def handed(host: Host) -> float:
    """Connections that went to another worker."""
    return sum(
        value
        for name, value in host.metrics().items()
        if name.startswith("gateway_handover_total") and 'how="sent"' in name
    )


def measure(workers: int, clients: int, sessions: int, seconds: float, pace: float) -> Row:
    """One row."""
    with gateway("--workers", str(workers), "--scripted-pace", str(pace), *ROOMY) as host:
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
    for workers in args.workers:
        row = measure(workers, args.clients, args.sessions, args.seconds, args.pace)
        print(
            f"{row.workers:7}  {row.deltas / row.seconds:8.0f}  {row.cpu:12.2f}"
            f"  {row.spread:12.2f}  {row.given:11.0%}  {row.opened:11.0f}  {row.late:6.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
