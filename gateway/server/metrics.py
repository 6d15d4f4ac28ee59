"""What an operator watches, as Prometheus metrics.

Owns: metric names and their meaning. Must not know: how anything works. Gauges are read from the
hub when they are scraped, so that they cost nothing in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import REGISTRY, CollectorRegistry, Histogram, generate_latest
from prometheus_client import Counter as Count
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from gateway.engines.base import Engine, Health
from gateway.job import Priority
from gateway.messages import Cancelled, Failed, Final, ServerMessage, Source
from gateway.outbox import Tally
from gateway.server.garbage import STEPS_S, Garbage
from gateway.server.gate import Gate
from gateway.server.handover import Handover
from gateway.server.hub import Hub
from gateway.store import Store

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)
"""Buckets for captions: vLLM's own begin at 0.3 s, where a good caption has long begun."""

CHARACTERS = (5, 10, 20, 30, 45, 70, 100, 150, 225, 350, 500, 750, 1_000, 1_500, 2_000)
"""Buckets for texts, half as long again each: a word, a sentence, two minutes of speech."""


class Metrics:
    """One registry per gateway; vLLM's own metrics, where it runs, are served beside it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._utterances = Count(
            "gateway_utterances", "Utterances said to their end.", registry=self.registry
        )
        self._characters = Histogram(
            "gateway_utterance_characters",
            "Length of utterances said to their end.",
            buckets=CHARACTERS,
            registry=self.registry,
        )
        self._captions = Count(
            "gateway_captions",
            "Captions that ended, by how: mt, same, the code of a failure, or cancelled.",
            ("outcome", "by"),
            registry=self.registry,
        )
        self._flags = Count(
            "gateway_caption_flags",
            "Finished captions that a guard found doubtful.",
            ("flag",),
            registry=self.registry,
        )
        self._queue, self._first, self._total = (
            Histogram(
                f"gateway_caption_{name}_seconds", text, buckets=SECONDS, registry=self.registry
            )
            for name, text in (
                ("queue", "From said to given to the engine."),
                ("first", "From said to the first text."),
                ("total", "From said to the finished caption."),
            )
        )

    def observe(self, event: ServerMessage) -> None:
        """Count a durable event of a room."""
        match event:
            case Source():
                self._utterances.inc()
                self._characters.observe(len(event.text))
            case Final():
                self._captions.labels("final", event.by).inc()
                for flag in event.flags:
                    self._flags.labels(flag).inc()
                if event.by == "mt":
                    self._queue.observe(event.ms.queue / 1000)
                    self._first.observe(event.ms.first / 1000)
                    self._total.observe(event.ms.total / 1000)
            case Failed():
                self._captions.labels("failed", event.code).inc()
            case Cancelled():
                self._captions.labels("cancelled", event.was).inc()

    def watch(self, hub: Hub, guards: Counter[tuple[str, str]]) -> None:
        """Read the hub's gauges at every scrape."""
        self.registry.register(_Gauges(hub, guards))

    def guard(self, gate: Gate) -> None:
        """Read the gate's counters at every scrape."""
        self.registry.register(_Gate(gate))

    def keep(self, store: Store) -> None:
        """Read the store's gauges at every scrape."""
        self.registry.register(_Kept(store))

    def collect(self, garbage: Garbage) -> None:
        """Read how long collections took at every scrape."""
        self.registry.register(_Pauses(garbage))

    def share(self, handover: Handover) -> None:
        """Read what is handed between processes at every scrape."""
        self.registry.register(_Handed(handover))

    def expose(self) -> bytes:
        """The text format. Takes milliseconds: call it off the event loop."""
        return generate_latest(self.registry) + generate_latest(REGISTRY)


class _Gauges:
    def __init__(self, hub: Hub, guards: Counter[tuple[str, str]]) -> None:
        self._hub = hub
        self._guards = guards

    def collect(self) -> Iterator[Metric]:
        hub = self._hub
        sessions = list(hub.sessions.values())
        gauges = {
            "gateway_ready": ("1 while new utterances are translated.", hub.ready),
            "gateway_sessions": ("Open sockets.", len(sessions)),
            "gateway_sessions_away": (
                "Speakers whose sockets were lost and whose captions are still made.",
                sum(len(room.away) for room in list(hub.rooms.values())),
            ),
            "gateway_rooms": ("Rooms in memory.", len(hub.rooms)),
            "gateway_log_bytes": ("Bytes of what was decided, over all rooms.", hub.log_bytes),
            "gateway_jobs_queued": ("Jobs waiting for the engine.", hub.dispatch.queued),
            "gateway_finals_queued": ("Finals among the jobs that wait.", hub.dispatch.finals),
            "gateway_overloaded": (
                "1 while the engine has more to do than it can: partials are off.",
                hub.load.overloaded,
            ),
            "gateway_rooms_seated": ("Rooms in which something was said of late.", hub.load.seats),
            "gateway_jobs_running": ("Jobs given to the engine.", hub.dispatch.running),
            "gateway_jobs_capacity": ("Jobs the engine is given at once.", hub.dispatch.capacity),
            "gateway_coalesce_seconds": (
                "That text waits for more of itself; 0 while there is time for each piece.",
                hub.jobs.coalescing.interval,
            ),
            "gateway_fallback": (
                "1 while another engine does the work of the one that was chosen.",
                hub.degraded.engine is not None,
            ),
            "gateway_engine_unfinished": (
                "Jobs the engine itself counts as not finished.",
                hub.engine.unfinished,
            ),
            "gateway_outbox_bytes": (
                "Memory of what waits for readers, over all sockets.",
                sum(session.outbox.bytes for session in sessions),
            ),
            "gateway_outbox_largest_bytes": (
                "Memory of what waits for the slowest reader.",
                max((session.outbox.bytes for session in sessions), default=0),
            ),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=float(value))
        health = GaugeMetricFamily("gateway_engine_health", "1 at its state.", labels=["state"])
        for state in Health:
            health.add_metric([state.value], float(hub.engine.health is state))
        yield health
        yield from _late(hub.tally)
        resumed = CounterMetricFamily(
            "gateway_resumed",
            "Sockets that said how far they had come, by whether the log reached back.",
            labels=["ok"],
        )
        for ok in (True, False):
            resumed.add_metric([str(ok).lower()], hub.resumed[ok])
        yield resumed
        yield from _tenants(hub)
        refused = CounterMetricFamily(
            "gateway_refused", "Utterances answered by busy, by what was missing.", labels=["why"]
        )
        for why, count in sorted(hub.load.refused.copy().items()):
            refused.add_metric([why], count)
        yield refused
        jobs = CounterMetricFamily(
            "gateway_jobs", "Jobs given to the engine, by what for.", labels=["priority"]
        )
        for priority in Priority:
            jobs.add_metric([priority.name.lower()], hub.dispatch.given[priority])
        yield jobs
        yield CounterMetricFamily(
            "gateway_tokens", "Tokens the engine made.", value=hub.jobs.tokens
        )
        yield CounterMetricFamily(
            "gateway_chunks", "Pieces of text the engine made.", value=hub.jobs.chunks
        )
        yield CounterMetricFamily(
            "gateway_chunks_merged",
            "Pieces shown together with the one before, for want of time.",
            value=hub.jobs.merged,
        )
        yield from _engine(hub.engine)
        rejected = CounterMetricFamily(
            "gateway_guard", "Outputs a guard stopped, by guard and what came of it.",
            labels=["guard", "outcome"],
        )  # fmt: skip
        for (guard, outcome), count in sorted(self._guards.items()):
            rejected.add_metric([guard, outcome], count)
        yield rejected


def _late(tally: Tally) -> Iterator[Metric]:
    """What readers that are late were spared."""
    saved = CounterMetricFamily(
        "gateway_outbox_saved",
        "Deltas not sent by themselves: merged, without their draft, dropped.",
        labels=["how"],
    )
    for how, count in (
        ("merged", tally.merged), ("draft", tally.drafts), ("dropped", tally.deltas),
    ):  # fmt: skip
        saved.add_metric([how], count)
    yield saved
    yield CounterMetricFamily("gateway_lag", "Readers told that they lag.", tally.lags)
    yield CounterMetricFamily("gateway_too_slow", "Sockets closed with 4008.", tally.slow)


class _Gate:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "gateway_addresses", "Addresses that are counted.", len(self._gate.addresses)
        )
        yield GaugeMetricFamily(
            "gateway_tickets_used", "Used tickets that are remembered.", len(self._gate.tickets)
        )
        refused = CounterMetricFamily(
            "gateway_turned_away", "Sockets and requests not let in, by why.", labels=["code"]
        )
        for code, count in sorted(self._gate.refused.items()):
            refused.add_metric([code], count)
        yield refused


TENANTS = 50
"""Tenants with gauges of their own: those with most sockets. The others are told together."""


def _tenants(hub: Hub) -> Iterator[Metric]:
    accounts = sorted(
        hub.ledger.accounts.copy().items(), key=lambda entry: len(entry[1].members), reverse=True
    )
    sockets = GaugeMetricFamily(
        "gateway_tenant_sessions", "Open sockets of a tenant.", labels=["tenant"]
    )
    inflight = GaugeMetricFamily(
        "gateway_tenant_inflight", "Utterances of a tenant that have not ended.", labels=["tenant"]
    )
    for name, account in accounts[:TENANTS]:
        sockets.add_metric([name], len(account.members))
        inflight.add_metric([name], account.inflight)
    if rest := [account for _, account in accounts[TENANTS:]]:
        sockets.add_metric(["(others)"], sum(len(account.members) for account in rest))
        inflight.add_metric(["(others)"], sum(account.inflight for account in rest))
    yield sockets
    yield inflight


class _Kept:
    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "gateway_store_behind", "Events of rooms that are not written yet.", self._store.behind
        )
        yield CounterMetricFamily(
            "gateway_store_lost", "Events that could not be written in time.", self._store.lost
        )


class _Handed:
    def __init__(self, handover: Handover) -> None:
        self._handover = handover

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "gateway_worker_starts",
            "Starts of this worker: one more each time that it had ended.",
            value=self._handover.starts,
        )
        yield GaugeMetricFamily(
            "gateway_handover_held",
            "Connections that wait for the process that has their room.",
            value=self._handover.held,
        )
        done = CounterMetricFamily(
            "gateway_handover",
            "Connections given to another process or taken from one, by what came of it.",
            labels=["how"],
        )
        for how in ("sent", "taken", "refused", "lost"):
            done.add_metric([how], self._handover.done[how])
        yield done


class _Pauses:
    def __init__(self, garbage: Garbage) -> None:
        self._garbage = garbage

    def collect(self) -> Iterator[Metric]:
        counts = list(accumulate(self._garbage.pauses))
        yield HistogramMetricFamily(
            "gateway_gc_pause_seconds",
            "CPU time of the garbage collector, while nothing else happened.",
            buckets=[*zip(map(str, STEPS_S), counts, strict=False), ("+Inf", counts[-1])],
            sum_value=self._garbage.seconds,
        )
        yield GaugeMetricFamily(
            "gateway_gc_pause_longest_seconds",
            "The longest since the engine was ready, or nobody was there.",
            value=self._garbage.longest,
        )


def _engine(engine: Engine) -> Iterator[Metric]:
    """Gauges only some engines have, e.g. KV-cache use."""
    for name, value in engine.stats().items():
        yield GaugeMetricFamily(f"gateway_engine_{name}", "As the engine counts it.", value=value)
