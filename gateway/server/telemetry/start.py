"""The start of OpenTelemetry, if the environment asks for it.

Owns: what happens if the extra `otel` is missing or a variable is wrong: a warning, and a gateway
that works without. Clusters set these variables for all their processes. Must not know: spans.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from gateway.server.runtime.hub import Hub
from gateway.server.telemetry.environment import exporter_names

if TYPE_CHECKING:
    from gateway.server.telemetry.providers import Telemetry

log = logging.getLogger("gateway.telemetry")


def start(hub: Hub, registry: CollectorRegistry, environ: Mapping[str, str]) -> Telemetry | None:
    """Begin to export what the variables ask for; return None if that is nothing or impossible.

    :param registry: metrics of the gateway; those of the process-wide registry are exported as well
    """
    try:
        names = exporter_names(environ)
        if names.traces is None and names.metrics is None:
            return None
        # Only now: the packages take 30 MB of memory.
        from gateway.server.telemetry.providers import Telemetry

        return Telemetry(names, hub, registry)
    except ImportError as exc:
        log.warning(
            "OpenTelemetry is not exported, as the package %s is missing:"
            " pip install 'caption-gateway[otel]'",
            exc.name,
        )
    except ValueError as exc:
        log.warning("OpenTelemetry is not exported: %s", exc)
    return None
