"""The ``Executors`` that come with AOS for built-in effects (AG-50)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SHIPPED: Final[Mapping[str, str]] = {
    "sys/workspace.": "aos.effects.workspace:workspace",
    "sys/host.": "aos.effects.machine:machine",
    "sys/llm.": "aos.effects.llm:llm",
    "sys/vault.": "aos.effects.vault:vault",
    "sys/portal.": "aos.effects.portal:portal",
}
"""The beginning of an effect's name -> what ``--executors`` takes."""


HOST: Final = "sys/host."


def option_for(effect: str) -> str:
    """Return the option of ``aos run`` that makes an executor run this effect."""
    if effect.startswith(HOST):
        return "--host-root DIR"
    return f"--executors {shipped_executors(effect) or 'MODULE:ATTR'}"


def shipped_executors(effect: str) -> str | None:
    """Return the ``--executors`` argument whose functions run a built-in effect; None for an effect
    that AOS ships no executor for."""
    return next((spec for begin, spec in SHIPPED.items() if effect.startswith(begin)), None)
