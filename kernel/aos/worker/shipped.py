"""The ``Executors`` that come with AOS for built-in effects (AG-50)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aos.manifest.names import WORLD_SEND

SHIPPED: Final[Mapping[str, str]] = {
    "sys/workspace.": "workspace",
    "sys/host.": "machine",
    "sys/llm.": "llm",
    "sys/vault.": "vault",
    "sys/portal.": "portal",
}
"""The beginning of an effect's name -> the name that ``--executors`` takes (EP-3)."""


HOST: Final = "sys/host."


def option_for(effect: str) -> str:
    """Return the option of ``aos run`` that makes an executor run this effect."""
    if effect.startswith(HOST):
        return "--host-root DIR"
    if effect == WORLD_SEND:
        return "--neighbours"
    return f"--executors {shipped_executors(effect) or 'MODULE:ATTR'}"


def shipped_executors(effect: str) -> str | None:
    """Return the name of the executors whose functions run a built-in effect; None for an effect
    that AOS ships no executor for."""
    return next((name for begin, name in SHIPPED.items() if effect.startswith(begin)), None)
