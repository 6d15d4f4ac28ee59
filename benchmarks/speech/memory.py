"""Memory of a gateway while it hears hours of audio, faster than they were spoken.

    python -m benchmarks.speech.memory [--hours 2] [--speakers 4] [--model DIR]

Speakers send real speech and pauses over sockets as fast as the gateway settles it, into two
languages, and every room has a reader. The recogniser hears a word in each 0.4 s of sound (the
scripted one), since the memory of streams, rooms and captions is measured; with ``--model`` it is
Whisper, which takes as long as it recognises. Prints the resident memory after each tenth, and
fails if the last half of them grows by more than `ALLOWED` of the first.

Owns: the command. Must not know: how speech is recognised.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from websockets.asyncio.client import connect

from benchmarks.soak.child import Child
from benchmarks.speech import material
from benchmarks.speech.live import events, read
from gateway.job import SAMPLE_RATE

FRAME = 2 * SAMPLE_RATE // 5
"""Bytes of a frame: 0.2 s."""
PAUSE_S = 1.5
"""Seconds of silence after each recording."""
SAMPLES = 10
ALLOWED = 0.05
"""Growth from the median of the second quarter to that of the last one that is no leak: rooms keep
a bounded number of captions, and Python's heap settles."""
FLAGS = ("--limit-audio-rate", "1000", "--limit-audio-burst", "45", "--limit-log", "300")
"""A room keeps the captions of a meeting on purpose, which is no matter here."""


async def speak(url: str, audio: bytes, seconds: float, progress: list[float], at: int) -> float:
    """Send so many seconds of audio, and return the seconds of speech that were lost."""
    lost = sent = settled = 0.0
    moved = asyncio.Event()
    async with connect(url) as socket:
        window = json.loads(await socket.recv())["audio"]["window"]
        await socket.send('{"type":"audio","codec":"pcm_s16le"}')

        async def send() -> None:
            nonlocal sent
            place = 0
            while sent < seconds:
                while sent - settled > window - 10:
                    moved.clear()
                    await moved.wait()
                frame = audio[place : place + FRAME]
                place = (place + FRAME) % len(audio)
                await socket.send(frame)
                sent += len(frame) / (2 * SAMPLE_RATE)
            await socket.send('{"type":"bye"}')

        sending = asyncio.create_task(send())
        async for event in events(socket):
            if event["type"] == "audio":
                settled, lost = event["seconds"], event.get("lost", 0.0)
                progress[at] = settled
                moved.set()
            elif event["type"] == "error":
                raise RuntimeError(event)
        await sending
    return lost


async def measure(flags: list[str], seconds: float, speakers: int) -> list[float]:
    """Return the resident memory in MB after each tenth of the audio."""
    silence = bytes(2 * int(SAMPLE_RATE * PAUSE_S))
    audio = material.recording("beckett") + silence + material.recording("two_cities") + silence
    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        child = Child(
            (*flags, *FLAGS, "--engine", "scripted", "--scripted-pace", "0"), Path(folder) / "log"
        )
        await child.start()
        try:
            url = f"ws://127.0.0.1:{child.port}/v1/ws?from=en&to=de,fr"
            progress = [0.0] * speakers
            readers = [asyncio.create_task(read(f"{url}&room=r{n}")) for n in range(speakers)]
            begun = time.perf_counter()
            share = seconds / speakers
            jobs = [
                asyncio.create_task(speak(f"{url}&room=r{n}", audio, share, progress, n))
                for n in range(speakers)
            ]
            while not all(job.done() for job in jobs):
                await asyncio.wait(jobs, timeout=0.2)
                if sum(progress) >= (len(found) + 1) * seconds / SAMPLES:
                    found.append(child.rss())
                    print(
                        f"{sum(progress) / 60:6.1f} min of audio  {found[-1]:7.1f} MB", flush=True
                    )
            lost = sum(await asyncio.gather(*jobs))
            took = time.perf_counter() - begun
            print(f"{seconds / took:.0f} times as fast as spoken; {lost:.1f} s of speech were lost")
        finally:
            await child.stop()
        await asyncio.gather(*readers)
    return found


def main() -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=float, default=2.0, help="of audio; default: 2")
    parser.add_argument("--speakers", type=int, default=4, help="of the audio; default: 4")
    parser.add_argument("--model", help="directory of a Whisper model; default: the scripted one")
    options = parser.parse_args()
    flags = ["--recogniser", "scripted"]
    if options.model:
        flags = ["--recogniser", "whisper", "--recogniser-model", options.model]
    found = asyncio.run(measure(flags, options.hours * 3600, options.speakers))
    quarter = max(1, len(found) // 4)
    early, late = median(found[quarter : 2 * quarter]), median(found[-quarter:])
    growth = late / early - 1
    print(f"{early:.1f} MB in the second quarter, {late:.1f} MB in the last: {growth:+.1%}")
    return int(growth > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
