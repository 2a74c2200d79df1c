"""The cost of flows: time, space and memory. See ../README.md."""
