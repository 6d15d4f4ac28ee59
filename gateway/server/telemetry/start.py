"""The start of OpenTelemetry, if the standard variables ask for it.

Owns: whether traces are exported, and what happens if the extra `otel` is missing: a warning, and a
gateway that works without. Clusters set these variables for all their processes. Must not know:
spans. OpenTelemetry's packages read all other variables (``OTEL_*``).

Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/. Two
things differ. Without an address nothing is exported, although the specification's default is an
exporter to this machine: a gateway must not write to a port that nobody told it of. And the
protocol is OTLP over HTTP; a collector speaks all others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.server.runtime.hub import Hub

if TYPE_CHECKING:
    from gateway.server.telemetry.providers import Telemetry

log = logging.getLogger("gateway.telemetry")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def wanted(environ: Mapping[str, str]) -> bool:
    """Tell whether the variables ask for traces."""
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    other = environ.get("OTEL_TRACES_EXPORTER", "").strip() not in ("", "otlp")
    return any(environ.get(name) for name in ENDPOINTS) and not (disabled or other)


def start(hub: Hub, environ: Mapping[str, str]) -> Telemetry | None:
    """Begin to export traces if the variables ask for it; return None if not, or if impossible."""
    if not wanted(environ):
        return None
    try:
        # Only now: the packages take 30 MB of memory.
        from gateway.server.telemetry.providers import Telemetry
    except ImportError as exc:
        log.warning(
            "OpenTelemetry is not exported, as the package %s is missing:"
            " pip install 'caption-gateway[otel]'",
            exc.name,
        )
        return None
    return Telemetry(hub)
