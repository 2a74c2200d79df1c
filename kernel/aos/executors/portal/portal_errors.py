"""The error codes of this effect, each with the function that makes it (AG-89)."""

from __future__ import annotations

from typing import Final

from aos.worker import EffectFailed, NotConfigured

BAD_REQUEST: Final = "portal_bad_request"
REJECTED: Final = "portal_rejected"
BUSY: Final = "portal_busy"
NOT_RUNNING: Final = "portal_not_running"
UNANSWERED: Final = "portal_unanswered"
NOT_CONFIGURED: Final = "portal_not_configured"
WORLD_UNUSABLE: Final = "portal_world_unusable"


def bad_request(message: str) -> EffectFailed:
    """The workflow's params are invalid; nothing was sent."""
    return EffectFailed(BAD_REQUEST, message)


def rejected(message: str) -> EffectFailed:
    """The other world refused the event, and will refuse it again."""
    return EffectFailed(REJECTED, message)


def busy(name: str) -> EffectFailed:
    """The other world takes nothing now; it has not taken the event."""
    return EffectFailed(BUSY, f"world {name} takes no event now", retryable=True)


def not_running(name: str) -> EffectFailed:
    """No process runs the other world; nothing was sent."""
    return EffectFailed(NOT_RUNNING, f"no process runs world {name}", retryable=True)


def unanswered(name: str) -> EffectFailed:
    """The other world may have taken the event. Another attempt finds out."""
    return EffectFailed(
        UNANSWERED,
        f"world {name} went away before it answered: it may have taken the event",
        retryable=True,
    )


def not_configured(name: str, variable: str) -> NotConfigured:
    """This process knows no world of this name."""
    return NotConfigured(
        NOT_CONFIGURED,
        f"{variable} has no world {name}",
        f'add "{name}=FOLDER" to {variable} and restart the process',
    )


def world_unusable(name: str, problem: str) -> NotConfigured:
    """The folder of the name has no world that can be used."""
    return NotConfigured(
        WORLD_UNUSABLE,
        f"world {name}: {problem}",
        "correct the folder, or its path, then run `aos effects retry`",
    )
