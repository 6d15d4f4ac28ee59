"""Every limit of the core, finite and named, what a text counts against them, and the token bucket.

Owns: the numbers and why they are what they are. Must not know: who is limited.
"""

from __future__ import annotations

from sys import getsizeof

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one gateway process. Settings of the same names change them."""

    frame: int = 65_536
    """Bytes of one incoming frame; a larger one closes 1009. An utterance is a few hundred."""
    text: int = 2_000
    """Characters of one utterance: two minutes of speech."""
    inflight: int = 16
    """Utterances of one socket that have not ended."""
    targets: int = 16
    """Languages one socket may read."""
    rate: float = 50.0
    """Frames a second from one socket, sustained. Partials come three to ten a second. A frame
    counts once more for every 4,096 characters it has."""
    burst: int = 100
    """Frames at once, before ``rate`` holds."""
    bad_frames: int = 10
    """Unreadable frames in a row before the socket is closed with 4400."""
    outbox_bytes: int = 1_048_576
    """Memory of what waits for one slow reader, what the socket has taken but not sent included;
    more closes it with 4008. From a quarter on drafts are left out, from half of it all deltas."""
    outbox_s: float = 60.0
    """Seconds that what was decided may wait before the reader is closed with 4008."""
    log: int = 50_000
    """Durable events kept per room. Two hours of talk in twenty languages are 32,000."""
    log_bytes: int = 33_554_432
    """Memory of the durable events kept per room: some 40,000 of them."""
    memory_bytes: int = 268_435_456
    """Memory of the durable events of all rooms together. Beyond it the rooms that have been empty
    longest are given up, then the longest logs lose their beginning."""
    utterances: int = 1_000
    """Utterances a room remembers for ``get``, ``cancel`` and late revisions."""
    backfill: int = 20
    """Utterances that somebody who comes late is shown, and that are translated for him into a
    language that nobody has read before."""
    linger_s: float = 30.0
    """Seconds that a language is still translated into after its last reader left."""
    context: int = 2
    """Earlier utterances of the room that a model is told of, where its profile has a place."""
    context_s: float = 30.0
    """Seconds after which an utterance is no context any more."""
    presence_s: float = 1.0
    """Seconds between two ``presence`` events of a room, at least."""
    queue: int = 256
    """Jobs waiting for the engine, over all rooms; more answers ``busy``."""
    stretch: float = 2.0
    """Times its unloaded duration that a final may take before partials are left out and rooms
    refused. More serves more rooms, each later."""
    soon_s: float = 0.5
    """Seconds within which a final comes soon enough, however fast the engine could be."""
    job_s: float = 30.0
    """Seconds from submission to the end of one translation; then ``failed`` with ``timeout``."""
    address_sockets: int = 1_000
    """Open sockets of one address, and handshakes at once: a conference is one address. It may have
    as many connections that are no sockets."""
    address_rate: float = 100.0
    """Handshakes a second of one address, sustained."""
    address_failures: int = 100
    """Keys that are not valid within a minute, of one address; then none is looked at for the rest
    of that minute."""
    handshake_s: float = 10.0
    """Seconds that a connection has to send the whole head of a request."""
    sessions: int = 2_000
    """Open sockets; one more is closed with 4029."""
    rooms: int = 2_000
    """Rooms in memory; a new one beyond that is refused with 4029."""
    room_s: float = 7_200.0
    """Seconds a room stays after its last socket left."""
    resume_s: float = 7_200.0
    """Seconds that a token to resume with is good for."""
    grace_s: float = 10.0
    """Seconds that the captions of a speaker whose socket was lost are still made."""


def memory(text: str) -> int:
    """Return the memory of a text in bytes, with the UTF-8 that Python keeps beside it.

    Python caches the UTF-8 of a text that is not ASCII when it is encoded for the first time.
    `sys.getsizeof` counts that cache, so it returns more after the encoding than before. This
    function returns the same at any time.
    """
    if text.isascii():
        return _EMPTY + len(text)
    # A new string has no cache. Its last character stands for the byte that ends the cache.
    return getsizeof(text + " ") + len(text.encode())


_EMPTY = getsizeof("")


class TokenBucket:
    """``rate`` tokens a second, at most ``burst`` saved up."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float) -> float:
        """Take one token: 0 where there is one, else the seconds until there will be."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = max(self._at, now)  # time that comes twice is not paid twice
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate

    def spend(self, tokens: float) -> None:
        """Take so many at once; where there are fewer, of those to come."""
        self._tokens -= tokens
