"""The bytes of a transaction of type 2 (EIP-1559), to be signed and signed (EV-40, EV-52).

    0x02 || rlp([chain, nonce, max_tip, max_fee, gas, to, value, data, [], y_parity, r, s])

The signature is of the keccak-256 of the same without the last three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from aos.executors.evm.inputs import SubmitParams

TYPE_2: Final = b"\x02"

Item: TypeAlias = "bytes | int | Sequence[Item]"

_STRING: Final = 0x80
_LIST: Final = 0xC0
_SHORT_MAX: Final = 55


def unsigned_fields(params: SubmitParams) -> list[Item]:
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
    """Recursive length prefixes: a number is its shortest bytes, big end first."""
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8)
    if isinstance(item, bytes):
        is_itself = len(item) == 1 and item[0] < _STRING
        return item if is_itself else _prefix(_STRING, len(item)) + item
    body = b"".join(map(rlp, item))
    return _prefix(_LIST, len(body)) + body


def _prefix(offset: int, size: int) -> bytes:
    if size <= _SHORT_MAX:
        return bytes([offset + size])
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([offset + _SHORT_MAX + len(length)]) + length
