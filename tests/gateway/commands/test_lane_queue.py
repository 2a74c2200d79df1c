"""The queue of a lane, which is bytes in its state (C-124)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.errors import Damage
from aos.values.cbor import Value, encode
from aos_gateway.cells import QueuePosition, item_end, place_of, requests
from tests.gateway.commands.samples import EPOCH, SCORE, WORK, in_flight, lane, queued

VALUES: st.SearchStrategy[Value] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.binary(max_size=300)
    | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_items_that_follow_each_other_are_found_by_their_ends(values: list[Value]) -> None:
    items = [encode(value) for value in values]
    data, at = b"".join(items), 0

    for item in items:
        end = item_end(data, at)
        assert data[at:end] == item
        at = end


@given(VALUES)
def test_an_item_that_is_cut_off_has_no_end(value: Value) -> None:
    data = encode(value)
    for cut in range(len(data)):
        with pytest.raises(IndexError):
            item_end(data[:cut], 0)


def test_the_request_in_flight_is_the_first_and_the_others_follow_in_order() -> None:
    state = lane(current=in_flight(WORK, 3), waiting=((SCORE, 1), (EPOCH, 2)))

    assert [each["request"] for each in requests(state)] == [3, 1, 2]
    assert place_of(state, WORK, 3) == QueuePosition(request=3, number=1, total=3, ahead=None)
    assert place_of(state, SCORE, 1) == QueuePosition(request=1, number=2, total=3, ahead=WORK)
    assert place_of(state, EPOCH, 2) == QueuePosition(request=2, number=3, total=3, ahead=WORK)


def test_a_request_with_another_number_or_owner_has_no_place() -> None:
    state = lane(current=in_flight(WORK, 3), waiting=((SCORE, 1),))

    assert place_of(state, WORK, 2) is None
    assert place_of(state, SCORE, 3) is None
    assert place_of(state, EPOCH, 1) is None


def test_a_parked_lane_without_a_request_in_flight_has_places_too() -> None:
    state = lane(waiting=((SCORE, 1), (EPOCH, 2)))

    assert place_of(state, SCORE, 1) == QueuePosition(request=1, number=1, total=2, ahead=None)
    assert place_of(state, EPOCH, 2) == QueuePosition(request=2, number=2, total=2, ahead=None)


@pytest.mark.parametrize(
    "queue",
    [
        queued((WORK, 1))[:-1],
        queued((WORK, 1)) + b"\x00",
        encode("work 1"),
        encode(b"work") + encode(b"\xa0"),
        encode("work") + encode("text"),
        b"\xff\xff",
    ],
)
def test_a_queue_that_cannot_be_read_is_damage(queue: bytes) -> None:
    state = lane() | {"queue": queue}

    with pytest.raises(Damage, match="the queue of the lane cannot be read: byte"):
        place_of(state, WORK, 1)


def test_a_request_that_cannot_be_read_is_damage() -> None:
    state = lane() | {"queue": encode("work 1") + encode(b"\xff")}

    with pytest.raises(Damage, match="the queue of the lane cannot be read"):
        requests(state)
