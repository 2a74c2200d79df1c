"""Hashes of paired intents are the same hash (spec/shadow.md, SH-31)."""

from __future__ import annotations

from aos.prove.whatif.step_comparison import Renames
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import content_hash, hash_text

OURS, THEIRS, OTHER = (content_hash(each) for each in (b"ours", b"theirs", b"other"))


def renames() -> Renames:
    found = Renames()
    found.add(OURS, THEIRS)
    return found


def test_a_hash_is_renamed_wherever_a_value_has_it() -> None:
    def value(hash: bytes, text: str) -> Value:
        return {
            text: [hash, f"of {text}, twice: {text}"],
            "in bytes": encode({"text": text, "raw": hash, "deep": encode([hash])}),
            "other": [OTHER, hash_text(OTHER), b"\x00" * 31],
        }

    ours, theirs = (encode(value(each, hash_text(each))) for each in (OURS, THEIRS))

    assert renames().data(ours) == theirs


def test_a_map_is_canonical_after_its_keys_were_renamed() -> None:
    """Two keys change places."""
    low, high = sorted((OURS, THEIRS))
    found = Renames()
    found.add(low, high)
    middle = hash_text(low)[:-1] + "z"
    renamed = found.data(encode({hash_text(low): 1, middle: 2}))

    assert decode_record(renamed) == {hash_text(high): 1, middle: 2}


def test_bytes_that_are_no_canonical_cbor_are_renamed_in_place() -> None:
    text, after = hash_text(OURS).encode(), hash_text(THEIRS).encode()

    assert renames().data(b"\xff" + text + b"\x58\x20" + OURS) == (
        b"\xff" + after + b"\x58\x20" + THEIRS
    )


def test_the_same_hash_needs_no_renaming() -> None:
    found = Renames()
    found.add(OURS, OURS)

    assert not found
    assert renames()
