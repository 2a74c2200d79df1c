"""The two keys of an upload, read from the value of one secret: the item's and the wallet's.

{"item_seed": "<64 hex digits>", "jwk": {"kty": "RSA", "n": …, "e": …, "d": …, "p": …, "q": …}}
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from aos_gateway.arweave.base64url import decode_base64url, encode_base64url
from aos_gateway.arweave.rsa_pss import RsaKey, UnusableKey, key_problem, rsa_key

RSA_NUMBERS: Final = ("n", "e", "d", "p", "q")

_SEED: Final = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadKeys:
    """``item_seed`` signs items (Ed25519), ``wallet`` signs and pays for transactions (RSA)."""

    item_seed: bytes = field(repr=False)
    wallet: RsaKey = field(repr=False)

    @property
    def address(self) -> str:
        """The wallet's address: base64url of the SHA-256 of its modulus."""
        return encode_base64url(sha256(self.wallet.modulus).digest())


def read_keys(secret: str) -> UploadKeys:
    """Read the value of the secret that an effect's ``keys`` name (AW-4).

    Raises:
        UnusableKey: It is not of this form, or its numbers do not make a key.
    """
    document = _object(_parsed(secret), "the value")
    seed = document.get("item_seed")
    if not isinstance(seed, str) or not _SEED.fullmatch(seed):
        raise UnusableKey("item_seed: expected 64 hex digits, the seed of an Ed25519 key")
    jwk = _object(document.get("jwk"), "jwk")
    if jwk.get("kty") != "RSA":
        raise UnusableKey('jwk.kty: expected "RSA"')
    numbers = {name: _number(jwk, name) for name in RSA_NUMBERS}
    problem = key_problem(**numbers)
    if problem is not None:
        raise UnusableKey(f"jwk.{problem}")
    return UploadKeys(item_seed=bytes.fromhex(seed), wallet=rsa_key(**numbers))


def _parsed(secret: str) -> object:
    try:
        parsed: object = json.loads(secret)
    except (ValueError, RecursionError):
        # The parser's own message would quote a part of the secret.
        raise UnusableKey(
            "the value: expected a JSON object with item_seed and jwk, found no JSON"
        ) from None
    return parsed


def _object(value: object, subject: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnusableKey(f"{subject}: expected a JSON object")
    return value


def _number(jwk: dict[str, Any], name: str) -> int:
    text = jwk.get(name)
    data = decode_base64url(text) if isinstance(text, str) else None
    if not data:
        raise UnusableKey(f"jwk.{name}: expected a number in base64url without padding")
    return int.from_bytes(data, "big")
