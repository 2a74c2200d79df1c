"""Keys that seal values, and ``Keyring``, which seals under its current key and opens those of all
its keys (spec/sealed.md, SL-20 to SL-26, SL-30 to SL-34).

    0x01 | key id (8) | nonce (24) | ciphertext and tag (plaintext + 16)
    `--------- header, authenticated ---'

XChaCha20-Poly1305 (IETF). The nonce is a keyed hash of the plaintext and of the place where it was
sealed, so a value that is sealed again for the same place has the same bytes, and two different
plaintexts never share a nonce.

``sealed_event`` seals the places of an event before it is sent, ``unsealed`` opens those of a
document (SL-11, SL-14).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from blake3 import blake3
from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
)
from nacl.exceptions import CryptoError

from aos.errors import BadUsage, Refused
from aos.manifest.effective import Effective
from aos.manifest.sealed_places import (
    HEADER_BYTES,
    KEY_ID_BYTES,
    NONCE_BYTES,
    SEALED_BYTES_MIN,
    VERSION,
    changed,
    form_problem,
)
from aos.values.cbor import INGRESS_BYTES_MAX, Value, decode_ingress, encode
from aos.values.digests import HASH_BYTES, Hash, derive, parse_hash
from aos.values.errors import ValueProblem
from aos.values.show import untyped_to_json
from aos.values.spelling import base64_bytes, base64_text

SECRET_BYTES: Final = 32

_ID: Final = "aos/sealed/1 key id"
_CIPHER: Final = "aos/sealed/1 cipher"
_NONCE: Final = "aos/sealed/1 nonce"

ROOT: Final = "$"

CARRIED: Final = "$sealed"
"""``{"$sealed": base64}`` in an event to seal is a value that is sealed already."""

_BASE64_CHARACTERS_MIN: Final = 4 * SEALED_BYTES_MIN // 3


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


class SealedValue(bytes):
    """Sealed bytes that a worker leaves as they are where it finds them in a result, as
    ``EffectContext.seal`` makes them."""

    __slots__ = ()


class CannotOpen(Refused):
    """A sealed value cannot be opened with this keyring. The message has no part of it but the key
    id."""


class Keyring:
    """The keys of one group of senders and workers. It cannot be changed and may be used from any
    thread; ``aos keyring`` makes and changes the file.

    Args:
        keys: At least one, each once.
        current: The id of the key that seals (8 bytes); by default the last one's.

    Raises:
        BadUsage: There is no key, a key is there twice, or the current one is missing.
    """

    __slots__ = ("_keys", "current")

    def __init__(self, keys: Iterable[SealingKey], *, current: bytes | None = None) -> None:
        all_keys = list(keys)
        self._keys = {key.id: key for key in all_keys}
        if not all_keys or len(self._keys) != len(all_keys):
            raise BadUsage("keyring: expected at least one key, and each key once")
        current_id = all_keys[-1].id if current is None else current
        if current_id not in self._keys:
            raise BadUsage(f"keyring: the current key {current_id.hex()} is not among its keys")
        self.current = self._keys[current_id]

    @property
    def keys(self) -> tuple[SealingKey, ...]:
        """Every key, in the order of the file."""
        return tuple(self._keys.values())

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a keyring file.

        Raises:
            BadUsage: It is missing, readable by others than its owner, or holds something else.
        """
        # A keyring in memory needs no file.
        from aos.sealing.keyring_file import read_keyring  # noqa: PLC0415

        read = read_keyring(Path(path))
        return cls((entry.key for entry in read.entries), current=read.current)

    @classmethod
    def generate(cls) -> Self:
        """A keyring with one new key that is nowhere on disk, for tests."""
        return cls([SealingKey(os.urandom(SECRET_BYTES))])

    def seal(
        self,
        value: Value,
        *,
        submission_id: str | None = None,
        intent: str | Hash | None = None,
        path: str = ROOT,
    ) -> bytes:
        """Seal a plain value (None, bool, int, str, bytes, list or dict) under the current key.

        Args:
            submission_id: The id of the event that carries it. With it, the same value at the same
                path has the same bytes, so the event can be sent again.
            intent: The effect in whose result it is, ``blake3:…`` or 32 bytes, with the same
                effect. Without both, each call returns other bytes.
            path: The place in the event or result, ``$.card``: equal values at two places have
                different bytes.

        Raises:
            BadUsage: The value has no plain form or is too large, or both ids are given.
        """
        plaintext = _plaintext(value)
        return self.current.seal(plaintext, _origin(submission_id, intent), path)

    def seal_text(self, value: Value, *, submission_id: str | None = None, path: str = ROOT) -> str:
        """As ``seal``, but return base64, the form of bytes in the JSON of an event."""
        return base64_text(self.seal(value, submission_id=submission_id, path=path))

    def open(self, sealed: bytes) -> Value:
        """Return the plain value that was sealed, under any key of the keyring.

        Raises:
            CannotOpen: The bytes are cut off or altered, or their key is not in the keyring.
        """
        problem = form_problem(sealed)
        if problem is not None:
            raise CannotOpen(problem)
        id = key_id_of(sealed)
        key = self._keys.get(id)
        if key is None:
            raise CannotOpen(
                f"the value is sealed under the key {id.hex()}, which is not in the keyring "
                "(aos keyring show FILE lists its keys)"
            )
        try:
            return decode_ingress(key.open(bytes(sealed)))
        except Altered:
            raise CannotOpen(
                f"the value does not open with its key {id.hex()}: it was altered or cut off"
            ) from None
        except ValueProblem as error:
            # Its text may quote the plaintext.
            raise CannotOpen(
                f"the plaintext under the key {id.hex()} is not CBOR of a plain value: another "
                f"program sealed it otherwise ({type(error).__name__})"
            ) from None


def _plaintext(value: Value) -> bytes:
    try:
        plaintext = encode(value)
        decode_ingress(plaintext)
    except (ValueProblem, TypeError, ValueError, OverflowError, RecursionError):
        raise BadUsage(
            "seal: expected None, a bool, int, str, bytes, list or dict, of at most "
            f"{INGRESS_BYTES_MAX} bytes as CBOR, found something else (it is not shown)"
        ) from None
    return plaintext


def _origin(submission_id: str | None, intent: str | Hash | None) -> SealingOrigin:
    if submission_id is not None and intent is not None:
        raise BadUsage("seal: expected either submission_id or intent, found both")
    if submission_id is not None:
        try:
            submission_id.encode()
        except UnicodeEncodeError:
            raise BadUsage(
                "seal: submission_id: expected UTF-8 text, found a lone surrogate"
            ) from None
        return SealingOrigin("submission", submission_id)
    if intent is not None:
        hash_ = parse_hash(intent) if isinstance(intent, str) else intent
        return SealingOrigin("intent", bytes(hash_))
    return SealingOrigin("random", os.urandom(HASH_BYTES))


def opened_or_same(keyring: Keyring, data: bytes) -> Any:
    """The plain value of bytes that this keyring opens; otherwise the bytes."""
    try:
        return keyring.open(data)
    except CannotOpen:
        return data


def sealed_event(
    keyring: Keyring, manifest: Effective, schema: str, value: object, submission_id: str | None
) -> object:
    """Authoring JSON of an event in which the sealed places have plaintexts -> the same with their
    sealed forms. A schema that the manifest does not have is left to the kernel.

    Raises:
        ValueProblem: A place has no value, or a value that is sealed already and that this keyring
            does not open. Its text quotes neither.
    """

    def seal(path: str, part: Any) -> str:
        if isinstance(part, Mapping) and CARRIED in part:
            return _carried(keyring, path, part)
        if part is None:
            raise ValueProblem("expected a value to seal, found null", path=path)
        try:
            return base64_text(keyring.seal(part, submission_id=submission_id, path=path))
        except BadUsage as problem:
            raise ValueProblem(str(problem), path=path) from None

    if schema not in manifest.sealing:
        return value
    return changed(manifest.schemas[schema], value, manifest.schemas, seal)


def _carried(keyring: Keyring, path: str, part: Mapping[str, object]) -> str:
    text = part[CARRIED]
    data = base64_bytes(text) if isinstance(text, str) and len(part) == 1 else None
    problem = form_problem(data)
    try:
        if problem is None and data is not None:
            keyring.open(data)
            return base64_text(data)
    except CannotOpen as refusal:
        problem = str(refusal)
    raise ValueProblem(f"{CARRIED}: {problem}", path=path)


def unsealed(keyring: Keyring, document: Any) -> Any:
    """A copy of a JSON document in which each sealed value, as base64 text, that the keyring opens
    is replaced by its plaintext. All other text is left as it is."""
    if isinstance(document, str):
        return _opened_text(keyring, document)
    if isinstance(document, list | tuple):
        return [unsealed(keyring, element) for element in document]
    if isinstance(document, Mapping):
        return {key: unsealed(keyring, value) for key, value in document.items()}
    return document


def _opened_text(keyring: Keyring, text: str) -> object:
    # The first byte, 0x01, makes the first character A.
    if len(text) < _BASE64_CHARACTERS_MIN or not text.startswith("A"):
        return text
    data = base64_bytes(text)
    if data is None:
        return text
    plaintext = opened_or_same(keyring, data)
    return text if plaintext is data else untyped_to_json(plaintext)
