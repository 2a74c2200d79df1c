"""Submission ids are forgotten by the window time, which no leap of a clock moves far (K-12a)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cbor2
import pytest

from aos.core.decide.answers import Admitted, Duplicate
from aos.core.snapshot.load import load
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.manifest.limits import DAY_NS, HOUR_NS
from aos.manifest.load import Loaded
from aos.values.digests import content_hash
from tests.core.decide.test_steps import COUNTER, add, count, counters
from tests.core.snapshot.test_snapshot import folded, forged, reader, taken
from tests.memory_world import MemoryWorld

YEARS_NS = 10 * 365 * DAY_NS


def of_an_older_release(loaded: Loaded) -> Loaded:
    """The same manifest in a document without the limit ``dedup_step_ns`` (M-43a)."""
    document: Any = cbor2.loads(loaded.effective.document)
    del document["limits"]["world"]["dedup_step_ns"]
    data = cbor2.dumps(document, canonical=True)
    return replace(loaded, effective=Effective.from_document(data))


def older_counters() -> MemoryWorld:
    return MemoryWorld(of_an_older_release(counters().loaded), {COUNTER: count})


@pytest.mark.parametrize("leap_ns", [8 * DAY_NS, YEARS_NS])
def test_a_stamp_from_a_clock_that_is_ahead_forgets_no_id(leap_ns: int) -> None:
    """K-12a: neither the stamp itself nor the right ones after it, also after a restart."""
    world = counters()
    first = world.send("t/Add@1", add("a"), "order-1")
    assert isinstance(first, Admitted)
    before = world.now_ns

    world.now_ns = before + leap_ns
    assert isinstance(world.send("t/Add@1", add("b"), "ahead"), Admitted)
    world.now_ns = before
    world.send("t/Add@1", add("c"), "right again")

    assert world.state.clock_ns > before + leap_ns
    assert world.state.window_ns < before + HOUR_NS + DAY_NS
    assert world.send("t/Add@1", add("a"), "order-1") == Duplicate(seq=first.seq)
    world.seal()
    snapshot, blobs = taken(world.state, world.blobs)
    world.blobs.update(blobs)
    world.restart(snapshot.document)
    assert world.send("t/Add@1", add("a"), "order-1") == Duplicate(seq=first.seq)


def test_an_event_that_repeats_an_id_with_a_stamp_from_the_future_is_a_duplicate() -> None:
    """K-12: the window time includes the stamp of the event that repeats the id."""
    world = counters()
    first = world.send("t/Add@1", add("a"), "order-1")
    assert isinstance(first, Admitted)

    world.now_ns += YEARS_NS

    assert world.send("t/Add@1", add("a"), "order-1") == Duplicate(seq=first.seq)


def test_the_window_time_grows_by_at_most_an_hour_a_record_and_never_goes_back() -> None:
    world = counters()
    for ahead_ns, grows_ns in [
        (HOUR_NS - 1_000, HOUR_NS), (HOUR_NS, HOUR_NS), (9 * HOUR_NS, HOUR_NS),
        (-5 * HOUR_NS, 0), (0, 0), (5 * HOUR_NS, 2_000 + 1_000), (60, 1_060),
    ]:  # fmt: skip
        before = world.state.window_ns
        world.now_ns += ahead_ns
        world.send("t/Add@1", add("a"))
        assert world.state.window_ns - before == grows_ns, ahead_ns


def test_an_id_is_forgotten_after_seven_days_of_records() -> None:
    world = counters()
    world.send("t/Add@1", add("a"), "order-1")

    for _ in range(7 * 24):
        world.now_ns += HOUR_NS
        world.send("t/Add@1", add("b"))

    assert isinstance(world.send("t/Add@1", add("a"), "order-1"), Admitted)


def test_a_limit_of_the_manifest_sets_the_largest_step() -> None:
    world = counters(limits={"world": {"dedup_step_ns": 7, "dedup_ns": 20}})
    world.send("t/Add@1", add("a"), "one")
    for _ in range(2):
        world.send("t/Add@1", add("b"))
    assert isinstance(world.send("t/Add@1", add("a", 2), "two"), Admitted)

    assert list(world.state.submissions) == ["two"]


def test_a_manifest_of_an_older_release_counts_the_journal_clock() -> None:
    """M-43a: absent, the limit has the meaning that it had; the snapshot is the same, too."""
    world = older_counters()
    world.send("t/Add@1", add("a"), "order-1")
    world.now_ns += 8 * DAY_NS

    assert isinstance(world.send("t/Add@1", add("a"), "order-1"), Admitted)
    assert world.state.window_ns == world.state.clock_ns
    world.seal()
    snapshot, blobs = taken(world.state, world.blobs)
    assert "window_ns" not in cbor2.loads(blobs[snapshot.document])


def test_the_limit_holds_for_the_record_that_brings_it() -> None:
    """K-12a: the apply that follows an update forgets no id, whatever its clock says."""
    world = older_counters()
    first = world.send("t/Add@1", add("a"), "order-1")
    assert isinstance(first, Admitted)
    world.run()
    world.now_ns += YEARS_NS

    assert isinstance(world.apply(counters().loaded), Admitted)

    assert world.send("t/Add@1", add("a"), "order-1") == Duplicate(seq=first.seq)


def test_a_snapshot_has_the_window_time_where_it_differs() -> None:
    """SN-5, SN-9."""
    world = counters()
    world.now_ns += DAY_NS
    world.send("t/Add@1", add("a"), "order-1")
    world.seal()
    snapshot, blobs = taken(world.state, world.blobs)
    fields = cbor2.loads(blobs[snapshot.document])

    assert fields["window_ns"] == world.state.window_ns == fields["clock_ns"] - 23 * HOUR_NS - 1_000
    assert load(snapshot.document, reader(blobs)).window_ns == world.state.window_ns
    assert folded(world).window_ns == world.state.window_ns
    for odd in (fields["clock_ns"], -1, "1"):
        data = cbor2.dumps({**fields, "window_ns": odd}, canonical=True)
        document, more = forged(snapshot.document, blobs, snapshot.document, data)
        assert document == content_hash(data)
        with pytest.raises(Damage, match="window_ns"):
            load(document, reader(more))
