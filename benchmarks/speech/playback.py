"""Playback of a recording through voice detection, a speech stream and a recogniser.

Owns: the simulated clock. Must not know: scores.

Time is that of the audio. An answer arrives as long after its question as its recognition took in
CPU time, as on a machine with a free core. So the figures do not depend on what else the machine
does, and a recording takes only as long as its recognition.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.core.recognition.speech_recognition import SpeechRecognition
from gateway.core.recognition.speech_timing import FRAME_BYTES
from gateway.core.recognition.spoken_utterance import Decisions, Heard
from gateway.engines.recognition.voice import VoiceDetector
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob

CHUNK = 3
"""Frames of audio that arrive at once: a tenth of a second."""


@dataclass
class Playback:
    """The course of one recording. Times are seconds of audio."""

    seconds: float
    """Length of the recording."""
    heard: list[tuple[float, Heard]] = field(default_factory=list)
    """Texts, with the time at which they were known."""
    jobs: int = 0
    cpu: float = 0.0
    """Seconds of CPU for recognition."""
    detection_cpu: float = 0.0
    """Seconds of CPU for voice detection and for the stream itself."""

    @property
    def finals(self) -> list[tuple[float, Heard]]:
        """Final texts."""
        return [(at, heard) for at, heard in self.heard if heard.final]

    @property
    def text(self) -> str:
        """All final texts."""
        return " ".join(heard.text for _, heard in self.finals)


def play(
    audio: bytes,
    recognise: Callable[[RecognitionJob], Recognised],
    stream: SpeechRecognition,
    detector: VoiceDetector,
) -> Playback:
    """Play a recording, or the next part of one, and return the recognised text.

    :param recognise: recognises in this thread, by libraries that use one thread
    :param stream: a stream, whose audio ends with the recording
    :param detector: the detector of the stream
    """
    played = Playback(len(audio) / (2 * SAMPLE_RATE))
    waiting: list[tuple[float, Recognised]] = []  # the answer that is due, and when it arrives

    def note(decisions: Decisions, now: float) -> None:
        played.heard += [(now, heard) for heard in decisions.heard]
        if decisions.job is not None:
            begin = time.process_time()
            result = recognise(decisions.job)
            took = time.process_time() - begin
            played.jobs += 1
            played.cpu += took
            # A job that is replaced ends after its present step, on average half way to its end.
            busy = sum(at - now for at, _ in waiting) / 2
            waiting[:] = [(now + busy + took, result)]

    def answer(until: float) -> None:
        while waiting and waiting[0][0] <= until:
            at, result = waiting.pop()
            note(stream.result(result), at)

    size = CHUNK * FRAME_BYTES
    audio = audio[: len(audio) // FRAME_BYTES * FRAME_BYTES]
    now = 0.0
    for start in range(0, len(audio), size):
        chunk = audio[start : start + size]
        now += len(chunk) / (2 * SAMPLE_RATE)
        answer(now)
        begin = time.process_time()
        decisions = stream.add_audio(chunk, detector.probabilities(chunk))
        played.detection_cpu += time.process_time() - begin
        note(decisions, now)
    note(stream.finish_speech(), now)
    answer(float("inf"))
    return played
