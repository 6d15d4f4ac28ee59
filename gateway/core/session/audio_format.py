"""The formats of audio that a client may send, and how much time a frame of it takes.

Owns: the bounds of rates, and the faults of a format and of a frame. Must not know: how audio is
decoded, sockets.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.audio import OPUS, PCM, Audio, packet_seconds

RATES = (8_000, 48_000)
"""Lowest and highest number of samples per second of PCM: telephones, and sound cards."""

OPUS_RATE = 48_000
"""Samples per second of every decoder of Opus, whatever was encoded."""


class AudioFormat(msgspec.Struct, frozen=True):
    """Codec and rate of the audio of a socket."""

    codec: str
    rate: int

    def seconds(self, frame: bytes) -> float:
        """Return the time that a frame takes. Raises `ClientFault` (``audio_broken``)."""
        if self.codec == PCM:
            if len(frame) % 2:
                raise _broken(f"{len(frame)} bytes are no whole number of samples of 16 bit.")
            return len(frame) / (2 * self.rate)
        try:
            return packet_seconds(frame)
        except ValueError as exc:
            raise _broken(str(exc)) from exc


def chosen(message: Audio, codecs: Sequence[str], rates: Sequence[int]) -> AudioFormat:
    """Return the format that a client asks for. Raises `ClientFault` (``audio_unsupported``)."""
    if message.codec not in codecs:
        raise ClientFault(
            ErrorCode.AUDIO_UNSUPPORTED,
            f"This gateway does not read the codec {message.codec!r}.",
            "It reads: " + ", ".join(codecs) + ".",
        )
    if message.codec == OPUS:
        return AudioFormat(OPUS, OPUS_RATE)
    low, high = rates
    if not low <= message.rate <= high:
        raise ClientFault(
            ErrorCode.AUDIO_UNSUPPORTED,
            f"This gateway does not read PCM of {message.rate} samples per second.",
            f"Send {low} to {high}; speech needs no more than 16000."
            if low < high
            else f"Send {low}.",
        )
    return AudioFormat(PCM, message.rate)


def _broken(why: str) -> ClientFault:
    return ClientFault(ErrorCode.AUDIO_BROKEN, why, "The frame was dropped.")
