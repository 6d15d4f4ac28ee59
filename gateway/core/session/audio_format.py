"""The formats of audio that a client may send, and how much time a frame of it takes.

Owns: the names of codecs, the bounds of rates, and the head of a packet of Opus (RFC 6716, section
3.1). Must not know: how audio is decoded, sockets.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.errors import ClientFault, ErrorCode
from gateway.protocol.audio import Audio

PCM, OPUS, NONE = "pcm_s16le", "opus", "none"
"""Names of codecs. `NONE` ends the audio."""

RATES = (8_000, 48_000)
"""Lowest and highest number of samples per second of PCM: telephones, and sound cards."""

OPUS_RATE = 48_000
"""Samples per second of every decoder of Opus, whatever was encoded."""

LONGEST_PACKET_S = 0.12
"""Seconds of the longest packet of Opus (RFC 6716, section 3.2.5)."""

_SILK = (0.01, 0.02, 0.04, 0.06)
_HYBRID = (0.01, 0.02)
_CELT = (0.0025, 0.005, 0.01, 0.02)


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
        return packet_seconds(frame)


def chosen(message: Audio, codecs: Sequence[str], rates: Sequence[int]) -> AudioFormat:
    """Return the format that a client asks for. Raises `ClientFault` (``audio_unsupported``).

    :param codecs: codecs of this gateway
    :param rates: lowest and highest rate of PCM
    """
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


def packet_seconds(packet: bytes) -> float:
    """Return the time that a packet of Opus takes. Raises `ClientFault` (``audio_broken``)."""
    if not packet:
        raise _broken("A packet of Opus is not empty.")
    kind, code = packet[0] >> 3, packet[0] & 3
    if kind < 12:
        frame = _SILK[kind % 4]
    elif kind < 16:
        frame = _HYBRID[kind % 2]
    else:
        frame = _CELT[kind % 4]
    count = 1 if code == 0 else 2
    if code == 3:
        if len(packet) < 2:
            raise _broken("The packet of Opus ends before its number of frames.")
        count = packet[1] & 63
    # A little more, since these numbers are not exact.
    if not 0 < count * frame < LONGEST_PACKET_S + 0.001:
        raise _broken(f"A packet of Opus cannot have {count} frames of {1000 * frame:g} ms.")
    return count * frame


def _broken(why: str) -> ClientFault:
    return ClientFault(ErrorCode.AUDIO_BROKEN, why, "The frame was dropped.")
