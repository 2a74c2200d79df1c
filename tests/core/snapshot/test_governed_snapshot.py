"""Open proposals are part of a snapshot, and a damaged row of them is found (SN-5)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import cbor2
import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Tip
from aos.core.journal.records import Governance, Manifest, Ref
from aos.core.snapshot.load import load, references
from aos.core.snapshot.take import take
from aos.core.state.fold import fold, fold_frame
from aos.core.state.state import State
from aos.errors import Damage, Erased
from aos.values.digests import Hash, content_hash
from tests.core.governed import act, apply, governed, propose, report, version
from tests.core.journal.test_records import altered, at, places
from tests.core.snapshot.test_snapshot import (
    SOME,
    Blobs,
    damaged_or_read,
    forged,
    plain,
    reader,
    taken,
)
from tests.memory_world import OPERATOR, MemoryWorld


def busy() -> MemoryWorld:
    """Three open proposals, one with votes, reports and a mode, and one of each closed status."""
    world = governed("ann", "bob", "cat", quorum=2)
    new = {number: version(number, "ann", "bob", "cat", quorum=2) for number in range(2, 8)}
    first, second = propose(world, new[2]), propose(world, new[3])
    world.seal()
    for name in ("ann", "bob"):
        act(world, "approve", first, by=name)
    apply(world, new[2], proposal=first)
    world.seal()
    rejected, withdrawn = propose(world, new[4]), propose(world, new[5], by="cat")
    for name in ("ann", "bob"):
        act(world, "reject", rejected, by=name)
    act(world, "withdraw", withdrawn, by="cat")
    opened = propose(world, new[6], mode="pin", note="with everything")
    seen = report(world, opened)
    report(world, opened, by="bob", last=opened - 1)
    act(world, "approve", opened, by="bob", seen=seen)
    act(world, "reject", opened, by="ann")
    propose(world, new[7], by="ann")
    propose(world, new[3])
    world.seal()
    assert dict(world.state.proposals.closed) == {
        first: "applied", second: "stale", rejected: "rejected", withdrawn: "withdrawn",
    }  # fmt: skip
    for each in new.values():
        world.blobs.update(each.modules)
    return world


@cache
def world() -> MemoryWorld:
    """A shared world; tests must not change it."""
    return busy()


@cache
def snapped() -> tuple[Hash, Blobs]:
    found, blobs = taken(world().state, world().blobs)
    return found.document, blobs


def test_open_and_closed_proposals_come_back() -> None:
    document, blobs = snapped()

    loaded = load(document, reader(blobs))

    assert plain(loaded) == plain(world().state)
    assert taken(loaded)[0].document == document


def test_the_rows_are_as_the_specification_says() -> None:
    found = cbor2.loads(snapped()[1][snapped()[0]])
    known = world().state.proposals
    opened = next(each for each in known.open.values() if each.mode is not None)

    assert found["proposed"] == 7
    assert [row[0] for row in found["proposals"]] == [*known.open, *known.closed]
    row = next(row for row in found["proposals"] if row[0] == opened.seq)
    assert row == [
        opened.seq, OPERATOR.name, world().effective.hash,
        [opened.document.hash, opened.document.size], [opened.patch.hash, opened.patch.size],
        "pin", [], [[name, cast.vote, cast.seq] for name, cast in opened.votes.items()],
        [[hash, each.seq, each.size] for hash, each in opened.reports.items()],
    ]  # fmt: skip
    assert [vote[:2] for vote in row[7]] == [["bob", "approve"], ["ann", "reject"]]
    assert [*known.closed.items()] == [tuple(row) for row in found["proposals"][3:]]


def test_a_world_that_was_never_governed_has_no_such_field() -> None:
    """Its snapshots keep every byte."""
    plain_world = MemoryWorld(version(1), {})
    plain_world.seal()

    found, blobs = taken(plain_world.state, plain_world.blobs)

    assert not {"proposed", "proposals"} & cbor2.loads(blobs[found.document]).keys()


def test_a_world_continues_from_its_snapshot_as_if_it_had_never_stopped() -> None:
    one, other = busy(), busy()
    found, other.blobs = taken(other.state, other.blobs)
    other.restart(found.document)

    for each in (one, other):
        opened = next(p.seq for p in each.state.proposals.open.values() if p.mode is not None)
        assert isinstance(act(each, "approve", opened, by="cat"), Admitted)
        answer = apply(each, version(6, "ann", "bob", "cat", quorum=2), proposal=opened, mode="pin")
        assert isinstance(answer, Admitted)
        each.seal()

    assert [each.to_bytes() for each in one.frames] == [each.to_bytes() for each in other.frames]
    assert taken(one.state)[0].document == taken(other.state)[0].document


def test_a_restart_after_each_frame_is_the_same_world() -> None:
    state = State(tip=Tip(world=world().state.world))
    for frame in world().frames:
        fold_frame(state, frame, world().read)
        again, blobs = taken(state, world().blobs)
        loaded = load(again.document, reader(blobs))
        assert take(loaded, content_hash, format=1).document == again.document

    assert plain(state) == plain(world().state)


def test_a_snapshot_needs_what_its_open_proposals_need() -> None:
    """RT-10."""
    document, blobs = snapped()

    needed = {hash for hash, _ in references(document, reader(blobs))}

    for each in world().state.proposals.open.values():
        assert {each.document.hash, each.patch.hash, *each.reports} <= needed
    [module] = version(7, "ann", "bob", "cat", quorum=2).effective.modules.values()
    assert module.hash in needed
    [gone] = version(4, "ann", "bob", "cat", quorum=2).effective.modules.values()
    assert gone.hash not in needed


def test_an_older_snapshot_is_read_although_a_proposal_was_erased_since() -> None:
    document, blobs = snapped()
    erased = next(iter(world().state.proposals.open.values())).document.hash

    def read(hash: Hash) -> bytes:
        if hash == erased:
            raise Erased("by record 99")
        return reader(blobs)(hash)

    assert erased in {hash for hash, _ in references(document, read)}


def test_a_crafted_row_is_damage_or_read() -> None:
    document, blobs = snapped()
    whole = cbor2.loads(blobs[document])
    read = number = 0
    for path in places(whole["proposals"], ("proposals",)):
        for junk in SOME:
            number += 1
            if number % 5 or junk == at(whole, path):
                continue
            new = cbor2.dumps(altered(whole, path, junk), canonical=True)
            read += damaged_or_read(*forged(document, blobs, document, new)) is not None
    # Names, notes and sizes of others are as good as these.
    assert 0 < read < 60


WRONG: list[tuple[str, Any]] = [
    ("no proposals at all", []),
    ("one that is open twice", lambda rows: [*rows, rows[0]]),
    ("one that is open and closed", lambda rows: [*rows, [rows[0][0], "stale"]]),
    ("one of a record to come", lambda rows: [*rows, [10**6, "stale"]]),
    ("more than were proposed", lambda rows: [*rows, *[[n, "stale"] for n in (2, 3, 4)]]),
    ("a base that is not in force", lambda rows: [[*rows[0][:2], bytes(32), *rows[0][3:]]]),
    ("an open one that is rejected", lambda rows: [
        [*rows[0][:7], [["ann", "reject", 9], ["bob", "reject", 9]], []]]),
]  # fmt: skip


@pytest.mark.parametrize("change", [each[1] for each in WRONG], ids=[each[0] for each in WRONG])
def test_proposals_that_contradict_each_other_are_damage(change: Any) -> None:
    document, blobs = snapped()
    whole = cbor2.loads(blobs[document])
    rows = whole["proposals"]
    whole["proposals"] = change(rows) if callable(change) else change
    new = cbor2.dumps(whole, canonical=True)

    with pytest.raises(Damage, match="snapshot"):
        load(content_hash(new), reader({**blobs, content_hash(new): new}))


def test_a_snapshot_of_an_ungoverned_world_has_no_open_proposal() -> None:
    plain_world = MemoryWorld(version(1), {})
    plain_world.seal()
    found, blobs = taken(plain_world.state, plain_world.blobs)
    whole = cbor2.loads(blobs[found.document])
    rows = [cbor2.loads(snapped()[1][snapped()[0]])["proposals"][0]]
    new = cbor2.dumps({**whole, "proposed": 1, "proposals": rows}, canonical=True)

    with pytest.raises(Damage, match="proposals does not agree"):
        load(content_hash(new), reader({**blobs, content_hash(new): new}))


# Records that cannot follow


def last(kind: type, world: MemoryWorld) -> Any:
    return [each for each in world.records() if isinstance(each, kind)][-1]


def test_a_governance_record_that_cannot_follow_is_damage() -> None:
    """K-2."""
    whole = world()
    state = load(snapped()[0], reader(snapped()[1]))
    known = state.proposals
    opened, seq = next(iter(known.open)), state.next_seq
    base: Governance = replace(last(Governance, whole), seq=seq, serial=known.count)
    vote = Governance(
        seq=seq, stamp=base.stamp, action="approve", principal="cat", signature=b"",
        proposal=opened,
    )  # fmt: skip
    applied = replace(last(Manifest, whole), seq=seq, serial=state.serial)
    for wrong in (
        replace(base, serial=0),
        replace(base, serial=None),
        replace(base, base=content_hash(b"x")),
        replace(base, document=None),
        replace(base, patch=None),
        replace(vote, proposal=None),
        replace(vote, proposal=seq),
        replace(vote, proposal=next(iter(known.closed))),
        replace(vote, principal="eve"),
        replace(vote, principal="bob"),
        replace(vote, principal="ann", action="reject"),
        replace(vote, action="report"),
        replace(applied, proposal=seq),
        replace(applied, proposal=next(iter(known.closed))),
    ):
        fresh = load(snapped()[0], reader(snapped()[1]))
        fresh.proposals.open[opened].votes.update(state.proposals.open[opened].votes)
        with pytest.raises(Damage, match=f"record {seq}"):
            fold(fresh, wrong, whole.read)

    ungoverned = MemoryWorld(version(1), {})
    with pytest.raises(Damage, match="the manifest names no one"):
        fold(ungoverned.state, replace(base, seq=ungoverned.state.next_seq), whole.read)
    report_ = replace(vote, action="report", report=Ref(content_hash(b"x"), 1))
    fold(state, report_, whole.read)
    assert [*state.proposals.open[opened].reports][-1] == content_hash(b"x")
