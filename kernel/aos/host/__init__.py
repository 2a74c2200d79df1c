"""The host: everything around the core that touches the world outside (spec/host.md)."""
