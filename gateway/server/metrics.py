"""The Prometheus metrics of a gateway.

Owns: metric names and their meaning. Must not know: how the measured parts work. Gauges are read at
each scrape, so that they cost nothing in between.
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

from gateway.core.delivery.waiting_frames import DeliveryCounters
from gateway.engines.base.engine import Health, parts
from gateway.errors import ErrorCode
from gateway.job import Priority
from gateway.protocol.messages import Cancelled, Failed, Final, ServerMessage, Source
from gateway.server.access.authenticator import Authenticator
from gateway.server.runtime.gc_tuning import STEPS_S, GarbageCollector
from gateway.server.runtime.hub import Hub
from gateway.server.speech_metrics import SpeechCollector
from gateway.storage.base import Store

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)
"""Buckets for captions, in seconds. vLLM's own begin at 0.3 s, when a caption should have begun."""

CHARACTERS = (5, 10, 20, 30, 45, 70, 100, 150, 225, 350, 500, 750, 1_000, 1_500, 2_000)
"""Buckets for lengths of texts, in characters: from a word to two minutes of speech."""


ENDS = (
    *(("final", by) for by in ("mt", "same")),
    *(("failed", code.value) for code in (
        ErrorCode.BUSY, ErrorCode.REJECTED, ErrorCode.ENGINE_UNAVAILABLE, ErrorCode.TIMEOUT,
        ErrorCode.INTERNAL,
    )),
    *(("cancelled", was) for was in ("queued", "running")),
)  # fmt: skip
"""Ends of captions that are exported from the start. A series that begins with its first event
hides this event from the function `rate` of Prometheus."""

REFUSALS = ("queue", "seat")
"""Reasons of `OverloadMonitor.refused`, all exported from the start."""

TURNED_AWAY = (ErrorCode.BUSY, ErrorCode.FORBIDDEN, ErrorCode.UNAUTHENTICATED)
"""Errors of `Authenticator.refused` that are exported from the start."""


class Metrics:
    """The registry of one gateway, and the counters of its rooms' events."""

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
            "Captions that ended. by: mt or same of a final, the code of a failure, the state of"
            " one that was cancelled.",
            ("outcome", "by"),
            registry=self.registry,
        )
        for outcome, by in ENDS:
            self._captions.labels(outcome, by)
        self._flags = Count(
            "gateway_caption_flags",
            "Finished captions with a flag: a doubt of a guard, or made in two steps.",
            ("flag",),
            registry=self.registry,
        )
        self._queue, self._first, self._total = (
            Histogram(
                f"gateway_caption_{name}_seconds", text, buckets=SECONDS, registry=self.registry
            )
            for name, text in (
                ("queue", "Time from saying a text to handing it to the engine."),
                ("first", "Time from saying a text to the first text of its caption."),
                ("total", "Time from saying a text to its finished caption."),
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
                # A text that was in the language already has waited for no engine.
                if event.by == "mt":
                    self._queue.observe(event.ms.queue / 1000)
                    self._first.observe(event.ms.first / 1000)
                    self._total.observe(event.ms.total / 1000)
            case Failed():
                self._captions.labels("failed", event.code).inc()
            case Cancelled():
                self._captions.labels("cancelled", event.was).inc()

    def add_hub(self, hub: Hub, guards: Counter[tuple[str, str]]) -> None:
        """Read the gauges of a hub at every scrape.

        :param guards: outputs that a guard stopped, by guard and outcome
        """
        self.registry.register(_HubCollector(hub, guards))
        self.registry.register(_FleetCollector(hub))
        self.registry.register(SpeechCollector(hub))

    def add_authenticator(self, authenticator: Authenticator) -> None:
        """Read the authenticator's counters at every scrape."""
        self.registry.register(_AuthenticatorCollector(authenticator))

    def add_store(self, store: Store) -> None:
        """Read the store's gauges at every scrape."""
        self.registry.register(_StoreCollector(store))

    def add_garbage_collector(self, garbage: GarbageCollector) -> None:
        """Read the times of garbage collections at every scrape."""
        self.registry.register(_PauseCollector(garbage))

    def expose(self) -> bytes:
        """Return all metrics in the text format. Takes milliseconds: call it off the event loop.

        They include those of the process-wide registry, where vLLM has its own.
        """
        registries = (self.registry, REGISTRY)
        return b"".join(generate_latest(_WithoutCreated(one)) for one in registries)


class _HubCollector:
    """Metrics of a hub, its sockets, its scheduler and its engine."""

    def __init__(self, hub: Hub, guards: Counter[tuple[str, str]]) -> None:
        self._hub = hub
        self._guards = guards

    def collect(self) -> Iterator[Metric]:
        hub = self._hub
        # Copied at once: scrapes run in a thread while the event loop changes the maps.
        sessions = list(hub.sessions.values())
        gauges = {
            "gateway_ready": ("1 while new utterances are translated, else 0.", hub.ready),
            "gateway_sessions": ("Open sockets.", len(sessions)),
            "gateway_sessions_away": (
                "Speakers whose sockets were lost and whose captions are still made.",
                sum(len(room.attendance.away) for room in list(hub.rooms.values())),
            ),
            "gateway_rooms": ("Rooms in memory.", len(hub.rooms)),
            "gateway_log_bytes": ("Memory of the logs of all rooms.", hub.log_bytes),
            "gateway_jobs_queued": ("Jobs waiting for the engine.", hub.scheduler.queued),
            "gateway_finals_queued": ("Jobs for finals among those waiting.", hub.scheduler.finals),
            "gateway_overloaded": (
                "1 while the engine does not keep up and partials are left out, else 0.",
                hub.load.overloaded,
            ),
            "gateway_rooms_seated": ("Rooms in which something was said recently.", hub.load.rooms),
            "gateway_jobs_running": ("Jobs given to the engine.", hub.scheduler.running),
            "gateway_jobs_capacity": (
                "Jobs that the engine is given at once, at most.",
                hub.scheduler.capacity,
            ),
            "gateway_coalesce_seconds": (
                "How long text waits to be sent together with more; 0 without load.",
                hub.jobs.coalescing.interval,
            ),
            "gateway_fallback": (
                "1 while the fallback engine does the work, else 0.",
                hub.degraded.engine is not None,
            ),
            "gateway_outbox_bytes": (
                "Memory of what waits to be sent, of all sockets.",
                sum(session.outbox.bytes for session in sessions),
            ),
            "gateway_outbox_largest_bytes": (
                "Memory of what waits to be sent to the slowest reader.",
                max((session.outbox.bytes for session in sessions), default=0),
            ),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=float(value))
        yield from _engines(hub)
        yield from _delivery(hub.counters)
        resumed = CounterMetricFamily(
            "gateway_resumed",
            "Sockets that resumed. ok: whether the log still had all that they missed.",
            labels=["ok"],
        )
        for ok in (True, False):
            resumed.add_metric([str(ok).lower()], hub.resumed[ok])
        yield resumed
        yield from _tenants(hub)
        refused = CounterMetricFamily(
            "gateway_refused",
            "Utterances refused as busy. why: queue (it is full) or seat (too many rooms).",
            labels=["why"],
        )
        for why in REFUSALS:
            refused.add_metric([why], hub.load.refused[why])
        yield refused
        jobs = CounterMetricFamily(
            "gateway_jobs", "Jobs given to the engine, by priority.", labels=["priority"]
        )
        for priority in Priority:
            jobs.add_metric([priority.name.lower()], hub.scheduler.given[priority])
        yield jobs
        yield CounterMetricFamily(
            "gateway_tokens", "Tokens that the engine made.", value=hub.jobs.tokens
        )
        yield CounterMetricFamily(
            "gateway_drafted_tokens",
            "Tokens of earlier translations that the engine has checked.",
            value=hub.jobs.drafted,
        )
        yield CounterMetricFamily(
            "gateway_accepted_tokens",
            "Tokens of earlier translations that became output without being made again.",
            value=hub.jobs.accepted,
        )
        yield CounterMetricFamily(
            "gateway_chunks", "Pieces of text that the engine made.", value=hub.jobs.chunks
        )
        yield CounterMetricFamily(
            "gateway_chunks_merged",
            "Pieces of text that were sent together with the one before, under load.",
            value=hub.jobs.merged,
        )
        rejected = CounterMetricFamily(
            "gateway_guard", "Outputs that a guard stopped, by guard and what became of them.",
            labels=["guard", "outcome"],
        )  # fmt: skip
        for (guard, outcome), count in sorted(self._guards.items()):
            rejected.add_metric([guard, outcome], count)
        yield rejected


def _delivery(counters: DeliveryCounters) -> Iterator[Metric]:
    """Yield the counters of what slow readers were not sent."""
    saved = CounterMetricFamily(
        "gateway_outbox_saved",
        "Deltas that a late reader was spared. how: merged, draft (left out) or dropped.",
        labels=["how"],
    )
    for how, count in (
        ("merged", counters.merged), ("draft", counters.drafts), ("dropped", counters.deltas),
    ):  # fmt: skip
        saved.add_metric([how], count)
    yield saved
    yield CounterMetricFamily(
        "gateway_lag", "Times that a reader was told that it lags.", counters.lags
    )
    yield CounterMetricFamily(
        "gateway_too_slow", "Sockets closed with 4008 because they read too slowly.", counters.slow
    )


class _AuthenticatorCollector:
    """Metrics of authentication."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "gateway_addresses",
            "Client addresses whose use is counted now.",
            len(self._authenticator.addresses),
        )
        yield GaugeMetricFamily(
            "gateway_tickets_used",
            "Used tickets that are remembered until they expire.",
            len(self._authenticator.tickets),
        )
        refused = CounterMetricFamily(
            "gateway_turned_away",
            "Sockets and requests that were refused, by the code of the error.",
            labels=["code"],
        )
        counts = dict.fromkeys(TURNED_AWAY, 0) | self._authenticator.refused.copy()
        for code, count in sorted(counts.items()):
            refused.add_metric([code], count)
        yield refused


TENANTS = 50
"""Most tenants with series of their own: those with most sockets. The others share one series, so
that the number of series is bounded."""


def _tenants(hub: Hub) -> Iterator[Metric]:
    """Yield the gauges of each tenant."""
    accounts = sorted(
        hub.tenants.accounts.copy().items(), key=lambda entry: len(entry[1].members), reverse=True
    )
    sockets = GaugeMetricFamily(
        "gateway_tenant_sessions", "Open sockets of a tenant.", labels=["tenant"]
    )
    inflight = GaugeMetricFamily(
        "gateway_tenant_inflight", "Utterances of a tenant that have not ended.", labels=["tenant"]
    )
    # A label for each tenant without a bound would exhaust the memory of Prometheus.
    for name, account in accounts[:TENANTS]:
        sockets.add_metric([name], len(account.members))
        inflight.add_metric([name], account.inflight)
    if rest := [account for _, account in accounts[TENANTS:]]:
        sockets.add_metric(["(others)"], sum(len(account.members) for account in rest))
        inflight.add_metric(["(others)"], sum(account.inflight for account in rest))
    yield sockets
    yield inflight


class _FleetCollector:
    """Metrics of the rooms that a hub shares with other gateways."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def collect(self) -> Iterator[Metric]:
        fleet = self._hub.fleet
        if fleet is None:
            return
        gauges = {
            "gateway_fleet_connected": ("1 while Redis answers, else 0.", fleet.link.connected),
            "gateway_fleet_rooms_owned": (
                "Rooms that this gateway decides for all gateways.",
                len(fleet.authorities),
            ),
            "gateway_fleet_replicas": (
                "Shared rooms with sockets in this gateway.",
                len(fleet.replicas),
            ),
            "gateway_fleet_unwritten": (
                "Events that wait to be written to Redis, and that nobody was sent.",
                fleet.unwritten,
            ),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=float(value))
        yield CounterMetricFamily(
            "gateway_fleet_dropped",
            "Drafts and deltas that were dropped because Redis was away or too slow.",
            fleet.link.dropped,
        )


class _StoreCollector:
    """Metrics of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "gateway_store_behind",
            "Events that are not written to the store yet.",
            self._store.behind,
        )
        yield CounterMetricFamily(
            "gateway_store_lost",
            "Events that could not be written to the store in time.",
            self._store.lost,
        )


class _PauseCollector:
    """Metrics of garbage collections."""

    def __init__(self, garbage: GarbageCollector) -> None:
        self._garbage = garbage

    def collect(self) -> Iterator[Metric]:
        # Buckets of Prometheus are cumulative.
        counts = list(accumulate(self._garbage.pauses))
        yield HistogramMetricFamily(
            "gateway_gc_pause_seconds",
            "CPU time of each pause for garbage collection.",
            buckets=[*zip(map(str, STEPS_S), counts, strict=False), ("+Inf", counts[-1])],
            sum_value=self._garbage.seconds,
        )
        yield GaugeMetricFamily(
            "gateway_gc_pause_longest_seconds",
            "CPU time of the longest pause since the engine was ready or the gateway was idle.",
            value=self._garbage.longest,
        )


def _engines(hub: Hub) -> Iterator[Metric]:
    """Yield the gauges of each engine."""
    engines = parts(hub.engine)
    health = GaugeMetricFamily(
        "gateway_engine_health",
        "1 for the state that the engine is in, 0 for the others.",
        labels=["engine", "state"],
    )
    gauges: dict[str, GaugeMetricFamily] = {}

    def gauge(name: str, text: str, engine: str, value: float) -> None:
        family = gauges.get(name)
        if family is None:
            family = gauges[name] = GaugeMetricFamily(name, text, labels=["engine"])
        family.add_metric([engine], value)

    for name, engine in engines.items():
        # One series for each state, so that a query can select one and show the changes.
        for state in Health:
            health.add_metric([name, state.value], float(engine.health is state))
        texts = ENGINE_GAUGES
        gauge("gateway_engine_unfinished", texts["unfinished"], name, engine.unfinished)
        gauge("gateway_engine_capacity", texts["capacity"], name, engine.capacity)
        gauge("gateway_engine_queued", texts["queued"], name, hub.scheduler.queue_of((name,)))
        for own, value in engine.stats().items():
            text = ENGINE_HELP.get(own, "As the engine counts it.")
            gauge(f"gateway_engine_{own}", text, name, value)
    yield health
    yield from gauges.values()


ENGINE_GAUGES = {
    "unfinished": "Jobs that the engine itself counts as unfinished.",
    "capacity": "Jobs that the engine is given at once, at most.",
    "queued": "Waiting jobs that could go to the engine; a job may count for several.",
}
"""Help texts of the gauges that every engine has."""


ENGINE_HELP = {
    "restarts": "Times that the engine was built anew.",
    "hangs": "Times that the engine was built anew because it hung.",
    "taken_over": "Jobs that the fallback engine took over.",
    "running": "vLLM: requests in the batch of the last step.",
    "waiting": "vLLM: requests waiting for the batch at the last step.",
    "kv_cache_usage": "vLLM: part of the KV cache that is in use.",
    "prefix_queries": "vLLM: prompt tokens looked up in the prefix cache since start.",
    "prefix_hits": "vLLM: prompt tokens found in the prefix cache since start.",
    "preemptions": "vLLM: requests whose work was thrown away for want of memory since start.",
    "steps": "vLLM: steps of the model since start.",
    "tokens": "vLLM: tokens made since start.",
    "finished": "vLLM: requests that finished without being aborted since start.",
    "queue_seconds": "vLLM: time that finished requests waited in vLLM, in all.",
    "prefill_seconds": "vLLM: time of finished requests until their first token, in all.",
    "decode_seconds": "vLLM: time of finished requests from their first token to the last, in all.",
}
"""Help texts of an engine's own gauges, by their names in `Engine.stats`."""


class _WithoutCreated:
    """A view of a registry without the ``_created`` series of counters and histograms.

    Such a series holds the time at which a metric was created, for each label. Prometheus ignores
    them in the text format. prometheus-client can only switch them off for the whole process, which
    may belong to another application.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            created = f"{metric.name}_created"
            metric.samples = [sample for sample in metric.samples if sample.name != created]
            yield metric
