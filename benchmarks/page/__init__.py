"""The page and its index, on a world of a million cells (README.md)."""
