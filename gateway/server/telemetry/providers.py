"""The provider of OpenTelemetry's traces: its exporter, its resource, and its end.

Owns: the attributes of this process, and how long the end may take. Must not know: spans. The
process-wide provider is left alone, because vLLM or an embedder may have set it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from gateway import __version__
from gateway.server.runtime.hub import Hub
from gateway.server.telemetry.tracing import UtteranceTracer

log = logging.getLogger("gateway.telemetry")

LAST_S = 2.0
"""Seconds that a collector has for the last spans, when the gateway ends."""
SERVICE = "caption-gateway"
"""Name of the service unless ``OTEL_SERVICE_NAME`` or ``OTEL_RESOURCE_ATTRIBUTES`` has another."""


class Telemetry:
    """The running export of one gateway's traces."""

    def __init__(self, hub: Hub) -> None:
        # Sampler, batches and limits come from the standard variables.
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.tracer = UtteranceTracer(self._provider.get_tracer("gateway", __version__), hub)

    async def aclose(self) -> None:
        """Export the remaining spans, for `LAST_S` at most."""
        self.tracer.end_all()
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        # A daemon, which does not keep the process alive while a collector does not answer.
        threading.Thread(target=shut_down, name="telemetry", daemon=True).start()
        try:
            async with asyncio.timeout(LAST_S):
                await done.wait()
        except TimeoutError:
            log.warning("the last spans were lost: no answer within %g s", LAST_S)


def _resource() -> Resource:
    """Return the attributes of this process. Those of the environment take precedence."""
    instance = str(uuid.uuid4())
    own = Resource(
        {SERVICE_NAME: SERVICE, SERVICE_VERSION: __version__, SERVICE_INSTANCE_ID: instance}
    )
    # `create` reads the environment too, but would let the attributes that it is given win.
    return Resource.create().merge(own).merge(OTELResourceDetector().detect())
