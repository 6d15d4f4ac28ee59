"""The figures and the simulation of ``gateway plan``, compared with running programs.

    python -m benchmarks.capacity simulation [--loads 0.5 1 1.5] [--seconds 60] [--overload]
    python -m benchmarks.capacity core [--seconds 15] [--rounds 3]
    python -m benchmarks.capacity redis [--messages 20000] [--subscribers 10]

``simulation`` puts `gateway bench load` on a gateway with the scripted engine, which takes a known
time for a word, and simulates the same utterances. A load of 1 is one at which all translations
would keep the engine busy. ``core`` measures the CPU time of a gateway process for an event and for
a frame, ``redis`` that of Redis for a command and for a delivery.

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
from random import Random
from statistics import median

import msgspec
from msgspec.structs import replace

from benchmarks import host
from benchmarks.ports import free_port
from caption_tools.loadtest.model.report import LoadReport
from caption_tools.plan.model.figures import EngineFigures, core_of, grown
from caption_tools.plan.model.load import MeetingLoad, caption_work, spoken
from caption_tools.plan.model.simulation import Simulation
from caption_tools.report import table
from caption_tools.speech import text
from caption_tools.speech.recogniser import heard
from gateway.limits import Limits
from gateway.server.fleet import lua_scripts

SLOTS, PACE_S, DELAY_S = 8, 0.04, 0.08
"""Jobs at once, and seconds for a word and before the first. They are so long that a busy machine
does not change them much."""
LANGS, ROOMS = ("de", "fr"), 8
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


def simulation(args: argparse.Namespace) -> None:
    """Print measured and simulated figures, load by load."""
    # The scripted engine repeats the source. A final with other letters than the growing text would
    # contradict what was committed, and be made again from there.
    lines = [heard(line) for line in text.lines()]
    load = MeetingLoad(meetings=ROOMS, speakers=1, readers=0, languages=len(LANGS))
    work = caption_work(load, lines, Random(0))
    engine = EngineFigures(
        source="scripted",
        slots=SLOTS,
        first_ms=1000 * DELAY_S,
        token_ms=1000 * PACE_S,
        tokens_s=SLOTS / PACE_S,
        job=1_000,
    )
    each = work.made + (1 + work.partials) * (DELAY_S / PACE_S - 1)
    most = SLOTS / PACE_S / each / len(LANGS)  # utterances a second
    # On the verge of overload small differences decide whether growing texts are left out for a
    # while, so that is compared apart.
    used = Limits() if args.overload else Limits(stretch=1e6, queue=100_000)
    limits = ("--limit-stretch", str(used.stretch), "--limit-queue", str(used.queue))
    for share in args.loads:
        paced = ("--scripted-pace", str(PACE_S), "--scripted-delay", str(DELAY_S))
        with host.gateway(*paced, *limits, "--max-num-seqs", str(SLOTS)) as server:
            report = bench(
                server.port,
                *("--rooms", str(ROOMS), "--rate", f"{share * most:.3f}", "--partials", "1"),
                *("--seconds", str(args.seconds), "--late", "500", "--seed", str(args.seed)),
            )
        speech = [
            list(spoken(report.plan, number, lines, Random(f"{report.plan.seed}:{number}")))
            for number in range(ROOMS)
        ]
        nominal = Simulation(report.plan, speech, engine, tokens=1.0, limits=used).run()
        ended = grown(report, "gateway_caption_total_seconds_count")
        queue = 1000 * grown(report, "gateway_caption_queue_seconds_sum") / ended
        total = 1000 * grown(report, "gateway_caption_total_seconds_sum") / ended
        jobs, tokens = (grown(report, f"gateway_{name}_total") for name in ("jobs", "tokens"))
        # Timers of a busy machine are late, so the engine is slower than it was told to be. Above
        # saturation waits depend on little else, so the simulation is given the speed it had.
        late = (total - queue) / nominal.engine
        timed = replace(engine, first_ms=engine.first_ms * late, token_ms=engine.token_ms * late)
        found = Simulation(report.plan, speech, timed, tokens=1.0, limits=used).run()
        print(f"nominal wait / engine of finals: {nominal.queue / nominal.engine:.3f}")
        rows: list[tuple[str, float, float]] = [
            ("captions a second", report.rates["captions"], found.captions_s),
            ("utterances refused", report.counts["refused"], found.refused),
            ("growing texts a caption", jobs / ended - 1, found.partials),
            ("skipped of them", 1 - (jobs / ended - 1) / work.partials,
             1 - found.partials / work.partials),
            ("tokens a caption", tokens / ended, found.tokens),
            ("wait / engine, finals", queue / (total - queue), found.queue / found.engine),
            ("final p50, ms", report.times["final"].p50, found.final.p50),
            ("final p95, ms", report.times["final"].p95, found.final.p95),
            ("grown p50, ms", report.times["grown"].p50, found.grown.p50),
            ("grown p95, ms", report.times["grown"].p95, found.grown.p95),
        ]  # fmt: skip
        print(f"\nload {share:g}: {report.plan.rate:.2f} utterances a second; {ended:.0f} captions")
        print(f"a job took {late:.3f} times as long as the engine was told to take")
        print(f"errors {report.errors}, partials off {report.counts['degraded']} times")
        cells: list[list[table.Cell]] = [
            [name, real, ours, ours / real if real else None] for name, real, ours in rows
        ]
        print(table.text(("", "measured", "simulated", "ratio"), cells), flush=True)


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
    part = parts.add_parser("simulation")
    part.set_defaults(run=simulation)
    part.add_argument("--loads", type=float, nargs="+", default=[0.5, 1.0, 1.5])
    part.add_argument("--seconds", type=int, default=60)
    part.add_argument("--seed", type=int, default=0)
    left = "with the usual limits, which leave out growing texts and refuse in overload"
    part.add_argument("--overload", action="store_true", help=left)
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
