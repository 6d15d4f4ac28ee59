"""What one socket has yet to be sent.

Owns: order, merging and the bound of waiting frames. Must not know: sockets, rooms.

A prompt reader gets every frame. One that is late costs no more than `Limits.outbox_bytes` of
memory, and ends with the same text:

1. deltas of one (utterance, language) merge into one in the place of the newest, with the newest
   draft; of `presence` and `tick` only the newest waits;
2. beyond `LATE_BYTES` a terminal event drops the deltas it makes void;
3. from a quarter of the bound on drafts are dropped;
4. from half of it whole deltas, and all that follow of such a caption until its end, a snapshot or
   a ``reset``: its stable text would have a hole;
5. `lag` goes ahead of the next frames that are taken, at most one every `LAG_S`;
6. only what must not be lost closes the socket with 4008: over the bound, or older than
   `Limits.outbox_s`.

3 and 4 hold until the reader has caught up. Gauges: ``bytes`` that wait, as memory; ``merged``
frames saved; ``frames`` and ``sent`` bytes taken so far; `DeliveryCounters` over all sockets.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from sys import getsizeof
from typing import Protocol

from msgspec.structs import replace

from gateway.errors import CloseCode
from gateway.limits import Limits, memory
from gateway.protocol import frames as framing
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import (
    Cancelled,
    Delta,
    Failed,
    Final,
    Lag,
    Presence,
    Retracted,
    ServerMessage,
    Snapshot,
    Tick,
)

LATE_BYTES = 16_384
"""Bytes waiting from which on a reader counts as late: some forty deltas; less is coincidence."""
ENTRY_BYTES = 256
"""Memory of a waiting frame beside its bytes (``tests/core/test_outbox.py`` measures it)."""
DELTA_BYTES = 160
"""What a delta takes beside, so that a later one can be merged with it."""
HOLE_BYTES = 200
"""Memory of a caption that has a hole, beside its id. A reader who is slow and changes languages
for ever misses the ends of captions."""
LAG_S = 1.0
"""Seconds between two ``lag``."""

Frame = str | bytes
Post = Callable[[bytes], object]
"""Writes a frame with its head."""
Waiting = tuple[bytes | None, Delta | None, int, float]
"""The frame with its head, or None where a merged delta is encoded once it is taken; the delta;
memory; since."""


class ShedStage(enum.Enum):
    """What a reader is still sent of what can be lost."""

    ALL = "all"
    STABLE = "stable"  # no drafts
    DURABLE = "durable"  # no deltas


class DeliveryCounters:
    """What became of the frames of many sockets, since the start."""

    __slots__ = ("deltas", "drafts", "lags", "merged", "slow")

    def __init__(self) -> None:
        self.merged = 0
        """Deltas that went into a later one, or that an end made void."""
        self.drafts = 0
        self.deltas = 0
        """Dropped, as drafts are."""
        self.lags = 0
        """``lag`` events."""
        self.slow = 0
        """Sockets closed with 4008."""


class OutboxGroup(Protocol):
    """Outboxes that are written the same, see `gateway.core.fanout`."""

    frames: int
    sent: int

    def turn(self, outbox: Outbox, post: Post | None, /) -> None:
        """The outbox can be written to at once from now on, or cannot."""

    def leave(self, outbox: Outbox, /) -> None:
        """The outbox belongs to it no more."""


class Outbox:
    """A queue of encoded frames that never blocks the writer of events.

    ``wake`` is called when there is something to do after there was nothing. ``post``, where there
    is one, is given a frame before which nothing waits, with its head, and writes it at once:
    whoever sets it takes it away when the socket has no room any more. ``refill``, where it is set,
    is called when everything has been taken.
    """

    __slots__ = (
        "_circles",
        "_dropped",
        "_frames",
        "_held",
        "_holes",
        "_limits",
        "_lost",
        "_next",
        "_now",
        "_offer",
        "_post",
        "_queue",
        "_sent",
        "_shared",
        "_since",
        "_slots",
        "_stage",
        "_tally",
        "_told",
        "bytes",
        "closing",
        "codec",
        "merged",
        "reason",
        "refill",
        "wake",
    )

    def __init__(self, codec: Codec, limits: Limits, tally: DeliveryCounters | None = None) -> None:
        self.codec = codec
        self._limits = limits
        self._tally = tally if tally is not None else DeliveryCounters()
        self._queue: dict[int, Waiting] = {}
        self._slots: dict[tuple[str, str], int] = {}  # of what a newer frame takes the place of
        self._lost: set[tuple[str, str]] | frozenset[tuple[str, str]] = _NOTHING
        self._holes = 0  # bytes of them
        self._next = 0
        self._now = 0.0
        self._since: float | None = None  # the oldest that must not be lost
        self._stage = ShedStage.ALL
        self._dropped = 0
        self._told = -LAG_S
        self._offer: Post | None = None
        self._post: Post | None = None
        """What was offered, while a frame may go past the queue. It changes a few times in the life
        of a socket, and is asked for with every delta."""
        self._circles: tuple[OutboxGroup, ...] = ()
        self._shared: Post | None = None  # what the circles write with
        self._held = False
        self._frames = self._sent = 0
        self.bytes = 0
        self.merged = 0
        self.closing: CloseCode | None = None
        self.reason = ""
        self.wake: Callable[[], None] = _asleep
        self.refill: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def __repr__(self) -> str:
        state = "open" if self.closing is None else f"closing {self.closing:d}"
        return f"<Outbox {state}, {len(self._queue)} frames, {self.bytes} bytes>"

    @property
    def frames(self) -> int:
        """Frames that were taken or written so far."""
        return self._frames + (
            sum(one.frames for one in self._circles) if self._shared is not None else 0
        )

    @property
    def sent(self) -> int:
        """Bytes of them, without heads."""
        return self._sent + (
            sum(one.sent for one in self._circles) if self._shared is not None else 0
        )

    @property
    def post(self) -> Post | None:
        """See the class."""
        return self._offer

    @post.setter
    def post(self, post: Post | None) -> None:
        self._offer = post
        self._settle()

    @property
    def held(self) -> bool:
        """Whether its circles leave it alone: it is shown nothing that still changes."""
        return self._held

    @held.setter
    def held(self, held: bool) -> None:
        self._held = held
        self._settle()

    def enter(self, circle: OutboxGroup) -> None:
        """Be written to together with others."""
        self._circles += (circle,)
        self._join(circle)

    def leave(self, circle: OutboxGroup) -> None:
        """Be so no more."""
        if self._shared is not None:
            self._frames += circle.frames
            self._sent += circle.sent
        circle.leave(self)
        self._circles = tuple(one for one in self._circles if one is not circle)

    def push(self, envelope: Envelope, now: float) -> None:
        """Send an event, or queue it. After `close` nothing more is taken."""
        post = self._post
        if post is not None:
            wire = envelope.wire(self.codec)
            if wire is not None:
                size = len(wire)
                self._frames += 1
                self._sent += size - 2 if size < 128 else size - framing.offset(wire)
                post(wire)
            return
        if self.closing is not None:
            return
        wire = envelope.wire(self.codec)
        if wire is None:
            return
        idle = not self._queue
        self._now = now
        message = envelope.message
        if type(message) is Delta:
            self._grow(message, wire)
        elif isinstance(message, _STATES):
            key = ("", type(message).__name__)
            if key in self._slots:
                self._withdraw(key)
            self._put(wire, None, key)
        else:
            if (self._slots or self._lost) and isinstance(message, _ENDS):
                self._fence(message)
            if self._since is None:
                self._since = now
            self._put(wire, None)
        if 4 * self.bytes > self._limits.outbox_bytes:
            self._relieve()
        if self._overdue(now):
            self._tally.slow += 1
            self.discard()
            self.close(CloseCode.TOO_SLOW, "This socket does not read fast enough.")
        elif idle and self._queue:
            self.wake()

    def send(self, message: ServerMessage, now: float) -> None:
        """Queue a message for this socket alone."""
        self.push(Envelope(message), now)

    def fits(self, envelopes: Iterable[Envelope]) -> bool:
        """Whether so much can be queued at once, and half of the bound is left for what comes."""
        wires = (envelope.wire(self.codec) for envelope in envelopes)
        size = sum(_weight(wire) for wire in wires if wire is not None)
        return self.bytes + size <= self._limits.outbox_bytes // 2

    def take(self, most: int | None = None) -> list[Frame]:
        """What waits, in order: everything, or so much memory and the frame that exceeds it.

        What is taken counts no more: a writer that is handed everything could hold as much again.
        """
        return [framing.message(wire) for wire in self.wires(most)]

    def wires(self, most: int | None = None) -> list[bytes]:
        """The same with the heads, to be written as it is."""
        wires: list[bytes] = []
        if not self._queue:
            return wires
        if self._dropped and self._now - self._told >= LAG_S:
            wires += self._lag()
        taken = 0
        for waiting in self._queue.values():
            wire, delta, size, _ = waiting
            if wire is None:
                assert delta is not None, "only deltas are encoded late"
                wire = _shown(self.codec.wire(delta))
            wires.append(wire)
            taken += size
            if most is not None and taken >= most:
                break
        self._frames += len(wires)
        self._sent += sum(map(_size, wires))
        if taken < self.bytes:
            self._advance(taken)
            return wires
        self.discard()
        if self.refill is not None:
            self.refill()
        return wires

    def close(self, code: CloseCode, reason: str = "") -> None:
        """Close the socket once what waits has been sent. The first code stays."""
        if self.closing is None:
            self.closing = code
            self.reason = reason
            self._settle()
            self.wake()

    def detach(self) -> None:
        """Nobody writes any more."""
        self.wake, self.refill = _asleep, None
        self.post = None

    def discard(self) -> None:
        """Forget what waits: it was taken, or nobody will read it."""
        self._queue.clear()
        self._slots.clear()
        self._since = None
        self._stage = ShedStage.ALL
        self.bytes = 0
        self._settle()

    def _settle(self) -> None:
        """Whether frames may go past the queue: what waits, a hole, or a lag that is to be told go
        first. Between two calls of this the queue never fills while they may."""
        waits = self._queue or self._lost or self._dropped or self.closing is not None
        self._post = None if waits else self._offer
        shared = None if self._held else self._post
        if shared == self._shared:
            return
        if self._shared is not None:
            self._frames, self._sent = self.frames, self.sent
        self._shared = shared
        for circle in self._circles:
            self._join(circle)

    def _join(self, circle: OutboxGroup) -> None:
        """What the circle has sent before is not counted for this one."""
        circle.turn(self, self._shared)
        if self._shared is not None:
            self._frames -= circle.frames
            self._sent -= circle.sent

    def _grow(self, delta: Delta, wire: bytes | None) -> None:
        key = (delta.id, delta.lang)
        if self._stage is ShedStage.DURABLE or (key in self._lost and not delta.reset):
            self._lose(key)
            return
        self._find(key)
        if self._stage is ShedStage.STABLE and delta.draft:
            delta, wire = self._bare(delta), None
        if key in self._slots:
            older = self._withdraw(key)
            assert older is not None, "deltas and states have keys of their own"
            delta, wire = merge(older, delta), None
            self._save()
        self._put(wire, delta, key)

    def _put(
        self, wire: bytes | None, delta: Delta | None, key: tuple[str, str] | None = None
    ) -> None:
        if key is not None:
            self._slots[key] = self._next
        size = _weight(wire, delta)
        self._queue[self._next] = (wire, delta, size, self._now)
        self._next += 1
        self.bytes += size

    def _withdraw(self, key: tuple[str, str]) -> Delta | None:
        _, delta, size, _ = self._queue.pop(self._slots.pop(key))
        self.bytes -= size
        return delta

    def _save(self) -> None:
        self.merged += 1
        self._tally.merged += 1

    def _bare(self, delta: Delta) -> Delta:
        """The delta without its draft: what is shown of an older one goes, too."""
        self._dropped += 1
        self._tally.drafts += 1
        return replace(delta, draft="")

    def _lose(self, key: tuple[str, str]) -> None:
        """A delta is dropped: the caption has a hole from here on."""
        self._dropped += 1
        self._tally.deltas += 1
        if isinstance(self._lost, frozenset):
            self._lost = set()
        if key not in self._lost:
            self._lost.add(key)
            self._holes += HOLE_BYTES + memory(key[0])

    def _find(self, key: tuple[str, str]) -> None:
        """Its text is whole again."""
        if isinstance(self._lost, set) and key in self._lost:
            self._lost.discard(key)
            self._holes -= HOLE_BYTES + memory(key[0])
            self._lost = self._lost or _NOTHING

    def _fence(self, event: Final | Failed | Cancelled | Retracted | Snapshot) -> None:
        """Nothing merges across what tells the state; a late reader is spared what an end voids."""
        langs: set[str] | None = None
        if isinstance(event, Snapshot):
            langs = {line.lang for line in event.lines}
        elif not isinstance(event, Retracted) and event.lang is not None:
            langs = {event.lang}
        void = not isinstance(event, Snapshot) and self.bytes > LATE_BYTES
        for key in [key for key in self._slots if key[0] == event.id]:
            if isinstance(event, Snapshot):
                del self._slots[key]
            elif langs is None or key[1] in langs:
                if void:
                    self._withdraw(key)
                    self._save()
                else:
                    del self._slots[key]
        for key in [key for key in self._lost if key[0] == event.id]:
            if langs is None or key[1] in langs:
                self._find(key)

    def _relieve(self) -> None:
        """Drop what can be lost, as far as the bound asks for it."""
        limit = self._limits.outbox_bytes
        if self._stage is ShedStage.ALL and self.bytes > limit // 4:
            self._stage = ShedStage.STABLE
            for slot in self._slots.values():
                _, delta, size, at = self._queue[slot]
                if delta is not None and delta.draft:
                    delta = self._bare(delta)
                    self.bytes -= size
                    size = _weight(None, delta)
                    self.bytes += size
                    self._queue[slot] = (None, delta, size, at)
        if self._stage is not ShedStage.DURABLE and self.bytes > limit // 2:
            self._stage = ShedStage.DURABLE
            for key in [key for key, slot in self._slots.items() if self._queue[slot][1]]:
                self._withdraw(key)
                self._lose(key)

    def _overdue(self, now: float) -> bool:
        """Whether what must not be lost is too much or too old.

        An eighth of the bound is for what has been taken and lies before the socket.
        """
        limits = self._limits
        if self._since is not None and now - self._since > limits.outbox_s:
            return True
        return 8 * (self.bytes + self._holes) > 7 * limits.outbox_bytes

    def _lag(self) -> list[bytes]:
        oldest = next(iter(self._queue.values()))[3]
        lag = Lag(dropped=self._dropped, ms=round((self._now - oldest) * 1000))
        self._told = self._now
        self._dropped = 0
        self._tally.lags += 1
        wire = self.codec.wire(lag)
        return [] if wire is None else [wire]

    def _advance(self, taken: int) -> None:
        """The first ``taken`` bytes are gone; more waits."""
        self.bytes -= taken
        slots = iter(list(self._queue))
        while taken:
            last = next(slots)
            taken -= self._queue.pop(last)[2]
        self._slots = {key: slot for key, slot in self._slots.items() if slot > last}
        states = set(self._slots.values())
        self._since = next(
            (
                at
                for slot, (_, delta, _, at) in self._queue.items()
                if delta is None and slot not in states
            ),
            None,
        )


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


_STATES = (Presence, Tick)
"""Of these only the newest is worth anything."""
_ENDS = (Final, Failed, Cancelled, Retracted, Snapshot)
"""What tells how a caption stands, whatever came before."""
_NOTHING: frozenset[tuple[str, str]] = frozenset()


def _weight(wire: bytes | None, delta: Delta | None = None) -> int:
    """The memory of a waiting frame."""
    size = ENTRY_BYTES
    if wire is not None:
        size += getsizeof(wire)
    if delta is not None:
        size += DELTA_BYTES + sum(map(memory, (delta.id, delta.add, delta.draft or "")))
    return size


def _size(wire: bytes) -> int:
    """Bytes of a frame without its head."""
    return len(wire) - framing.offset(wire)


def _shown(wire: bytes | None) -> bytes:
    assert wire is not None, "a codec shows all deltas or none"
    return wire


def _asleep() -> None:
    """Nobody listens yet: the frames wait for the first `take`."""
