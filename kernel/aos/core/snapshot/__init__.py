"""A state as a document with blobs, written and read back (spec/state.md)."""
