"""Readers who are sent the same bytes.

Owns: which of them can be written to at once, and how much they were all sent. Must not know: why
somebody belongs together, rooms, sockets.

A thousand readers of one language are a thousand objects that lie far apart in memory, and looking
at each of them costs more than all else that is done for it. So a circle keeps what their frames
are written with in one place, and counts for all of them.
"""

from __future__ import annotations

from gateway.core.outbox import Outbox, Post
from gateway.protocol import frames
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Delta


class FanoutGroup:
    """Outboxes of one codec. ``tag`` and ``live`` are what their owners see of a caption."""

    __slots__ = ("_each", "_wire", "codec", "frames", "late", "live", "posts", "sent", "tag")

    def __init__(self, tag: str, live: bool, codec: Codec) -> None:
        self.tag = tag
        self.live = live
        self.codec = codec
        self.posts: dict[Outbox, Post] = {}
        """Of those that can be written to at once."""
        self.late: dict[Outbox, None] = {}
        """The others."""
        self.frames = 0
        self.sent = 0
        """Frames and bytes that went to each of `posts` since the beginning."""
        self._wire = codec.encoder
        self._each: tuple[Post, ...] = ()  # `posts`, while they stay the same

    def __repr__(self) -> str:
        return f"<Circle {self.tag} {self.codec.value}, {len(self.posts)}, {len(self.late)} late>"

    def __len__(self) -> int:
        return len(self.posts) + len(self.late)

    def turn(self, outbox: Outbox, post: Post | None) -> None:
        """The outbox can be written to at once from now on, or cannot."""
        self._each = ()
        if post is None:
            self.posts.pop(outbox, None)
            self.late[outbox] = None
        else:
            self.late.pop(outbox, None)
            self.posts[outbox] = post

    def leave(self, outbox: Outbox) -> None:
        self._each = ()
        self.posts.pop(outbox, None)
        self.late.pop(outbox, None)

    def _gather(self) -> tuple[Post, ...]:
        self._each = tuple(self.posts.values())
        return self._each

    def show(self, delta: Delta, now: float) -> None:
        """Send an ephemeral delta to all of them, but those that are told what they missed."""
        wire = self._wire(delta)
        if wire is None:
            return
        size = len(wire)
        self.frames += 1
        self.sent += size - 2 if size < 128 else size - frames.offset(wire)
        late = list(self.late) if self.late else None
        # A write can fill its socket, and whoever is late from then on has had this one.
        for post in self._each or self._gather():
            post(wire)
        if late is not None:
            envelope = Envelope(delta)
            for outbox in late:
                if not outbox.held:
                    outbox.push(envelope, now)
