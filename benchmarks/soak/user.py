"""A user of a room who reconnects after any fault of the network.

Owns: one client's socket and its next, its unacknowledged utterances, and its times of retry. Must
not know: `gateway.client`, which it would have to trust; the faults of its network.

It speaks the protocol as any program would: from ``docs/reference/protocol/``. Events that it gets
go into its `benchmarks.soak.ledger.Reader`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import urlencode

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from benchmarks.soak.ledger import Event, Kind, Reader

BASE_S, CAP_S = 0.05, 2.0
"""Full jitter: the first wait is up to `BASE_S`, doubled each time up to `CAP_S`."""
PING_S = 5.0
"""Seconds between pings. After twice as long without an answer a wire counts as dead."""
OPEN_S = 10.0
"""Seconds for a handshake."""
KINDS = {
    **{"source": Kind.SAID, "final": Kind.END, "failed": Kind.END, "cancelled": Kind.END},
    **{"edited": Kind.OTHER, "retracted": Kind.OTHER, "settings": Kind.OTHER},
}
BENIGN = frozenset(("busy", "rate", "engine_unavailable", "stale"))
"""Errors that a user must expect: it was too fast, too many, or away for too long."""
FINAL = range(4400, 4500)
"""Close codes after which a client must not come again."""
SERVER_ERROR = 4000

log = logging.getLogger("benchmarks.soak")


class Frame(msgspec.Struct):
    """The fields of a message that a user reads."""

    type: str
    seq: int | None = None
    id: str = ""
    rev: int = 0
    lang: str | None = None
    text: str = ""
    code: str = ""
    fatal: bool = False
    retry_ms: int | None = None
    epoch: str = ""
    resume: str | None = None
    resumed: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(Frame).decode


@dataclass
class Tally:
    """Counts of all users."""

    opened: int = 0
    resumed: int = 0
    told: int = 0
    """Gaps that were told: ``resumed.ok`` was false."""
    afresh: int = 0
    """Sockets after the first that had no token to show."""
    said: int = 0
    void: int = 0
    """Utterances given up, because the gateway that had accepted them was killed."""
    events: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    closes: Counter[int] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    caught_up: list[float] = field(default_factory=list)
    """Seconds from the beginning of a new connection to the last event that was replayed."""
    final: list[float] = field(default_factory=list)
    """Seconds from the end of an utterance to its first caption, for its speaker."""


@dataclass(frozen=True)
class Saying:
    """The last text under one id.

    It may have to be said again: one that grows until it is acknowledged, a complete one until its
    caption has ended, since a gateway may be killed after its answer.
    """

    rev: int
    frame: bytes
    completed: float | None
    """Time at which it was said to its end."""


class VirtualUser:
    """A client of one room.

    :param places: ``ws://host:port`` of each gateway, or of the proxy before it; every connection
        goes to any of them
    """

    def __init__(
        self,
        reader: Reader,
        room: str,
        langs: Sequence[str],
        tally: Tally,
        chance: Random,
        places: Sequence[str],
        *,
        role: str = "view",
        view: str = "live",
    ) -> None:
        self.reader = reader
        self.tally = tally
        self.leaving = False
        self._query = {"room": room, "role": role, "from": "en", "to": ",".join(langs)}
        self._query |= {"view": view, "hb": "1"}  # a tick tells how far the room has come
        self._chance = chance
        self._places = places
        self._token: str | None = None
        self._visits = 0
        self._socket: ClientConnection | None = None
        self._unheard: dict[str, Saying] = {}
        self._ended_captions: set[tuple[str, str | None]] = set()
        self._attempts = 0  # to come back, however they ended
        self._moment: Callable[[], float] = asyncio.get_running_loop().time

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def unheard(self) -> int:
        """Return the number of utterances without acknowledgement or caption."""
        return len(self._unheard)

    async def stay(self) -> None:
        """Connect, and reconnect, until `leave`."""
        failures = 0
        while not self.leaving:
            begun = self._moment()
            try:
                await self._visit(begun)
            except (OSError, TimeoutError, WebSocketException) as exc:
                log.debug("%s: %s", self.reader.name, exc)
            finally:
                self._socket = None
            failures = 0 if self._moment() - begun > CAP_S else failures + 1
            if not self.leaving:
                most = min(CAP_S, BASE_S * 2 ** min(failures, 10))
                await asyncio.sleep(self._chance.uniform(0, most))

    async def leave(self) -> None:
        """Close the socket as a client should, and do not reconnect."""
        self.leaving = True
        if self._socket is not None:
            await self._socket.close()

    async def say(self, id: str, rev: int, text: str, *, final: bool) -> None:
        """Say a text now, or when there is a socket again, until it has arrived for good."""
        message = {"type": "say", "id": id, "rev": rev, "text": text, "final": final}
        frame = msgspec.json.encode(message)
        self._unheard[id] = Saying(rev, frame, self._moment() if final else None)
        self.tally.said += final
        await self._send(frame)

    async def _send(self, frame: bytes) -> None:
        if self._socket is not None:
            try:
                await self._socket.send(frame, text=True)
            except ConnectionClosed:
                pass  # it is said again on the next one

    async def _visit(self, begun: float) -> None:
        query = dict(self._query)
        cursor = self.reader.cursor
        if self._token is not None and cursor is not None:
            self._attempts += 1  # one that was given up may be read after a later one
            query |= {"resume": self._token, "attempt": str(self._attempts)}
            query |= {"epoch": cursor[0], "seq": str(cursor[1])}
        async with connect(
            f"{self._chance.choice(self._places)}/v1/ws?{urlencode(query)}",
            compression=None,
            max_size=None,
            open_timeout=OPEN_S,
            close_timeout=1,
            ping_interval=PING_S,
            ping_timeout=PING_S,
        ) as socket:
            try:
                await self._listen(socket, begun)
            except ConnectionClosed:
                pass
            finally:
                self._socket = None
                self._ended(socket)

    async def _listen(self, socket: ClientConnection, begun: float) -> None:
        left = -1
        async for data in socket:
            frame = _decode(data)
            if frame.type == "welcome":
                left = self._welcome(frame)
                if self.leaving:  # it was told to while it came
                    return
                self._socket = socket
                for saying in list(self._unheard.values()):
                    await self._send(saying.frame)
            else:
                self._take(frame)
                if frame.seq is not None and frame.type in KINDS:
                    left -= 1
            if left == 0:
                self.tally.caught_up.append(self._moment() - begun)
                left = -1

    def _welcome(self, frame: Frame) -> int:
        """Begin. Return how many events are replayed, or -1 if none were requested."""
        assert frame.seq is not None, "a welcome has a seq"
        self.tally.opened += 1
        self._visits += 1
        cursor = self.reader.cursor
        resumed = frame.resumed
        whole = resumed is not None and bool(resumed["ok"])
        if resumed is not None:
            self.tally.resumed += whole
            self.tally.told += not whole
        else:
            self.tally.afresh += self._visits > 1
        if cursor is not None and cursor[0] != frame.epoch:
            # Another history: what this one had not decided is void, and its ids may be new.
            self.tally.void += self.unheard
            self._unheard.clear()
        self._token = frame.resume
        self.reader.enter(frame.epoch, frame.seq, resumed=whole)
        return int(resumed["replayed"]) if whole and resumed is not None else -1

    def _take(self, frame: Frame) -> None:
        kind = KINDS.get(frame.type)
        if kind is not None and frame.seq is not None:
            self.tally.events += 1
            lang = None if kind is Kind.SAID else frame.lang
            self.reader.hear(Event(frame.seq, lang, kind, frame.id, frame.text))
            if kind is Kind.END:
                self._ended_captions.add((frame.id, frame.lang))
        if frame.type == "delta" and (frame.id, frame.lang) in self._ended_captions:
            self.tally.unexpected["text of a caption after its end"] += 1
        if frame.type == "error":
            self._refused(frame)
        elif frame.type == "tick" and frame.seq is not None:
            self.reader.settle(frame.seq)
        else:
            self._arrived(frame, kind)

    def _arrived(self, frame: Frame, kind: Kind | None) -> None:
        """Forget an utterance that need not be said again."""
        saying = self._unheard.get(frame.id)
        if saying is None:
            return
        if saying.completed is None:
            if frame.type == "ack" and frame.rev == saying.rev:
                del self._unheard[frame.id]
        elif kind is Kind.END:
            del self._unheard[frame.id]
            if frame.type == "final":
                self.tally.final.append(self._moment() - saying.completed)

    def _refused(self, frame: Frame) -> None:
        self.tally.errors[frame.code] += 1
        if frame.code not in BENIGN:
            self.tally.unexpected[f"error {frame.code}"] += 1
        saying = self._unheard.get(frame.id)
        if saying is None:
            return
        if frame.code in ("busy", "rate"):
            wait = (frame.retry_ms or 500) / 1000 * self._chance.uniform(1, 2)
            asyncio.get_running_loop().call_later(wait, self._repeat, frame.id, saying)
        else:
            del self._unheard[frame.id]
            self.tally.void += saying.completed is not None

    def _repeat(self, id: str, saying: Saying) -> None:
        if self._unheard.get(id) is saying and self._socket is not None:
            task = asyncio.ensure_future(self._send(saying.frame))
            task.add_done_callback(lambda task: task.exception())

    def _ended(self, socket: ClientConnection) -> None:
        code = socket.close_code
        if code is None:
            return
        self.tally.closes[code] += 1
        if code in FINAL or code in (1002, 1007, 1009, SERVER_ERROR):
            self.tally.unexpected[f"close {code}"] += 1
            self.leaving = self.leaving or code in FINAL
