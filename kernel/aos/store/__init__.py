"""Where a world's frames, blobs and derived rows are kept (spec/store.md)."""
