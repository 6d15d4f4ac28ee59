"""The messages about speech that a client sends as audio, and the length of a packet of Opus.

Owns: their names, types and shapes, and what the first bytes of a packet tell (RFC 6716, section
3). Must not know: encodings, codecs of audio, recognisers.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from gateway.protocol.fields import Code, EventStruct, Personal, RequestStruct, Seconds, Tags

SampleRate = Annotated[int, Meta(ge=1, le=1_000_000)]
"""Samples per second that a message can name. A gateway reads fewer rates."""

PCM, OPUS, NONE = "pcm_s16le", "opus", "none"
"""Names of codecs. `NONE` ends the audio."""


class Audio(RequestStruct, frozen=True, kw_only=True, tag="audio"):
    """The begin of audio in ``codec``, or its end with the codec ``none``. Answered by ``audio``.

    ``rate`` is in samples per second, and of PCM only. ``t0`` is the time of the first sample.
    """

    codec: Annotated[Code, Meta(max_length=32)]
    rate: SampleRate = 16_000
    from_: Tags | None = field(name="from", default=None)
    t0: Seconds = 0.0


class AudioChunk(RequestStruct, frozen=True, kw_only=True, tag="chunk"):
    """A piece of the audio, like a binary frame of the sub-protocol JSON. It has no answer."""

    data: bytes


class AudioInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The audio that a socket may send.

    ``rates`` are the lowest and the highest rate of PCM. ``languages`` can be recognised and
    translated; it is empty if the recogniser does not name its languages. ``rate`` and ``burst``
    are seconds of audio, sustained in a second and at once. ``window`` is the number of seconds
    that may wait for recognition.
    """

    codecs: tuple[Code, ...]
    rates: tuple[int, ...]
    languages: tuple[Code, ...] = ()
    recogniser: Code
    rate: float
    burst: float
    window: float


class AudioState(EventStruct, frozen=True, kw_only=True, tag="audio"):
    """The state of this socket's audio: the answer to ``audio``, and a report of progress.

    The first ``seconds`` of the audio are settled: recognised for good, or without speech, or
    ``lost``. These are seconds of speech that were not recognised, because the recogniser was late
    by more than the audio that is kept, or failed twice.
    """

    codec: Code
    rate: int
    from_: Code = field(name="from")
    seconds: float
    lost: float = 0.0
    ref: Code | None = None


class HeardSpeech(EventStruct, frozen=True, kw_only=True, tag="heard"):
    """The newest text of an utterance that was recognised in this socket's audio.

    ``text`` is the whole text so far. ``t0`` and ``t1`` are times of its first and last word.
    """

    id: Code
    rev: int
    lang: Code
    text: Personal
    t0: float
    t1: float
    final: bool = False


LONGEST_S = 0.12
"""Seconds of the longest packet (RFC 6716, section 3.2.5)."""

FRAME_BYTES = 1_275
"""Bytes of the largest frame (RFC 6716, section 3.2.1). Its size takes up to two more."""

_FRAME_S = (0.01, 0.02, 0.04, 0.06) * 3 + (0.01, 0.02) * 2 + (0.0025, 0.005, 0.01, 0.02) * 4
"""Seconds of a frame by the upper five bits of the first byte: SILK, hybrid, CELT (table 2)."""


def packet_seconds(packet: bytes) -> float:
    """Return the time that a packet takes. Raises `ValueError` if it is none."""
    if not packet:
        raise ValueError("A packet of Opus is not empty.")
    frame, code = _FRAME_S[packet[0] >> 3], packet[0] & 3
    count = 1 if code == 0 else 2
    if code == 3:
        if len(packet) < 2:
            raise ValueError("The packet of Opus ends before its number of frames.")
        count = packet[1] & 63
    # A little more, since these numbers are not exact.
    if not 0 < count * frame < LONGEST_S + 0.001:
        raise ValueError(f"A packet of Opus cannot have {count} frames of {1000 * frame:g} ms.")
    # Padding may fill a packet up to this size: no encoder makes larger ones.
    if len(packet) > 2 + count * (2 + FRAME_BYTES):
        raise ValueError(
            f"A packet of Opus with {count} frames of {1000 * frame:g} ms cannot have "
            f"{len(packet)} bytes."
        )
    return count * frame
