"""The same three steps on other systems. See ../README.md."""
