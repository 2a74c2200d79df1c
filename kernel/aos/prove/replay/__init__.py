"""Runs recorded steps again, and stops at the first difference."""
