"""Numbers of the recognition of speech, and the length of a frame.

Owns: the lengths, in seconds and frames. Must not know: who keeps to them.
"""

from __future__ import annotations

import msgspec

from gateway.job import SAMPLE_RATE

FRAME = 512
"""Samples for which the voice detector gives one probability (Silero VAD at 16 kHz)."""
FRAME_BYTES = 2 * FRAME
FRAME_SECONDS = FRAME / SAMPLE_RATE


class SpeechTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of audio after which something happens, measured in ``docs/figures/speech.md``."""

    step: float = 0.5
    """New audio between two hypotheses of the same speech."""
    least: float = 0.2
    """Voice below which a sound is no speech: a cough, a key, a knock."""
    pause: float = 0.7
    """Silence that ends an utterance."""
    sentence_pause: float = 0.55
    """Silence that ends an utterance whose text ends like a sentence."""
    settle: float = 0.2
    """Silence after which the words so far are asked for as if the speech had ended. The answer is
    there when the silence turns out to be the end."""
    before: float = 0.3
    """Audio before the first voice that belongs to the speech. Soft consonants are no voice."""
    window: float = 10.0
    """Audio of one hypothesis, beyond which its beginning is settled at a sentence that two
    hypotheses agree on."""
    longest: float = 20.0
    """Audio of one hypothesis, beyond which its beginning is settled anywhere. Whisper takes 30 s
    at most."""
    utterance: float = 40.0
    """Length of an utterance beyond which the next place that is settled ends it."""
    backlog: float = 60.0
    """Audio that is kept while the recogniser is late or fails. Beyond it the oldest utterance ends
    with the words that it has."""


def frames(seconds: float) -> int:
    """Return the number of whole frames in a time, at least one."""
    return max(1, int(seconds / FRAME_SECONDS + 1e-6))


def seconds(frames: int) -> float:
    """Return the time that a number of frames takes."""
    return frames * FRAME_SECONDS
