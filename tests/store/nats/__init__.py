"""Logs and buckets on real NATS servers."""
