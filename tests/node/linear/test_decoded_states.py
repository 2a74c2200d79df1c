"""States that are decoded once: by their bytes, and within a bound."""

from __future__ import annotations

import pytest

from aos.core.journal.records import CellId, Ref
from aos.node.steps.decoded_states import DecodedStates
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash

FIRST, SECOND = encode({"count": 1}), encode({"count": 2})


def cell(number: int) -> CellId:
    return "job/plan@1", encode(number)


def never(_: Hash) -> bytes:
    raise AssertionError("the bytes are in the record")


def test_the_same_bytes_of_a_cell_are_decoded_once() -> None:
    states = DecodedStates()

    value = states.value(cell(1), FIRST, never)

    assert value == {"count": 1}
    assert states.value(cell(1), bytes(bytearray(FIRST)), never) is value
    assert states.value(cell(2), FIRST, never) is not value


def test_other_bytes_of_a_cell_take_the_place_of_the_earlier_ones() -> None:
    states = DecodedStates()
    states.value(cell(1), FIRST, never)

    assert states.value(cell(1), SECOND, never) == {"count": 2}
    assert states.value(cell(1), FIRST, never) == {"count": 1}
    assert len(states) == 1


def test_a_blob_is_read_once_and_nothing_is_kept_of_one_that_cannot_be_read() -> None:
    states, ref, read = DecodedStates(), Ref(content_hash(FIRST), len(FIRST)), []

    def blob(hash: Hash) -> bytes:
        read.append(hash)
        if len(read) == 1:
            raise LookupError
        return FIRST

    with pytest.raises(LookupError):
        states.value(cell(1), ref, blob)
    assert len(states) == 0
    for _ in range(2):
        assert states.value(cell(1), ref, blob) == {"count": 1}
    assert read == [ref.hash, ref.hash]


def test_the_states_that_were_read_longest_ago_make_room() -> None:
    states = DecodedStates(bytes_max=2 * len(FIRST))
    kept = [states.value(cell(number), FIRST, never) for number in (1, 2)]
    assert states.value(cell(1), FIRST, never) is kept[0]

    states.value(cell(3), FIRST, never)

    assert len(states) == 2
    assert states.value(cell(1), FIRST, never) is kept[0]
    assert states.value(cell(2), FIRST, never) is not kept[1]


def test_a_state_that_is_larger_than_the_bound_is_not_kept() -> None:
    states = DecodedStates(bytes_max=len(FIRST) - 1)

    assert states.value(cell(1), FIRST, never) == {"count": 1}
    assert len(states) == 0
