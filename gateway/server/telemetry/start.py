"""The start of OpenTelemetry, if the standard variables ask for it.

Owns: which exporter each signal has, and what happens if the extra `otel` is missing or a variable
is wrong: a warning, and a gateway that works without. Clusters set these variables for all their
processes. Must not know: spans. OpenTelemetry's packages read all other variables (``OTEL_*``).

Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/. One thing
differs: without a variable nothing is exported, although the specification's default is an exporter
to this machine. A gateway must not write to a port that nobody told it of.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from prometheus_client import CollectorRegistry

from gateway.server.runtime.hub import Hub

if TYPE_CHECKING:
    from gateway.server.telemetry.providers import Telemetry

log = logging.getLogger("gateway.telemetry")

Signal = Literal["traces", "metrics"]

PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""Names under which packages register the OTLP exporters."""


class ExporterNames(NamedTuple):
    """The names under which packages register exporters, per signal; None: not exported."""

    traces: str | None
    metrics: str | None


def exporter_names(environ: Mapping[str, str]) -> ExporterNames:
    """Return the exporters that the variables ask for. Raises `ValueError` with a sentence."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ExporterNames(None, None)
    return ExporterNames(_name(environ, "traces"), _name(environ, "metrics"))


def _name(environ: Mapping[str, str], signal: Signal) -> str | None:
    # The specification treats an empty variable as one that is not set.
    name = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    if not name:
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
        name = "otlp" if any(environ.get(one) for one in endpoints) else "none"
    if name == "none":
        return None
    if name != "otlp":
        return name
    variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    for variable in variables:
        if protocol := environ.get(variable, "").strip():
            if protocol not in PROTOCOLS:
                known = " or ".join(PROTOCOLS)
                raise ValueError(f"{variable} cannot be {protocol!r}: it is {known}.")
            return PROTOCOLS[protocol]
    return PROTOCOLS["http/protobuf"]


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
