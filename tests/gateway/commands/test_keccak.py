"""Keccak-256 in plain Python."""

from __future__ import annotations

import random

import pytest
from Crypto.Hash import keccak

from aos_gateway.keccak import RATE_BYTES, keccak_256

KNOWN = {
    b"": "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
    b"abc": "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
}


@pytest.mark.parametrize("data", KNOWN)
def test_the_known_hashes(data: bytes) -> None:
    assert keccak_256(data).hex() == KNOWN[data]


def test_every_length_up_to_two_blocks_and_beyond_gives_the_hash_of_pycryptodome() -> None:
    dice = random.Random(7)
    for size in range(2 * RATE_BYTES + 2):
        data = dice.randbytes(size)
        assert keccak_256(data) == keccak.new(digest_bits=256, data=data).digest(), size
