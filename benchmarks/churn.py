"""Growth of a gateway's memory and threads under connections that come and go.

    python -m benchmarks.churn [--connections 20000] [--seconds 3600] [--only KIND ...]

A gateway in its own process, on the scripted engine and the scripted recogniser with the real
detector of voice, is connected to by clients of all kinds in turn, one after the other in each of
eight threads, evenly over the seconds or else as fast as it takes them. A reader stays connected
all the time, as in a gateway that is always in use. Growth counts after a warm-up. Flags of
`gateway serve` may stand at the end behind ``--``.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.blocking_client import BlockingClient
from benchmarks.soak.child import Child
from benchmarks.speech import material
from gateway.cli.flags import count
from gateway.job import SAMPLE_RATE

FLAGS = (
    *("--engine", "scripted", "--recogniser", "scripted", "--limit-address-rate", "1000000"),
    *("--limit-room-s", "0.5"),
)
"""Flags of the gateway. What it keeps for its clients' return is no growth, and is kept shortly."""
WORKERS = 8
WARM = 2_000
"""Connections before the growth is counted: caches, and the pools of CPython and of the C library,
fill."""
SETTLE_S = 15.0
"""Seconds until a figure is read, in which connections and rooms end. The captions of a speaker who
was lost are finished for ten."""
HOUR = 20_000
"""Connections that count as an hour."""
MOST_MB = 2.0
"""Megabytes (10^6 bytes) by which an hour may grow. Threads may not grow."""
RATE = 24_000
"""Samples a second of a microphone of OpenAI's realtime sockets."""
SILENT_PACKET = b"\xfc\xff\xfe"
"""An Opus packet of 20 ms."""
SAMPLES = 10
"""Figures of memory that are printed of the time in which clients come and go."""


@cache
def speech(rate: int) -> list[bytes]:
    """Return three seconds of a person's speech as PCM, in pieces of 100 ms."""
    pcm = material.part(material.recording("beckett"), 0.0, 3.0)
    samples = np.frombuffer(pcm, "<i2")
    at = np.arange(0, samples.size, SAMPLE_RATE / rate)
    resampled = np.interp(at, np.arange(samples.size), samples).astype("<i2")
    return [piece.tobytes() for piece in np.array_split(resampled, 30)]


def socket(port: int, path: str = "/v1/ws?to=de", welcome: bytes = b'"welcome"') -> BlockingClient:
    client = BlockingClient(port)
    client.upgrade(path, {"host": "127.0.0.1"})
    client.until(welcome)
    return client


def speaker(port: int) -> None:
    """Say an utterance and close the socket as a client should."""
    client = socket(port)
    client.frame("good morning everybody")
    client.until(b'"final"')
    client.close()


def aborted(port: int) -> None:
    """Reset a socket while captions are made."""
    client = socket(port, "/v1/ws?to=de,fr&room=churn")
    client.frame("good morning everybody")
    client.until(b'"source"')
    client.abort()


def events(port: int) -> None:
    """Reset an event stream."""
    client = BlockingClient(port)
    client.request("GET", "/v1/rooms/churn/events?to=de", headers={"host": "127.0.0.1"})
    client.until(b"welcome")
    client.abort()


def refused(port: int) -> None:
    """Ask for a language that the engine does not have, and send bytes that are no frame."""
    client = socket(port, "/v1/ws?to=xx-nope-no")
    client.until(b'"error"')
    client.send(b"\x83\x80" + bytes(4))
    client.end()


def request(port: int) -> None:
    """Translate a text over HTTP, as a stream that nobody waits for."""
    client = BlockingClient(port)
    text = {"text": "good morning", "source_lang": "en", "target_lang": "de", "stream": True}
    client.request("POST", "/v1/translate", text, {"host": "127.0.0.1"})
    client.until(b"event:")
    client.abort()


def microphone(port: int) -> None:
    """Speak for three seconds, and reset the socket while captions are made."""
    client = socket(port)
    client.frame({"type": "audio", "codec": "pcm_s16le", "rate": SAMPLE_RATE})
    for piece in speech(SAMPLE_RATE):
        client.frame(piece)
    client.until(b'"heard"')
    client.abort()


def opus(port: int) -> None:
    """Stream a second of silence in Opus, and close the socket as a client should."""
    client = socket(port)
    client.frame({"type": "audio", "codec": "opus"})
    for _ in range(50):
        client.frame(SILENT_PACKET)
    client.until(b'"audio"')
    client.close()


def realtime(port: int) -> None:
    """Speak for three seconds to a realtime socket, and hang up."""
    client = socket(port, "/v1/realtime?intent=transcription", b"session.created")
    client.frame({"type": "session.update", "session": {"type": "transcription"}})
    client.until(b"session.updated")
    for piece in speech(RATE):
        audio = base64.b64encode(piece).decode()
        client.frame({"type": "input_audio_buffer.append", "audio": audio})
    client.until(b"transcription.delta")
    client.hang_up()


def translation(port: int) -> None:
    """Speak for three seconds to be translated, and end the session."""
    client = socket(port, "/v1/realtime/translations?to=de", b"session.created")
    for piece in speech(RATE):
        audio = base64.b64encode(piece).decode()
        client.frame({"type": "session.input_audio_buffer.append", "audio": audio})
    client.frame({"type": "session.close"})
    client.until(b"output_transcript.delta")
    client.until(b"session.closed")
    client.close()


KINDS: dict[str, Callable[[int], None]] = {
    one.__name__: one
    for one in (
        *(speaker, aborted, events, refused, request),
        *(microphone, opus, realtime, translation),
    )
}


class Churn:
    """Clients of a gateway, one kind after the other.

    :param kinds: names of `KINDS`
    """

    def __init__(self, port: int, kinds: Sequence[str]) -> None:
        self.failed: Counter[str] = Counter()
        self._port = port
        self._kinds = itertools.cycle(kinds)
        self._turn = threading.Lock()

    def connect(self, connections: int, seconds: float = 0.0) -> None:
        """Make so many connections, evenly over some seconds."""
        begun = time.monotonic()
        starts = (begun + seconds * n / connections for n in range(connections))
        with ThreadPoolExecutor(WORKERS) as pool:
            for _ in pool.map(self._one, starts):
                pass

    def _one(self, start: float) -> None:
        time.sleep(max(0.0, start - time.monotonic()))
        with self._turn:
            kind = next(self._kinds)
        try:
            KINDS[kind](self._port)
        except (OSError, AssertionError) as exc:
            self.failed[f"{kind}: {exc or type(exc).__name__}"[:200]] += 1


def figures(child: Child) -> tuple[float, int]:
    """Return megabytes and threads of a gateway once its clients have gone."""
    time.sleep(SETTLE_S)
    status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
    threads = next(line.split()[1] for line in status.splitlines() if line.startswith("Threads:"))
    return child.rss(), int(threads)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.churn", description=__doc__, formatter_class=raw
    )
    parser.add_argument("--connections", type=count, default=HOUR, metavar="N")
    parser.add_argument("--seconds", type=float, default=0.0, metavar="S", help="of the clients")
    parser.add_argument("--only", action="append", choices=KINDS, help="may be repeated")
    parser.add_argument("flags", nargs="*", metavar="-- FLAG", help="more of gateway serve")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the growth; return 1 if it is more than it may be."""
    args = parse(argv)
    kinds = args.only or list(KINDS)
    with tempfile.TemporaryDirectory(prefix="gateway-churn-") as folder, asyncio.Runner() as runner:
        child = Child((*FLAGS, *args.flags), Path(folder) / "gateway.log")
        runner.run(child.start())
        try:
            return measure(child, kinds, args.connections, args.seconds)
        finally:
            runner.run(child.stop())


def measure(child: Child, kinds: Sequence[str], connections: int, seconds: float) -> int:
    """Connect, print the figures, and return the exit status."""
    reader = socket(child.port, "/v1/ws?to=de&room=reader")
    churn = Churn(child.port, kinds)
    churn.connect(WARM)
    before, threads_before = figures(child)
    begun = time.monotonic()
    samples = []
    for n in range(SAMPLES):
        part = connections * (n + 1) // SAMPLES - connections * n // SAMPLES
        churn.connect(part, seconds / SAMPLES)
        samples.append(f"{child.rss():.1f}")
    taken = time.monotonic() - begun
    after, threads_after = figures(child)
    reader.abort()
    growth = (after - before) * HOUR / connections
    print(f"kinds                {', '.join(kinds)}")
    print(f"connections          {connections} in {taken:.0f} s after {WARM} to warm up")
    print(f"failed               {sum(churn.failed.values())} {dict(churn.failed) or ''}")
    print(f"resident MB          {before:.1f} to {after:.1f}, meanwhile {', '.join(samples)}")
    print(f"MB an hour           {growth:+.2f} ({HOUR} connections; at most {MOST_MB:g})")
    print(f"threads              {threads_before} to {threads_after}")
    return int(growth > MOST_MB or threads_after > threads_before or bool(churn.failed))


if __name__ == "__main__":
    sys.exit(main())
