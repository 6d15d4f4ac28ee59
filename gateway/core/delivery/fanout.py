"""A group of sockets that are sent the same bytes.

Owns: which of them can be written to at once, and how much all of them were sent. Must not know:
why sockets are in one group, rooms, outboxes.

A thousand readers of one language are a thousand objects far apart in memory, and to visit each of
them costs more than everything else that is done for it. So a group keeps the functions that write
to its sockets in one place, and counts for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from gateway.protocol import frames
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Delta

WriteFrame = Callable[[bytes], object]
"""Writes a frame with its head to a socket at once."""
Encoder = Callable[[Delta], bytes | None]
"""Returns the frame of a delta with its head; None if the codec does not show deltas."""
QueueEvent = Callable[[Envelope, float], None]
"""Queues an event for a socket that cannot be written to at once; the time is in seconds."""


class FanoutGroup:
    """Sockets of one codec whose owners are shown the same, drafts too if ``live``, of a caption.

    :param tag: the language as these readers call it
    """

    __slots__ = ("_each", "_wire", "codec", "frames", "late", "live", "sent", "tag", "writers")

    def __init__(self, tag: str, live: bool, codec: Codec, encoder: Encoder) -> None:
        self.tag = tag
        self.live = live
        self.codec = codec
        self.writers: dict[Hashable, WriteFrame] = {}
        """Sockets that can be written to at once, by their owner."""
        self.late: dict[Hashable, QueueEvent] = {}
        """The other sockets."""
        self.frames = 0
        self.sent = 0
        """Frames and bytes that were sent to each of `writers` since the group began."""
        self._wire = encoder
        self._each: tuple[WriteFrame, ...] = ()  # `writers`, while they stay the same

    def __len__(self) -> int:
        return len(self.writers) + len(self.late)

    def set_writer(self, owner: Hashable, write: WriteFrame | None, queue: QueueEvent) -> None:
        """Add a socket to the group, or change how it is written to. While it cannot be written to
        at once, ``write`` is None and ``queue`` is called.
        """
        self._each = ()
        # A socket is in one of the two, or it would have each delta twice.
        if write is None:
            self.writers.pop(owner, None)
            self.late[owner] = queue
        else:
            self.late.pop(owner, None)
            self.writers[owner] = write

    def leave(self, owner: Hashable) -> None:
        """Remove a socket from the group."""
        self._each = ()
        self.writers.pop(owner, None)
        self.late.pop(owner, None)

    def _gather(self) -> tuple[WriteFrame, ...]:
        self._each = tuple(self.writers.values())
        return self._each

    def show(self, delta: Delta, now: float) -> None:
        """Send an ephemeral delta to every socket of the group."""
        wire = self._wire(delta)
        if wire is None:  # this codec does not show deltas
            return
        size = len(wire)
        self.frames += 1
        # The head of a short frame has two bytes (RFC 6455 section 5.2).
        self.sent += size - 2 if size < 128 else size - frames.offset(wire)
        # Taken before the writes: a socket that one of them fills has had this delta.
        late = list(self.late.values()) if self.late else None
        # The tuple is kept, because to build it costs a look at every socket.
        for write in self._each or self._gather():
            write(wire)
        if late is not None:
            envelope = Envelope(delta, self.codec, wire)
            for queue in late:
                queue(envelope, now)
