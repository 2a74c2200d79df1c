"""A journal with everything that it needs, in one file (spec/bundle.md)."""
