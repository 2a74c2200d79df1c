"""Keccak-256, the hash of Ethereum: SHA3-256 before its padding was changed.

It makes the ids of records and the checksums of addresses: a few short texts for each command, so
plain Python is fast enough and needs no package.
"""

from __future__ import annotations

from typing import Final

RATE_BYTES: Final = 136
DIGEST_BYTES: Final = 32
_ROUNDS: Final = 24
_MASK: Final = (1 << 64) - 1


def _round_constants() -> tuple[int, ...]:
    """The constant of each round: bits of a shift register at the places 2^j - 1."""
    register, constants = 1, []
    for _ in range(_ROUNDS):
        constant = 0
        for j in range(7):
            if register & 1:
                constant |= 1 << ((1 << j) - 1)
            register <<= 1
            if register & 0x100:
                register ^= 0x171
        constants.append(constant)
    return tuple(constants)


def _walk() -> tuple[tuple[int, int], ...]:
    """The (target lane, rotation) of each lane that moves, in the order of the walk."""
    x, y, moves = 1, 0, []
    for t in range(24):
        x, y = y, (2 * x + 3 * y) % 5
        moves.append((x + 5 * y, (t + 1) * (t + 2) // 2 % 64))
    return tuple(moves)


_CONSTANTS: Final = _round_constants()
_WALK: Final = _walk()


def keccak_256(data: bytes) -> bytes:
    """The 32 bytes of the hash."""
    padded = bytearray(data)
    padded.append(0x01)
    padded.extend(bytes(-len(padded) % RATE_BYTES))
    padded[-1] |= 0x80
    lanes = [0] * 25
    for at in range(0, len(padded), RATE_BYTES):
        for index in range(RATE_BYTES // 8):
            start = at + 8 * index
            lanes[index] ^= int.from_bytes(padded[start : start + 8], "little")
        lanes = _permuted(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[: DIGEST_BYTES // 8])


def _permuted(lanes: list[int]) -> list[int]:
    for constant in _CONSTANTS:
        lanes = _mixed(lanes)
        lanes[0] ^= constant
    return lanes


def _mixed(lanes: list[int]) -> list[int]:
    """One round without its constant: columns, then the walk, then rows."""
    columns = [
        lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)
    ]
    parity = [columns[x - 1] ^ _rotated(columns[(x + 1) % 5], 1) for x in range(5)]
    lanes = [lane ^ parity[index % 5] for index, lane in enumerate(lanes)]
    moving = lanes[1]
    for target, turn in _WALK:
        lanes[target], moving = _rotated(moving, turn), lanes[target]
    return [
        lanes[row + x] ^ (~lanes[row + (x + 1) % 5] & lanes[row + (x + 2) % 5])
        for row in range(0, 25, 5)
        for x in range(5)
    ]


def _rotated(lane: int, turn: int) -> int:
    return (lane << turn | lane >> (64 - turn)) & _MASK
