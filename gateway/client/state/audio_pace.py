"""The pace at which audio is sent that is there all at once, such as a file.

Owns: when the next piece may be sent, so that the gateway drops none. Must not know: sockets,
clocks, codecs.
"""

from __future__ import annotations

from gateway.protocol.audio import AudioInfo

RATE_SHARE = 0.75
BURST_SHARE = 0.25
"""Shares of the gateway's bounds that are used. The network may hold audio back and deliver it at
once; the rest is for that."""

WINDOW_SHARE = 0.9
"""Share of the gateway's window that may wait for recognition. Reports of what is settled come
some seconds late."""


class AudioPace:
    """The pace of one socket's audio. All times are in seconds.

    The rate is bounded by virtual scheduling (ITU-T I.371, annex A).

    :param info: the gateway's bounds, from ``welcome``
    :param now: time of any clock
    """

    __slots__ = ("_due", "_rate", "_slack", "_unsettled", "_window", "_sent")

    def __init__(self, info: AudioInfo, now: float) -> None:
        self._rate = info.rate * RATE_SHARE
        self._slack = info.burst * BURST_SHARE / self._rate
        self._window = info.window * WINDOW_SHARE
        self._due = now
        self._sent = 0.0
        self._unsettled = 0.0

    def begin(self) -> None:
        """Note that new audio begins. What came before it is ended and no longer counts."""
        self._sent = self._unsettled = 0.0

    def dropped(self) -> None:
        """Note that the gateway has dropped audio, nobody knows how much: it is never settled."""
        self._sent -= self._unsettled
        self._unsettled = 0.0

    def sent(self, seconds: float, now: float) -> None:
        """Note that a piece of audio of this length was sent."""
        self._due = max(self._due, now) + seconds / self._rate
        self._sent += seconds
        self._unsettled += seconds

    def settled(self, seconds: float) -> None:
        """Note how much of the audio since its begin is recognised for good or silent."""
        self._unsettled = max(0.0, self._sent - seconds)

    @property
    def full(self) -> bool:
        """True while the next piece has to wait for `settled`."""
        return self._unsettled > self._window

    def wait(self, now: float) -> float:
        """Return the seconds until the next piece may be sent, if the window is not `full`."""
        return max(0.0, self._due - self._slack - now)
