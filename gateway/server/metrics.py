"""The Prometheus metrics of a gateway.

Owns: metric names and their meaning. Must not know: how the measured parts work. Gauges are read at
each scrape, so that they cost nothing in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TypeVar

from prometheus_client import REGISTRY, CollectorRegistry, Histogram, generate_latest
from prometheus_client import Counter as Count
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from gateway.engines.base.service import Health
from gateway.errors import ErrorCode
from gateway.io.tasks import failures as task_failures
from gateway.job import Priority
from gateway.protocol.messages import Cancelled, Failed, Final, ServerMessage, Source
from gateway.server.access.authenticator import Authenticator
from gateway.server.outputs.outputs import Outputs
from gateway.server.runtime.gc_tuning import STEPS_S, GarbageCollector
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.recognition import DELAYS_S

T = TypeVar("T")

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30)
"""Buckets for captions, in seconds. vLLM's own begin at 0.3 s, when a caption should have begun."""
CHARACTERS = (5, 10, 20, 30, 45, 70, 100, 150, 225, 350, 500, 750, 1_000, 1_500, 2_000)
"""Buckets for lengths of texts, in characters: from a word to two minutes of speech."""
ENDS = {
    "final": ("mt", "same"),
    "failed": ("busy", "rejected", "engine_unavailable", "timeout", "internal"),
    "cancelled": ("queued", "running"),
}
"""Ends of captions that are exported from the start. A series that begins with its first event
hides this event from the function `rate` of Prometheus."""
REFUSALS = ("queue", "seat")
"""Reasons of `OverloadMonitor.refused`, all exported from the start."""
TURNED_AWAY = (ErrorCode.BUSY, ErrorCode.FORBIDDEN, ErrorCode.UNAUTHENTICATED)
"""Errors of `Authenticator.refused` that are exported from the start."""
TENANTS = 50
"""Most tenants with series of their own: those with most sockets. The others share one series, so
that the number of series is bounded."""
SHARED_HELP = {
    "gateway_fleet_connected": "1 while Redis answers and every part of the link works, else 0.",
    "gateway_fleet_rooms_owned": "Rooms that this gateway decides for all gateways.",
    "gateway_fleet_replicas": "Shared rooms with sockets in this gateway.",
    "gateway_fleet_queued": "Commands that wait for Redis or for its answer.",
    "gateway_fleet_unwritten": "Events that wait to be written to Redis, and that nobody was sent.",
    "gateway_fleet_dropped":
        "Drafts and deltas that were dropped because Redis was away or too slow.",
    "gateway_fleet_malformed":
        "Messages and values of Redis that could not be read, and were skipped.",
    "gateway_store_behind": "Events that are not written to the store yet.",
    "gateway_store_lost": "Events that could not be written to the store in time.",
}  # fmt: skip
"""Help texts of what `Fleet.values` returns, for Redis and for the store."""
ENGINE_HELP = {
    "unfinished": "Jobs that the engine itself counts as unfinished.",
    "capacity": "Jobs that the engine is given at once, at most.",
    "queued": "Waiting jobs that could go to the engine; a job may count for several.",
    "restarts": "Times that the engine was built anew.",
    "hangs": "Times that the engine was built anew because it hung.",
    "taken_over": "Jobs that it repeated because another engine had failed at them.",
    "running": "vLLM: requests in the batch of the last step.",
    "waiting": "vLLM: requests waiting for the batch at the last step.",
    "kv_cache_usage": "vLLM: part of the KV cache that is in use.",
    "prefix_queries": "vLLM: prompt tokens looked up in the prefix cache since start.",
    "prefix_hits": "vLLM: prompt tokens found in the prefix cache since start.",
    "preemptions": "vLLM: requests since start whose work was thrown away because memory ran out.",
    "steps": "vLLM: steps of the model since start.",
    "tokens": "vLLM: tokens made since start.",
    "finished": "vLLM: requests that finished without being aborted since start.",
    "queue_seconds": "vLLM: time that finished requests waited in vLLM, in all.",
    "prefill_seconds": "vLLM: time of finished requests until their first token, in all.",
    "decode_seconds": "vLLM: time of finished requests from their first token to the last, in all.",
}  # fmt: skip
"""Help texts of each engine's metrics, by name without the prefix ``gateway_engine_``."""


class Metrics:
    """The registry of one gateway, and the counters of its rooms' events."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        count = partial(Count, registry=self.registry)
        seconds = partial(Histogram, buckets=SECONDS, registry=self.registry)
        characters = partial(Histogram, buckets=CHARACTERS, registry=self.registry)
        self._utterances = count("gateway_utterances", "Utterances said to their end.")
        self._characters = characters("gateway_utterance_characters",
            "Length of utterances said to their end.")  # fmt: skip
        self._captions = count("gateway_captions",
            "Captions that ended. by: mt or same of a final, the code of a failure, the state of"
            " one that was cancelled.", ("outcome", "by"))  # fmt: skip
        for outcome, kinds in ENDS.items():
            for by in kinds:
                self._captions.labels(outcome, by)
        self._flags = count("gateway_caption_flags",
            "Finished captions with a flag: a doubt of a guard, or made in two steps.",
            ("flag",))  # fmt: skip
        self._queue = seconds("gateway_caption_queue_seconds",
            "Time from saying a text to handing it to the engine.")  # fmt: skip
        self._first = seconds("gateway_caption_first_seconds",
            "Time from saying a text to the first text of its caption.")  # fmt: skip
        self._total = seconds("gateway_caption_total_seconds",
            "Time from saying a text to its finished caption.")  # fmt: skip

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

    def add(self, read: Callable[[T], Iterator[Metric]], part: T) -> None:
        """Read the metrics of a part at every scrape."""
        self.registry.register(_AtScrape(partial(read, part)))

    def add_hub(self, hub: Hub, guards: Counter[tuple[str, str]]) -> None:
        """Show a hub, and the outputs that a guard stopped, by guard and outcome."""
        for read in (partial(_hub, guards=guards), _engines, _tenants, _fleet, _tasks, _speech):
            self.add(read, hub)

    def expose(self) -> bytes:
        """Return all metrics in the text format. Takes milliseconds: call it off the event loop.

        They include the metrics of the process-wide registry, where vLLM has its own.
        """
        return b"".join(
            generate_latest(_AtScrape(partial(_without_created, registry)))
            for registry in (self.registry, REGISTRY)
        )


class _AtScrape:
    """A collector of prometheus-client that calls a function at every scrape."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self.collect = collect


def _without_created(registry: CollectorRegistry) -> Iterator[Metric]:
    """Yield the metrics of a registry without the ``_created`` series of counters."""
    # Such a series holds the time at which a metric was created, for each label. Prometheus ignores
    # them in the text format. prometheus-client can only switch them off for the whole process,
    # which may belong to another application.
    for metric in registry.collect():
        created = f"{metric.name}_created"
        metric.samples = [sample for sample in metric.samples if sample.name != created]
        yield metric


def _rows(
    kind: type[GaugeMetricFamily | CounterMetricFamily], rows: Iterable[tuple[str, float, str]]
) -> Iterator[Metric]:
    """Yield metrics of one kind from their names, values and help texts."""
    for name, value, text in rows:
        yield kind(name, text, value=float(value))


def _counter(name: str, label: str, values: Mapping[str, float], text: str) -> Metric:
    """Return a counter with a series for each value of a label."""
    counter = CounterMetricFamily(name, text, labels=[label])
    for value, count in values.items():
        counter.add_metric([value], count)
    return counter


def _histogram(
    name: str, text: str, bounds: Sequence[float], counts: list[int], total: float
) -> Metric:
    """Return a histogram of the counts of values up to each bound, and at last of larger ones."""
    # Buckets of Prometheus are cumulative.
    sums = list(accumulate(counts))
    buckets = [*zip(map(str, bounds), sums, strict=False), ("+Inf", sums[-1])]
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=total)


def _hub(hub: Hub, guards: Counter[tuple[str, str]]) -> Iterator[Metric]:
    """Yield the metrics of a hub, its sockets, its scheduler and its jobs."""
    # Copied at once: scrapes run in a thread while the event loop changes the maps.
    sessions, rooms = list(hub.sessions.values()), list(hub.rooms.values())
    outboxes = [session.outbox.bytes for session in sessions]
    scheduler, jobs, delivery = hub.scheduler, hub.jobs, hub.counters
    yield from _rows(GaugeMetricFamily, (
        ("gateway_ready", hub.ready, "1 while new utterances are translated, else 0."),
        ("gateway_sessions", len(sessions), "Open sockets."),
        ("gateway_sessions_away", sum(len(room.attendance.away) for room in rooms),
            "Speakers whose sockets were lost and whose captions are still made."),
        ("gateway_rooms", len(rooms), "Rooms in memory."),
        ("gateway_log_bytes", hub.fleet.space.bytes,
            "Memory of the events and utterances of all rooms."),
        ("gateway_jobs_queued", scheduler.queued, "Jobs waiting for the engine."),
        ("gateway_finals_queued", scheduler.finals, "Jobs for finals among those waiting."),
        ("gateway_overloaded", hub.load.overloaded,
            "1 while the engine does not keep up and partials are left out, else 0."),
        ("gateway_rooms_seated", hub.load.rooms, "Rooms in which something was said recently."),
        ("gateway_jobs_running", scheduler.running, "Jobs given to the engine."),
        ("gateway_jobs_capacity", scheduler.capacity,
            "Jobs that the engine is given at once, at most."),
        ("gateway_coalesce_seconds", jobs.coalescing.interval,
            "How long text waits to be sent together with more; 0 without load."),
        ("gateway_fallback", hub.host.degraded.engine is not None,
            "1 while the fallback engine does the work, else 0."),
        ("gateway_outbox_bytes", sum(outboxes), "Memory of what waits to be sent, of all sockets."),
        ("gateway_outbox_largest_bytes", max(outboxes, default=0),
            "Memory of what waits to be sent to the slowest reader."),
    ))  # fmt: skip
    yield from _rows(CounterMetricFamily, (
        ("gateway_lag", delivery.lags, "Times that a reader was told that it lags."),
        ("gateway_too_slow", delivery.slow,
            "Sockets closed with 4008 because they read too slowly."),
        ("gateway_tokens", jobs.tokens, "Tokens that the engine made."),
        ("gateway_drafted_tokens", jobs.drafted,
            "Tokens of earlier translations that the engine has checked."),
        ("gateway_accepted_tokens", jobs.accepted,
            "Tokens of earlier translations that became output without being made again."),
        ("gateway_chunks", jobs.chunks, "Pieces of text that the engine made."),
        ("gateway_chunks_merged", jobs.merged,
            "Pieces of text that were sent together with the one before, under load."),
    ))  # fmt: skip
    saved = {"merged": delivery.merged, "draft": delivery.drafts, "dropped": delivery.deltas}
    yield _counter("gateway_outbox_saved", "how", saved,
        "Deltas that a late reader was spared. how: merged, draft (left out) or dropped.",
    )  # fmt: skip
    resumed = {"true": hub.resumed[True], "false": hub.resumed[False]}
    yield _counter("gateway_resumed", "ok", resumed,
        "Sockets that resumed. ok: whether the log still had all that they missed.",
    )  # fmt: skip
    yield _counter("gateway_refused", "why", {why: hub.load.refused[why] for why in REFUSALS},
        "Utterances refused as busy. why: queue (it is full) or seat (too many rooms).",
    )  # fmt: skip
    given = {priority.name.lower(): scheduler.given[priority] for priority in Priority}
    yield _counter("gateway_jobs", "priority", given, "Jobs given to the engine, by priority.")
    text = "Outputs that a guard stopped, by guard and what became of them."
    stopped = CounterMetricFamily("gateway_guard", text, labels=["guard", "outcome"])
    for labels, count in sorted(guards.items()):
        stopped.add_metric(labels, count)
    yield stopped


def _tenants(hub: Hub) -> Iterator[Metric]:
    accounts = sorted(
        hub.host.tenants.accounts.copy().items(),
        key=lambda entry: len(entry[1].members),
        reverse=True,
    )
    # A label for each tenant without a bound would exhaust the memory of Prometheus.
    shown = [(name, [account]) for name, account in accounts[:TENANTS]]
    if rest := [account for _, account in accounts[TENANTS:]]:
        shown.append(("(others)", rest))
    labels = ["tenant"]
    text = "Open sockets of a tenant."
    sockets = GaugeMetricFamily("gateway_tenant_sessions", text, labels=labels)
    text = "Utterances of a tenant that have not ended."
    inflight = GaugeMetricFamily("gateway_tenant_inflight", text, labels=labels)
    for name, some in shown:
        sockets.add_metric([name], sum(len(account.members) for account in some))
        inflight.add_metric([name], sum(account.in_flight for account in some))
    yield sockets
    yield inflight


def _fleet(hub: Hub) -> Iterator[Metric]:
    """Yield the metrics of the rooms that a hub shares with other gateways, or of its store."""
    for kind, values in zip(
        (GaugeMetricFamily, CounterMetricFamily), hub.fleet.values(), strict=True
    ):
        yield from _rows(kind, ((name, value, SHARED_HELP[name]) for name, value in values.items()))


def _tasks(hub: Hub) -> Iterator[Metric]:
    text = "Background tasks that failed and were started again, by task."
    yield _counter("gateway_task_failures", "task", task_failures.copy(), text)


def _engines(hub: Hub) -> Iterator[Metric]:
    text = "1 for the state that the engine is in, 0 for the others."
    health = GaugeMetricFamily("gateway_engine_health", text, labels=["engine", "state"])
    gauges: dict[str, GaugeMetricFamily] = {}
    for engine_name, engine in hub.engine.parts.items():
        # One series for each state, so that a query can select one and show the changes.
        for state in Health:
            health.add_metric([engine_name, state.value], float(engine.health is state))
        values = {
            "unfinished": engine.unfinished,
            "capacity": engine.capacity,
            "queued": hub.scheduler.queue_of(engine),
            **engine.stats(),
        }
        for own, value in values.items():
            if own not in gauges:
                text = ENGINE_HELP.get(own, "As the engine counts it.")
                gauges[own] = GaugeMetricFamily(f"gateway_engine_{own}", text, labels=["engine"])
            gauges[own].add_metric([engine_name], value)
    yield health
    yield from gauges.values()


def _speech(hub: Hub) -> Iterator[Metric]:
    """Yield the metrics of the recogniser of a hub, if it has one."""
    if (runner := hub.recognition) is not None:
        yield from _rows(GaugeMetricFamily, (
            ("gateway_recogniser_ready", runner.recogniser.health is Health.READY,
                "1 while speech is recognised, else 0."),
            ("gateway_audio_streams", len(runner.streams), "Sockets that send speech."),
            ("gateway_audio_undecoded_seconds", runner.undecoded_s,
                "Audio that waits to be decoded, of all sockets."),
            ("gateway_audio_undecoded_bytes", runner.undecoded_bytes,
                "Memory of the audio that waits to be decoded."),
            ("gateway_recognition_queued", runner.queued, "Jobs that wait for the recogniser."),
            ("gateway_recognition_running", len(runner.running),
                "Jobs that the recogniser works on."),
        ))  # fmt: skip
        yield from _rows(CounterMetricFamily, (
            ("gateway_audio_seconds", runner.audio_s, "Audio that was accepted."),
            ("gateway_recognised_seconds", runner.recognised_s,
                "Audio of recognitions that were done; the same audio may count several times."),
            ("gateway_recognition_busy_seconds", runner.busy_s,
                "Time that these recognitions took, of all of them together."),
            ("gateway_audio_lost_seconds", runner.lost_s,
                "Speech that was not recognised, because the recogniser was late or failed."),
            ("gateway_heard_words", runner.words, "Words of utterances heard to their end."),
        ))  # fmt: skip
        ended = dict(sorted(runner.jobs.copy().items()))
        yield _counter("gateway_recognition_jobs", "outcome", ended,
            "Recognitions that ended. outcome: done, cancelled or the code of a failure.",
        )  # fmt: skip
        text = "Time from the arrival of an utterance's last word to its final text."
        name, delays = "gateway_heard_delay_seconds", runner.delays
        yield _histogram(name, text, DELAYS_S, delays, runner.delay_s)


def authentication(authenticator: Authenticator) -> Iterator[Metric]:
    """Yield the metrics of an authenticator."""
    yield from _rows(GaugeMetricFamily, (
        ("gateway_addresses", len(authenticator.addresses),
            "Client addresses whose use is counted now."),
        ("gateway_tickets_used", len(authenticator.tickets),
            "Used tickets that are remembered until they expire."),
    ))  # fmt: skip
    counts = dict.fromkeys(TURNED_AWAY, 0) | authenticator.refused.copy()
    yield _counter("gateway_turned_away", "code", dict(sorted(counts.items())),
        "Sockets and requests that were refused, by the code of the error.",
    )  # fmt: skip


def garbage_collections(garbage: GarbageCollector) -> Iterator[Metric]:
    """Yield the times of garbage collections."""
    name, text = "gateway_gc_pause_seconds", "CPU time of each pause for garbage collection."
    yield _histogram(name, text, STEPS_S, garbage.pauses, garbage.seconds)
    name = "gateway_gc_pause_longest_seconds"
    text = "CPU time of the longest pause since the engine was ready or the gateway was idle."
    yield GaugeMetricFamily(name, text, value=garbage.longest)


def deliveries(outputs: Outputs) -> Iterator[Metric]:
    """Yield the metrics of outputs by their labels, which several of them may share."""
    events = CounterMetricFamily("gateway_output_events",
        "Events for outputs: delivered, or lost because the receiver was away for too long.",
        labels=["output", "outcome"])  # fmt: skip
    text = "Attempts of outputs that failed and are repeated."
    failures = CounterMetricFamily("gateway_output_failures", text, labels=["output"])
    text = "Events that outputs have not delivered yet."
    behind = GaugeMetricFamily("gateway_output_behind", text, labels=["output"])
    text = "1 once a receiver has answered 410 (Gone): it is sent nothing until the next start."
    gone = GaugeMetricFamily("gateway_output_gone", text, labels=["output"])
    for label in dict.fromkeys(output.table.label for output in outputs.served):
        served = [output for output in outputs.served if output.table.label == label]
        for outcome in ("delivered", "lost"):
            events.add_metric([label, outcome], sum(output.counts[outcome] for output in served))
        failures.add_metric([label], sum(output.counts["failed"] for output in served))
        behind.add_metric([label], sum(output.behind for output in served))
        gone.add_metric([label], any(output.gone for output in served))
    yield from (events, failures, behind, gone)
