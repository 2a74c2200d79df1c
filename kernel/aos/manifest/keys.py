"""Public keys in a manifest: ``ed25519:<64 hex>`` (spec/manifest.md, M-37)."""

from __future__ import annotations

import re
from typing import Final

from nacl.bindings import crypto_core_ed25519_is_valid_point

from aos.values.errors import ValueProblem

_TEXT: Final = re.compile(r"ed25519:([0-9a-f]{64})")


def parse_key(text: str) -> bytes:
    """The 32 bytes of a key.

    Raises:
        ValueProblem: The text has another form, or the point is unsafe: points of small order
            verify forged signatures, and points with a second spelling have two identities.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueProblem("expected ed25519:<64 lower-case hex digits>, found something else")
    key = bytes.fromhex(match[1])
    if not crypto_core_ed25519_is_valid_point(key):
        raise ValueProblem("no usable Ed25519 key: not a canonical point of the main subgroup")
    return key


def key_text(key: bytes) -> str:
    """Inverse of ``parse_key``."""
    return f"ed25519:{key.hex()}"
