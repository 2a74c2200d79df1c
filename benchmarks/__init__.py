"""Programs that measure. See README.md."""
