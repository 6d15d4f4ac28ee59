"""The Prometheus metrics of speech recognition.

Owns: their names and meaning. Must not know: how speech is recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from gateway.engines.base.engine import Health
from gateway.server.runtime.hub import Hub
from gateway.server.runtime.recognition import DELAYS_S


class SpeechCollector:
    """Metrics of the recogniser of a hub, if it has one."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def collect(self) -> Iterator[Metric]:
        runner = self._hub.recognition
        if runner is None:
            return
        ready = runner.recogniser.health is Health.READY
        gauges = {
            "gateway_recogniser_ready": ("1 while speech is recognised, else 0.", ready),
            "gateway_audio_streams": ("Sockets that send speech.", len(runner.streams)),
            "gateway_audio_undecoded_seconds": (
                "Audio that waits to be decoded, of all sockets.",
                runner.undecoded_s,
            ),
            "gateway_recognition_queued": ("Jobs that wait for the recogniser.", runner.queued),
            "gateway_recognition_running": (
                "Jobs that the recogniser works on.",
                len(runner.running),
            ),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=float(value))
        counters = {
            "gateway_audio_seconds": ("Audio that was accepted.", runner.audio_s),
            "gateway_recognised_seconds": (
                "Audio of recognitions that were done; the same audio may count several times.",
                runner.recognised_s,
            ),
            "gateway_recognition_busy_seconds": (
                "Time that these recognitions took, of all of them together.",
                runner.busy_s,
            ),
            "gateway_audio_lost_seconds": (
                "Speech that was not recognised, because the recogniser was late or failed.",
                runner.lost_s,
            ),
            "gateway_heard_words": ("Words of utterances heard to their end.", runner.words),
        }
        for name, (text, count) in counters.items():
            yield CounterMetricFamily(name, text, count)
        jobs = CounterMetricFamily(
            "gateway_recognition_jobs",
            "Recognitions that ended. outcome: done, cancelled or the code of a failure.",
            labels=["outcome"],
        )
        for outcome, count in sorted(runner.jobs.copy().items()):
            jobs.add_metric([outcome], count)
        yield jobs
        # Buckets of Prometheus are cumulative.
        counts = list(accumulate(runner.delays))
        yield HistogramMetricFamily(
            "gateway_heard_delay_seconds",
            "Time from the arrival of an utterance's last word to its final text.",
            buckets=[*zip(map(str, DELAYS_S), counts, strict=False), ("+Inf", counts[-1])],
            sum_value=runner.delay_s,
        )
