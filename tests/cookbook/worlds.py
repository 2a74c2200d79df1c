"""The worlds of the cookbook."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
COOKBOOK: Final = ROOT / "manifests" / "cookbook"
PATTERNS: Final = (
    "saga",
    "choreography",
    "backoff",
    "idempotency",
    "fence",
    "fan_in",
    "sealed",
    "billing",
    "approval",
    "flow_saga",
    "flow_subscription",
    "flow_agent",
    "flow_events",
    "neighbours",
)


def recipe(name: str) -> Path:
    return COOKBOOK / name


def executors(name: str, attribute: str) -> str:
    """As ``--executors`` takes it."""
    return f"{COOKBOOK / name / 'effects.py'}:{attribute}"
