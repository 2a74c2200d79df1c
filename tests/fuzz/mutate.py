"""Seeds -> altered seeds, the same each time: what the tests run where no fuzzer is at hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

MOST_BYTES = 1 << 16

_NUMBERS = (0, 1, 0x17, 0x18, 0x7F, 0x80, 0xFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 2**63, 2**64 - 1)


def mutations(
    seeds: Sequence[bytes], *, count: int, tokens: Sequence[bytes] = (), seed: int = 0
) -> Iterator[bytes]:
    """``count`` inputs: each a seed after one to six changes."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
            chance.choice(_CHANGES)(chance, data, seeds, tokens)
        yield bytes(data[:MOST_BYTES])


def _flip(chance: random.Random, data: bytearray, _: object, __: object) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(chance: random.Random, data: bytearray, _: object, __: object) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice((0, 0xFF, 0x7F, chance.randrange(256)))


def _cut(chance: random.Random, data: bytearray, _: object, __: object) -> None:
    at = chance.randrange(len(data) + 1)
    del data[at : at + chance.choice((1, 2, 4, 8, 40, len(data)))]


def _double(chance: random.Random, data: bytearray, _: object, __: object) -> None:
    at = chance.randrange(len(data) + 1)
    part = data[at : at + chance.choice((1, 3, 9, 40))]
    data[at:at] = part * chance.choice((1, 1, 2, 50))


def _add(chance: random.Random, data: bytearray, _: object, tokens: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.choice(tokens) if tokens else chance.randbytes(chance.choice((1, 2, 8)))


def _number(chance: random.Random, data: bytearray, _: object, __: object) -> None:
    size = chance.choice((1, 2, 4, 8))
    if len(data) >= size:
        at = chance.randrange(len(data) - size + 1)
        number = chance.choice(_NUMBERS) % 256**size
        data[at : at + size] = number.to_bytes(size, chance.choice(("big", "little")))


def _splice(chance: random.Random, data: bytearray, seeds: Sequence[bytes], _: object) -> None:
    other = chance.choice(seeds)
    at, begin = chance.randrange(len(data) + 1), chance.randrange(len(other) + 1)
    data[at:] = other[begin:]


_Change = Callable[[random.Random, bytearray, Sequence[bytes], Sequence[bytes]], None]
_CHANGES: tuple[_Change, ...] = (_flip, _flip, _set, _cut, _double, _add, _number, _splice)
