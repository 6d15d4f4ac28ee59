"""Play a meeting in a fleet on this machine, and count the events of its readers.

    make fleet
    make fleet ARGS="--fault kill --readers 30"
    make fleet ARGS="--serve"

It starts Redis, three gateways with the embedded model, and HAProxy with the configuration of
`deploy/haproxy`, but with sockets of one room on all gateways. At the end it prints a table, and
exits with 1 if a final was lost or came twice.

Faults, in the middle of the meeting:

``kill``    the gateway that owns the room is killed with signal 9, and started again later
``freeze``  it is stopped (SIGSTOP) for longer than its lease, and then goes on
``redis``   Redis is killed and started again
``roll``    all gateways are restarted, one after the other
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fleet.meeting import Reader, speak
from benchmarks.fleet.processes import ROOT, Fleet, Gateway, NotStarted

ROOM = "demo"
MEETING = ROOT / "web_demo" / "meeting"
SETTLE_S = 20.0
"""Seconds for the last captions to reach all readers."""


async def main(args: argparse.Namespace) -> int:
    """Run the fleet and its meeting; return the exit status."""
    task = asyncio.current_task()
    assert task is not None, "it runs in a loop"
    # The default action would leave the processes of the fleet behind.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        fleet = Fleet(Path(folder), gateways=args.gateways, flags=args.flags)
        try:
            print(f"Starting Redis, {args.gateways} gateways and HAProxy ...", flush=True)
            await fleet.start()
            print(f"The fleet is at {fleet.url} (certificate: {fleet.certificate}).")
            print(f"Gateways: {', '.join(gateway.http for gateway in fleet.gateways)}", flush=True)
            if args.serve:
                page = f"{fleet.url.replace('wss:', 'https:')}/?room={ROOM}"
                print(f"Open {page} and accept its certificate, or /?room={ROOM} of any gateway.")
                print("Stop it with Ctrl+C.", flush=True)
                await asyncio.Event().wait()
            return await play(fleet, args)
        finally:
            await fleet.stop()


async def play(fleet: Fleet, args: argparse.Namespace) -> int:
    """Play the meeting; return 1 if a final was lost or came twice."""
    readers = [Reader(args.to[n % len(args.to)], fleet.url) for n in range(args.readers)]
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        ready = [asyncio.Event() for _ in readers]
        reading = [
            group.create_task(reader.read(ROOM, event))
            for reader, event in zip(readers, ready, strict=True)
        ]
        for event in ready:
            await event.wait()
        sockets = [round(await gateway.gauge("gateway_sessions")) for gateway in fleet.gateways]
        print(f"Readers on the gateways: {', '.join(map(str, sockets))}", flush=True)
        talks = [
            group.create_task(speak(fleet.url, ROOM, lang, lines(lang, n, args), args.pause))
            for n, lang in enumerate(args.speakers)
        ]
        expected = args.lines * args.pause
        fault = group.create_task(trouble(fleet, args.fault, expected / 3))
        said = {id for ids in await asyncio.gather(*talks) for id in ids}
        await fault
        deadline = time.monotonic() + SETTLE_S
        while any(said - reader.finals.keys() for reader in readers):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)  # for a final that would come twice
        for task in reading:
            task.cancel()
    return report(readers, said, time.monotonic() - begun, args.fault)


def lines(lang: str, speaker: int, args: argparse.Namespace) -> Sequence[str]:
    """Return the lines of one speaker: every third line of the demo meeting, and so on."""
    text = (MEETING / f"{lang}.txt").read_text(encoding="utf-8").splitlines()
    mine: list[str] = text[speaker :: len(args.speakers)]
    count: int = args.lines
    return (mine * (1 + count // len(mine)))[:count]


async def trouble(fleet: Fleet, fault: str, after: float) -> None:
    """Cause a fault after some seconds."""
    if fault == "none":
        return
    await asyncio.sleep(after)
    if fault == "redis":
        fleet.redis.send(signal.SIGKILL)
        await fleet.redis.wait()
        fleet.redis.start()
    elif fault == "roll":
        for gateway in fleet.gateways:
            await restart(gateway, signal.SIGTERM)
    elif fault == "kill":
        gateway = await fleet.owner()
        print(f"Killing {gateway.http}, which owns the room.", flush=True)
        await restart(gateway, signal.SIGKILL)
    else:
        gateway = await fleet.owner()
        print(f"Stopping {gateway.http}, which owns the room, for 4 s.", flush=True)
        gateway.send(signal.SIGSTOP)
        await asyncio.sleep(4)
        gateway.send(signal.SIGCONT)


async def restart(gateway: Gateway, end: signal.Signals) -> None:
    """End a gateway with a signal, and start it again."""
    gateway.send(end)
    await gateway.wait()
    gateway.start()
    await gateway.ready()


def report(readers: Sequence[Reader], said: set[str], seconds: float, fault: str) -> int:
    """Print the counts of the readers; return 1 if a final was lost or came twice."""
    lost = sum(len(said - reader.finals.keys()) for reader in readers)
    twice = sum(count - 1 for reader in readers for count in reader.finals.values())
    away = sorted(wait for reader in readers for wait in reader.away)
    texts: dict[tuple[str, str], set[str]] = {}
    for reader in readers:
        for id, text in reader.texts.items():
            texts.setdefault((id, reader.lang), set()).add(text)
    different = sum(len(found) > 1 for found in texts.values())
    rows = {
        "fault": fault,
        "seconds": f"{seconds:.0f}",
        "utterances said": str(len(said)),
        "readers": str(len(readers)),
        "finals received": str(sum(sum(reader.finals.values()) for reader in readers)),
        "deltas received": str(sum(reader.deltas for reader in readers)),
        "finals lost": str(lost),
        "finals that came twice": str(twice),
        "captions that failed": str(sum(reader.failed for reader in readers)),
        "captions that differ between readers": str(different),
        "connections lost": str(len(away)),
        "longest time without a connection": f"{away[-1]:.2f} s" if away else "none",
    }
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:<{width}}  {value}")
    return int(bool(lost or twice or different))


def parsed() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fleet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    faults = ("none", "kill", "freeze", "redis", "roll")
    parser.add_argument("--fault", choices=faults, default="none", help="default: none")
    parser.add_argument("--gateways", type=int, default=3, help="1 to 3; default: 3")
    parser.add_argument("--readers", type=int, default=30, help="default: 30")
    parser.add_argument("--speakers", type=split, default=["en", "en", "en"], metavar="LANGS")
    parser.add_argument("--to", type=split, default=["de", "fr", "ja"], metavar="LANGS")
    parser.add_argument("--lines", type=int, default=20, help="of each speaker; default: 20")
    parser.add_argument("--pause", type=float, default=1.5, help="seconds; default: 1.5")
    parser.add_argument("--serve", action="store_true", help="start the fleet, and say nothing")
    parser.add_argument("flags", nargs="*", help="further flags of the gateways, after --")
    return parser.parse_args()


def split(text: str) -> list[str]:
    """Return the parts of a list with commas."""
    return text.split(",")


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(parsed())))
    except NotStarted as exc:
        sys.exit(str(exc))
    except KeyboardInterrupt:
        sys.exit(130)
    except asyncio.CancelledError:  # SIGTERM
        sys.exit(143)
