"""RSA-PSS signatures with a salt that the key and the message determine.

The only module that needs the extra ``gateway``: the package pycryptodome.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final

from Crypto.Hash import SHA256
from Crypto.PublicKey import RSA
from Crypto.Signature import pss

EXPONENT: Final = 65537
BITS_MIN: Final = 2048
BITS_MAX: Final = 4096
SALT_BYTES: Final = 32


class UnusableKey(ValueError):
    """The value of a secret has no usable key. The text names the place, never what is there."""


@dataclass(frozen=True, slots=True)
class RsaKey:
    """A private key."""

    _key: RSA.RsaKey = field(repr=False)

    @property
    def modulus(self) -> bytes:
        """The public modulus, big-endian, which Arweave calls the owner."""
        return _bytes(self._key.n)

    def sign(self, message: bytes) -> bytes:
        """The one signature of ``message`` that this key makes (AW-15).

        The salt, otherwise drawn, is the HMAC-SHA-256 of the message with the private exponent as
        its key: without the key, no one can distinguish it from a drawn one.

        Raises:
            UnusableKey: The numbers of the key do not fit each other.
        """
        salt = hmac.digest(_bytes(self._key.d), message, "sha256")
        signer = pss.new(self._key, salt_bytes=SALT_BYTES, rand_func=lambda _: salt)
        try:
            return signer.sign(SHA256.new(message))
        except ValueError:  # the package checks each signature with the public numbers
            raise UnusableKey("jwk.p: expected the prime factors of n in p and q") from None


def key_problem(*, n: int, e: int, d: int, p: int, q: int) -> str | None:
    """Why these numbers are no key of a wallet, beginning with one's name; None if they are one."""
    if not BITS_MIN <= n.bit_length() <= BITS_MAX:
        return f"n: expected {BITS_MIN:,} to {BITS_MAX:,} bits, found {n.bit_length():,}"
    if e != EXPONENT:
        return f"e: expected AQAB, which is {EXPONENT}"
    if min(p, q) < 2 or p == q or p * q != n:
        return "p: expected the factors of n in p and q"
    if any(e * d % (prime - 1) != 1 for prime in (p, q)):
        return "d: expected the private exponent of n and e"
    return None


def rsa_key(*, n: int, e: int, d: int, p: int, q: int) -> RsaKey:
    """The key of numbers that ``key_problem`` accepts."""
    return RsaKey(RSA.construct((n, e, d, p, q), consistency_check=False))


def _bytes(number: int) -> bytes:
    plain_number = int(number)
    return plain_number.to_bytes((plain_number.bit_length() + 7) // 8, "big")
