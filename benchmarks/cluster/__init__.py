"""Worlds on several machines, next to an embedded world and to Restate's cluster."""
