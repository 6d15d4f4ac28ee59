"""The standard variables that switch OpenTelemetry on."""

from __future__ import annotations

import pytest

from gateway.server.telemetry.start import wanted

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        (BASE, True),
        (BASE | {"OTEL_SDK_DISABLED": "true"}, False),
        (BASE | {"OTEL_SDK_DISABLED": "no"}, True),
        (BASE | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (BASE | {"OTEL_TRACES_EXPORTER": "console"}, False),
        (BASE | {"OTEL_TRACES_EXPORTER": ""}, True),
        (BASE | {"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, False),
    ],
)
def test_the_variables_choose_whether_traces_are_exported(
    environ: dict[str, str], expected: bool
) -> None:
    assert wanted(environ) is expected
