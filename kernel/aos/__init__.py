"""AOS: a deterministic, event-sourced workflow kernel."""

__version__ = "0.1.0"
