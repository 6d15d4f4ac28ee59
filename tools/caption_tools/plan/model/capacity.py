"""The formulas: engines, gateway processes, Redis, network and waits for a load.

Owns: the formulas, their constants, and the sentences that explain them. Must not know: files, how
figures were measured.

Waits are those of a queue with several servers and two priorities (M/M/c, Erlang's formula C):
Kleinrock, "Queueing Systems", volume 2, 1976. The jobs of one text into several languages come
together, which this queue does not know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from caption_tools.plan.model.figures import (
    TOKENS_A_WORD,
    CoreFigures,
    EngineFigures,
    EngineShare,
    RedisFigures,
)
from caption_tools.plan.model.load import CaptionWork, MeetingLoad
from gateway.core.scheduling.output_batching import BUSY as CORE_SHARE

ENGINE_SHARE = 0.7
"""Share of an engine's most jobs a second that is planned for. Waits grow steeply above it, and the
others can take over the load when one engine of four is away."""

SOCKETS = 10_000  # sockets of a process at most: with more nothing was measured (`benchmarks.idle`)
SOCKET_BYTES = 31_100  # memory of a socket after traffic (`benchmarks.idle`)
DELTAS = {True: 0.5, False: 0.98}
"""Deltas for each token, of growing texts and of finals only. Of a growing text the last words are
not shown, and words that are made again are not sent again."""


class CapacityRow(msgspec.Struct, frozen=True):
    """One figure of a plan. ``how`` is its formula, with the numbers."""

    name: str
    value: float
    unit: str
    how: str


class CapacityPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan for a load."""

    rows: tuple[CapacityRow, ...]
    limits: tuple[str, ...]  # sentences on what the load comes close to

    def __getitem__(self, name: str) -> float:
        return next(row.value for row in self.rows if row.name == name)


class EngineQueue(msgspec.Struct, frozen=True, kw_only=True):
    """The queue of one engine. Times are in seconds."""

    running: float  # jobs that it has, on average
    slots: int  # jobs that it takes at once
    share: float  # share of its work that is finals
    service: float  # of a job, beside the others

    @property
    def waiting(self) -> float:
        """Chance that a job finds all slots taken (Erlang C)."""
        if self.running >= self.slots:
            return 1.0
        blocked = 1.0
        for slot in range(1, self.slots + 1):
            blocked = self.running * blocked / (slot + self.running * blocked)
        return blocked / (1 - (1 - blocked) * self.running / self.slots)

    def wait(self, quantile: float, *, final: bool) -> float:
        """Return the time that a share ``quantile`` (0 to 1) of the jobs does not exceed.

        :param final: whether the job is a final, before which only other finals run
        """
        use, finals = self.running / self.slots, self.share * self.running / self.slots
        left = 1 - finals if final else (1 - finals) * (1 - use)
        if left <= 0:
            return math.inf
        chance = self.waiting / (1 - quantile)
        return max(0.0, math.log(chance)) * self.service / self.slots / left if chance else 0.0


def queue_of(engine: EngineFigures, jobs: float, tokens: float, share: float) -> EngineQueue:
    """Return the queue of one engine.

    :param jobs: jobs that it gets a second
    :param tokens: tokens of a job, on average
    :param share: share of the work that is finals
    """
    running, alone = 0.0, engine.alone(tokens)
    # More jobs make each slower, which makes them more: a few rounds find where that ends.
    for _ in range(200):
        running = jobs * alone * engine.slower(running)
    return EngineQueue(
        running=running, slots=engine.slots, share=share, service=alone * engine.slower(running)
    )


AddRow = Callable[[str, float, str, str], float]
"""A function that adds a `CapacityRow`, and returns its value."""


def capacity(
    load: MeetingLoad,
    work: CaptionWork,
    shares: Sequence[EngineShare],
    core: CoreFigures,
    redis: RedisFigures,
) -> CapacityPlan:
    """Return the plan.

    :param shares: engines that together make all languages of the load

    Raises `ValueError` if one room is too much for the core that owns it.
    """
    rows: list[CapacityRow] = []
    limits: list[str] = []

    def row(name: str, value: float, unit: str, how: str) -> float:
        rows.append(CapacityRow(name, value, unit, how))
        return value

    said = load.meetings * load.talk * load.pace / 60 / work.words / work.parts
    how = (
        f"{load.meetings:,} meetings x {load.talk:g} of the time x {load.pace:g} words a minute /"
        f" {work.words * work.parts:.0f} words"
    )
    row("utterances", said, "a second", how)
    how = f"{rough(said)} utterances x {work.parts:.1f} parts x {load.languages} languages"
    captions = row("captions", said * work.parts * load.languages, "a second", how)
    how = (
        f"{rough(captions)} captions x (1 final + {work.partials:.1f} translations of growing text)"
    )
    jobs = row("jobs", captions * (1 + work.partials), "a second", how)
    how = f"{rough(captions)} captions x {work.made:.0f} words made for each x {TOKENS_A_WORD}"
    tokens = row("tokens", captions * work.made * TOKENS_A_WORD, "a second", how)

    # --- engines
    each = tokens / jobs
    queues = []
    for share in shares:
        part = share.languages / load.languages
        engines = _engines(row, share, work, captions * part, jobs * part, each)
        queues.append((share, jobs * part / engines))

    # --- gateways
    deltas = DELTAS[load.growing]
    originals = said * work.parts
    durable = captions + originals
    how = (
        f"{rough(tokens)} tokens x {deltas} deltas + {rough(captions)} finals +"
        f" {rough(originals)} originals"
    )
    events = row("events", tokens * deltas + durable, "a second", how)
    sockets = load.meetings * (load.speakers + load.readers)
    row("sockets", sockets, "", f"{load.meetings:,} x ({load.speakers} + {load.readers:,})")
    # Events of all rooms that a reader of one language reads.
    read = (tokens * deltas + captions) / load.languages + originals
    how = (
        f"{load.readers:,} readers x {rough(read)} + {load.speakers} speakers, who read all"
        f" languages, x {rough(events)}"
    )
    frames = row("frames", load.readers * read + load.speakers * events, "a second", how)
    per_room = core.event_us * events / load.meetings / 1e6
    per_reader = core.frame_us * read / load.meetings / 1e6
    if per_room >= CORE_SHARE:
        raise ValueError(
            "One room is more than the core that owns it can take. It cannot be divided."
        )
    readers = max(1, min(SOCKETS, math.floor((CORE_SHARE - per_room) / per_reader)))
    how = (
        f"{load.readers:,} readers / {readers:,}, which is the least of {SOCKETS:,} sockets and"
        f" what {CORE_SHARE} of a core can write to"
    )
    spread = row("processes of a room", max(1, math.ceil(load.readers / readers)), "", how)
    last = core.frame_us * (load.readers / spread / load.languages + load.speakers) / 1000
    how = f"{core.frame_us:.1f} us x the sockets of a process that read one language of a room"
    row("last reader", last, "ms later than the first", how)
    how = (
        f"{core.event_us:.0f} us x {rough(events)} events x {spread:.0f} processes that a room is"
        f" spread over + {core.frame_us:.1f} us x {rough(frames)} frames"
    )
    used = (core.event_us * events * spread + core.frame_us * frames) / 1e6
    row("cores in use", used, "", how)
    how = (
        f"the largest of {rough(used)} / {CORE_SHARE} (above it text waits for text),"
        f" {sockets:,} sockets / {SOCKETS:,}, and {spread:.0f} for one room"
    )
    needed = max(math.ceil(used / CORE_SHARE), math.ceil(sockets / SOCKETS), spread)
    processes = row("processes", needed, "of a core each", how)
    row("memory", sockets * SOCKET_BYTES / 1e9, "GB", f"{sockets:,} sockets x {SOCKET_BYTES:,} B")
    how = f"{rough(frames)} frames x {core.frame_bytes:.0f} B, without headers and TLS"
    network = row("network", 8 * core.frame_bytes * frames / 1e6, "Mbit/s", how)
    row("network of a process", network / processes, "Mbit/s", f"{rough(network)} / processes")
    limits.append(
        f"The process that owns a room encodes each of its events once, with {per_room:.2%} of a"
        f" core, and a process writes to {readers:,} readers of it at most."
    )

    # --- Redis
    if processes > 1:
        how = (
            f"{redis.publish_us:g} us x {rough(events)} PUBLISH + {redis.append_us:g} us x"
            f" {rough(durable)} durable + {redis.delivery_us:g} us x {rough(events * spread)} sent"
            " to processes; at most, since a PUBLISH among many in one write costs a tenth"
        )
        us = redis.publish_us * events + redis.append_us * durable
        busy = row("redis", (us + redis.delivery_us * events * spread) / 1e6, "of one thread", how)
        if busy > ENGINE_SHARE:
            limits.append(
                f"Redis runs commands in one thread. {math.ceil(busy / ENGINE_SHARE)} of them are"
                " needed, or fewer if gateways write many commands at once. The gateway does not"
                " divide rooms over several: run as many fleets, and let the proxy choose by room."
            )

    for share, got in queues:
        _waits(row, share, work, got, each, growing=load.growing)
    return CapacityPlan(rows=tuple(rows), limits=tuple(limits))


def _engines(
    row: AddRow, share: EngineShare, work: CaptionWork, captions: float, jobs: float, each: float
) -> float:
    """Add how many engines of a kind are needed, and return it.

    :param captions: a second, all in languages of this engine
    :param jobs: a second, for these
    :param each: tokens of a job
    """
    engine = share.figures
    slower = engine.slower(engine.slots)
    full = engine.alone(each) * slower
    how = (
        f"{rough(jobs)} jobs x {rough(full)} s with all slots in use / {engine.slots} slots /"
        f" {ENGINE_SHARE}"
    )
    engines = math.ceil(jobs * full / engine.slots / ENGINE_SHARE)
    row(f"engines{share.label}", engines, "", how)
    alone = captions * engine.alone(work.words * TOKENS_A_WORD) * slower
    how = "the same for finals alone: what is left when growing texts are left out in overload"
    finals = math.ceil(alone / engine.slots / ENGINE_SHARE)
    row(f"engines for finals{share.label}", finals, "", how)
    return engines


def _waits(
    row: AddRow, share: EngineShare, work: CaptionWork, jobs: float, each: float, *, growing: bool
) -> None:
    """Add the use of an engine, and how long its captions take.

    :param jobs: jobs that one engine gets a second
    :param each: tokens of a job
    """
    engine = share.figures
    queue = queue_of(engine, jobs, each, work.words / work.made)
    how = f"{rough(jobs)} jobs of an engine x {rough(queue.service)} s each / {engine.slots}"
    row(f"use of slots{share.label}", queue.running / engine.slots, "", how)
    slow = engine.slower(queue.running)
    for percent in (50, 95):
        wait = 1000 * queue.wait(percent / 100, final=not growing)
        how = f"{wait:.0f} ms in the queue + {engine.first_ms:g} ms x {slow:.1f} with others"
        row(f"first text p{percent}{share.label}", wait + engine.first_ms * slow, "ms", how)
    for percent, words in ((50, work.typical), (95, work.long)):
        wait = 1000 * queue.wait(percent / 100, final=True)
        made = 1000 * engine.alone(words * TOKENS_A_WORD) * slow
        how = f"{wait:.0f} ms in the queue + {made:.0f} ms for {words:.0f} words"
        row(f"final p{percent}{share.label}", wait + made, "ms", how)


def rough(value: float) -> str:
    """Return a number with two significant digits; whole ones below 100 as they are."""
    if not math.isfinite(value):
        return "endless"
    if value == int(value) and abs(value) < 100:
        return str(int(value))
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f}"
