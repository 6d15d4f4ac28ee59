"""The figures of ``gateway plan``, measured on running programs.

    python -m benchmarks.capacity core [--seconds 15] [--rounds 3]
    python -m benchmarks.capacity redis [--messages 20000] [--subscribers 10]

``core`` measures the CPU time of a gateway process for an event and for a frame, ``redis`` that of
Redis for a command and for a delivery.

Owns: the loads, the tables. Must not know: how a capacity is computed.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from benchmarks import host
from benchmarks.ports import free_port
from caption_tools.loadtest.model.report import LoadReport
from caption_tools.plan.model.figures import core_of
from caption_tools.speech import text
from caption_tools.speech.recogniser import heard
from gateway.server.fleet import lua_scripts

LANGS = ("de", "fr")
BYTES = 180
"""Size of a published message, as of a delta with its envelope."""


def bench(port: int, *flags: str) -> LoadReport:
    """Run `gateway bench load` and return its report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        said = Path(folder, "said.txt")
        said.write_text("\n".join(heard(line) for line in text.lines()), "utf-8")
        command = [sys.executable, "-m", "gateway", "bench", "load", f"ws://127.0.0.1:{port}"]
        command += ["--text", str(said), "--words", "2-40"]
        given = ["--to", ",".join(LANGS), "--processes", "1", "--drain", "60", "--json", str(path)]
        subprocess.run([*command, *given, *flags], check=False, stdout=subprocess.DEVNULL)
        return msgspec.json.decode(path.read_bytes(), type=LoadReport)


def core(args: argparse.Namespace) -> None:
    """Print the CPU time of an event and of a frame."""
    found = []
    with host.gateway("--scripted-pace", "0.05", "--max-num-seqs", "400") as server:
        for _ in range(args.rounds):
            seconds = str(args.seconds)
            # A scrape is work too, so there is one at each end.
            given = ("--partials", "1", "--seconds", seconds, "--late", "500", "--scrape", seconds)
            few = bench(server.port, "--rooms", "50", "--rate", "25", *given)
            many = bench(server.port, "--rooms", "2", "--rate", "2", "--readers", "300", *given)
            found.append(core_of(few, many))
            print(found[-1], flush=True)
    for name in ("event_us", "frame_us", "frame_bytes"):
        print(f"{name:12} {median(getattr(one, name) for one in found):.3g}")


def redis(args: argparse.Namespace) -> None:
    """Print the CPU time of Redis for each command and each delivery."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--save", "", "--bind", "127.0.0.1"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        asyncio.run(_measure(port, args.messages, args.subscribers))
    finally:
        server.terminate()
        server.wait()


async def _measure(port: int, messages: int, subscribers: int) -> None:
    for _ in range(100):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            break
        except OSError:
            await asyncio.sleep(0.05)
    payload = "x" * BYTES

    async def call(*words: str) -> bytes:
        writer.write(_packed(*words))
        line = await reader.readline()
        if line[:1] == b"$":
            return await reader.readexactly(int(line[1:]) + 2)
        return line

    async def cpu() -> float:
        info = (await call("INFO", "cpu")).decode()
        rows = dict(line.split(":") for line in info.splitlines() if ":" in line)
        names = ("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
        return sum(float(rows[name]) for name in names)

    async def run(command: Callable[[int], bytes], at_once: int) -> float:
        """Return microseconds of CPU for each command."""
        since = await cpu()
        for n in range(0, messages // at_once * at_once, at_once):
            writer.write(b"".join(map(command, range(n + 1, n + at_once + 1))))
            for _ in range(at_once):
                if (await reader.readline())[:1] == b"$":
                    await reader.readline()
        return 1e6 * (await cpu() - since) / (messages // at_once * at_once)

    def publish(n: int) -> bytes:
        return _packed("PUBLISH", "room", payload)

    def append(n: int) -> bytes:
        event = ("lease", "log", "feed", "v", str(n), f"{n} {payload}", "10000", payload)
        return _packed("EVAL", lua_scripts.APPEND, "3", *event)

    await call("SET", "lease", "v")
    alone = await run(publish, 1)
    pipelined = await run(publish, 50)
    added = await run(append, 50)
    readers = []
    for _ in range(subscribers):
        stream, sender = await asyncio.open_connection("127.0.0.1", port)
        sender.write(_packed("SUBSCRIBE", "room"))
        await stream.readline()
        readers.append((asyncio.create_task(_drain(stream)), sender))
    with_readers = await run(publish, 1)
    for task, sender in readers:
        task.cancel()
        sender.close()
    writer.close()
    print(f"PUBLISH, one in a write   {alone:.2f} us")
    print(f"PUBLISH, 50 in a write    {pipelined:.2f} us")
    print(f"durable, 50 in a write    {added:.2f} us")
    print(f"delivery to a subscriber  {(with_readers - alone) / subscribers:.2f} us")


def _packed(*words: str) -> bytes:
    """Return a command in Redis' protocol."""
    parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    return f"*{len(words)}\r\n{parts}".encode()


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(65_536):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("core")
    part.set_defaults(run=core)
    part.add_argument("--seconds", type=int, default=12)
    part.add_argument("--rounds", type=int, default=3)
    part = parts.add_parser("redis")
    part.set_defaults(run=redis)
    part.add_argument("--messages", type=int, default=20_000)
    part.add_argument("--subscribers", type=int, default=10)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
