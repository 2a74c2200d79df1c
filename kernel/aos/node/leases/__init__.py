"""Leases: the tasks that workers elsewhere carry out (spec/node-work.md)."""
