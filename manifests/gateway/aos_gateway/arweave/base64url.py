"""Base64url without padding, the text form of every id, key and anchor of Arweave."""

from __future__ import annotations

import base64
import binascii
from typing import Final

ID_BYTES: Final = 32
BLOCK_HASH_BYTES: Final = 48


def encode_base64url(data: bytes) -> str:
    """The text of ``data``, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_base64url(text: str | bytes) -> bytes | None:
    """The bytes of ``text``; None if ``encode_base64url`` makes no such text.

    So two different texts never mean the same bytes.
    """
    raw = text.encode("utf-8") if isinstance(text, str) else text
    try:
        data = base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    return data if base64.urlsafe_b64encode(data).rstrip(b"=") == raw else None


def is_id(text: object) -> bool:
    """Whether ``text`` is the id of an item or a transaction: 32 bytes, 43 characters."""
    return _has_size(text, ID_BYTES)


def is_anchor(text: str) -> bool:
    """Whether ``text`` is an anchor: the hash of a block, or the id of a transaction."""
    return _has_size(text, BLOCK_HASH_BYTES, ID_BYTES)


def _has_size(text: object, *sizes: int) -> bool:
    data = decode_base64url(text) if isinstance(text, str) else None
    return data is not None and len(data) in sizes
