"""Detection of voice by Silero VAD, which comes with faster-whisper.

Owns: the model and its state for each stream. Must not know: what is made of the probabilities.

Silero VAD (https://github.com/snakers4/silero-vad, MIT) is a small recurrent network: it takes
32 ms of audio with 4 ms of context, and keeps its state for the next frame.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gateway.core.recognition.speech_timing import FRAME
from gateway.engines.recognition.base import NEEDS_PACKAGE
from gateway.errors import EngineFault

_CONTEXT = 64
"""Samples of the frame before that the model looks at."""
_STATE = (1, 1, 128)
_FULL_SCALE = 32_768.0


class VoiceDetector:
    """The voice in one stream of audio."""

    def __init__(self) -> None:
        self._h = self._c = np.zeros(_STATE, np.float32)
        self._context = np.zeros(_CONTEXT, np.float32)

    def probabilities(self, pcm: bytes) -> list[float]:
        """Return the probability of voice in each frame of ``pcm``, of 16 kHz. A frame takes about
        0.1 ms.
        """
        if not pcm:
            return []
        samples = np.frombuffer(pcm, "<i2").astype(np.float32) / _FULL_SCALE
        frames = samples.reshape(-1, FRAME)
        before = np.vstack((self._context, frames[:-1, -_CONTEXT:]))
        self._context = frames[-1, -_CONTEXT:]
        output, self._h, self._c = _session().run(
            None, {"input": np.hstack((before, frames)), "h": self._h, "c": self._c}
        )
        return [float(value) for value in output.ravel()]


def load() -> None:
    """Load the model before the first stream needs it. Raises `EngineFault` without the package."""
    if _package() is None:
        raise EngineFault(NEEDS_PACKAGE)
    _session()


def _package() -> Path | None:
    """Return the directory of faster-whisper, without importing it."""
    package = importlib.util.find_spec("faster_whisper")
    return Path(package.origin).parent if package is not None and package.origin else None


@cache
def _session() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # A frame is a millisecond of work for one core, and the others translate.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    folder = _package()
    assert folder is not None
    return onnxruntime.InferenceSession(
        str(folder / "assets" / "silero_vad_v6.onnx"),
        providers=["CPUExecutionProvider"],
        sess_options=options,
    )
