"""An exception -> code, bounded message, and the end of the effect (X-47).

An effect settles as ``sys/EffectError@1`` only with an error that its author classified. A mistake
in the configuration or in the code leaves it open: the process lacks something (``hold``), or an
exception that no author expected keeps coming (``park``).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from aos.values.cbor import encode

CODE_CHARS_MAX: Final = 128
MESSAGE_BYTES_MAX: Final = 4096

PROBLEM_BYTES_MAX: Final = 1024
"""Maximum length of the reason for another attempt or for a halt, as the journal keeps it."""

# The codes of AOS. A function's own codes come from EffectFailed.
TIMEOUT: Final = "timeout"
CANCELED: Final = "canceled"
EXCEPTION: Final = "exception"
TRANSPORT: Final = "transport"
RESULT_INVALID: Final = "executor_result_invalid"
RESULT_TOO_LARGE: Final = "executor_result_too_large"
EFFECT_UNKNOWN: Final = "executor_effect_unknown"


End: TypeAlias = Literal["settle", "hold", "park"]
"""The end of an effect whose last attempt failed: settled, held or parked."""


class EffectFailed(Exception):
    """Raise it in an effect to settle it as ``error`` with a code that the workflow can act on.

    With ``retryable`` the executor itself retries as far as the effect's retry policy allows. The
    workflow also sees the flag, and may request the effect again later.
    """

    def __init__(self, code: str, message: str = "", retryable: bool = False) -> None:
        if not 1 <= len(code) <= CODE_CHARS_MAX:
            raise ValueError(f"EffectFailed: expected a code of 1 to {CODE_CHARS_MAX} characters")
        super().__init__(code, message)
        self.code = str(code)
        self.message = str(message)
        self.retryable = bool(retryable)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


class NotConfigured(Exception):  # named like EffectFailed, its counterpart
    """Raise it in an effect if the process lacks what the effect needs, before anything was sent.

    The effect stays open, and the workflow learns nothing. It runs again at the next start of the
    process, or when someone asks for it: ``aos effects retry``.

    Args:
        code: The cause in one word, 1 to 128 bytes.
        message: The missing thing: "no credentials for the bank".
        remedy: The action that helps: "set BANK_TOKEN and restart aos run".
    """

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        if not 1 <= len(code.encode()) <= CODE_CHARS_MAX:
            raise ValueError(f"NotConfigured: expected a code of 1 to {CODE_CHARS_MAX} bytes")
        super().__init__(code, message, remedy)
        self.code = str(code)
        self.message = str(message)
        self.remedy = str(remedy)

    def __str__(self) -> str:
        return f"{self.message}: {self.remedy}" if self.remedy else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailure:
    """The reason why an attempt has no result. ``end`` is the end of the effect if no attempt
    follows."""

    code: str
    message: str
    retryable: bool
    end: End = "settle"

    @property
    def problem(self) -> str:
        """The reason for the next attempt, as the journal keeps it."""
        return bounded(f"{self.code}: {self.message}", PROBLEM_BYTES_MAX)

    @property
    def halt_problem(self) -> str:
        """The reason why the task is held or parked, as the journal keeps it next to the code."""
        return bounded(self.message, PROBLEM_BYTES_MAX)

    def payload(self) -> bytes:
        """Canonical CBOR of ``sys/EffectError@1``; a long message is truncated."""
        return encode(
            {
                "code": bounded(self.code, 4 * CODE_CHARS_MAX),
                "message": bounded(self.message, MESSAGE_BYTES_MAX),
                "retryable": self.retryable,
            }
        )


def failure_of(error: BaseException) -> AttemptFailure:
    """Translate an exception that a function raised (X-47)."""
    if isinstance(error, EffectFailed):
        return AttemptFailure(code=error.code, message=error.message, retryable=error.retryable)
    if isinstance(error, NotConfigured):
        return AttemptFailure(code=error.code, message=str(error), retryable=False, end="hold")
    message = _error_text(error)
    if isinstance(error, ConnectionError | TimeoutError) or _is_httpx_transport(error):
        return AttemptFailure(code=TRANSPORT, message=message, retryable=True)
    return AttemptFailure(code=EXCEPTION, message=message, retryable=True, end="park")


def _is_httpx_transport(error: BaseException) -> bool:
    # Only a function that has imported httpx can raise its errors.
    httpx = sys.modules.get("httpx")
    return httpx is not None and isinstance(error, httpx.TransportError)


def _error_text(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # a hostile __str__ must not cost us the outcome
        text = "(its text cannot be shown)"
    return f"{name}: {text}" if text else name


def bounded(text: str, bytes_max: int) -> str:
    """``text`` as valid UTF-8 of at most ``bytes_max`` bytes, ending in … if it was truncated."""
    data = text[:bytes_max].encode("utf-8", "replace")
    if len(data) <= bytes_max and len(text) <= bytes_max:
        return data.decode()
    return data[: bytes_max - 3].decode("utf-8", "ignore") + "…"
