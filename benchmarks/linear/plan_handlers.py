"""The plan of the benchmark and its handlers, the same for every system. Standard library alone:
the interpreters of other systems import it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PLAN: Final = "bench.plan"
STEPS: Final = ("ONE", "TWO", "THREE", "FOUR", "FIVE")
LEASE_S: Final = 600
"""Longer than a run, so that no lease ends."""

IDLE_S: Final = 0.05
"""Pause of a worker that polls a table and finds nothing. 64 of them find a plan step after less
than a millisecond on average."""


def handle(step: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Do the work of a plan step: return what changes in the context."""
    return {step.lower(): context["item"]}


def first_context(item: int) -> dict[str, Any]:
    """The context with which an instance starts."""
    return {"item": item, "note": f"the order number {item:010}"}
