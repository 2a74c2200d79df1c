"""Random numbers as spec/sdk.md has them (SD-11 to SD-14), written from the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MASK: Final = 2**64 - 1


def _mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def _rotl(x: int, k: int) -> int:
    return (x << k | x >> (64 - k)) & MASK


@dataclass
class Chance:
    """One step's sequence."""

    entropy: bytes

    def __post_init__(self) -> None:
        words = [int.from_bytes(self.entropy[i : i + 8], "little") for i in range(0, 64, 8)]
        self.s = [
            _mix((words[i] + (i + 1) * 0x9E3779B97F4A7C15) & MASK) ^ words[i + 4] for i in range(4)
        ]

    def draw(self) -> int:
        s = self.s
        result = _rotl(s[1] * 5 & MASK, 7) * 9 & MASK
        t = s[1] << 17 & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = _rotl(s[3], 45)
        return result

    def below(self, bound: int) -> int:
        mask = (1 << (bound - 1).bit_length()) - 1
        while True:
            found = self.draw() & mask
            if found < bound:
                return found

    def take(self, size: int) -> bytes:
        return b"".join(self.draw().to_bytes(8, "little") for _ in range(-(-size // 8)))[:size]

    def uuid(self) -> str:
        data = bytearray(self.take(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        text = data.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
