"""Audio of a client: the part that may be lost with the connection, and the pace of sending.

Owns: the pieces that are not heard for good yet, cutting PCM into frames, and when the next piece
of a recording may be sent, so that the gateway drops none. Must not know: sockets, clocks, codecs,
requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from gateway.protocol.audio import NONE, AudioInfo, AudioState, HeardSpeech, packet_seconds
from gateway.protocol.messages import ServerMessage, Source

PIECE_S = 0.1
"""Seconds of PCM in a frame. Longer frames delay the text, shorter ones cost more."""

RATE_SHARE = 0.75
BURST_SHARE = 0.25
"""Shares of the gateway's bounds that are used. The network may hold audio back and deliver it at
once; the rest is for that."""

WINDOW_SHARE = 0.9
"""Share of the gateway's window that may wait for recognition. Reports of what is settled come
some seconds late."""


class AudioBacklog:
    """The end of one speaker's audio. Times are in seconds from its first sample.

    :param seconds: returns the length of a piece
    :param t0: time of the first sample on the speaker's clock
    """

    def __init__(self, seconds: Callable[[bytes], float], t0: float) -> None:
        self.seconds = seconds
        self._t0 = t0
        self._pieces: deque[tuple[float, bytes]] = deque()  # with the time of its end
        self._start = 0.0  # of the first of them
        self._begun = 0.0  # where the audio of this socket has begun
        self._end = 0.0
        self._ids: set[str] = set()

    @property
    def clock(self) -> float:
        """The time of the speaker's clock at which the pieces begin."""
        return round(self._t0 + self._start, 6)

    def begin(self) -> list[bytes]:
        """Begin audio on another socket, and return the pieces to send again."""
        # The gateway counts seconds anew on each socket.
        self._begun = self._start
        self._ids.clear()
        return [piece for _, piece in self._pieces]

    def add(self, piece: bytes) -> None:
        """Keep a piece that is about to be sent."""
        self._end += self.seconds(piece)
        self._pieces.append((self._end, piece))

    def note(self, event: ServerMessage) -> None:
        """Forget the pieces of which an event says that they are heard for good."""
        match event:
            case AudioState() if event.codec != NONE:
                self._settle(self._begun + event.seconds)
            case HeardSpeech():
                self._ids.add(event.id)
                if event.final:
                    self._ids = {event.id}  # its `source` is next
            case Source(t1=float(t1)) if event.id.partition(".")[0] in self._ids:
                self._settle(t1 - self._t0)

    def _settle(self, position: float) -> None:
        while self._pieces and self._pieces[0][0] <= position + 1e-6:
            self._start = self._pieces.popleft()[0]


def opus_seconds(packet: bytes) -> float:
    """Return the length of a packet of Opus; 0 if it is none, and the gateway will say so."""
    try:
        return packet_seconds(packet)
    except ValueError:
        return 0.0


def pcm_seconds(rate: int) -> Callable[[bytes], float]:
    """Return a function that measures pieces of PCM with ``rate`` samples per second."""
    return lambda piece: len(piece) / 2 / rate


class PcmPieces:
    """A cutter of PCM into frames of whole samples."""

    def __init__(self, rate: int) -> None:
        self._size = max(1, round(rate * PIECE_S)) * 2
        self._half = b""  # a sample whose second byte is in the next piece

    def cut(self, audio: bytes) -> Iterator[bytes]:
        """Yield the audio in frames of at most `PIECE_S` seconds."""
        audio = self._half + audio
        whole = len(audio) // 2 * 2
        self._half = audio[whole:]
        for at in range(0, whole, self._size):
            yield audio[at : min(at + self._size, whole)]


class AudioPace:
    """The pace of one socket's audio. All times are in seconds.

    The rate is bounded by virtual scheduling (ITU-T I.371, annex A).

    :param info: the gateway's bounds, from ``welcome``
    :param now: time of any clock
    """

    def __init__(self, info: AudioInfo, now: float) -> None:
        self._rate = info.rate * RATE_SHARE
        self._slack = info.burst * BURST_SHARE / self._rate
        self._window = info.window * WINDOW_SHARE
        self._due = now
        self._sent = 0.0
        self._unsettled = 0.0

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
