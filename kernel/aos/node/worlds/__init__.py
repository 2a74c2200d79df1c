"""Many worlds behind one address: ``aos node --worlds DIR`` (spec/worlds.md)."""
