"""Endpointing: where speech begins, pauses and ends, by the probability of voice in each frame.

Owns: the states of a speaker's voice and every legal change. Must not know: words, jobs, audio.

The two thresholds are those of Silero VAD's own segmentation: a frame begins voice at 0.5, and
continues it down to 0.35.
"""

from __future__ import annotations

import enum

from gateway.core.base.transitions import Table, next_state
from gateway.core.recognition.timing import SpeechTiming, frames

VOICE_ON, VOICE_OFF = 0.5, 0.35
ONSET = 3
"""Frames of voice in short order that begin speech. One or two are a click."""


class VoiceState(enum.Enum):
    """States of a speaker's voice."""

    SILENT = "silent"
    SPEAKING = "speaking"
    PAUSING = "pausing"  # silent for a moment, which may be the end


class VoiceEvent(enum.Enum):
    """Events that change the state of a voice."""

    BEGIN = "begin"
    PAUSE = "pause"
    RESUME = "resume"
    END = "end"


_S, _E = VoiceState, VoiceEvent

VOICE_TRANSITIONS: Table[VoiceState, VoiceEvent] = {
    _S.SILENT: {_E.BEGIN: _S.SPEAKING},
    # Audio may end, or be given up, in the middle of a word.
    _S.SPEAKING: {_E.PAUSE: _S.PAUSING, _E.END: _S.SILENT},
    _S.PAUSING: {_E.RESUME: _S.SPEAKING, _E.END: _S.SILENT},
}


class Endpointer:
    """The voice of one speaker, frame by frame.

    ``voice_end`` is the number of the frame behind the last one with voice.
    """

    __slots__ = ("_onset", "_pause", "_settle", "state", "voice_end")

    def __init__(self, timing: SpeechTiming) -> None:
        self._settle, self._pause = frames(timing.settle), frames(timing.pause)
        self._onset = 0
        self.state = VoiceState.SILENT
        self.voice_end = 0

    def is_voice(self, probability: float) -> bool:
        """Tell whether a frame has voice, after the frames before it."""
        speaking = self.state is VoiceState.SPEAKING
        return probability >= (VOICE_OFF if speaking else VOICE_ON)

    def add(self, frame: int, voice: bool) -> VoiceEvent | None:
        """Process the next frame, and return the change.

        :param frame: number of the frame
        :param voice: `is_voice` of it
        """
        if voice:
            self.voice_end = frame + 1
        if self.state is VoiceState.SILENT:
            # Counted down and not reset: the first syllable often has a gap of one frame.
            self._onset = self._onset + 1 if voice else max(0, self._onset - 1)
            return self.change(VoiceEvent.BEGIN) if self._onset >= ONSET else None
        if voice:
            return self.change(VoiceEvent.RESUME) if self.state is VoiceState.PAUSING else None
        silent = frame + 1 - self.voice_end
        if self.state is VoiceState.SPEAKING:
            return self.change(VoiceEvent.PAUSE) if silent >= self._settle else None
        return self.change(VoiceEvent.END) if silent >= self._pause else None

    def change(self, event: VoiceEvent) -> VoiceEvent:
        """Make a change, and return it."""
        self.state = next_state(VOICE_TRANSITIONS, self.state, event)
        # Speech that was just ended must begin anew with a full onset.
        self._onset = 0
        return event
