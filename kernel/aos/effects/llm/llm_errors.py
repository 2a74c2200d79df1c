"""The error codes of these effects, each with the function that makes it (AG-78)."""

from __future__ import annotations

from functools import partial
from typing import Final

from aos.worker import EffectFailed, NotConfigured

bad_request: Final = partial(EffectFailed, "llm_bad_request")
"""The workflow's params are invalid; the same params will never work."""

unsupported: Final = partial(EffectFailed, "llm_unsupported")
"""The params ask for something that chat completions do not have."""

document_invalid: Final = partial(EffectFailed, "llm_document_invalid")
"""A blob that the params name has another form than AG-72 says."""

refused: Final = partial(EffectFailed, "llm_refused")
"""The endpoint refused the request; the same request will be refused again."""

unavailable: Final = partial(EffectFailed, "llm_unavailable", retryable=True)
"""The endpoint could not be reached, or takes no request now."""

broken_off: Final = partial(EffectFailed, "llm_broken_off", retryable=True)
"""The answer had begun, and ended early."""

bad_answer: Final = partial(EffectFailed, "llm_bad_answer")
"""The answer is complete, and is none of chat completions."""

too_large: Final = partial(EffectFailed, "llm_answer_too_large")
"""The answer has more bytes than are read."""

timed_out: Final = partial(EffectFailed, "llm_timeout", retryable=True)
"""The answer was not complete before the effect's timeout."""


def not_configured(message: str, remedy: str) -> NotConfigured:
    """This process has no endpoint for the provider."""
    return NotConfigured("llm_not_configured", message, remedy)


def key_unusable(name: str) -> NotConfigured:
    """The value of a secret is no key that a header can have."""
    return NotConfigured(
        "llm_key_unusable",
        f"the secret {name} is no API key: expected printable ASCII without blanks",
        "correct it where `aos run --secrets` finds it, then run `aos effects retry`",
    )
