"""The kernel's hot path as compiled code, from the same sources (spec/compiled.md)."""
