"""The ``aos`` command: parse, call, print. No rule lives here (spec/cli.md)."""
