"""The session of one virtual user: what it sends and reads, and what that counts for.

Owns: matching answers to requests, and latencies. Must not know: sockets, clocks, other users.
Times are passed in, in seconds since the beginning of the run.

A client must cost much less than the gateway that it measures. Frames are decoded to one small
struct with the few fields that matter, and of a caption nothing is kept but that it has begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from caption_tools.loadtest.model.plan import Plan, VirtualUser
from caption_tools.loadtest.model.script import Send, prefix, times
from caption_tools.loadtest.model.tally import LoadTally, second
from gateway.protocol.messages import Cancel, Say

BEGUN = 4_096
"""Captions remembered as begun. Beyond it the oldest is forgotten, since its end may have been
dropped and would never come.
"""
OPEN = 1_024
"""Answers and ends of captions that a speaker waits for. Beyond it the oldest counts as lost."""


K = TypeVar("K")
V = TypeVar("V")


class GatewayFrame(msgspec.Struct, gc=False):
    """A frame of the gateway, with the fields that matter here."""

    type: str = ""
    id: str = ""
    rev: int = 0
    lang: str | None = None
    code: str = ""
    seq: int | None = None
    reset: bool = False
    dropped: int = 0
    partials: str = ""
    msg: str = ""


class UserSession:
    """A virtual user in its room."""

    def __init__(self, plan: Plan, user: VirtualUser, tally: LoadTally) -> None:
        self.user = user
        self._tally = tally
        self._counts = tally.counts
        self._flows = tally.flows
        # Read for every frame, so without a look-up by name.
        self._bytes, self._deltas = self._flows["bytes"], self._flows["deltas"]
        self._warm = plan.warm
        wire = msgspec.msgpack if plan.wire == "msgpack" else msgspec.json
        self.decode: Callable[[bytes], GatewayFrame] = wire.Decoder(GatewayFrame).decode
        self._encode: Callable[[object], bytes] = wire.encode
        self._begun: dict[tuple[str, str | None], None] = {}
        self._mine = prefix(user.speaker)
        self._acks: dict[tuple[str, int], tuple[float | None, bool]] = {}
        self._cancels: dict[str, float] = {}
        self._said: dict[str, None] = {}
        """Utterances that have ended and were neither acknowledged nor refused so far."""
        self._owed: dict[str, int] = {}
        """Captions that are still to end, by utterance or segment, of all speakers."""

    @property
    def open(self) -> int:
        """Number of this speaker's captions that have not ended."""
        mine = (left for id, left in self._owed.items() if id.startswith(self._mine))
        return sum(mine) + len(self._said) * len(self.user.langs)

    @property
    def waits(self) -> bool:
        """True if any caption of an ended utterance, of any speaker, is still to come."""
        return bool(self._owed or self._said)

    # --- speaking -------------------------------------------------------------------------------

    def frame(self, send: Send, now: float) -> bytes:
        """Return the payload to send, and count it as sent."""
        counts = self._counts
        if not send.rev:
            counts["cancels"] += 1
            _keep(self._cancels, send.id, send.due)
            return self._encode(Cancel(id=send.id))
        if send.rev == 1:
            self._flows["said"][second(now)] += 1
        if send.final:
            counts["whole"] += 1
            _keep(self._said, send.id, None)
        _keep(self._acks, (send.id, send.rev), (send.due, send.final))
        return self._encode(Say(id=send.id, rev=send.rev, text=send.text, final=send.final))

    # --- reading --------------------------------------------------------------------------------

    def read(self, payload: bytes, now: float) -> None:
        """Handle a frame. Raises `msgspec.MsgspecError` if it is not of the protocol."""
        event = self.decode(payload)
        at, kind, counts = second(now), event.type, self._counts
        counts["frames"] += 1
        self._bytes[at] += len(payload)
        # The most frequent kinds come first: this runs for every frame of every socket.
        if kind == "delta":
            self._deltas[at] += 1
            if event.reset:
                counts["resets"] += 1
            if (event.id, event.lang) not in self._begun:
                self._first(event, now)
        elif kind == "final":
            self._flows["captions"][at] += 1
            self._ended(event, now)
        elif kind == "source":
            _keep(self._owed, event.id, len(self.user.langs))
        elif kind == "ack":
            due, last = self._acks.pop((event.id, event.rev), (None, False))
            if due is not None:
                self._tally.time("ack", due, now, self._warm)
            # Acknowledged: from now on `_owed` counts its captions, announced by ``source``.
            if last:
                self._said.pop(event.id, None)
        elif kind == "failed":
            counts["failed"] += 1
            self._tally.error(event.code, now)
            counts["missed"] += self._lost(event)
        elif kind == "cancelled":
            self._stopped(event, now)
        elif kind == "error":
            self._tally.error(event.code, now)
            # Other errors answer a partial, whose utterance goes on.
            if event.id in self._said:
                del self._said[event.id]
                counts["refused"] += 1
        elif kind == "lag":
            self._flows["lags"][at] += 1
            counts["dropped"] += event.dropped
        elif kind == "degraded":
            if event.partials == "off":
                self._flows["degraded"][at] += 1
            else:
                counts["restored"] += 1

    def _first(self, event: GatewayFrame, now: float) -> None:
        _keep(self._begun, (event.id, event.lang), None, BEGUN)
        when = times(event.id)
        if when is not None and "." not in event.id:  # a later part begins in the midst of it
            self._tally.time("grown" if when[1] > when[0] else "first", when[0], now, self._warm)

    def _ended(self, event: GatewayFrame, now: float) -> None:
        key = event.id, event.lang
        # A short caption comes without deltas; its final is then its first text.
        if key not in self._begun:
            self._first(event, now)
        self._begun.pop(key, None)
        self._less(event.id)
        when = times(event.id)
        # A segment may end before its utterance does, and then has no latency of its end.
        if when is not None and now >= when[1]:
            self._tally.time("final", when[1], now, self._warm)

    def _stopped(self, event: GatewayFrame, now: float) -> None:
        self._counts["cancelled"] += 1
        # One language alone was cancelled; the others go on.
        if event.lang is not None:
            self._lost(event)
            return
        whole = event.id.partition(".")[0]
        due = self._cancels.pop(whole, None)
        if due is not None:
            self._tally.time("cancel", due, now, self._warm)
        self._said.pop(whole, None)
        self._owed.pop(event.id, None)

    def _lost(self, event: GatewayFrame) -> bool:
        """Note a caption that ended without a text. Return whether it was this speaker's."""
        self._begun.pop((event.id, event.lang), None)
        return self._less(event.id) and event.id.startswith(self._mine)

    def _less(self, id: str) -> bool:
        """Note the end of a caption. Return whether it was waited for."""
        left = self._owed.get(id)
        # Unknown: it ended before, or its utterance was said before this user came.
        if left is None:
            return False
        if left > 1:
            self._owed[id] = left - 1
        else:
            del self._owed[id]
        return True


def _keep(kept: dict[K, V], key: K, value: V, most: int = OPEN) -> None:
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
