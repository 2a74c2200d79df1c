"""Addresses and hashes that a workflow gives: their length, and EIP-55 (EV-12)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from aos.executors.evm.evm_errors import bad_request
from aos.executors.evm.evm_packages import keccak
from aos.executors.evm.hex_values import ADDRESS_BYTES, HASH_BYTES, excerpt_of

_HEX: Final = re.compile(r"0x[0-9a-fA-F]*", re.ASCII)


def checked_address(text: str, field: str) -> str:
    """An address in lower case. In mixed case it must have the checksum of EIP-55.

    Raises:
        EffectFailed: ``evm_bad_request``; ``field`` is the field.
    """
    _check_length(text, ADDRESS_BYTES, field, "an address")
    lower = text.lower()
    digits = text[2:]
    is_mixed = digits not in (digits.lower(), digits.upper())
    if is_mixed and text != with_checksum(lower):
        raise bad_request(
            f"{field}: the checksum of {text} is wrong (EIP-55): check the address for a mistyped "
            "character, or write it in lower case"
        )
    return lower


def checked_hash(text: str, field: str) -> str:
    """A transaction hash in lower case.

    Raises:
        EffectFailed: ``evm_bad_request``; ``field`` is the field.
    """
    _check_length(text, HASH_BYTES, field, "a hash")
    return text.lower()


def _check_length(text: str, size: int, field: str, kind: str) -> None:
    if len(text) != 2 + 2 * size or not _HEX.fullmatch(text):
        raise bad_request(
            f"{field}: expected {kind} of {size} bytes as 0x and {2 * size} hex digits, "
            f"found {excerpt_of(text)}"
        )


@lru_cache(maxsize=1024)
def with_checksum(lower: str) -> str:
    """The address in the mixed case of EIP-55."""
    digits = lower[2:]
    nibbles = keccak(digits.encode("ascii")).hex()
    pairs = zip(digits, nibbles, strict=False)
    return "0x" + "".join(digit.upper() if nibble >= "8" else digit for digit, nibble in pairs)
