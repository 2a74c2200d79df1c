"""An exception in the journal: a code and a bounded message, never a traceback (X-47)."""

from __future__ import annotations

import httpx
import pytest

from aos.values.cbor import decode_record
from aos.worker import EffectFailed
from aos.worker.failure import (
    MESSAGE_BYTES_MAX,
    AttemptFailure,
    End,
    NotConfigured,
    bounded,
    failure_of,
)


class Unshowable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "code", "message", "retryable"),
    [
        (EffectFailed("declined", "no funds"), "declined", "no funds", False),
        (EffectFailed("busy", "later", retryable=True), "busy", "later", True),
        (ValueError("bad"), "exception", "ValueError: bad", True),
        (KeyError(), "exception", "KeyError", True),
        (SystemExit(9), "exception", "SystemExit: 9", True),
        (Unshowable(), "exception", "Unshowable: (its text cannot be shown)", True),
        (NotConfigured("no_key", "no key", "set KEY"), "no_key", "no key: set KEY", False),
        (ConnectionResetError("reset"), "transport", "ConnectionResetError: reset", True),
        (TimeoutError(), "transport", "TimeoutError", True),
        (httpx.ConnectError("no route"), "transport", "ConnectError: no route", True),
        (httpx.ReadTimeout("slow"), "transport", "ReadTimeout: slow", True),
        (httpx.InvalidURL("x"), "exception", "InvalidURL: x", True),
    ],
)
def test_an_exception_is_a_failure(
    error: BaseException, code: str, message: str, retryable: bool
) -> None:
    end: End = "park" if code == "exception" else "hold" if code == "no_key" else "settle"
    assert failure_of(error) == AttemptFailure(
        code=code, message=message, retryable=retryable, end=end
    )


def test_the_payload_is_an_effect_error() -> None:
    payload = AttemptFailure(code="declined", message="no funds", retryable=False).payload()

    assert decode_record(payload) == {
        "code": "declined",
        "message": "no funds",
        "retryable": False,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x" * 9, "x" * 9),
        ("x" * 10, "x" * 10),
        ("x" * 11, "x" * 7 + "…"),
        ("é" * 6, "ééé…"),
        ("\ud800", "?"),
    ],
)
def test_a_message_is_cut_at_a_character(text: str, expected: str) -> None:
    assert bounded(text, 10) == expected
    assert len(expected.encode()) <= 10


def test_a_huge_message_does_not_reach_the_journal() -> None:
    payload = AttemptFailure(code="exception", message="x" * 10**6, retryable=False).payload()

    assert len(payload) < MESSAGE_BYTES_MAX + 100


@pytest.mark.parametrize("code", ["", "x" * 129])
def test_a_code_has_a_length(code: str) -> None:
    with pytest.raises(ValueError, match="expected a code of 1 to 128 characters"):
        EffectFailed(code)
