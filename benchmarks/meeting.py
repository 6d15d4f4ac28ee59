"""A meeting on a running gateway, with the latencies of its captions.

    python -m benchmarks.meeting ws://127.0.0.1:8000 --sockets 16 --to de,fr [--lines FILE]

Each socket says its lines one after the other, the next when all captions of the last have ended.
Prints one JSON line: milliseconds from saying to the first text and to the final, per caption.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path

from websockets.asyncio.client import connect

LINES = (
    "Good morning everybody, can you all hear me?",
    "You are on mute, Maria.",
    "Let's go through the agenda before we start.",
    "The release is planned for the ninth of March.",
    "I disagree, we need at least two more weeks for testing.",
    "Who is going to write the minutes today?",
    "We sold 1,250 licences in the third quarter, 12 percent more than last year.",
    "Could you share your screen, please?",
    "The server was down for forty minutes last night.",
    "I will send the contract to Mr. Tanaka by Friday at 3 pm.",
    "That is a very good point, thank you.",
    "Sorry, my connection is bad, could you repeat that?",
    "The customer wants the new invoice by the end of the month.",
    "Let's take a short break and meet again at half past ten.",
    "Any other questions? Then see you all next week.",
)


async def sit(url: str, langs: list[str], lines: list[str], waits: dict[str, list[float]]) -> None:
    """Run one socket of the meeting."""
    async with connect(url, compression=None) as ws:
        for line in lines:
            begun = time.perf_counter()
            await ws.send(line)
            left, seen = set(langs), set[str]()
            while left:
                event = json.loads(await ws.recv())
                lang = event.get("lang")
                now = 1000 * (time.perf_counter() - begun)
                match event["type"]:
                    case "delta" if lang not in seen:
                        seen.add(lang)
                        waits["first"].append(now)
                    case "final":
                        left.discard(lang)
                        waits["final"].append(now)
                    case "failed" | "error":
                        left.discard(lang)
                        waits["failed"].append(now)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--sockets", type=int, default=16)
    parser.add_argument("--source", default="en")
    parser.add_argument("--to", default="de")
    parser.add_argument("--rounds", type=int, default=4, help="times each socket says all lines")
    parser.add_argument("--lines", type=Path, help="a file, one line each (to the first tab)")
    args = parser.parse_args()
    lines = list(LINES)
    if args.lines:
        lines = [line.split("\t")[0] for line in args.lines.read_text().splitlines() if line]
    waits: dict[str, list[float]] = {"first": [], "final": [], "failed": []}
    url = f"{args.url}/v1/ws?from={args.source}&to={args.to}"
    begun = time.perf_counter()
    await asyncio.gather(
        *(
            sit(url, args.to.split(","), (lines[n:] + lines[:n]) * args.rounds, waits)
            for n in range(args.sockets)
        )
    )
    wall = time.perf_counter() - begun
    report = {"sockets": args.sockets, "captions_s": round(len(waits["final"]) / wall, 1)}
    report["failed"] = len(waits["failed"])
    for name in ("first", "final"):
        values = sorted(waits[name])
        for share in (0.5, 0.95, 0.99):
            report[f"{name}_p{share * 100:.0f}_ms"] = round(
                values[int(share * (len(values) - 1))], 1
            )
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main())
