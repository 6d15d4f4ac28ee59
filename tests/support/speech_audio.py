"""Real speech and a real Whisper model for tests; a test without them is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speech import material


def model() -> Path:
    """Return the directory of tiny.en."""
    try:
        return material.model()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def recording(name: str) -> bytes:
    """Return a recording in the form of `gateway.job.RecognitionJob.audio`."""
    try:
        return material.recording(name)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def excerpt(name: str, start: float, end: float) -> bytes:
    """Return a part of a recording.

    :param start: seconds from its beginning
    :param end: seconds from its beginning
    """
    return material.part(recording(name), start, end)
