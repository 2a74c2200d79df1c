"""Modules of the AgentOS SDK, and what is done so that they run (spec/agentos.md)."""
