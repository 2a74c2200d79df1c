"""The independent checker sees what it is there for: each of its promises, broken once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from aos.values.cbor import decode_record, encode
from tests.sim import ends, script
from tests.sim.checker import Broken, Published, Told, check
from tests.sim.world import SimWorld


@pytest.fixture(autouse=True, scope="module")
def manifests_read_once() -> Iterator[None]:
    with ends.manifests_read_once():
        yield


@cache
def world() -> SimWorld:
    """The first one in which an executor has settled something."""
    for seed in range(50):
        script.know_keys(seed)
        made = SimWorld(seed)
        script.play(made, script.script_of(seed))
        if any(each["kind"] == "receipt" for each in made.records()):
            return made
    raise AssertionError("no seed in fifty settles an intent")


def frames() -> list[bytes]:
    return [each.to_bytes() for each in world().frames]


def broken(data: list[bytes], **more: Any) -> str:
    with pytest.raises(Broken) as caught:
        check(data, world().values.get, **more)
    return str(caught.value)


def test_a_journal_as_it_is_keeps_every_promise() -> None:
    reader = check(frames(), world().values.get)

    assert reader.seq == world().state.tip.seq
    assert reader.intents


def test_a_frame_that_is_dropped_or_comes_twice_is_seen() -> None:
    whole = frames()

    assert "without a gap" in broken(whole[:2] + whole[3:])
    assert "without a gap" in broken([*whole[:3], whole[2], *whole[3:]])


def test_an_altered_bit_is_seen() -> None:
    whole = frames()

    for at in range(60, len(whole[1]), 11):
        data = bytearray(whole[1])
        data[at] ^= 1
        # Where a name was altered, the field with the original name is missing.
        with pytest.raises((Broken, KeyError, AttributeError)):
            check([whole[0], bytes(data)], world().values.get)


def altered(index: int, change: Callable[[Any], Any]) -> list[bytes]:
    whole = frames()
    frame: Any = decode_record(whole[index])
    return [*whole[:index], encode(change(frame)), *whole[index + 1 :]]


def test_a_header_over_other_records_is_seen() -> None:
    data = altered(2, lambda frame: {**frame, "salt": bytes(32)})

    assert "a header over its records" in broken(data)


def test_an_acknowledged_input_that_is_missing_is_found() -> None:
    last = world().state.tip.seq

    assert "every acknowledged input is in the journal" in broken(
        frames(), told=[Told(last + 1, "event", {"schema": "s/A@1"})]
    )
    assert "as it was sent" in broken(frames(), told=[Told(1, "event", {})])


def test_publishing_before_the_commit_or_after_the_settlement_is_found() -> None:
    reader = check(frames(), world().values.get)
    receipt = next(each for each in reader.records if each["kind"] == "receipt")
    hash = receipt["intent"]
    intent = reader.intents[hash]
    assert intent.settled is not None
    key = f"blake3:{intent.key.hex()}"

    early = Published(intent.opened - 1, hash, key)
    late = Published(intent.settled, hash, key)
    other = Published(intent.opened, hash, f"blake3:{bytes(32).hex()}")

    assert "durable before" in broken(frames(), published=[early])
    assert "nothing settled" in broken(frames(), published=[late])
    assert "idempotency key" in broken(frames(), published=[other])
    assert "not in the journal" in broken(frames(), published=[Published(1, bytes(32), key)])


def test_an_at_most_once_effect_that_runs_twice_is_found() -> None:
    hash = next(iter(check(frames(), world().values.get).intents))

    check(frames(), world().values.get, runs=[(hash, 1, True)])
    assert "runs once" in broken(frames(), runs=[(hash, 1, True), (hash, 1, True)])
    assert "journaled" in broken(frames(), runs=[(bytes(32), 1, False)])
