"""Rows are read back as they were written, or not at all (ST-30)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.errors import Damage
from aos.store.rows import ErasedRow, IntentRow, SubmissionRow
from aos.values.digests import Hash

seqs = st.integers(1, 2**64 - 1)
indexes = st.integers(0, 2**32 - 1)
hashes = st.binary(min_size=32, max_size=32).map(Hash)
open_rows = st.builds(
    IntentRow,
    opened_seq=seqs,
    index=indexes,
    settled_seq=st.none(),
    receipt_digest=st.none(),
    abandoned=st.booleans(),
)
settled_rows = st.builds(
    IntentRow,
    opened_seq=seqs,
    index=indexes,
    settled_seq=seqs,
    receipt_digest=hashes,
    abandoned=st.booleans(),
)
submission_rows = st.builds(
    SubmissionRow, submission_id=st.text(min_size=1, max_size=64), seq=seqs, payload=hashes
)

HASH = Hash(bytes(range(32)))


@given(open_rows | settled_rows)
def test_an_intent_row_survives(row: IntentRow) -> None:
    assert IntentRow.from_bytes(row.to_bytes()) == row


@given(submission_rows)
def test_a_submission_row_survives(row: SubmissionRow) -> None:
    assert SubmissionRow.from_bytes(row.key, row.to_bytes()) == row


@given(st.builds(ErasedRow, seq=seqs, size=st.integers(0, 2**64 - 1)))
def test_an_erased_values_row_survives(row: ErasedRow) -> None:
    assert ErasedRow.from_bytes(row.to_bytes()) == row


def test_rows_lie_as_they_are_drawn() -> None:
    assert ErasedRow(seq=1, size=258).to_bytes() == b"\0\0\0\0\0\0\0\1\0\0\0\0\0\0\1\2"
    settled = IntentRow(opened_seq=1, index=2, settled_seq=3, receipt_digest=HASH, abandoned=True)
    assert settled.to_bytes().hex(" ", -8) == (
        "0000000000000001 0000000200000000 0000000301000102 030405060708090a 0b0c0d0e0f101112 "
        "131415161718191a 1b1c1d1e1f"
    )
    row = SubmissionRow(submission_id="ä", seq=258, payload=HASH)
    assert (row.key, row.to_bytes()) == (b"\xc3\xa4", b"\0\0\0\0\0\0\1\2" + HASH)


def test_every_flipped_bit_is_damage_or_another_row() -> None:
    for row in (
        IntentRow(opened_seq=1, index=0),
        IntentRow(opened_seq=9, index=1, settled_seq=300, receipt_digest=HASH),
    ):
        data = row.to_bytes()
        for bit in range(len(data) * 8):
            flipped = (int.from_bytes(data, "big") ^ 1 << bit).to_bytes(len(data), "big")
            try:
                found = IntentRow.from_bytes(flipped)
            except Damage:
                continue
            assert found != row
            assert found.to_bytes() == flipped


@pytest.mark.parametrize("size", [0, 1, 52, 54])
def test_another_length_is_no_row(size: int) -> None:
    with pytest.raises(Damage, match=f"an intent's row: expected 53 bytes, found {size}"):
        IntentRow.from_bytes(bytes(size))
    with pytest.raises(Damage, match=f"an erased value's row: expected 16 bytes, found {size}"):
        ErasedRow.from_bytes(bytes(size))
    with pytest.raises(Damage, match=f"a submission's row: expected 40 bytes, found {size}"):
        SubmissionRow.from_bytes(b"name", bytes(size))


def test_a_receipt_without_a_record_is_no_row() -> None:
    data = IntentRow(opened_seq=1, index=0).to_bytes()
    with pytest.raises(Damage, match="none that is written"):
        IntentRow.from_bytes(data[:-1] + b"\1")
    with pytest.raises(Damage, match="none that is written"):
        IntentRow.from_bytes(data[:20] + b"\2" + data[21:])


def test_an_id_that_is_not_text_is_no_submission_row() -> None:
    row = SubmissionRow(submission_id="a", seq=1, payload=HASH)
    with pytest.raises(Damage, match="the id is not UTF-8"):
        SubmissionRow.from_bytes(b"\xff", row.to_bytes())


def test_an_id_must_fit_into_a_key() -> None:
    for wrong in ("", "x" * 512, "ä" * 256, "\ud800"):
        with pytest.raises(AssertionError, match="a submission id of"):
            _ = SubmissionRow(submission_id=wrong, seq=1, payload=HASH).key
