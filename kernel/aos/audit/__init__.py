"""Replay, verify, inspect, trace: reading a world (spec/audit.md). Nothing here prints."""
