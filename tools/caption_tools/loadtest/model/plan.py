"""The parameters of a load test: its users, its rates and its goals.

Owns: the parameters, the users made from them, goals. Must not know: clocks, sockets, results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import msgspec

from caption_tools.speech.text import Arrivals
from gateway.protocol.messages import View

Wire = Literal["json", "msgpack"]
LEAST_PACE = 10.0  # words a minute. A sentence that takes an hour would have ten thousand partials
MOST_RATE = 10_000.0
"""Utterances a second, more than any gateway takes. Growing utterances are held in memory until
they end.
"""
KINDS = {
    "ack": "from a text to its acknowledgement",
    "first": "from an utterance to its first text",
    "grown": "from the first partial of a growing utterance to its first text",
    "final": "from the end of an utterance to its finished caption",
    "cancel": "from a cancel to its answer",
}
"""Latencies that are measured, each from the moment at which its cause was due."""
SHARES = (50, 95, 99)  # percentiles for which a goal can be set


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one run."""

    url: str
    langs: tuple[str, ...]  # speakers read all of them; each reader reads one, in turn
    run: str = "0"  # part of the room names, so that two runs never share a room
    source: str = "en"
    rooms: int = 1
    speakers: int = 1  # speakers in each room
    readers: int = 0  # readers in each room, besides its speakers
    rate: float = 1.0  # utterances a second of all speakers together
    arrivals: Arrivals = "poisson"
    seconds: float = 30.0  # seconds within which utterances begin
    warm: float = 2.0  # seconds at the beginning that are not counted
    drain: float = 15.0  # seconds after the last send within which captions may come
    partials: float = 0.5  # share of the utterances that grow while they are spoken
    cancel: float = 0.0  # share of the utterances that are cancelled
    pace: float = 150.0  # words a minute of a speaker
    words: tuple[int, int] | None = (2, 40)
    """Least and most words of an utterance; None: each line of the text is one utterance."""
    wire: Wire = "json"
    view: View = "live"
    processes: int = 1
    ramp: float = 80.0
    """Sockets opened a second, in all processes; a gateway takes 100 from one address."""
    late: float = 0.020
    """Seconds by which one send in a hundred may be late. Beyond that the client is too slow and
    the run is invalid.
    """
    seed: int = 0

    @property
    def sockets(self) -> int:
        """Number of sockets in all rooms."""
        return self.rooms * (self.speakers + self.readers)

    @property
    def span(self) -> float:
        """Seconds of one point of the percentiles over time."""
        return max(1.0, round(self.seconds / 100))

    def checked(self) -> Plan:
        """Return the plan. Raises `ValueError` with a sentence for impossible values."""
        # Each check names the flags to change, since the plan comes from a command line.
        if self.rate > MOST_RATE:
            raise ValueError(
                f"--rate {self.rate:g} exceeds the {MOST_RATE:,.0f} utterances a second that this"
                " client can make."
            )
        if self.pace < LEAST_PACE:
            raise ValueError(
                f"--pace {self.pace:g} is too slow; the least is {LEAST_PACE:g} words a minute."
            )
        if self.processes > self.sockets:
            raise ValueError(
                f"--processes ({self.processes}) exceeds the number of sockets ({self.sockets})."
            )
        if self.warm >= self.seconds:
            raise ValueError(
                f"--warm ({self.warm:g} s) must be less than --seconds ({self.seconds:g} s), since"
                " nothing is counted during the warm-up."
            )
        if int(self.seconds) <= math.ceil(self.warm):
            raise ValueError(
                f"Rates need a whole second between --warm ({self.warm:g} s) and --seconds"
                f" ({self.seconds:g} s)."
            )
        if self.words is not None and not 1 <= self.words[0] <= self.words[1]:
            raise ValueError(f"--words {self.words[0]}-{self.words[1]} is not a range from 1 on.")
        return self


class VirtualUser(msgspec.Struct, frozen=True):
    """One user with a socket. ``speaker`` is its number among all speakers; None: it only reads."""

    room: str
    langs: tuple[str, ...]
    speaker: int | None = None


def virtual_users(plan: Plan) -> Iterator[VirtualUser]:
    """Yield all users, speakers first.

    Readers then miss nothing that is said after they have joined.
    """
    for number in range(plan.sockets):
        # Places go around the rooms, so that rooms fill evenly.
        place, at = divmod(number, plan.rooms)
        room = f"bench-{plan.run}-{at}"
        reader = place - plan.speakers
        if reader < 0:
            yield VirtualUser(room, plan.langs, speaker=number)
        else:
            lang = plan.langs[reader % len(plan.langs)]
            yield VirtualUser(room, (lang,))


def assigned(plan: Plan, process: int) -> list[VirtualUser]:
    """Return the users of one client process."""
    return list(virtual_users(plan))[process :: plan.processes]


class Goal(msgspec.Struct, frozen=True):
    """A bound on one result: ``kind`` is one of `KINDS`, and its percentile ``share`` must be at
    most ``most`` milliseconds; or ``kind`` is ``errors``, and their share among the captions must
    be at most ``most``.
    """

    kind: str
    share: int
    most: float

    @property
    def name(self) -> str:
        """Name of the goal, as in its flag."""
        return self.kind if self.kind == "errors" else f"{self.kind}-p{self.share}"
