"""Audio of one speaker that is still needed, with the probability of voice in each frame.

Owns: the bytes, and the numbering of frames from the beginning of the audio. Must not know: what is
speech.
"""

from __future__ import annotations

from gateway.core.recognition.speech_timing import FRAME_BYTES


class AudioBuffer:
    """Consecutive frames. ``begin`` is the number of the first one, ``end`` is behind the last."""

    def __init__(self) -> None:
        self.begin = self.end = 0
        self._pcm = bytearray()
        self._voice = bytearray()  # 1 for a frame with voice

    def append(self, frame: bytes | memoryview, voiced: bool) -> None:
        """Add one frame of `FRAME_BYTES` bytes."""
        self._pcm += frame
        self._voice.append(voiced)
        self.end += 1

    def drop(self, before: int) -> None:
        """Remove the frames with a number below ``before``."""
        count = min(before, self.end) - self.begin
        if count > 0:
            del self._pcm[: count * FRAME_BYTES]
            del self._voice[:count]
            self.begin += count

    def pcm(self, start: int, end: int) -> bytes:
        """Return the audio of the frames from ``start`` to before ``end``."""
        return bytes(self._pcm[self._index(start) * FRAME_BYTES : self._index(end) * FRAME_BYTES])

    def voiced(self, start: int, end: int) -> int:
        """Return how many frames from ``start`` to before ``end`` have voice."""
        return self._voice.count(1, self._index(start), self._index(end))

    def voice_end(self, start: int, end: int) -> int:
        """Return the number of the frame behind the last one with voice, ``start`` if none has."""
        last = self._voice.rfind(1, self._index(start), self._index(end))
        return start if last < 0 else self.begin + last + 1

    def _index(self, frame: int) -> int:
        """Return the index of a frame, or of the nearest one that is kept."""
        return min(max(frame, self.begin), self.end) - self.begin
