"""What one socket has yet to be sent.

Owns: order, merging and the bound of waiting frames. Must not know: sockets, rooms.

Bound: `Limits.outbox_bytes` and `Limits.outbox_s`. Policy when the reader is late: deltas of one
(utterance, language) merge into one in the place of the newest; beyond `LATE_BYTES` a terminal
event drops the deltas it makes void; what is left over the bound closes the socket with 4008.
Gauges: ``bytes`` waiting, ``merged`` frames saved, ``frames`` and ``sent`` bytes taken so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.codec import Codec, Envelope
from gateway.errors import CloseCode
from gateway.limits import Limits
from gateway.messages import Cancelled, Delta, Failed, Final, ServerMessage, Snapshot

LATE_BYTES = 4_096
"""Bytes waiting from which on a reader counts as late: some forty deltas; less is coincidence."""


class Outbox:
    """A queue of encoded frames that never blocks the writer of events.

    ``wake`` is called when there is something to do after there was nothing. ``post``, where there
    is one, is offered a frame before which nothing waits: it writes it at once and returns the
    bytes, or 0 where the socket has no room.
    """

    __slots__ = (
        "_codec",
        "_deltas",
        "_limits",
        "_next",
        "_queue",
        "_since",
        "bytes",
        "closing",
        "frames",
        "merged",
        "post",
        "reason",
        "sent",
        "wake",
    )

    def __init__(self, codec: Codec, limits: Limits) -> None:
        self._codec = codec
        self._limits = limits
        self._queue: dict[int, tuple[Envelope, str | bytes]] = {}
        self._deltas: dict[tuple[str, str], int] = {}
        self._next = 0
        self._since = 0.0
        self.bytes = 0
        self.merged = 0
        self.frames = 0
        self.sent = 0
        self.closing: CloseCode | None = None
        self.reason = ""
        self.wake: Callable[[], None] = _asleep
        self.post: Callable[[str | bytes], int] | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def __repr__(self) -> str:
        state = "open" if self.closing is None else f"closing {self.closing:d}"
        return f"<Outbox {state}, {len(self._queue)} frames, {self.bytes} bytes>"

    def push(self, envelope: Envelope, now: float) -> None:
        """Queue an event. After `close` nothing more is taken."""
        frame = envelope.frame(self._codec)
        if self.closing is not None or frame is None:
            return
        idle = not self._queue
        if idle:
            if self.post is not None and (sent := self.post(frame)):
                self.frames += 1
                self.sent += sent
                return
            self._since = now
        message = envelope.message
        if type(message) is Delta:
            key = _key(message)
            if key in self._deltas:
                envelope = Envelope(merge(self._withdraw(self._deltas[key]), message))
                frame = envelope.frame(self._codec)
                assert frame is not None, "a codec shows all deltas or none"
            self._deltas[key] = self._next
        elif self._deltas and isinstance(message, Final | Failed | Cancelled | Snapshot):
            self._fence(message)
        self._queue[self._next] = (envelope, frame)
        self._next += 1
        self.bytes += _size(frame)
        if self.bytes > self._limits.outbox_bytes or now - self._since > self._limits.outbox_s:
            self.discard()
            self.close(CloseCode.TOO_SLOW, "This socket does not read fast enough.")
        elif idle:
            self.wake()

    def send(self, message: ServerMessage, now: float) -> None:
        """Queue a message for this socket alone."""
        self.push(Envelope(message), now)

    def fits(self, envelopes: Iterable[Envelope]) -> bool:
        """Whether so much can be queued at once, and half of the bound is left for what comes."""
        frames = (envelope.frame(self._codec) for envelope in envelopes)
        size = sum(_size(frame) for frame in frames if frame is not None)
        return self.bytes + size <= self._limits.outbox_bytes // 2

    def take(self, most: int | None = None) -> list[str | bytes]:
        """What waits, in order: everything, or so many bytes and the frame that exceeds them."""
        before = self.bytes
        if most is None or before <= most:
            frames = [frame for _, frame in self._queue.values()]
            self.discard()
        else:
            frames = []
            while before - self.bytes < most:
                slot = next(iter(self._queue))
                envelope, frame = self._queue.pop(slot)
                message = envelope.message
                if type(message) is Delta and self._deltas.get(key := _key(message)) == slot:
                    del self._deltas[key]
                self.bytes -= _size(frame)
                frames.append(frame)
        self.frames += len(frames)
        self.sent += before - self.bytes
        return frames

    def close(self, code: CloseCode, reason: str = "") -> None:
        """Close the socket once what waits has been sent. The first code stays."""
        if self.closing is None:
            self.closing = code
            self.reason = reason
            self.wake()

    def detach(self) -> None:
        """Nobody writes any more."""
        self.wake, self.post = _asleep, None

    def discard(self) -> None:
        """Forget what waits: it was taken, or nobody will read it."""
        self._queue.clear()
        self._deltas.clear()
        self.bytes = 0

    def _withdraw(self, slot: int) -> Delta:
        envelope, frame = self._queue.pop(slot)
        assert type(envelope.message) is Delta
        self.bytes -= _size(frame)
        self.merged += 1
        return envelope.message

    def _fence(self, event: Final | Failed | Cancelled | Snapshot) -> None:
        """Nothing merges across what tells the state; a late reader is spared what an end voids."""
        lang = None if isinstance(event, Snapshot) else event.lang
        void = not isinstance(event, Snapshot) and self.bytes > LATE_BYTES
        for key in [key for key in self._deltas if key[0] == event.id and lang in (None, key[1])]:
            slot = self._deltas.pop(key)
            if void:
                self._withdraw(slot)


def merge(older: Delta, newer: Delta) -> Delta:
    """The one delta that does what both did, in order."""
    return Delta(
        id=newer.id,
        rev=newer.rev,
        lang=newer.lang,
        add=newer.add if newer.reset else older.add + newer.add,
        draft=older.draft if newer.draft is None else newer.draft,
        reset=older.reset or newer.reset,
        n=newer.n,
    )


def _key(delta: Delta) -> tuple[str, str]:
    return delta.id, delta.lang


def _size(frame: str | bytes) -> int:
    if isinstance(frame, bytes) or frame.isascii():
        return len(frame)
    return len(frame.encode())


def _asleep() -> None:
    """Nobody listens yet: the frames wait for the first `take`."""
