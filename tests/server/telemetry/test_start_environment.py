"""The standard variables that switch OpenTelemetry on."""

from __future__ import annotations

import pytest

from gateway.server.telemetry.start import exporter_names

HTTP, GRPC = "otlp_proto_http", "otlp_proto_grpc"
BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (None, None)),
        ({"OTEL_SERVICE_NAME": "x"}, (None, None)),
        (BASE, (HTTP, HTTP)),
        (BASE | {"OTEL_SDK_DISABLED": "true"}, (None, None)),
        (BASE | {"OTEL_SDK_DISABLED": "no"}, (HTTP, HTTP)),
        (BASE | {"OTEL_METRICS_EXPORTER": "none"}, (HTTP, None)),
        (BASE | {"OTEL_METRICS_EXPORTER": ""}, (HTTP, HTTP)),
        (BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, (GRPC, GRPC)),
        (BASE | {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, (GRPC, HTTP)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, (HTTP, None)),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, (HTTP, None)),
        ({"OTEL_TRACES_EXPORTER": "console"}, ("console", None)),
        ({"OTEL_TRACES_EXPORTER": "none"}, (None, None)),
    ],
)
def test_the_variables_choose_an_exporter_per_signal(
    environ: dict[str, str], expected: tuple[str | None, str | None]
) -> None:
    assert exporter_names(environ) == expected


def test_an_unknown_protocol_is_named_with_its_variable() -> None:
    with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_PROTOCOL cannot be 'http/json'"):
        exporter_names(BASE | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})
