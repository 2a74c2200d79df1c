"""Nodes of a replicated world (spec/cluster.md)."""
