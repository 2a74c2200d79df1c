"""A delta makes the same bytes again, whatever the two blobs are (spec/store.md, ST-90)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.errors import Damage
from aos.store.delta import CHAIN_MAX, DeltaRow, delta_of
from aos.values.cbor import Value, encode
from aos.values.digests import content_hash

BASE = content_hash(b"base")


def row(data: bytes, base: bytes) -> DeltaRow | None:
    """The row of ``data`` as a delta, read back from its bytes; None if it must stay whole."""
    parts = delta_of(data, base)
    if parts is None:
        return None
    made = DeltaRow(base=BASE, size=len(data), chain=1, parts=parts)
    assert DeltaRow.from_bytes(made.to_bytes()) == made
    assert made.applied(base) == data
    assert len(made.to_bytes()) <= len(data) // 2
    return made


pieces = st.one_of(
    st.binary(max_size=300),
    st.integers(0, 2000).map(lambda size: random.Random(size).randbytes(size)),  # test data
    st.sampled_from([b"", bytes(1000), b"ab" * 500]),
)


@given(st.lists(pieces, max_size=8), st.data())
def test_any_change_is_made_again(parts: list[bytes], data: st.DataObject) -> None:
    changed = list(parts)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(changed)))
        changed[at : at + data.draw(st.integers(0, 2))] = [data.draw(pieces)]
    row(b"".join(changed), b"".join(parts))
    row(b"".join(parts), b"".join(changed))


def flow(done: int, *, tail: str = "") -> bytes:
    """A state whose first field grows at its end, as that of a durable function does."""
    operations: list[Value] = [
        [0, "step", f"charge-{n}", n * n, content_hash(b"%d" % n)] for n in range(done)
    ]
    return encode({"ops": encode(operations), "view": b"v" * 300, "zzz": tail})


@pytest.mark.parametrize("done", [80, 255, 1000])
def test_a_field_that_grows_at_its_end_costs_what_was_added(done: int) -> None:
    """Its length, in front of it, changes too."""
    made = row(flow(done + 1), flow(done))

    assert made is not None
    assert len(made.to_bytes()) < 250


def test_changes_in_several_places_are_kept_apart() -> None:
    base = flow(400, tail="a")
    data = base.replace(b"charge-7", b"refund-7").replace(b"charge-300", b"x") + b"more"

    made = row(data, base)

    assert made is not None
    assert len(made.to_bytes()) < 400


def test_blobs_that_share_less_than_half_are_kept_whole() -> None:
    """ST-90."""
    chance = random.Random(1)  # test data
    base = chance.randbytes(6000)
    for shared in (0, 1000, 2900):
        assert row(base[:shared] + chance.randbytes(6000 - shared), base) is None
    assert row(base[:3200] + chance.randbytes(2800), base) is not None


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "expected 41 bytes or more, found 0"),
        (BASE + bytes(8) + b"\0", "expected a chain of 1 to 31, found 0"),
        (BASE + bytes(8) + bytes([CHAIN_MAX + 1]), "expected a chain of 1 to 31, found 32"),
    ],
)
def test_a_row_that_is_none_is_damage(data: bytes, found: str) -> None:
    with pytest.raises(Damage, match=found):
        DeltaRow.from_bytes(data)


def test_a_row_that_ends_within_a_part_is_damage() -> None:
    cut = DeltaRow(base=BASE, size=9, chain=1, parts=bytes(11))
    with pytest.raises(Damage, match="ends within a part"):
        cut.applied(b"base")
