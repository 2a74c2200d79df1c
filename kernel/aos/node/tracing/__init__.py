"""Spans of a world's records, for OpenTelemetry (spec/node-tracing.md)."""
