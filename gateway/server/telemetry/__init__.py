"""OpenTelemetry, with the extra `otel`: traces of utterances."""
