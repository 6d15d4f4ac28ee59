"""The start of OpenTelemetry, if the standard variables ask for it.

Owns: which exporter traces have, and what happens if the extra `otel` is missing or a variable
is wrong: a warning, and a gateway that works without. Clusters set these variables for all their
processes. Must not know: spans. OpenTelemetry's packages read all other variables (``OTEL_*``).

Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/. One thing
differs: without a variable nothing is exported, although the specification's default is an exporter
to this machine. A gateway must not write to a port that nobody told it of.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.server.runtime.hub import Hub

if TYPE_CHECKING:
    from gateway.server.telemetry.providers import Telemetry

log = logging.getLogger("gateway.telemetry")

PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
"""Names under which packages register the OTLP exporters."""


def exporter_name(environ: Mapping[str, str]) -> str | None:
    """Return the name under which a package registers the exporter that the variables ask for.

    None: traces are not exported. Raises `ValueError` with a sentence.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    # The specification treats an empty variable as one that is not set.
    name = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if not name:
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        name = "otlp" if any(environ.get(endpoint) for endpoint in endpoints) else "none"
    if name == "none":
        return None
    if name != "otlp":
        return name
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := environ.get(variable, "").strip():
            if protocol not in PROTOCOLS:
                known = " or ".join(PROTOCOLS)
                raise ValueError(f"{variable} cannot be {protocol!r}: it is {known}.")
            return PROTOCOLS[protocol]
    return PROTOCOLS["http/protobuf"]


def start(hub: Hub, environ: Mapping[str, str]) -> Telemetry | None:
    """Begin to export traces if the variables ask for it; return None if not, or if impossible."""
    try:
        exporter = exporter_name(environ)
        if exporter is None:
            return None
        # Only now: the packages take 30 MB of memory.
        from gateway.server.telemetry.providers import Telemetry

        return Telemetry(exporter, hub)
    except ImportError as exc:
        log.warning(
            "OpenTelemetry is not exported, as the package %s is missing:"
            " pip install 'caption-gateway[otel]'",
            exc.name,
        )
    except ValueError as exc:
        log.warning("OpenTelemetry is not exported: %s", exc)
    return None
