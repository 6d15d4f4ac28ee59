"""The writing to a socket past its queue, for itself or together with a group.

Owns: when a frame may bypass the queue, and how much was written. Must not know: which frames wait
(`gateway.core.delivery.outbox`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from gateway.core.delivery.fanout import FanoutGroup, WriteFrame
from gateway.protocol.codec import Codec, Envelope


class DirectWriter(ABC):
    """The part of an outbox that writes at once while nothing waits.

    ``post``  if set, writes a frame with its head at once when nothing waits before it; it is to be
              set to None when the socket has no room any more
    """

    __slots__ = ("_frames", "_groups", "_held", "_offer", "_post", "_sent", "_shared", "codec")

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self._offer: WriteFrame | None = None
        self._post: WriteFrame | None = None
        """`post` while a frame may bypass the queue. It changes a few times in the life of an
        outbox, and is read with every delta."""
        self._groups: tuple[FanoutGroup, ...] = ()
        self._shared: WriteFrame | None = None  # the writer that the groups use
        self._held = False
        self._frames = self._sent = 0

    @property
    @abstractmethod
    def _waits(self) -> bool:
        """True while a frame waits, a caption has a hole, a `lag` is due or the socket closes."""

    @abstractmethod
    def push(self, envelope: Envelope, now: float) -> None:
        """Send an event, or queue it."""

    @property
    def frames(self) -> int:
        """Frames that were taken or written so far."""
        return self._frames + (
            sum(group.frames for group in self._groups) if self._shared is not None else 0
        )

    @property
    def sent(self) -> int:
        """Bytes of these frames, without their heads."""
        return self._sent + (
            sum(group.sent for group in self._groups) if self._shared is not None else 0
        )

    @property
    def post(self) -> WriteFrame | None:
        """Writer of the socket while it has room; see the class."""
        return self._offer

    @post.setter
    def post(self, post: WriteFrame | None) -> None:
        self._offer = post
        self._update_writer()

    def hold(self, held: bool) -> None:
        """Send no deltas of the groups while the member is behind (``held``)."""
        self._held = held
        self._update_writer()

    def enter(self, group: FanoutGroup) -> None:
        """Join a group of sockets that are sent the same deltas."""
        self._groups += (group,)
        self._join(group)

    def leave(self, group: FanoutGroup) -> None:
        """Leave a group."""
        # Frames of the group are counted by the group, until the outbox leaves it.
        if self._shared is not None:
            self._frames += group.frames
            self._sent += group.sent
        group.leave(self)
        self._groups = tuple(other for other in self._groups if other is not group)

    def _queue_shared(self, envelope: Envelope, now: float) -> None:
        """Queue a delta of a group, unless the member is behind."""
        if not self._held:
            self.push(envelope, now)

    def _update_writer(self) -> None:
        """Decide whether frames may bypass the queue.

        They may not while frames wait, a caption has a hole or a `lag` is due. Between two calls of
        this method the queue never fills while frames may bypass it.
        """
        self._post = None if self._waits else self._offer
        shared = None if self._held else self._post
        if shared == self._shared:  # most calls change nothing, and groups are many
            return
        if self._shared is not None:
            self._frames, self._sent = self.frames, self.sent
        self._shared = shared
        for group in self._groups:
            self._join(group)

    def _join(self, group: FanoutGroup) -> None:
        """Tell a group how to write, and do not count its earlier writes."""
        group.set_writer(self, self._shared, self._queue_shared)
        if self._shared is not None:
            self._frames -= group.frames
            self._sent -= group.sent
