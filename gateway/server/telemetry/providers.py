"""The providers of OpenTelemetry: exporters, the resource, and their end.

Owns: which exporter a name means, and the attributes of this process. Must not know:
spans. The process-wide providers are left alone, because vLLM or an embedder may have set them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import uuid
from importlib.metadata import entry_points
from typing import Any

from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import REGISTRY, CollectorRegistry

from gateway import __version__
from gateway.server.runtime.hub import Hub
from gateway.server.telemetry.export import MetricsExport
from gateway.server.telemetry.start import ExporterNames, Signal
from gateway.server.telemetry.tracing import UtteranceTracer

log = logging.getLogger("gateway.telemetry")

LAST_S = 2.0
"""Seconds that a collector has for the last spans and metrics, when the gateway ends."""
INTERVAL_MS = 60_000
"""Milliseconds between two exports of the metrics. The specification's default."""
SERVICE = "caption-gateway"
"""Name of the service unless ``OTEL_SERVICE_NAME`` or ``OTEL_RESOURCE_ATTRIBUTES`` has another."""


class Telemetry:
    """The running exports of one gateway. Raises `ValueError` with a sentence if one is missing."""

    def __init__(self, names: ExporterNames, hub: Hub, registry: CollectorRegistry) -> None:
        resource = _resource()
        self.tracer: UtteranceTracer | None = None
        self._provider: TracerProvider | None = None
        self._metrics: MetricsExport | None = None
        if names.traces is not None:
            # Sampler, batches and limits come from the standard variables.
            self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            exporter = _exporter("traces", names.traces)
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
            tracer = self._provider.get_tracer("gateway", __version__)
            self.tracer = UtteranceTracer(tracer, hub)
        if names.metrics is not None:
            registries = (registry, REGISTRY)
            milliseconds = float(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") or INTERVAL_MS)
            exporter = _exporter("metrics", names.metrics)
            self._metrics = MetricsExport(exporter, registries, resource, milliseconds / 1000)

    async def aclose(self) -> None:
        """Export what is left, for `LAST_S` at most."""
        if self.tracer is not None:
            self.tracer.end_all()
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut_down() -> None:
            if self._provider is not None:
                self._provider.shutdown()
            if self._metrics is not None:
                self._metrics.shutdown()
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        # A daemon, which does not keep the process alive while a collector does not answer.
        threading.Thread(target=shut_down, name="telemetry", daemon=True).start()
        try:
            async with asyncio.timeout(LAST_S):
                await done.wait()
        except TimeoutError:
            log.warning("the last spans and metrics were lost: no answer within %g s", LAST_S)


def _resource() -> Resource:
    """Return the attributes of this process. Those of the environment take precedence."""
    instance = str(uuid.uuid4())
    own = Resource(
        {SERVICE_NAME: SERVICE, SERVICE_VERSION: __version__, SERVICE_INSTANCE_ID: instance}
    )
    # `create` reads the environment too, but would let the attributes that it is given win.
    return Resource.create().merge(own).merge(OTELResourceDetector().detect())


def _exporter(signal: Signal, name: str) -> Any:
    """Return the exporter that a package registers under ``name``. Raises `ValueError`."""
    group = f"opentelemetry_{signal}_exporter"
    found = [point for point in entry_points(group=group) if point.name == name]
    if not found:
        raise ValueError(
            f"no installed package has the {signal} exporter {name!r}. For gRPC it is"
            " opentelemetry-exporter-otlp-proto-grpc."
        )
    return found[0].load()()
