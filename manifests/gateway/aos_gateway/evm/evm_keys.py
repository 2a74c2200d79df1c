"""Private keys of a secret, found by address, and the transactions of type 2 (EIP-1559) that they
sign, as bytes (EV-40, EV-50, EV-51, EV-52, EV-53).

    0x02 || rlp([chain, nonce, max_tip, max_fee, gas, to, value, data, [], y_parity, r, s])

The signature is of the keccak-256 of the same without the last three. RFC 6979 makes it a function
of key and transaction, so the same params give the same bytes in every process, with and without
coincurve.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias

from aos_gateway.evm.evm_errors import keys_malformed
from aos_gateway.evm.evm_packages import PrivateKey, keccak
from aos_gateway.evm.inputs import SubmitParams

ORDER: Final = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
"""Private keys are 1 to ORDER - 1 (secp256k1)."""

_KEY_TEXT: Final = re.compile(r"(?:0x)?[0-9a-fA-F]{64}", re.ASCII)
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
SECRETS_MAX: Final = 8
"""Secrets whose addresses are kept: to derive one takes milliseconds."""

TYPE_2: Final = b"\x02"

Item: TypeAlias = "bytes | int | Sequence[Item]"

_RLP_STRING: Final = 0x80
_RLP_LIST: Final = 0xC0
_RLP_SHORT_MAX: Final = 55

_addresses: dict[bytes, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedTransaction:
    """The bytes to publish, and their hash."""

    raw: bytes = field(repr=False)
    hash: str


def sign(secret: str, name: str, params: SubmitParams) -> SignedTransaction | None:
    """Sign the transaction with the key of its signer; None if the secret has no such key.

    Takes 5 to 20 ms, so it belongs into a thread.

    Raises:
        NotConfigured: A key of the secret is malformed.
    """
    key = find_key(secret, name, params.signer)
    if key is None:
        return None
    fields = unsigned_fields(params)
    signature = PrivateKey(key).sign_msg_hash(keccak(TYPE_2 + rlp(fields)))
    raw = TYPE_2 + rlp([*fields, signature.v, signature.r, signature.s])
    return SignedTransaction(raw=raw, hash="0x" + keccak(raw).hex())


def find_key(secret: str, name: str, signer: str) -> bytes | None:
    """The private key of ``signer``. ``name`` is the secret's, for errors.

    Raises:
        NotConfigured: A key is malformed; it is named by its place and not shown (EV-51).
    """
    keys = [_parsed_key(key_text.strip()) for key_text in secret.split(",")]
    if None in keys:
        ordinal = _ordinal(keys.index(None))
        raise keys_malformed(
            f"the {ordinal} key of {name} is malformed: expected 64 hex digits of a private key of "
            "secp256k1"
        )
    # Only addresses are kept between calls: a secret is here for one call.
    digest = sha256(secret.encode()).digest()
    addresses = _addresses.get(digest)
    if addresses is None:
        addresses = tuple(_address(key) for key in keys if key is not None)
        _addresses[digest] = addresses
        while len(_addresses) > SECRETS_MAX:
            _addresses.pop(next(iter(_addresses)), None)
    return keys[addresses.index(signer)] if signer in addresses else None


def _parsed_key(text: str) -> bytes | None:
    if not _KEY_TEXT.fullmatch(text):
        return None
    key = bytes.fromhex(text.removeprefix("0x"))
    return key if 0 < int.from_bytes(key) < ORDER else None


def _ordinal(index: int) -> str:
    return _ORDINALS[index] if index < len(_ORDINALS) else f"{index + 1}th"


def _address(key: bytes) -> str:
    return str(PrivateKey(key).public_key.to_address())


def unsigned_fields(params: SubmitParams) -> list[Item]:
    """The fields of the transaction that its signature is of (EV-40, EV-52)."""
    return [
        params.chain,
        params.nonce,
        params.max_tip,
        params.max_fee,
        params.gas,
        bytes.fromhex(params.to[2:]),
        params.value,
        params.data,
        [],
    ]


def rlp(item: Item) -> bytes:
    """An item in recursive length prefixes: a number is its shortest bytes, big end first."""
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8)
    if isinstance(item, bytes):
        is_itself = len(item) == 1 and item[0] < _RLP_STRING
        return item if is_itself else _length_prefix(_RLP_STRING, len(item)) + item
    body = b"".join(map(rlp, item))
    return _length_prefix(_RLP_LIST, len(body)) + body


def _length_prefix(offset: int, size: int) -> bytes:
    if size <= _RLP_SHORT_MAX:
        return bytes([offset + size])
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([offset + _RLP_SHORT_MAX + len(length)]) + length
