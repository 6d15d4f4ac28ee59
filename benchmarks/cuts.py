"""Losses and delays of readers whose connections are cut a thousand times.

    python -m benchmarks.cuts [--cuts 1000] [--readers 20] [--rate 10] [--speed 2] [--meeting FILE]

A meeting from a file is replayed, again and again, with simulated recogniser updates, to a gateway
in its own process on the scripted engine. The speaker and all readers but one connect through a
proxy that cuts one of them at a time: by RST, by FIN, in the middle of a frame, or so that only the
client notices. All resume by the protocol. A cut counts when its client has come back. In the end
every durable event that any reader got is compared with what each reader got: lost, duplicated, or
different.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from benchmarks.soak.child import Child
from benchmarks.soak.ledger import Faults, Reader, Room, conclude
from benchmarks.soak.proxy import End, Proxy, State, Wire
from benchmarks.soak.proxy import Faults as Network
from benchmarks.soak.report import Quantiles
from benchmarks.soak.user import Tally, VirtualUser
from caption_tools.replay import play
from caption_tools.replay.meeting import script

LANGS = ("de", "fr", "es")
MEETING = Path(__file__).resolve().parent.parent / "tests" / "quality" / "meeting100.tsv"
QUIET_S = 30.0
"""Seconds after the last cut in which all readers must get everything."""
TARGET_MS = 300.0
"""Milliseconds from the beginning of a new connection to the last event that is replayed."""


def reset(wire: Wire, chance: Random) -> None:
    wire.cut()


def end(wire: Wire, chance: Random) -> None:
    wire.cut(reset=False)


def lift(wire: Wire, chance: Random) -> None:
    """Drop the connection without telling the server."""
    wire.cut(end=End.CLIENT)


def inside(wire: Wire, chance: Random) -> None:
    """Cut after some more bytes, regardless of frame boundaries."""
    wire.down.faults = Network(cut_at=wire.down.passed + chance.randint(1, 500))


KINDS = (reset, end, lift, inside)


async def until(condition: Callable[[], bool]) -> bool:
    """Wait for a condition, at most `QUIET_S`. Return whether it came true."""
    try:
        async with asyncio.timeout(QUIET_S):
            while not condition():  # noqa: ASYNC110  # what is waited for knows no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        return False
    return True


async def speak(user: VirtualUser, said: list[script.ScriptUtterance], over: asyncio.Event) -> int:
    """Replay the meeting until it is over. Return the number of utterances."""
    loop = asyncio.get_running_loop()
    count = 0
    while True:
        begun = loop.time()
        for one in said:
            if over.is_set():
                return count
            count += 1
            id = f"{one.id}-{count}"
            steps = [(update.at, update.text, False) for update in one.updates if update.text]
            for rev, (at, text, final) in enumerate([*steps, (one.t1, one.text, True)], 1):
                await asyncio.sleep(max(0.0, begun + at - loop.time()))
                await user.say(id, rev, text, final=final)


async def run(args: argparse.Namespace, folder: Path) -> int:
    chance = Random(args.seed)
    faults, tally, kinds = Faults(), Tally(), Counter[str]()
    room = Room("meeting", faults)
    said = script.faster(play.load(args.meeting, seed=args.seed, langs=(), source=None), args.speed)
    flags = ("--engine", "scripted", "--scripted-pace", "0.02", "--log-level", "warning")
    child = Child(flags, folder / "gateway.log")
    await child.start()
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    try:
        async with Proxy("127.0.0.1", child.port, seed=args.seed) as proxy:

            def come(n: int, langs: tuple[str, ...], port: int, role: str = "view") -> VirtualUser:
                reader = Reader(f"reader {n}", room, langs, faults)
                address = f"ws://127.0.0.1:{port}"
                luck = Random(f"{args.seed}/{n}")
                return VirtualUser(reader, "meeting", langs, tally, luck, [address], role=role)

            whole = come(0, LANGS, child.port)  # not through the proxy
            speaker = come(1, LANGS[:1], proxy.port, "speak")
            others = [
                come(n, tuple(chance.sample(LANGS, chance.randint(1, 2))), proxy.port)
                for n in range(2, args.readers + 2)
            ]
            users = [whole, speaker, *others]
            stays = [asyncio.create_task(user.stay()) for user in users]
            await until(lambda: all(user.connected for user in users))
            speaking = asyncio.create_task(speak(speaker, said, over))
            begun = loop.time()
            first = tally.opened
            while tally.opened - first < args.cuts:
                await asyncio.sleep(chance.expovariate(args.rate))
                wires = [w for w in proxy.wires.values() if w.state is State.OPEN]
                if wires:
                    kind = chance.choice(KINDS)
                    kind(chance.choice(wires), chance)
                    kinds[kind.__name__] += 1
            seconds = loop.time() - begun
            over.set()
            count = await speaking
            quiet = await until(
                lambda: (
                    not speaker.unheard
                    and all(user.connected and not user.reader.behind for user in users)
                )
            )
            for user in users:
                user.reader.catch_up()
            await asyncio.gather(*(user.leave() for user in users))
            await asyncio.gather(*stays)
    finally:
        await child.stop()
    conclude(LANGS, whole.reader, [user.reader for user in users])
    back = Quantiles.of(tally.caught_up)
    times = ", ".join(f"{name} {kinds[name]}" for name in sorted(kinds))
    print(f"{args.cuts} cuts in {seconds:.0f} s ({times}; some hit a wire twice)")
    print(f"{count} utterances, {len(others) + 2} sockets, {tally.events} durable events read")
    print(
        f"{tally.opened} sockets opened, {tally.resumed} resumed whole, {tally.told} told of a gap"
    )
    print(f"lost {faults.lost}, told twice {faults.duplicated}, differently {faults.contradicted}")
    print(f"ended twice {faults.ended_twice}, never ended {faults.unended}")
    print(f"connected and caught up: p50 {back.p50} ms, p95 {back.p95} ms, max {back.max} ms")
    for line in (*faults.examples, *(f"{what}: {n}" for what, n in tally.unexpected.items())):
        print("  " + line)
    held = (
        quiet
        and not faults
        and not tally.unexpected
        and not tally.told
        and "Traceback" not in child.text
    )
    fast = back.max <= TARGET_MS
    print("Nothing was lost." if held else "A promise was BROKEN.")
    print(
        f"All were back within {TARGET_MS:g} ms." if fast else f"Not all within {TARGET_MS:g} ms."
    )
    return 0 if held and fast else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuts")
    parser.add_argument("--cuts", type=int, default=1000)
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--rate", type=float, default=10.0, help="cuts a second")
    parser.add_argument("--speed", type=float, default=2.0, help="times as fast as people speak")
    parser.add_argument("--meeting", type=Path, default=MEETING)
    parser.add_argument("--seed", type=int, default=0)
    with tempfile.TemporaryDirectory(prefix="gateway-cuts-") as folder:
        return asyncio.run(run(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
