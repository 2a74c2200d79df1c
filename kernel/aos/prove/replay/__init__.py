"""Executes a recorded journal again, and stops at the first difference (spec/audit.md, A-10)."""
