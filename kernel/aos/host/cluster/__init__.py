"""Nodes of a replicated world: one owns it, the others are standbys (spec/cluster.md)."""
