"""One cell of the table: one architecture under one load, with its latencies and rates.

Owns: the record of a request, and the figures of many. Must not know: sockets, clocks, how a figure
is shown.

Times are in seconds. Latency counts from when a request was due: in an open loop that is its place
in the schedule, however late it was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from benchmarks.journey.plan import BATCH
from caption_tools.report.stats import mean, percentile

IDLE = 0.1
"""Share of the device below which a sample counts as idle."""
TOGETHER_S = 0.01
"""Seconds between two answers of one batch, up to `plan.BATCH` of them."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One request. ``due``, ``sent``, ``first`` (text) and ``done`` are since the cell began.

    ``queue`` and ``engine`` are as the server measured them: until the model began with it, and
    from then until the model was done. ``tokens`` are 0 if the server does not count them. A
    request that was not answered has an ``error``, and the time until that was known.
    """

    due: float
    sent: float
    done: float
    first: float | None = None
    queue: float | None = None
    engine: float | None = None
    tokens: int = 0
    error: str | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one cell; seconds, requests and tokens a second, shares from 0 to 1.

    ``offered``   open loop: requests a second that were due
    ``clients``   closed loop: requests at once
    ``answered``  requests with a translation, ``failed`` those without
    ``slip``      seconds by which the latest request was sent later than due
    ``client``    CPU of the client, as a share of one core
    """

    architecture: str
    load: str
    mode: Literal["closed", "open"]
    clients: int = 0
    offered: float = 0.0
    seconds: float
    answered: int
    failed: int
    errors: dict[str, int]
    throughput: float
    tokens_s: float
    p50: float
    p95: float
    p99: float
    first_p50: float
    first_p95: float
    queue: float | None
    engine: float | None
    slip: float
    client: float
    busy: float | None
    busy_p5: float | None
    idle: float | None

    @property
    def how(self) -> str:
        """Return the form of the load, in words."""
        return f"{self.clients} at once" if self.mode == "closed" else f"{self.offered:.3g}/s due"

    @property
    def name(self) -> str:
        """Return the name of the cell."""
        return f"({self.architecture}) {self.load}, {self.how}"


def made(
    architecture: str,
    load: str,
    samples: Sequence[Sample],
    until: float,
    *,
    clients: int = 0,
    offered: float = 0.0,
    client: float = 0.0,
    tokens: int | None = None,
    usage: Sequence[float] = (),
) -> Cell:
    """Return the figures of a cell whose last request was sent at ``until``.

    In a closed loop the first request of each client is left out: they all came at one moment, to
    an idle server. A request without an answer counts among the response times with the time that
    was waited for it, which is the least that it can have been.

    :param usage: samples of the share of the device that was used, from 0 to 1
    :param tokens: made in the whole cell, if the server counts them and the answers do not
    """
    good = [one for one in samples if one.error is None]
    steady = sorted(samples, key=lambda one: one.sent)[clients:] or list(samples)
    times = [one.done - one.due for one in steady]
    firsts = [one.first - one.due for one in steady if one.first is not None]
    made = sum(one.tokens for one in good) if tokens is None else tokens
    done = sorted(one.done for one in good)
    if offered:
        throughput = sum(at <= until for at in done) / until
    else:
        throughput = rate(done, clients, until)
    errors: dict[str, int] = {}
    for one in samples:
        if one.error is not None:
            errors[one.error] = errors.get(one.error, 0) + 1
    queues = [one.queue for one in steady if one.queue is not None]
    engines = [one.engine for one in steady if one.engine is not None]
    return Cell(
        architecture=architecture,
        load=load,
        mode="open" if offered else "closed",
        clients=clients,
        offered=offered,
        seconds=until,
        answered=len(good),
        failed=len(samples) - len(good),
        errors=errors,
        throughput=throughput,
        tokens_s=throughput * made / len(good) if good else 0.0,
        p50=percentile(times, 0.5),
        p95=percentile(times, 0.95),
        p99=percentile(times, 0.99),
        first_p50=percentile(firsts, 0.5),
        first_p95=percentile(firsts, 0.95),
        queue=mean(queues) if queues else None,
        engine=mean(engines) if engines else None,
        slip=max((one.sent - one.due for one in samples), default=0.0),
        client=client,
        busy=mean(usage) if usage else None,
        busy_p5=percentile(usage, 0.05) if usage else None,
        idle=mean([share < IDLE for share in usage]) if usage else None,
    )


def rate(done: Sequence[float], clients: int, until: float) -> float:
    """Return the answers a second in a steady state, from the times of all answers in order.

    The steady state goes from the answer at which there were as many as clients to the last one
    before ``until``. Each end is moved to the end of its batch, or half a batch would be counted
    with the whole time of it. If there are too few answers, all of them count over all the time.
    """
    begin = _batch(done, clients - 1)
    end = _batch(done, sum(at <= until for at in done) - 1)
    if 0 <= begin < end and done[end] > done[begin]:
        return (end - begin) / (done[end] - done[begin])
    return len(done) / done[-1] if done else 0.0


def _batch(done: Sequence[float], place: int) -> int:
    """Return the place of the last answer in the batch of the answer at ``place``."""
    last = min(len(done) - 1, place + BATCH - 1)
    while 0 <= place < last and done[place + 1] - done[place] < TOGETHER_S:
        place += 1
    return min(place, len(done) - 1)
