"""Read a world: lens, views, trace, conditions and index (spec/audit.md). Nothing here prints."""
