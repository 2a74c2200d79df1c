"""A key, and the bytes that it seals and opens (spec/sealed.md, SL-20 to SL-26).

    0x01 | key id (8) | nonce (24) | ciphertext and tag (plaintext + 16)
    `--------- header, authenticated ---'

XChaCha20-Poly1305 (IETF). The nonce is a keyed hash of the plaintext and of the place where it was
sealed, so a value that is sealed again for the same place has the same bytes, and two different
plaintexts never share a nonce.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from blake3 import blake3
from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
)
from nacl.exceptions import CryptoError

from aos.manifest.sealed_places import HEADER_BYTES, KEY_ID_BYTES, NONCE_BYTES, VERSION
from aos.values.cbor import encode
from aos.values.digests import derive

SECRET_BYTES: Final = 32

_ID: Final = "aos/sealed/1 key id"
_CIPHER: Final = "aos/sealed/1 cipher"
_NONCE: Final = "aos/sealed/1 nonce"


class Altered(Exception):
    """The bytes are not what this key sealed."""


@dataclass(frozen=True, slots=True)
class SealingOrigin:
    """The occasion for which a value is sealed: part of its nonce (SL-23).

    ``kind`` is ``submission`` with the submission id of the event, ``intent`` with the 32 bytes of
    its hash, or ``random`` with 32 random bytes.
    """

    kind: str
    id: str | bytes


@dataclass(frozen=True, slots=True)
class SealingKey:
    """A secret of 32 bytes, and the keys that are derived from it (SL-21)."""

    secret: bytes = field(repr=False)
    id: bytes = field(init=False)
    _cipher: bytes = field(init=False, repr=False)
    _nonce: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert len(self.secret) == SECRET_BYTES, "a secret of another length"
        object.__setattr__(self, "id", derive(_ID, self.secret, KEY_ID_BYTES))
        object.__setattr__(self, "_cipher", derive(_CIPHER, self.secret, SECRET_BYTES))
        object.__setattr__(self, "_nonce", derive(_NONCE, self.secret, SECRET_BYTES))

    def seal(self, plaintext: bytes, origin: SealingOrigin, path: str) -> bytes:
        """The sealed form of ``plaintext``: 49 bytes more. The same arguments give the same bytes
        (SL-23)."""
        nonce_input = encode([origin.kind, origin.id, path, plaintext])
        nonce = blake3(nonce_input, key=self._nonce).digest(length=NONCE_BYTES)
        header = bytes([VERSION]) + self.id + nonce
        return header + crypto_aead_xchacha20poly1305_ietf_encrypt(
            plaintext, header, nonce, self._cipher
        )

    def open(self, sealed: bytes) -> bytes:
        """The plaintext of bytes in the sealed form, which name this key.

        Raises:
            Altered: A bit of the header or of the ciphertext is not as it was sealed.
        """
        header, ciphertext = sealed[:HEADER_BYTES], sealed[HEADER_BYTES:]
        try:
            return crypto_aead_xchacha20poly1305_ietf_decrypt(
                ciphertext, header, header[-NONCE_BYTES:], self._cipher
            )
        except (CryptoError, ValueError) as error:
            raise Altered from error


def key_id_of(sealed: bytes) -> bytes:
    """The id of the key that sealed ``sealed``, which must have the sealed form."""
    return sealed[1 : 1 + KEY_ID_BYTES]
