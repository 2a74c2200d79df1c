"""The SHA-256 names of blobs, and the documents that say them (AG-30)."""

from __future__ import annotations

import hashlib

import pytest

from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, hash_text
from aos.values.sha256 import (
    NAME_BYTES,
    Name,
    given_name,
    given_text,
    parse_sha256,
    read_name,
    sha256_text,
    true_name,
)

DATA = b"some bytes"
SHA = hashlib.sha256(DATA).digest()
BLOB = content_hash(DATA)


def test_a_true_name_is_of_the_bytes_and_a_given_one_of_the_hash() -> None:
    true, given = true_name(DATA), given_name(BLOB)

    assert true == Name(SHA, BLOB)
    assert (true.is_given, given.is_given) == (False, True)
    assert true.is_of(DATA)
    assert given.is_of(b"whatever")
    assert not true.is_of(b"other bytes")
    assert given.sha256 == hashlib.sha256(encode(["aos/given/1", BLOB])).digest()
    assert given_text(hash_text(BLOB)) == "sha256:" + given.sha256.hex()


def test_a_document_is_read_as_it_was_written() -> None:
    name = true_name(DATA)
    document = name.to_bytes()

    assert document == encode(["aos/sha256/1", SHA, BLOB])
    assert len(document) == NAME_BYTES
    assert content_hash(document) == name.hash
    assert read_name(document) == name


@pytest.mark.parametrize(
    "other",
    [
        b"",
        bytes(NAME_BYTES),
        encode(["aos/sha256/2", SHA, BLOB]),
        encode(["aos/sha256/1", SHA + b"\0", BLOB[:-1]]),
        encode(["aos/sha256/1", BLOB.hex()[:32], SHA]),
        true_name(DATA).to_bytes() + b"\0",
    ],
)
def test_other_bytes_are_no_document(other: bytes) -> None:
    assert read_name(other) is None


@pytest.mark.parametrize("text", ["", "sha256:", f"blake3:{SHA.hex()}", f"sha256:{SHA.hex()}0"])
def test_other_text_is_no_name(text: str) -> None:
    assert parse_sha256(text) is None


def test_text_that_is_no_hash_of_ours_stays() -> None:
    assert given_text("sha512:x") == "sha512:x"
    assert parse_sha256(sha256_text(DATA)) == SHA
    assert given_name(Hash(SHA)).blob == SHA
