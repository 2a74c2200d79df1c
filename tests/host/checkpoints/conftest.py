"""The command line, run in this process."""

from __future__ import annotations

from tests.cli.conftest import aos, plain

__all__ = ["aos", "plain"]
