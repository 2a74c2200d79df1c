"""The cost of linear plans and of the search index, and other systems. See ../README.md."""
