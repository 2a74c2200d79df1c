"""Read the hex of JSON-RPC answers: quantities, bytes, addresses and hashes (EV-8).

A node is not trusted: each value has an exact form and a bound. ``BadHex`` says what is wrong with
it, and the caller says whose answer it is in.
"""

from __future__ import annotations

import re
from typing import Final

U64_MAX: Final = 2**64 - 1
U256_MAX: Final = 2**256 - 1

_QUANTITY: Final = re.compile(r"0x(?:0|[1-9a-fA-F][0-9a-fA-F]*)", re.ASCII)
_DATA: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*", re.ASCII)

ADDRESS_BYTES: Final = 20
HASH_BYTES: Final = 32


class BadHex(ValueError):
    """A value of an answer is not the hex that it must be."""


def quantity(value: object, *, limit: int = U64_MAX) -> int:
    """A number such as ``0x1a``, without leading zeros, of at most ``limit``.

    Raises:
        BadHex: It is not one.
    """
    # The length is checked first: converting a number of megabytes would take minutes.
    if not isinstance(value, str) or len(value) > 66 or not _QUANTITY.fullmatch(value):
        raise BadHex(f"expected a quantity such as 0x1a, found {found_text(value)}")
    number = int(value, 16)
    if number > limit:
        raise BadHex(f"expected a quantity of at most {limit:#x}, found {value}")
    return number


def data(value: object) -> bytes:
    """Bytes such as ``0x08c379a0``.

    Raises:
        BadHex: It is not an even number of hex digits after 0x.
    """
    if not isinstance(value, str) or not _DATA.fullmatch(value):
        raise BadHex(f"expected bytes such as 0x08c379a0, found {found_text(value)}")
    return bytes.fromhex(value[2:])


def address(value: object) -> str:
    """An address in lower case. Nodes may answer in mixed case, which is not checked here.

    Raises:
        BadHex: It does not have 20 bytes.
    """
    return _fixed(value, ADDRESS_BYTES, "an address")


def hash32(value: object) -> str:
    """The hash of a block or transaction in lower case.

    Raises:
        BadHex: It does not have 32 bytes.
    """
    return _fixed(value, HASH_BYTES, "a hash")


def _fixed(value: object, size: int, noun: str) -> str:
    if not isinstance(value, str) or len(value) != 2 + 2 * size or not _DATA.fullmatch(value):
        raise BadHex(f"expected {noun} of {size} bytes, found {found_text(value)}")
    return value.lower()


def found_text(value: object) -> str:
    """A value of a node, for the text of an error, as Python writes it. The text goes through
    ``RpcNode.said``, which cuts it once secrets are replaced: half of one is not found."""
    return value if isinstance(value, str) else repr(value)


def excerpt_of(value: object) -> str:
    """A value of the params for a message: its beginning, as Python writes it."""
    text = repr(value[:80] if isinstance(value, str) else value)
    return text if len(text) <= 90 else f"{text[:90]}…"
