"""Signatures at the edges of Ed25519, with libsodium's answers: for `aos-fold` (J-34).

    python -m tests.fastcore.signature_vectors      rewrites signatures.cbor of the crate

Points of small order, points with a part of small order, and encodings that are not canonical:
implementations of Ed25519 differ there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from aos.core.journal.signing import is_signed
from aos.values.cbor import Value, encode

PATH: Final = (
    Path(__file__).parents[2] / "kernel" / "rust-core" / "tests" / "vectors" / "signatures.cbor"
)

PRIME: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
D: Final = -121665 * pow(121666, -1, PRIME) % PRIME
MESSAGE: Final = b"a message"
KEY: Final = 0x1234_5678_9ABC_DEF0
NONCE: Final = 0x0FED_CBA9_8765_4321

Point: TypeAlias = tuple[int, int]
NEUTRAL: Final[Point] = (0, 1)


def add(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2 % PRIME
    return (
        (x1 * y2 + x2 * y1) * pow(1 + product, -1, PRIME) % PRIME,
        (y1 * y2 + x1 * x2) * pow(1 - product, -1, PRIME) % PRIME,
    )


def times(number: int, point: Point) -> Point:
    result = NEUTRAL
    while number:
        if number & 1:
            result = add(result, point)
        point, number = add(point, point), number >> 1
    return result


def with_y(y: int, sign: int = 0) -> Point | None:
    """The point with this ``y`` whose ``x`` has this lowest bit; None if there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if x * x % PRIME != square:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if x * x % PRIME != square:
        return None
    return (x if x & 1 == sign else -x % PRIME, y)


def encoded(point: Point) -> bytes:
    return encoded_parts(point[1], point[0] & 1)


def encoded_parts(y: int, sign: int) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


def base() -> Point:
    point = with_y(4 * pow(5, -1, PRIME) % PRIME)
    assert point is not None
    return point


def of_order_eight() -> Point:
    for y in range(2, 100):
        point = with_y(y)
        torsion = NEUTRAL if point is None else times(ORDER, point)
        if times(4, torsion) != NEUTRAL:
            return torsion
    raise AssertionError("half of all points have such a part")


def cases() -> Iterator[tuple[str, bytes, bytes, bytes]]:
    """Name, public key, R and S. Each S solves the equation up to a point of small order."""
    torsion, key, nonce = of_order_eight(), times(KEY, base()), times(NONCE, base())

    def solved(name: str, a: bytes, r: bytes, extra: int = 0) -> tuple[str, bytes, bytes, bytes]:
        return name, a, r, s_of(a, r, KEY, NONCE, extra)

    yield solved("a signature", encoded(key), encoded(nonce))
    yield solved("S is not below the order", encoded(key), encoded(nonce), ORDER)
    for n in range(1, 8):
        part = times(n, torsion)
        yield solved(f"R + {n} T", encoded(key), encoded(add(nonce, part)))
        yield solved(f"A + {n} T", encoded(add(key, part)), encoded(nonce))
        yield solved(f"A + {n} T, R + {n} T", encoded(add(key, part)), encoded(add(nonce, part)))
    for n in range(8):
        small = encoded(times(n, torsion))
        yield f"A = {n} T", small, encoded(nonce), NONCE.to_bytes(32, "little")
        yield f"R = {n} T", encoded(key), small, s_of(encoded(key), small, KEY, 0, 0)
    for y in range(19):
        for sign in (0, 1):
            if with_y(y, sign) is not None:
                other = encoded_parts(y + PRIME, sign)
                yield (
                    f"A of y {y}, sign {sign}",
                    other,
                    encoded(nonce),
                    NONCE.to_bytes(32, "little"),
                )
                yield (
                    f"R of y {y}, sign {sign}",
                    encoded(key),
                    other,
                    s_of(encoded(key), other, KEY, 0, 0),
                )
    minus_zero = encoded_parts(1, 1)
    yield "A is minus zero", minus_zero, encoded(nonce), NONCE.to_bytes(32, "little")
    yield "R is minus zero", encoded(key), minus_zero, s_of(encoded(key), minus_zero, KEY, 0, 0)
    yield "R is no point", encoded(key), bytes([2]) + bytes(31), NONCE.to_bytes(32, "little")


def s_of(a: bytes, r: bytes, key: int, nonce: int, extra: int) -> bytes:
    challenge = int.from_bytes(hashlib.sha512(r + a + MESSAGE).digest(), "little")
    return ((nonce + challenge * key) % ORDER + extra).to_bytes(32, "little")


def make() -> bytes:
    rows: list[Value] = [
        [name, MESSAGE, r + s, a, is_signed(MESSAGE, r + s, a)] for name, a, r, s in cases()
    ]
    _, a, r, s = next(cases())
    rows += [
        ["another message", b"another", r + s, a, False],
        ["a short signature", MESSAGE, (r + s)[:-1], a, False],
        ["a short key", MESSAGE, r + s, a[:-1], False],
    ]
    return encode(rows)


if __name__ == "__main__":
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_bytes(make())
