"""The error codes of these effects, each with the function that makes it (AG-78)."""

from __future__ import annotations

from typing import Final

from aos.worker import EffectFailed, NotConfigured

BAD_REQUEST: Final = "llm_bad_request"
UNSUPPORTED: Final = "llm_unsupported"
DOCUMENT_INVALID: Final = "llm_document_invalid"
REFUSED: Final = "llm_refused"
UNAVAILABLE: Final = "llm_unavailable"
BROKEN_OFF: Final = "llm_broken_off"
BAD_ANSWER: Final = "llm_bad_answer"
TOO_LARGE: Final = "llm_answer_too_large"
TIMEOUT: Final = "llm_timeout"
NOT_CONFIGURED: Final = "llm_not_configured"
KEY_UNUSABLE: Final = "llm_key_unusable"


def bad_request(message: str) -> EffectFailed:
    """The workflow's params are invalid; the same params will never work."""
    return EffectFailed(BAD_REQUEST, message)


def unsupported(message: str) -> EffectFailed:
    """The params ask for something that chat completions do not have."""
    return EffectFailed(UNSUPPORTED, message)


def document_invalid(message: str) -> EffectFailed:
    """A blob that the params name has another form than AG-72 says."""
    return EffectFailed(DOCUMENT_INVALID, message)


def refused(message: str) -> EffectFailed:
    """The endpoint refused the request; the same request will be refused again."""
    return EffectFailed(REFUSED, message)


def unavailable(message: str) -> EffectFailed:
    """The endpoint could not be reached, or takes no request now."""
    return EffectFailed(UNAVAILABLE, message, retryable=True)


def broken_off(message: str) -> EffectFailed:
    """The answer had begun, and ended early."""
    return EffectFailed(BROKEN_OFF, message, retryable=True)


def bad_answer(message: str) -> EffectFailed:
    """The answer is complete, and is none of chat completions."""
    return EffectFailed(BAD_ANSWER, message)


def too_large(message: str) -> EffectFailed:
    """The answer has more bytes than are read."""
    return EffectFailed(TOO_LARGE, message)


def timed_out(message: str) -> EffectFailed:
    """The answer was not complete before the effect's timeout."""
    return EffectFailed(TIMEOUT, message, retryable=True)


def not_configured(message: str, remedy: str) -> NotConfigured:
    """This process has no endpoint for the provider."""
    return NotConfigured(NOT_CONFIGURED, message, remedy)


def key_unusable(name: str) -> NotConfigured:
    """The value of a secret is no key that a header can have."""
    return NotConfigured(
        KEY_UNUSABLE,
        f"the secret {name} is no API key: expected printable ASCII without blanks",
        "correct it where `aos run --secrets` finds it, then run `aos effects retry`",
    )
