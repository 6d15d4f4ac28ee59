"""Delays of captions of speech in real time, and of typed captions beside it.

    python -m benchmarks.speech.live [--seconds 40]

A gateway process with tiny.en and the embedded model has one speaker with a microphone, three
languages and nine more readers, and one person who types. Before the speaker comes, the same
person types alone. Run it on an idle machine: nothing here corrects for other load.

Owns: the command. Must not know: how speech is recognised.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.soak.child import Child
from benchmarks.speech import material
from benchmarks.speech.score import percentile
from gateway.job import SAMPLE_RATE

FRAME_S = 0.1
"""Seconds of audio in a frame."""
TYPED_S = 0.5
"""Seconds between two typed lines."""
LANGUAGES = "de,fr,es"
READERS = 9


async def events(socket: ClientConnection) -> Any:
    """Yield the events of a socket until it closes, also because the gateway stops."""
    with contextlib.suppress(ConnectionClosed):
        async for frame in socket:
            yield json.loads(frame)


async def type_lines(url: str, room: str, lines: int) -> list[float]:
    """Type lines one by one in a new room.

    Returns the seconds from each to its last final caption.
    """
    found = []
    async with connect(f"{url}&room={room}") as socket:
        await socket.recv()
        for n in range(lines):
            begun = time.perf_counter()
            await socket.send(f"We meet again on Monday in room {n}.")
            left = LANGUAGES.count(",") + 1
            while left:
                left -= json.loads(await socket.recv())["type"] == "final"
            found.append(time.perf_counter() - begun)
            await asyncio.sleep(TYPED_S)
    return found


async def speak(url: str, audio: bytes) -> tuple[list[float], list[float]]:
    """Play audio in real time.

    Returns the seconds from the beginning of each utterance to its first translated text, and from
    its end to each of its final captions.
    """
    firsts: dict[tuple[str, str], float] = {}
    begins: dict[str, float] = {}
    finals = []
    async with connect(f"{url}&room=spoken") as socket:
        await socket.recv()
        await socket.send('{"type":"audio","codec":"pcm_s16le"}')
        begun = time.perf_counter()

        async def play() -> None:
            size = 2 * int(SAMPLE_RATE * FRAME_S)
            for n, at in enumerate(range(0, len(audio), size)):
                await asyncio.sleep(max(0.0, begun + n * FRAME_S - time.perf_counter()))
                await socket.send(audio[at : at + size])
            await socket.send('{"type":"bye"}')

        playing = asyncio.create_task(play())
        async for event in events(socket):
            now = time.perf_counter() - begun
            match event["type"]:
                case "source" if event.get("t0") is not None:
                    begins.setdefault(event["id"], event["t0"])
                case "delta":
                    firsts.setdefault((event["id"], event["lang"]), now)
                case "final":
                    finals.append(now - event["t1"])
        await playing
    starts = [now - begins[id] for (id, _), now in firsts.items() if id in begins]
    return starts, finals


async def read(url: str) -> int:
    """Read a room to its end; return the number of final captions."""
    async with connect(f"{url}&role=view") as socket:
        return sum([event["type"] == "final" async for event in events(socket)])


def line(name: str, seconds: list[float]) -> str:
    p50, p95 = (1000 * percentile(sorted(seconds), p) for p in (0.5, 0.95))
    return f"{name:<58} p50 {p50:7.0f} ms  p95 {p95:7.0f} ms  of {len(seconds)}"


async def measure(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recogniser = ("--recogniser", "whisper", "--recogniser-model", str(material.model()))
        child = Child(recogniser, Path(folder) / "log")
        await child.start()
        try:
            url = f"ws://127.0.0.1:{child.port}/v1/ws?from=en&to={LANGUAGES}"
            await type_lines(url, "warm", 3)
            alone = await type_lines(url, "alone", 20)
            audio = material.part(material.recording("two_cities"), 0, seconds)
            readers = [asyncio.create_task(read(f"{url}&room=spoken")) for _ in range(READERS)]
            (firsts, finals), beside = await asyncio.gather(
                speak(url, audio), type_lines(url, "beside", int(seconds))
            )
        finally:
            await child.stop()
        counts = await asyncio.gather(*readers)
    print(line("typed line to its last final, alone", alone))
    print(line("typed line to its last final, beside speech", beside))
    print(line("beginning of an utterance to its first translated text", firsts))
    print(line("end of an utterance to its final caption", finals))
    print(f"{len(finals)} final captions; the readers got {sorted(set(counts))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=40.0, help="seconds of speech; default: 40"
    )
    asyncio.run(measure(parser.parse_args().seconds))
