"""The error codes of this effect, each with the function that makes it (AG-89)."""

from __future__ import annotations

from functools import partial
from typing import Final

from aos.worker import EffectFailed, NotConfigured

bad_request: Final = partial(EffectFailed, "portal_bad_request")
"""The workflow's params are invalid; nothing was sent."""

rejected: Final = partial(EffectFailed, "portal_rejected")
"""The other world refused the event, and will refuse it again."""


def busy(name: str) -> EffectFailed:
    """The other world takes nothing now; it has not taken the event."""
    return EffectFailed("portal_busy", f"world {name} takes no event now", retryable=True)


def not_running(name: str) -> EffectFailed:
    """No process runs the other world; nothing was sent."""
    return EffectFailed("portal_not_running", f"no process runs world {name}", retryable=True)


def unanswered(name: str) -> EffectFailed:
    """The other world may have taken the event. Another attempt finds out."""
    return EffectFailed(
        "portal_unanswered",
        f"world {name} went away before it answered: it may have taken the event",
        retryable=True,
    )


def not_configured(name: str, variable: str) -> NotConfigured:
    """This process knows no world of this name."""
    return NotConfigured(
        "portal_not_configured",
        f"{variable} has no world {name}",
        f'add "{name}=FOLDER" to {variable} and restart the process',
    )


def world_unusable(name: str, problem: str) -> NotConfigured:
    """The folder of the name has no world that can be used."""
    return NotConfigured(
        "portal_world_unusable",
        f"world {name}: {problem}",
        "correct the folder, or its path, then run `aos effects retry`",
    )
