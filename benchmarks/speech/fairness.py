"""The delay of one microphone beside a flood of audio from another tenant.

    python -m benchmarks.speech.fairness [--sockets 0,30,84] [--seconds 20]

A gateway with the scripted recogniser, whose decoding and detection of voice are real, hears an
honest speaker in real time. Sockets of another tenant, a room each, send audio as fast as the
gateway reads it: speech that has to be resampled, or packets of Opus of 2.5 ms, of three bytes, of
the largest size that a packet has, or of 64 KiB. They run in a process of their own. Prints a line
for each flood: how late the honest texts come after their last words, what was refused of the
honest audio, and the largest memory of the gateway for each socket of the flood, above the memory
without them.

Owns: the command, and the flood. Must not know: how audio is decoded.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import selectors
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np

from benchmarks.blocking_client import BlockingClient, frame_bytes
from benchmarks.soak.child import Child
from benchmarks.speech import material
from benchmarks.speech.score import percentile
from benchmarks.speech.speakers import Heard, speak
from gateway.auth.api_keys import ApiKey, create_key
from gateway.job import SAMPLE_RATE

SHORT = 0x80
"""First byte of a packet of Opus with one frame of 2.5 ms."""
CHUNK = 65_536
"""Bytes that each socket of the flood sends at a time, at least one frame."""
PCM = {"codec": "pcm_s16le", "rate": 48_000}
FLOODS: dict[str, tuple[dict[str, object], bytes]] = {
    "speech": (PCM, np.random.default_rng(1).integers(-9_000, 9_000, 4_800, "<i2").tobytes()),
    "3 bytes": ({"codec": "opus"}, bytes([SHORT, 0, 0])),
    "1,275 bytes": ({"codec": "opus"}, bytes([SHORT]) + bytes(1_274)),
    "64 KiB": ({"codec": "opus"}, bytes([SHORT]) + bytes(65_535)),
}
"""Format and frame of each flood."""


def flood(port: int, key: str, kind: str, sockets: int, begun: Event, end: Event) -> None:
    """Send as fast as the gateway reads, and read its answers, until ``end``."""
    form, frame = FLOODS[kind]
    framed = frame_bytes(frame)
    chunk = framed * max(1, CHUNK // len(framed))
    selector = selectors.DefaultSelector()
    for n in range(sockets):
        client = BlockingClient(port)
        headers = {"host": "127.0.0.1", "authorization": f"Bearer {key}"}
        client.upgrade(f"/v1/ws?to=de&room=flood{n}", headers)
        client.until(b'"welcome"')
        client.frame({"type": "audio", "from": "en", **form})
        client.peer.setblocking(False)
        both = selectors.EVENT_READ | selectors.EVENT_WRITE
        selector.register(client.peer, both, [0])
    begun.set()
    while not end.is_set():
        for entry, ready in selector.select(0.1):
            try:
                if ready & selectors.EVENT_READ and not entry.fileobj.recv(CHUNK):  # type: ignore[union-attr]
                    raise ConnectionResetError
                if ready & selectors.EVENT_WRITE:
                    sent = entry.fileobj.send(chunk[entry.data[0] :])  # type: ignore[union-attr]
                    entry.data[0] = (entry.data[0] + sent) % len(chunk)
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(entry.fileobj)


@contextlib.contextmanager
def flooding(port: int, key: str, kind: str, sockets: int) -> Iterator[None]:
    """Flood a gateway while the block lasts."""
    context = multiprocessing.get_context("spawn")
    begun, end = context.Event(), context.Event()
    process = context.Process(target=flood, args=(port, key, kind, sockets, begun, end))
    process.start()
    try:
        assert begun.wait(60), "the flood does not begin"
        yield
    finally:
        end.set()
        process.join()


async def peak(child: Child, memory: list[float]) -> None:
    """Note the largest resident memory of a gateway, until it is cancelled."""
    while True:
        memory.append(child.rss())
        await asyncio.sleep(0.1)


async def measure(child: Child, keys: list[str], kind: str, sockets: int, seconds: float) -> None:
    """Let an honest speaker speak beside a flood, and print the figures."""
    url = f"ws://127.0.0.1:{child.port}/v1/ws?from=en&to=de&room=honest"
    audio = (material.recording("two_cities") * 9)[: 2 * int(SAMPLE_RATE * seconds)]
    heard, memory, before = Heard(), list[float](), child.rss()
    watching = asyncio.create_task(peak(child, memory))
    with flooding(child.port, keys[1], kind, sockets) if sockets else contextlib.nullcontext():
        await speak(url, audio, heard, 1.0, key=keys[0])
    watching.cancel()
    texts = sorted(heard.growing + heard.finals)
    figures = {
        "flood": kind if sockets else "none",
        "sockets": sockets,
        "delay p50": round(percentile(texts, 0.5), 3),
        "delay max": round(max(texts), 3),
        "texts": len(texts),
        "errors": heard.errors,
        "MB a socket": round((max(memory) - before) / max(1, sockets), 2),
    }
    print(json.dumps(figures), flush=True)


async def run(counts: list[int], kinds: list[str], seconds: float, folder: Path) -> None:
    """Measure each flood on a gateway of its own."""
    made = [
        create_key(ApiKey(id=f"{n:08x}", name=name, hash="0" * 64), f"{n:064x}")
        for n, name in enumerate(("honest", "flood"))
    ]
    file = folder / "keys.toml"
    file.write_text("\n".join(entry for _, entry in made))
    flags = ("--engine", "scripted", "--scripted-pace", "0", "--recogniser", "scripted")
    for kind in kinds:
        for sockets in counts:
            child = Child((*flags, "--keys", str(file)), folder / "log")
            await child.start()
            try:
                await asyncio.sleep(1.0)
                await measure(child, [key for key, _ in made], kind, sockets, seconds)
            finally:
                await child.stop()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--sockets", default="0,30,84", help="sockets of the floods; default: 0,30,84")
    add("--seconds", type=float, default=20.0, help="seconds of honest speech; default: 20")
    add("--flood", action="append", choices=FLOODS, help="may be repeated; default: all")
    options = parser.parse_args()
    counts = [int(count) for count in options.sockets.split(",")]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(counts, options.flood or list(FLOODS), options.seconds, Path(folder)))
    print(f"{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
