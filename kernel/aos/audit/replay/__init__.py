"""Recorded steps run once more, and the first difference."""
