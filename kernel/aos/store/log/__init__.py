"""The log of a replicated world: entries in a stream, and which of them count (spec/log.md)."""
