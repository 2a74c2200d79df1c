"""Flows in Python: read the definitions of a source file from its syntax tree, which is never
executed, and refuse the Python that the interpreter lacks (spec/python-flows.md)."""
