"""Checkpoints of a world's header log: make them, have them witnessed and time-stamped."""
