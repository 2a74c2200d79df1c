"""The kernel as its sources are, and compiled, by turns."""
