"""Audio that was sent and may be lost with the connection.

Owns: the pieces after the position up to which everything is heard, and that position. Must not
know: sockets, clocks, requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from gateway.protocol.audio import NONE, AudioState, HeardSpeech
from gateway.protocol.messages import ServerMessage, Source
from gateway.protocol.opus import packet_seconds

PIECE_S = 0.1
"""Seconds of PCM in a frame. Longer frames delay the text, shorter ones cost more."""


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
    """A cutter of PCM into frames of whole samples.

    :param rate: samples per second
    """

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
