"""Finds the data that a world no longer needs, and removes it from the store."""
