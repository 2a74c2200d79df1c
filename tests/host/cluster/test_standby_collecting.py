"""A node that follows removes what nothing needs (spec/cluster.md, CL-114; state.md, RT-20)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from aos.errors import Unavailable
from aos.host.cluster.following import EntryIntake
from aos.host.cluster.standby_collecting import StandbyCollecting
from aos.store.rows import Forget
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import OwnerProcess
from tests.host.cluster.test_following import (
    LONG,
    Standby,
    check_equal,
    owner,
    standby,
    stream,
)

__all__ = ["owner", "standby", "stream"]
"""Fixtures."""


def collecting_of(node: Standby) -> StandbyCollecting:
    def between(act: Callable[[EntryIntake], int]) -> Future[int]:
        future: Future[int] = Future()
        try:
            future.set_result(act(node.intake))
        except Unavailable as problem:
            future.set_exception(problem)
        return future

    return StandbyCollecting(between)


def test_a_value_that_an_entry_names_meanwhile_stays(owner: OwnerProcess, standby: Standby) -> None:
    standby.intake.advance()
    waste, again = b"waste " * 999, b"again " * 999
    standby.store.put_blobs({content_hash(waste): waste, content_hash(again): again})
    collecting = collecting_of(standby)
    begun = collecting.begin()

    # The owner writes a value that this node has already, and that nothing needed so far.
    owner.store.put_blobs({content_hash(again): again})
    standby.intake.advance()
    rows = Forget(blobs=[content_hash(waste), content_hash(again)])

    assert collecting.forget(begun.token, rows).result() == 1
    assert not standby.store.has_blob(content_hash(waste))
    assert standby.store.has_blob(content_hash(again))
    collecting.end(begun.token)
    with pytest.raises(Unavailable):
        collecting.keep_open(begun.token)


def test_values_of_frames_that_come_meanwhile_stay(owner: OwnerProcess, standby: Standby) -> None:
    standby.intake.advance()
    collecting = collecting_of(standby)
    before = set(standby.store.blob_hashes())
    begun = collecting.begin()
    owner.tell("k", note=LONG)
    owner.write()
    standby.intake.advance()
    new = sorted(set(standby.store.blob_hashes()) - before)

    assert new
    assert collecting.forget(begun.token, Forget(blobs=new)).result() == 0
    check_equal(owner, standby)


def test_a_snapshot_ends_the_marking(owner: OwnerProcess, standby: Standby) -> None:
    standby.intake.advance()
    collecting = collecting_of(standby)
    begun = collecting.begin()
    owner.snapshot()
    standby.intake.advance()

    with pytest.raises(Unavailable, match="try again"):
        collecting.forget(begun.token, Forget()).result()
    assert collecting.begin().base > 0


def test_a_marking_ends_with_the_next_one_and_with_its_kernel(
    owner: OwnerProcess, standby: Standby
) -> None:
    owner.write()
    standby.intake.advance()
    collecting = collecting_of(standby)
    first, second = collecting.begin(), collecting.begin()
    for act in (collecting.keep_open, lambda token: collecting.forget(token, Forget()).result()):
        with pytest.raises(Unavailable, match="the marking is over, or another one began"):
            act(first.token)
    collecting.end(first.token)
    collecting.keep_open(second.token)

    standby.restart()

    with pytest.raises(Unavailable, match="the marking is over, or another one began"):
        collecting.forget(second.token, Forget()).result()
