"""Limits of the core, the memory that a text counts for, and the token bucket.

Owns: the numbers and their reasons. Must not know: the sockets, rooms and tenants they apply to.
"""

from __future__ import annotations

from sys import getsizeof

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one gateway process. Each with a docstring is a setting with the prefix ``limit_``,
    which the docstring documents. The others are constants, which only tests change.
    """

    frame: int = 65_536
    """Maximum size of one incoming frame, in bytes. A larger frame closes the socket with 1009. A
    normal utterance has a few hundred bytes."""
    text: int = 2_000
    """Maximum length of one utterance, in characters. The default is two minutes of speech."""
    inflight: int = 16
    """Maximum number of unfinished utterances of one socket. One more is refused with ``busy``."""
    targets: int = 16
    """Maximum number of languages that one socket may read."""
    rate: float = 50.0
    """Sustained rate of frames from one socket, in frames per second. Recognisers send three to ten
    partial texts per second. A frame counts once more for every 4,096 characters in it."""
    burst: int = 100
    """Number of frames that one socket may send at once before ``limit_rate`` applies."""
    audio_rate: float = 8.0
    """Sustained amount of audio from one socket, in seconds of audio per second. A microphone sends
    one; a recording may be sent faster."""
    audio_burst: float = 10.0
    """Seconds of audio that one socket may send at once before ``limit_audio_rate`` applies, such
    as after a pause of its network."""
    # Number of unreadable frames in a row after which a socket is closed with 4400.
    bad_frames: int = 10
    outbox_bytes: int = 1_048_576
    """Memory for output that waits for one slow reader, in bytes, including what its socket has
    accepted but not sent. From a quarter of it on drafts are dropped, from half of it on all
    deltas. Beyond it the socket is closed with 4008."""
    # Seconds that durable events may wait for a slow reader before its socket is closed with
    # 4008.
    outbox_s: float = 60.0
    log: int = 50_000
    """Number of durable events kept per room. Two hours of talk in twenty languages have 32,000."""
    # Memory for the durable events kept per room, in bytes. The default holds about 40,000.
    log_bytes: int = 33_554_432
    memory_bytes: int = 268_435_456
    """Memory for the durable events and the utterances of all rooms together, in bytes. Beyond it
    the gateway removes the rooms that have been empty longest, and then the oldest events of the
    longest logs. The interpreter, the models, the sockets and what waits for them come on top."""
    # Number of utterances that a room keeps for `get`, `cancel` and late revisions.
    utterances: int = 1_000
    backfill: int = 20
    """Number of recent utterances that are shown to a reader who joins late. If nobody has read the
    reader's language before, they are translated into it first."""
    # Seconds during which the gateway still translates into a language after its last reader
    # left. A reader who reconnects then misses nothing.
    linger_s: float = 30.0
    context: int = 2
    """Number of earlier utterances of the room that are given to the model as context, if the
    model's profile uses context."""
    # Seconds after which an utterance is no longer used as context.
    context_s: float = 30.0
    # Minimum number of seconds between two `presence` events of a room.
    presence_s: float = 1.0
    queue: int = 256
    """Maximum number of jobs that wait for the engine, over all rooms; of several engines, of those
    that wait for the same ones. Further utterances are refused with ``busy``."""
    stretch: float = 2.0
    """Factor by which a final caption may take longer than without load. Beyond it partial texts
    are no longer translated and new rooms are refused. A higher factor serves more rooms, each with
    more delay."""
    soon_s: float = 0.5
    """Seconds within which a final caption is always fast enough, whatever ``limit_stretch``
    says."""
    job_s: float = 30.0
    """Maximum seconds from the submission to the end of one translation. After that the caption
    fails with ``timeout``."""
    address_sockets: int = 1_000
    """Maximum number of open sockets, and of simultaneous handshakes, of one IP address. The
    default is high because a whole conference may share one address. The same number of other
    connections is allowed beside them."""
    address_rate: float = 100.0
    """Sustained rate of handshakes of one IP address, in handshakes per second."""
    address_failures: int = 100
    """Number of invalid keys within a minute from one IP address, after which no further key from
    it is checked until the minute is over."""
    # Seconds within which a connection has to send the complete head of its request.
    handshake_s: float = 10.0
    sessions: int = 2_000
    """Maximum number of open sockets. Further sockets are closed with 4029."""
    rooms: int = 2_000
    """Maximum number of rooms in memory. Further rooms are refused with 4029."""
    room_s: float = 7_200.0
    """Seconds for which a room is kept after its last socket left. The default is two hours."""
    # Seconds for which a resume token is valid. The default is two hours.
    resume_s: float = 7_200.0
    # Seconds during which the captions of a speaker who lost the connection are still finished.
    grace_s: float = 10.0


def memory(text: str) -> int:
    """Return the memory of a text in bytes, including the UTF-8 that Python caches for it.

    Python caches the UTF-8 of a text that is not ASCII when it is encoded for the first time.
    `sys.getsizeof` counts that cache, so it returns more after the encoding than before. This
    function always returns the same number.
    """
    # ASCII text is its own UTF-8, so Python caches nothing for it.
    if text.isascii():
        return _EMPTY + len(text)
    # A new string has no cache. The extra character accounts for the byte that ends the cache.
    return getsizeof(text + " ") + len(text.encode())


_EMPTY = getsizeof("")


class TokenBucket:
    """A token bucket: it gains ``rate`` tokens per second and holds at most ``burst``."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        """Create a full bucket at the time ``now``, in seconds of any clock."""
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float, tokens: float = 1.0) -> float:
        """Take ``tokens`` if there are as many and return 0, else return the seconds to wait."""
        self._refill(now)
        if self._tokens >= tokens:
            self._tokens -= tokens
            return 0.0
        return (tokens - self._tokens) / self._rate

    def spend(self, tokens: float) -> None:
        """Consume ``tokens``, going into debt if needed."""
        self._tokens -= tokens

    def used(self, now: float) -> float:
        """Return how many tokens the bucket lacks: more than it holds if it is in debt."""
        self._refill(now)
        return self._burst - self._tokens

    def _refill(self, now: float) -> None:
        # Tokens are added when they are asked for, so that a bucket needs no timer.
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        # A clock that goes back and forth must not add tokens twice for the same time.
        self._at = max(self._at, now)
