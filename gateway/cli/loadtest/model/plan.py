"""What a load is made of: who comes, how often something is said, what is to be reached.

Owns: the parameters, who they make, goals. Must not know: clocks, sockets, how it went.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import msgspec

from gateway.cli.report.schedule import Arrivals
from gateway.protocol.messages import View

Wire = Literal["json", "msgpack"]
LEAST_PACE = 10.0
"""Words a minute; a sentence that takes an hour has ten thousand partials."""
MOST_RATE = 10_000.0
"""Utterances a second, more than any gateway takes. Those that grow are kept while they do."""
KINDS = ("ack", "first", "grown", "final", "cancel")
"""The times that are taken, each from the moment at which its cause was due:

ack     a text, until the gateway has taken it
first   an utterance said at once, until its first translated text
grown   one that grows, from its first partial text, until its first translated text
final   the end of an utterance, until its finished caption
cancel  a cancel, until ``cancelled``
"""
SHARES = (50, 95, 99)
"""Percentiles that a goal may be set for."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    url: str
    langs: tuple[str, ...]
    """Speakers read all, a reader one of them, in turn."""
    run: str = "0"
    """In the names of rooms, so that no two runs meet."""
    source: str = "en"
    rooms: int = 1
    speakers: int = 1
    """Of each room."""
    readers: int = 0
    """Of each room, beside its speakers."""
    slow: int = 0
    """Of the readers of each room: read `slow_bytes` a second and no more."""
    slow_bytes: int = 2_048
    rate: float = 1.0
    """Utterances a second, of all speakers together."""
    arrivals: Arrivals = "poisson"
    seconds: float = 30.0
    """Within which utterances begin."""
    warm: float = 2.0
    """Seconds at the beginning that are not counted."""
    drain: float = 15.0
    """Seconds after the last send within which captions may come."""
    partials: float = 0.5
    """Share of the utterances that grow while they are spoken."""
    cancel: float = 0.0
    """Share of the utterances that are cancelled."""
    pace: float = 150.0
    """Words a minute of who speaks."""
    words: tuple[int, int] | None = (2, 40)
    """Words of an utterance; None: each line of the text as it stands."""
    wire: Wire = "json"
    view: View = "live"
    processes: int = 1
    ramp: float = 80.0
    """Sockets a second that are opened, of all processes; a gateway takes 100 of one address."""
    late: float = 0.020
    """Seconds that one send in a hundred may be late by; beyond that the client is too slow."""
    seed: int = 0

    @property
    def sockets(self) -> int:
        """All that are opened."""
        return self.rooms * (self.speakers + self.readers)

    @property
    def span(self) -> float:
        """Seconds of a point in the charts."""
        return max(1.0, round(self.seconds / 100))

    def checked(self) -> Plan:
        """The plan itself. Raises `ValueError` with a sentence for what cannot be."""
        if self.slow > self.readers:
            raise ValueError(f"Of {self.readers} readers {self.slow} cannot be slow.")
        if self.rate > MOST_RATE:
            raise ValueError(
                f"{self.rate:g} utterances a second are more than the {MOST_RATE:,.0f} that can be"
                " made here: a smaller --rate."
            )
        if self.pace < LEAST_PACE:
            raise ValueError(
                f"Nobody speaks {self.pace:g} words a minute: --pace {LEAST_PACE:g} or more."
            )
        if self.processes > self.sockets:
            raise ValueError(
                f"Of {self.processes} client processes only {self.sockets} would have a socket:"
                " fewer --processes."
            )
        if self.warm >= self.seconds:
            raise ValueError(
                f"All {self.seconds:g} s would be the first {self.warm:g} s, which do not count:"
                " more --seconds, or a smaller --warm."
            )
        if int(self.seconds) <= math.ceil(self.warm):
            raise ValueError(
                f"Rates are those of whole seconds, and there is none from {self.warm:g} to"
                f" {self.seconds:g} s: more --seconds, or a smaller --warm."
            )
        if self.words is not None and not 1 <= self.words[0] <= self.words[1]:
            raise ValueError(f"No utterance has {self.words[0]} to {self.words[1]} words.")
        return self


class VirtualUser(msgspec.Struct, frozen=True):
    """One socket. ``speaker`` is its number among all speakers; None: it only reads."""

    number: int
    room: str
    langs: tuple[str, ...]
    speaker: int | None = None
    slow: bool = False


def virtual_users(plan: Plan) -> Iterator[VirtualUser]:
    """Everybody who comes, speakers first: those who read shall miss nothing that is said later."""
    rooms = [f"bench-{plan.run}-{number}" for number in range(plan.rooms)]
    number = 0
    for place in range(plan.speakers):
        for at, room in enumerate(rooms):
            yield VirtualUser(number, room, plan.langs, speaker=place * plan.rooms + at)
            number += 1
    for place in range(plan.readers):
        for room in rooms:
            lang = plan.langs[place % len(plan.langs)]
            yield VirtualUser(number, room, (lang,), slow=place >= plan.readers - plan.slow)
            number += 1


def assigned(plan: Plan, process: int) -> list[VirtualUser]:
    """Whom one of the client processes has: every so many-th."""
    return [user for user in virtual_users(plan) if user.number % plan.processes == process]


class Goal(msgspec.Struct, frozen=True):
    """``kind`` is one of `KINDS`, of which the percentile ``share`` is at most ``most`` ms; or
    ``errors``, of which the share among what was said is at most ``most``."""

    kind: str
    share: int
    most: float

    @property
    def name(self) -> str:
        """As its flag has it."""
        return self.kind if self.kind == "errors" else f"{self.kind}-p{self.share}"
