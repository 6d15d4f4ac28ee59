"""Endpointing: where speech begins, pauses and ends, by the probability of voice in each frame.

Owns: the states of a speaker's voice. Must not know: words, jobs, audio.

The two thresholds are those of Silero VAD's own segmentation: a frame begins voice at 0.5, and
continues it down to 0.35.
"""

from __future__ import annotations

import enum

from gateway.core.recognition.speech_timing import SpeechTiming, frames

VOICE_ON, VOICE_OFF = 0.5, 0.35
ONSET = 3
"""Frames of voice in short order that begin speech. One or two are a click."""


class VoiceState(enum.Enum):
    """States of a speaker's voice."""

    SILENT = "silent"
    SPEAKING = "speaking"
    PAUSING = "pausing"  # silent for a moment, which may be the end


class Endpointer:
    """The voice of one speaker; ``voice_end`` is the frame behind the last one with voice."""

    def __init__(self, timing: SpeechTiming) -> None:
        self._settle, self._pause = frames(timing.settle), frames(timing.pause)
        self._onset = 0
        self.state = VoiceState.SILENT
        self.voice_end = 0

    def is_voice(self, probability: float) -> bool:
        """Tell whether a frame has voice, after the frames before it."""
        speaking = self.state is VoiceState.SPEAKING
        return probability >= (VOICE_OFF if speaking else VOICE_ON)

    def add(self, frame: int, voice: bool) -> bool:
        """Process the next frame; return whether speech has begun or ended with it."""
        if voice:
            self.voice_end = frame + 1
        if self.state is VoiceState.SILENT:
            # Counted down and not reset: the first syllable often has a gap of one frame.
            self._onset = self._onset + 1 if voice else max(0, self._onset - 1)
            if self._onset < ONSET:
                return False
            self.state = VoiceState.SPEAKING
            return True
        silent = frame + 1 - self.voice_end
        if silent >= self._pause:
            self.end()
            return True
        if voice:
            self.state = VoiceState.SPEAKING
        elif silent >= self._settle:
            self.state = VoiceState.PAUSING
        return False

    def end(self) -> None:
        """End the speech, also in the middle of a word. The next one begins with a full onset."""
        self.state = VoiceState.SILENT
        self._onset = 0
