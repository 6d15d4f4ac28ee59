"""The length of a packet of Opus, which its first bytes tell (RFC 6716, section 3).

Owns: reading these bytes, and how large a packet of that length may be. Must not know: how audio is
decoded, what becomes of a broken packet.
"""

from __future__ import annotations

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
