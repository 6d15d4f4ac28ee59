"""The standard variables that switch OpenTelemetry on."""

from __future__ import annotations

import pytest

from gateway.server.telemetry.start import exporter_name

HTTP, GRPC = "otlp_proto_http", "otlp_proto_grpc"
BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"OTEL_SERVICE_NAME": "x"}, None),
        (BASE, HTTP),
        (BASE | {"OTEL_SDK_DISABLED": "true"}, None),
        (BASE | {"OTEL_SDK_DISABLED": "no"}, HTTP),
        (BASE | {"OTEL_TRACES_EXPORTER": "none"}, None),
        (BASE | {"OTEL_TRACES_EXPORTER": ""}, HTTP),
        (BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, GRPC),
        (BASE | {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, GRPC),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, HTTP),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, None),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, HTTP),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
    ],
)
def test_the_variables_choose_the_exporter_of_traces(
    environ: dict[str, str], expected: str | None
) -> None:
    assert exporter_name(environ) == expected


def test_an_unknown_protocol_is_named_with_its_variable() -> None:
    with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_PROTOCOL cannot be 'http/json'"):
        exporter_name(BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})
