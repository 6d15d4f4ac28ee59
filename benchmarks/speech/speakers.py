"""Many speakers at once on one recogniser, in real time.

    python -m benchmarks.speech.speakers --flags "--recogniser openai --recogniser-url URL
        --recogniser-model NAME" [--speakers 1,8,32] [--seconds 30] [--audio FILE]

A gateway with the scripted engine gets the same recording from each speaker, each from another
place on. So nothing but the recognition takes time. How late a text is counts from the end of its
last word; a server without times of words shares the time of the audio out among them, and then it
counts from the end of the audio that was recognised. Prints one line of JSON for each number of
speakers. Without ``--flags`` the recogniser is tiny.en in the gateway.

Owns: the command. Must not know: how speech is recognised.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from websockets.asyncio.client import connect

from benchmarks.soak.child import Child
from benchmarks.speech import material
from benchmarks.speech.live import events
from benchmarks.speech.score import percentile
from gateway.job import SAMPLE_RATE

FRAME_S = 0.1
"""Seconds of audio in a frame."""
WARM_S = 3.0
"""Seconds that one speaker speaks before the first measurement."""
METRICS = {
    "busy_s": "gateway_recognition_busy_seconds_total",
    "recognised_s": "gateway_recognised_seconds_total",
    "audio_s": "gateway_audio_seconds_total",
}


@dataclass
class Heard:
    """Delays of all speakers of a measurement, in seconds."""

    growing: list[float] = field(default_factory=list)
    """From the end of the last word of an intermediate text to its arrival."""
    finals: list[float] = field(default_factory=list)
    """From the end of the last word of an utterance to its final text."""
    steps: list[float] = field(default_factory=list)
    """Between two texts of an utterance."""
    ended: list[float] = field(default_factory=list)
    """From the end of the audio to the answer that all of it was heard."""
    errors: list[str] = field(default_factory=list)
    """Codes of errors."""


async def speak(url: str, audio: bytes, heard: Heard, delay: float, key: str = "") -> None:
    """Play audio in real time after ``delay`` seconds, and note how late its texts come."""
    await asyncio.sleep(delay)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with connect(url, additional_headers=headers, open_timeout=60) as socket:
        await socket.recv()
        await socket.send('{"type":"audio","codec":"pcm_s16le"}')
        begun = time.perf_counter()

        async def play() -> None:
            size = 2 * int(SAMPLE_RATE * FRAME_S)
            for n, at in enumerate(range(0, len(audio), size), 1):
                # A frame can be sent when its last sample was spoken.
                await asyncio.sleep(max(0.0, begun + n * FRAME_S - time.perf_counter()))
                await socket.send(audio[at : at + size])
            await socket.send('{"type":"audio","codec":"none"}')

        playing = asyncio.create_task(play())
        last: dict[str, float] = {}
        async for event in events(socket):
            now = time.perf_counter() - begun
            if event["type"] == "heard":
                late = now - event["t1"]
                (heard.finals if event.get("final") else heard.growing).append(late)
                if event["id"] in last:
                    heard.steps.append(now - last[event["id"]])
                last[event["id"]] = now
            elif event["type"] == "error":
                heard.errors.append(event["code"])
            elif event["type"] == "audio" and event["codec"] == "none":
                heard.ended.append(now - len(audio) / (2 * SAMPLE_RATE))
                break
        await playing


def metrics(port: int) -> dict[str, float]:
    """Return the counters of the gateway that `METRICS` names, and its jobs by outcome."""
    with urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        lines = [line.rsplit(" ", 1) for line in response.read().decode().splitlines()]
    found = {name: value for name, value in lines if not name.startswith("#")}
    values = {short: float(found.get(name, 0)) for short, name in METRICS.items()}
    for name, value in found.items():
        if name.startswith("gateway_recognition_jobs_total"):
            values[name.partition('outcome="')[2].partition('"')[0]] = float(value)
    return values


async def measure(port: int, audio: bytes, speakers: int, seconds: float) -> dict[str, float]:
    """Let several speakers speak at once, and return the figures."""
    url = f"ws://127.0.0.1:{port}/v1/ws?from=en&to=de"
    heard = Heard()
    length = len(audio) // (2 * SAMPLE_RATE)
    before = await asyncio.to_thread(metrics, port)
    begun = time.perf_counter()
    jobs = []
    for n in range(speakers):
        start = n * length / speakers
        spoken = (material.part(audio, start, length) + audio)[: 2 * int(SAMPLE_RATE * seconds)]
        jobs.append(speak(f"{url}&room=r{n}", spoken, heard, n / speakers))
    await asyncio.gather(*jobs)
    took = time.perf_counter() - begun
    after = await asyncio.to_thread(metrics, port)
    counted = {name: after[name] - before.get(name, 0.0) for name in after}
    done = counted.pop("done", 0.0)
    busy, recognised, sent = (counted.pop(name) for name in METRICS)
    result = {
        "speakers": speakers,
        "jobs a second": done / took,
        "seconds of a job": busy / max(1.0, done),
        "seconds of audio in a job": recognised / max(1.0, done),
        "seconds of audio recognised in a second": recognised / took,
        "seconds of speech in a second": sent / took,
    }
    for name in ("growing", "finals", "steps", "ended"):
        values = sorted(getattr(heard, name))
        for share in (0.5, 0.95):
            result[f"{name} p{share * 100:.0f}"] = percentile(values, share)
    result["texts"] = len(heard.growing)
    return result | {f"jobs {outcome}": count for outcome, count in counted.items() if count}


async def run(flags: list[str], audio: bytes, counts: list[int], seconds: float, log: Path) -> None:
    """Measure each number of speakers on one gateway, whose output goes to ``log``."""
    child = Child(flags, log)
    await child.start()
    try:
        await measure(child.port, audio, 1, WARM_S)
        for count in counts:
            figures = await measure(child.port, audio, count, seconds)
            print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
    finally:
        await child.stop()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--flags", help="flags of `gateway serve` that choose the recogniser")
    add("--speakers", default="1,2,4", help="numbers of speakers; default: 1,2,4")
    add("--seconds", type=float, default=30.0, help="seconds of speech of each; default: 30")
    add("--audio", help="PCM of 16 bit and 16 kHz; default: a recording of a reader")
    add("--log", help="file for the output of the gateway; default: it is deleted")
    options = parser.parse_args()
    flags = shlex.split(options.flags or "")
    if not flags:
        flags = ["--recogniser", "whisper", "--recogniser-model", str(material.model())]
    audio = Path(options.audio).read_bytes() if options.audio else material.recording("two_cities")
    counts = [int(count) for count in options.speakers.split(",")]
    # Nothing but the recogniser may limit these.
    flags += ["--engine", "scripted", "--scripted-pace", "0"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(options.log or f"{folder}/log")
        asyncio.run(run(flags, audio, counts, options.seconds, log))


if __name__ == "__main__":
    main()
