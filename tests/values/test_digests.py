"""Hashes (spec/values.md, V-60 to V-63)."""

from __future__ import annotations

from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from aos.values.digests import Hash, content_hash, derive, digest, hash_text, parse_hash
from aos.values.errors import ValueProblem
from tests.values import naive
from tests.values.strategies import values


@given(st.sampled_from(["aos/def/1", "aos/intent/1", "x"]), st.lists(values, max_size=3))
def test_a_digest_is_over_the_array_behind_its_domain(domain: str, parts: list[Any]) -> None:
    """V-60"""
    assert digest(domain, *parts) == blake3(naive.encode([domain, *parts])).digest()


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20])
def test_a_digest_of_a_long_part_is_the_same_hash(size: int) -> None:
    """V-60: it is hashed without a copy."""
    parts: list[Any] = ["text", bytes(size), 7, b"\1" * size]

    assert digest("aos/test/1", *parts) == blake3(naive.encode(["aos/test/1", *parts])).digest()


def test_a_content_hash_is_over_the_bytes_alone() -> None:
    """V-61: the official vector of BLAKE3 for no bytes."""
    assert hash_text(content_hash(b"")) == (
        "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    )


@given(st.binary(min_size=32, max_size=32))
def test_a_hash_survives_its_text(data: bytes) -> None:
    """V-62"""
    assert parse_hash(hash_text(Hash(data))) == data


HINT = "AOS hashes are BLAKE3; leave the hash out and it is filled in"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sha256:" + "a" * 64,
         f'$: expected blake3:<64 hex>, found a "sha256" hash ({HINT})'),
        ("a" * 64, f'$: expected blake3:<64 lower-case hex digits>, found "{"a" * 64}"'),
        ("blake3:" + "A" * 64,
         f'$: expected blake3:<64 lower-case hex digits>, found "blake3:{"A" * 57}\u2026"'),
        ("blake3:ab", '$: expected blake3:<64 lower-case hex digits>, found "blake3:ab"'),
        ("blake3:" + "a" * 64 + "\n",
         f'$: expected blake3:<64 lower-case hex digits>, found "blake3:{"a" * 57}\u2026"'),
        ("", '$: expected blake3:<64 lower-case hex digits>, found ""'),
    ],
)  # fmt: skip
def test_another_hash_is_refused_with_what_to_do(text: str, message: str) -> None:
    """V-62"""
    with pytest.raises(ValueProblem) as caught:
        parse_hash(text)
    assert str(caught.value) == message


def test_derived_bytes_differ_by_context_material_and_extend() -> None:
    """V-63"""
    assert derive("a", b"k", 64)[:32] == derive("a", b"k", 32)
    assert len({derive("a", b"k", 32), derive("b", b"k", 32), derive("a", b"l", 32)}) == 3
    assert derive("a", b"k", 64) == blake3(b"k", derive_key_context="a").digest(length=64)
