"""Finds recorded bytes, decodes them and formats them for people."""
