"""The log of a replicated world."""
