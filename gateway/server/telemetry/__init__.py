"""OpenTelemetry, with the extra `otel`: traces of utterances, and the metrics of `/metrics`."""
