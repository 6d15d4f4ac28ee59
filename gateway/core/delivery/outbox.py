"""The frames that wait for one socket.

Owns: order, merging and the bound of waiting frames. Must not know: sockets, rooms.

A prompt reader is sent every frame. A late one takes no more than `Limits.outbox_bytes` of memory,
and ends with the same text:

1. Deltas of one (utterance, language) merge into one, with the newest draft, in the place of the
   newest. Of `presence` and `tick` only the newest waits.
2. Beyond `LATE_BYTES` a terminal event drops the deltas that it makes void.
3. Beyond a quarter of the bound drafts are dropped.
4. Beyond half of it whole deltas are dropped, and with them all later deltas of the caption until
   its end, a snapshot or a ``reset``: its stable text would have a hole.
5. `lag` goes ahead of the next frames that are taken, at most one every `LAG_S`.
6. Only durable events close the socket, with 4008: if they exceed the bound, or are older than
   `Limits.outbox_s`.

Rules 3 and 4 hold until the reader has caught up. Gauges: ``bytes`` of memory that wait; ``merged``
frames saved; `DeliveryCounters` over all sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from gateway.core.delivery.fanout import FanoutGroup, WriteFrame
from gateway.core.delivery.waiting_frames import DeliveryCounters, ShedStage, merge, weight
from gateway.errors import CloseCode
from gateway.limits import Limits, memory
from gateway.protocol import frames as framing
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import (
    Cancelled,
    Delta,
    Failed,
    Final,
    Retracted,
    ServerMessage,
    Snapshot,
)
from gateway.protocol.notices import Lag, Presence, Tick

LATE_BYTES = 16_384
"""Waiting bytes beyond which a reader counts as late: some forty deltas; less is coincidence."""
HOLE_BYTES = 200
"""Memory of a caption that has a hole, beside its id. It counts, because a slow reader that keeps
changing languages never sees the ends that would free it."""
LAG_S = 1.0
"""Seconds between two ``lag``."""

Frame = str | bytes
Waiting = tuple[bytes | None, Delta | None, int, float]
"""The frame with its head, or None if a merged delta is encoded when it is taken; the delta; its
memory in bytes; the time at which it was queued."""


class Outbox:
    """A queue of encoded frames that never blocks the writer of events.

    ``post``    if set, writes a frame with its head at once while nothing waits before it; None
                while the socket has no room
    ``wake``    called when there is something to do after there was nothing
    ``refill``  if set, called when everything has been taken
    """

    __slots__ = (
        *("_counters", "_dropped", "_frames", "_groups", "_held", "_hole_bytes", "_holes", "_next"),
        *("_lag_sent_at", "_limits", "_now", "_offer", "_post", "_queue", "_replaceable", "_sent"),
        *("_shared", "_since", "_stage", "bytes", "closing", "codec", "merged", "reason", "refill"),
        "wake",
    )

    def __init__(
        self, codec: Codec, limits: Limits, counters: DeliveryCounters | None = None
    ) -> None:
        self.codec = codec
        self._limits = limits
        self._counters = counters if counters is not None else DeliveryCounters()
        self._offer: WriteFrame | None = None
        self._post: WriteFrame | None = None
        """`post` while a frame may bypass the queue. It changes a few times in the life of an
        outbox, and is read with every delta."""
        self._groups: tuple[FanoutGroup, ...] = ()
        self._shared: WriteFrame | None = None  # the writer that the groups use
        self._held = False
        self._queue: dict[int, Waiting] = {}
        self._replaceable: dict[tuple[str, str], int] = {}  # of frames that a newer one replaces
        self._holes: set[tuple[str, str]] = set()
        self._since: float | None = None  # time of the oldest durable event
        self._stage = ShedStage.ALL
        self._lag_sent_at = -LAG_S
        self._now = 0.0
        self._frames = self._sent = self._next = self._dropped = self._hole_bytes = 0
        self.bytes = self.merged = 0
        self.closing: CloseCode | None = None
        self.reason = ""
        self.wake: Callable[[], None] = _ignore
        self.refill: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def __repr__(self) -> str:
        state = "open" if self.closing is None else f"closing {self.closing:d}"
        return f"<Outbox {state}, {len(self._queue)} frames, {self.bytes} bytes>"

    @property
    def frames(self) -> int:
        """Frames that were taken or written so far."""
        return self._frames + sum(group.frames for group in self._counting)

    @property
    def sent(self) -> int:
        """Bytes of these frames, without their heads."""
        return self._sent + sum(group.sent for group in self._counting)

    def push(self, envelope: Envelope, now: float) -> None:
        """Send an event, or queue it. After `close` nothing more is accepted."""
        post = self._post
        if post is not None:  # the usual case: nothing waits and the socket has room
            wire = envelope.wire(self.codec)
            if wire is not None:
                size = len(wire)
                self._frames += 1
                # The head of a short frame has two bytes (RFC 6455 section 5.2).
                self._sent += size - 2 if size < 128 else size - framing.offset(wire)
                post(wire)
            return
        # A frame behind a close would never be read.
        if self.closing is not None:
            return
        wire = envelope.wire(self.codec)
        if wire is None:  # this codec does not show such an event
            return
        idle = not self._queue
        self._now = now
        message = envelope.message
        if type(message) is Delta:
            self._queue_delta(message, wire)
        elif isinstance(message, _STATES):
            key = ("", type(message).__name__)
            if key in self._replaceable:
                self._withdraw(key)
            self._put(wire, None, key)
        else:
            if (self._replaceable or self._holes) and isinstance(message, _ENDS):
                self._end_merging(message)
            if self._since is None:
                self._since = now
            self._put(wire, None)
        # Below a quarter of the bound nothing is shed, so most frames need not look.
        if 4 * self.bytes > self._limits.outbox_bytes:
            self._shed()
        if self._overdue(now):
            self._counters.slow += 1
            # The close itself has to get through, so nothing waits before it.
            self.discard()
            self.close(CloseCode.TOO_SLOW, "This socket does not read fast enough.")
        elif idle and self._queue:  # a writer is awake while frames wait
            self.wake()

    def send(self, message: ServerMessage, now: float) -> None:
        """Send or queue a message for this socket alone."""
        self.push(Envelope(message), now)

    def fits(self, envelopes: Iterable[Envelope]) -> bool:
        """Tell whether events can be queued with half of the bound left for later ones."""
        wires = (envelope.wire(self.codec) for envelope in envelopes)
        size = sum(weight(wire) for wire in wires if wire is not None)
        return self.bytes + size <= self._limits.outbox_bytes // 2

    def push_newest(self, envelopes: list[Envelope], now: float) -> None:
        """Queue as many of some events as `fits` allows, in order. They are given newest first."""
        # By halves: each attempt encodes the events, which the next one need not do again.
        while envelopes and not self.fits(envelopes):
            envelopes = envelopes[: len(envelopes) // 2]
        for envelope in reversed(envelopes):
            self.push(envelope, now)

    def take(self, most: int | None = None) -> list[Frame]:
        """Remove frames as `wires` does, and return them without their heads."""
        return [framing.message(wire) for wire in self.wires(most)]

    def wires(self, most: int | None = None) -> list[bytes]:
        """Remove the frames that wait, in order, and return them.

        Frames that were taken count no more, so a writer should not take more than it can write.

        :param most: memory in bytes, which the last frame exceeds; None for everything
        """
        wires: list[bytes] = []
        if not self._queue:
            return wires
        # At the head, because it tells how old the frames are that follow.
        if self._dropped and self._now - self._lag_sent_at >= LAG_S:
            wires += self._lag()
        taken = 0
        for wire, delta, size, _ in self._queue.values():
            if wire is None:  # merged deltas are encoded once, however many were merged
                assert delta is not None, "only deltas are encoded late"
                wire = self.codec.wire(delta)
                assert wire is not None, "a codec shows all deltas or none"
            wires.append(wire)
            taken += size
            if most is not None and taken >= most:
                break
        self._frames += len(wires)
        self._sent += sum(len(wire) - framing.offset(wire) for wire in wires)
        if taken < self.bytes:
            self._remove(taken)
            return wires
        self.discard()
        if self.refill is not None:
            self.refill()
        return wires

    def close(self, code: CloseCode, reason: str = "") -> None:
        """Close the socket after the frames that wait. The first code stays."""
        if self.closing is None:
            self.closing = code
            self.reason = reason
            self._update_writer()
            self.wake()

    def detach(self) -> None:
        """Stop calling back: the socket is gone."""
        self.wake, self.refill = _ignore, None
        self.post = None

    def discard(self) -> None:
        """Forget the frames that wait: they were taken, or nobody will read them."""
        self._queue.clear()
        self._replaceable.clear()
        self._since = None
        self._stage = ShedStage.ALL
        self.bytes = 0
        self._update_writer()

    # --- writing past the queue -----------------------------------------------------------------

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

    @property
    def _counting(self) -> tuple[FanoutGroup, ...]:
        """The groups that count the frames written to this socket."""
        return () if self._shared is None else self._groups

    def _queue_shared(self, envelope: Envelope, now: float) -> None:
        """Queue a delta of a group, unless the member is behind."""
        if not self._held:
            self.push(envelope, now)

    def _update_writer(self) -> None:
        """Decide whether frames may bypass the queue.

        They may not while frames wait, a caption has a hole or a `lag` is due. Between two calls of
        this method the queue never fills while frames may bypass it.
        """
        waits = self._queue or self._holes or self._dropped or self.closing is not None
        self._post = None if waits else self._offer
        shared = None if self._held else self._post
        if shared == self._shared:  # most calls change nothing, and groups are many
            return
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

    # --- the queue --------------------------------------------------------------------------------

    def _queue_delta(self, delta: Delta, wire: bytes | None) -> None:
        key = (delta.id, delta.lang)
        # After a hole, later deltas of the caption would be shown behind the wrong text.
        if self._stage is ShedStage.DURABLE or (key in self._holes and not delta.reset):
            self._drop(key)
            return
        self._fill_hole(key)
        if self._stage is ShedStage.STABLE and delta.draft:
            delta, wire = self._drop_draft(delta), None
        if key in self._replaceable:
            older = self._withdraw(key)
            assert older is not None, "deltas and states have keys of their own"
            delta, wire = merge(older, delta), None
            self._count_merge()
        self._put(wire, delta, key)

    def _put(
        self, wire: bytes | None, delta: Delta | None, key: tuple[str, str] | None = None
    ) -> None:
        if key is not None:
            self._replaceable[key] = self._next
        size = weight(wire, delta)
        self._queue[self._next] = (wire, delta, size, self._now)
        self._next += 1
        self.bytes += size

    def _withdraw(self, key: tuple[str, str]) -> Delta | None:
        _, delta, size, _ = self._queue.pop(self._replaceable.pop(key))
        self.bytes -= size
        return delta

    def _count_merge(self) -> None:
        self.merged += 1
        self._counters.merged += 1

    def _drop_draft(self, delta: Delta) -> Delta:
        """Return the delta with an empty draft, which also removes an older draft."""
        self._dropped += 1
        self._counters.drafts += 1
        return replace(delta, draft="")

    def _drop(self, key: tuple[str, str]) -> None:
        """Drop a delta: its caption has a hole from here on."""
        self._dropped += 1
        self._counters.deltas += 1
        if key not in self._holes:
            self._holes.add(key)
            self._hole_bytes += HOLE_BYTES + memory(key[0])

    def _fill_hole(self, key: tuple[str, str]) -> None:
        """Note that the text of a caption is whole again."""
        if key in self._holes:
            self._holes.discard(key)
            self._hole_bytes -= HOLE_BYTES + memory(key[0])

    def _end_merging(self, event: Final | Failed | Cancelled | Retracted | Snapshot) -> None:
        """Merge no deltas across a terminal event, and drop the ones that it makes void."""
        lang = None if isinstance(event, Snapshot | Retracted) else event.lang
        # What came before a snapshot is still true.
        void = self.bytes > LATE_BYTES and not isinstance(event, Snapshot)
        for key in _keys(self._replaceable, event.id, lang):
            if void:
                self._withdraw(key)
                self._count_merge()
            else:
                del self._replaceable[key]
        langs = [line.lang for line in event.lines] if isinstance(event, Snapshot) else [lang]
        for whole in langs:
            for key in _keys(self._holes, event.id, whole):
                self._fill_hole(key)

    def _shed(self) -> None:
        """Drop ephemeral frames as far as the bound requires."""
        limit = self._limits.outbox_bytes
        if self._stage is ShedStage.ALL and self.bytes > limit // 4:
            self._stage = ShedStage.STABLE
            for number in self._replaceable.values():
                _, delta, size, at = self._queue[number]
                if delta is not None and delta.draft:
                    delta = self._drop_draft(delta)
                    self.bytes -= size
                    size = weight(None, delta)
                    self.bytes += size
                    self._queue[number] = (None, delta, size, at)
        if self._stage is not ShedStage.DURABLE and self.bytes > limit // 2:
            self._stage = ShedStage.DURABLE
            for key in [key for key, number in self._replaceable.items() if self._queue[number][1]]:
                self._withdraw(key)
                self._drop(key)

    def _overdue(self, now: float) -> bool:
        """Tell whether the durable events are too many or too old. An eighth of the bound is left
        for frames that were taken and are not yet written.
        """
        limits = self._limits
        if self._since is not None and now - self._since > limits.outbox_s:
            return True
        return 8 * (self.bytes + self._hole_bytes) > 7 * limits.outbox_bytes

    def _lag(self) -> list[bytes]:
        oldest = next(iter(self._queue.values()))[3]
        lag = Lag(dropped=self._dropped, ms=round((self._now - oldest) * 1000))
        self._lag_sent_at = self._now
        self._dropped = 0
        self._counters.lags += 1
        wire = self.codec.wire(lag)
        return [] if wire is None else [wire]

    def _remove(self, taken: int) -> None:
        self.bytes -= taken
        numbers = iter(list(self._queue))
        while taken:
            last = next(numbers)
            taken -= self._queue.pop(last)[2]
        self._replaceable = {
            key: number for key, number in self._replaceable.items() if number > last
        }
        states = set(self._replaceable.values())
        self._since = next(
            (
                at
                for number, (_, delta, _, at) in self._queue.items()
                if delta is None and number not in states
            ),
            None,
        )


_STATES = (Presence, Tick)
"""Events of which only the newest matters."""
_ENDS = (Final, Failed, Cancelled, Retracted, Snapshot)
"""Events that state a caption as it is, whatever came before."""


def _keys(keys: Iterable[tuple[str, str]], id: str, lang: str | None) -> list[tuple[str, str]]:
    """Return the keys of the captions of an utterance in a language, or in all with None."""
    return [key for key in keys if key[0] == id and lang in (None, key[1])]


def _ignore() -> None:
    """Do nothing: the frames wait for the first `take`."""
