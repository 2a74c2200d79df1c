"""Addresses and 32-byte hashes on the command line, in the lower case that keys and events have."""

from __future__ import annotations

import re
from typing import Final

from aos.errors import BadUsage, excerpt
from aos_gateway.keccak import keccak_256

ADDRESS_DIGITS: Final = 40
HASH_DIGITS: Final = 64
_HEX: Final = re.compile(r"0x[0-9a-fA-F]*")


def read_address(text: str, option: str) -> str:
    """An address in lower case. Letters in both cases are a checksum (EIP-55), which must hold.

    Raises:
        BadUsage: It has another form or length, its checksum fails, or it is the zero address.
    """
    lower = _read(text, option, "an address", ADDRESS_DIGITS)
    digits = text[2:]
    is_mixed = digits not in (digits.lower(), digits.upper())
    if is_mixed and text != checksummed(lower):
        raise BadUsage(
            "the checksum of the address fails (EIP-55): a character was mistyped",
            location=option,
            expected=checksummed(lower),
            actual=text,
            hint="copy it again; in lower case it is not checked",
        )
    if int(lower, 16) == 0:
        raise BadUsage("expected an account or a contract", location=option, actual=text)
    return lower


def read_hash(text: str, option: str) -> str:
    """32 bytes of hex in lower case. Raises BadUsage for any other text."""
    return _read(text, option, "a hash", HASH_DIGITS)


def checksummed(address: str) -> str:
    """An address in the spelling of EIP-55: its letters are upper case where its hash says so."""
    digits = address[2:].lower()
    bits = keccak_256(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if int(bit, 16) >= 8 else digit
        for digit, bit in zip(digits, bits, strict=False)
    )


def _read(text: str, option: str, noun: str, digits: int) -> str:
    if _HEX.fullmatch(text) and len(text) == 2 + digits:
        return text.lower()
    actual = (
        f"{len(text) - 2} digits"
        if _HEX.fullmatch(text)
        else repr(excerpt(text, characters_max=80))
    )
    raise BadUsage(
        f"not {noun}", location=option, expected=f"0x and {digits} hex digits", actual=actual
    )
