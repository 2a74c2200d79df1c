"""Modules of the AgentOS SDK, and the translations that let them run (spec/agentos.md)."""
