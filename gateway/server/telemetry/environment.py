"""The standard variables that switch OpenTelemetry on.

Owns: which exporter each signal has. Must not know: OpenTelemetry's packages, which may not be
installed. They read all other variables (``OTEL_*``) themselves.

Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/. One thing
differs: without a variable nothing is exported, although the specification's default is an exporter
to this machine. A gateway must not write to a port that nobody told it of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

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
