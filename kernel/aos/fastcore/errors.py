"""The error of the second kernel, in a file that needs no engine."""

from __future__ import annotations


class CoreDefect(Exception):
    """The core trapped: its own error, not one of its input. Its instance is not used any more."""

    def stops(self) -> str:
        """Why a world that runs with this core stops, and how it continues (CR-36)."""
        return (
            f"{self} (a defect of the fast core; everything acknowledged is durable; start again "
            "with --core python to continue from there)"
        )
