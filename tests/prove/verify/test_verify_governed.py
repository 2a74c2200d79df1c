"""Verify counts votes a second time, and replay admits them again (A-25a)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Frame, Tip, seal
from aos.core.journal.governing import ProposedChange, governance_message
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Governance, Manifest, Record, Ref
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import Divergence
from aos.prove.verify.findings import FindingKind
from aos.values.digests import content_hash
from tests.core.desk import pay, tell
from tests.core.governed import act, apply, governed, key_of, propose, report, version
from tests.memory_world import OPERATOR, MemoryWorld
from tests.prove.desks import erasing
from tests.prove.journals import head_of, runner, verify_frames


def governed_journal() -> MemoryWorld:
    """Two manifests that came into force with two of three votes, the second with a report."""
    world = governed("ann", "bob", "cat", quorum=2)
    new = {number: version(number, "ann", "bob", "cat", quorum=2) for number in (2, 3, 4)}
    for number in (2, 3):
        tell(world, f"k{number}")
        proposal = propose(world, new[number], by="ann", note="why not")
        seen = report(world, proposal)
        world.seal()
        for name in ("ann", "bob"):
            act(world, "approve", proposal, by=name, seen=seen if number == 3 else None)
            world.seal()
        apply(world, new[number], proposal=proposal)
        world.seal()
    act(world, "reject", propose(world, new[4]), by="cat")
    world.seal()
    for each in (world.loaded, *new.values()):
        world.blobs.update(each.modules)
    return world


@cache
def shared() -> MemoryWorld:
    """A shared world; tests must not change it."""
    return governed_journal()


def sealed_again(frames: Iterable[Frame], change: Callable[[Record], Record | None]) -> list[Frame]:
    """The journal as the owner of the world's key could write it again: each record changed or
    left out, the ones after it with their new numbers, all names of records moved along."""
    tip: Tip | None = None
    moved: dict[int, int] = {}
    found = []
    for frame in frames:
        kept: list[bytes] = []
        tip = tip or Tip(world=frame.header.world)
        for data in frame.records:
            record = change(from_bytes(data))
            if record is None:
                continue
            seq = tip.seq + len(kept) + 1
            moved[record.seq] = seq
            fields: dict[str, Any] = {"seq": seq}
            if isinstance(record, Governance | Manifest) and record.proposal is not None:
                fields["proposal"] = moved.get(record.proposal, record.proposal)
            kept.append(to_bytes(replace(record, **fields)))
        if kept:
            again, tip = seal(tip, kept, frame.salt)
            found.append(again)
    return found


def kinds(frames: list[Frame], world: MemoryWorld) -> set[FindingKind]:
    report = verify_frames(frames, world.read, head=head_of(frames))
    return {each.kind for each in report.findings}


def replays(frames: list[Frame], world: MemoryWorld) -> str | None:
    """None if the journal replays, else the first field that differs."""
    try:
        replay(frames, world.read, runner(world), head=head_of(frames))
    except Divergence as problem:
        return problem.field
    return None


def test_a_governed_journal_is_whole_and_replays() -> None:
    world = shared()
    found = verify_frames(world.frames, world.read, head=head_of(world.frames))

    assert found.findings == ()
    assert found.folded
    records = [each for each in world.records() if isinstance(each, Governance)]
    assert found.signatures == 2 + 2 + len(records) + 1
    assert replays(world.frames, world) is None


def nth(number: int, *, of: str) -> Callable[[Record], bool]:
    """Whether a record is the so-manieth of an action, or of manifests."""
    seen = 0

    def is_it(record: Record) -> bool:
        nonlocal seen
        is_such = (
            isinstance(record, Manifest)
            if of == "manifest"
            else isinstance(record, Governance) and record.action == of
        )
        seen += is_such
        return is_such and seen == number

    return is_it


def without(number: int, *, of: str) -> Callable[[Record], Record | None]:
    is_it = nth(number, of=of)
    return lambda record: None if is_it(record) else record


def changed(number: int, *, of: str, **fields: Any) -> Callable[[Record], Record | None]:
    is_it = nth(number, of=of)
    return lambda record: replace(record, **fields) if is_it(record) else record


@cache
def small() -> MemoryWorld:
    """One manifest with two votes, and nothing else, so that no record names another's number."""
    world = governed("ann", "bob", "cat", quorum=2)
    new = version(2, "ann", "bob", "cat", quorum=2)
    proposal = propose(world, new)
    world.seal()
    for name in ("ann", "bob"):
        act(world, "approve", proposal, by=name)
        world.seal()
    apply(world, new, proposal=proposal)
    world.seal()
    world.blobs.update({**world.loaded.modules, **new.modules})
    return world


@pytest.mark.parametrize("number", [1, 2])
def test_a_journal_that_its_owner_sealed_again_without_a_vote_is_found(number: int) -> None:
    world = small()
    frames = sealed_again(world.frames, without(number, of="approve"))

    report = verify_frames(frames, world.read, head=head_of(frames))

    missing = [each for each in report.findings if each.kind is FindingKind.AUTHORITY_MISSING]
    assert [each.record for each in missing] == [frames[-1].header.last]
    assert "expected 2 of 3 approvals, found 1" in missing[0].message
    assert replays(frames, world) == "admission"


def test_a_manifest_that_no_one_proposed_is_found() -> None:
    world = small()
    frames = sealed_again(
        world.frames, lambda record: None if isinstance(record, Governance) else record
    )

    assert kinds(frames, world) == {
        FindingKind.AUTHORITY_MISSING, FindingKind.RECORD_CANNOT_FOLLOW,
    }  # fmt: skip


CHANGES: list[tuple[str, dict[str, Any], dict[str, Any], FindingKind]] = [
    ("a note that no one signed", {"number": 1, "of": "approve"}, {"note": "more"},
     FindingKind.SIGNATURE_WRONG),
    ("a vote in another's name", {"number": 2, "of": "approve"}, {"principal": "cat"},
     FindingKind.SIGNATURE_WRONG),
    ("a vote of the operator", {"number": 2, "of": "approve"}, {"principal": OPERATOR.name},
     FindingKind.AUTHORITY_MISSING),
    ("a vote of no one", {"number": 2, "of": "approve"}, {"principal": "eve"},
     FindingKind.AUTHORITY_MISSING),
    ("an approval that was a rejection", {"number": 1, "of": "approve"}, {"action": "reject"},
     FindingKind.SIGNATURE_WRONG),
    ("a proposal with another mode", {"number": 1, "of": "propose"}, {"mode": "pin"},
     FindingKind.SIGNATURE_WRONG),
    ("a manifest with another mode", {"number": 2, "of": "manifest"}, {"mode": "pin"},
     FindingKind.AUTHORITY_MISSING),
    ("a manifest of no proposal", {"number": 2, "of": "manifest"}, {"proposal": None},
     FindingKind.AUTHORITY_MISSING),
    ("a patch that is gone", {"number": 1, "of": "propose"},
     {"patch": Ref(content_hash(b"gone"), 4)}, FindingKind.BLOB_DAMAGED),
    ("a document of another size", {"number": 1, "of": "propose"},
     {"document": Ref(content_hash(b"gone"), 4)}, FindingKind.BLOB_DAMAGED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("which", "fields", "kind"), [each[1:] for each in CHANGES], ids=[each[0] for each in CHANGES]
)
def test_a_record_that_no_one_signed_is_found(
    which: dict[str, Any], fields: dict[str, Any], kind: FindingKind
) -> None:
    world = small()
    frames = sealed_again(world.frames, changed(**which, **fields))

    found = kinds(frames, world)

    assert kind in found
    if kind is FindingKind.SIGNATURE_WRONG and which["of"] != "propose":
        # A vote that is none is not counted either.
        assert FindingKind.AUTHORITY_MISSING in found
    if kind is not FindingKind.BLOB_DAMAGED:
        assert replays(frames, world) is not None


def test_a_patch_that_people_read_and_that_leads_elsewhere_is_found() -> None:
    """GV-27: signed by the proposer and the approvers, and yet no patch of this manifest."""
    world = governed("ann")
    new = version(2, "ann")
    proposal = propose(world, new)
    open_ = world.state.proposals.open[proposal]
    other = b"\xa0"
    world.put(other)
    open_.patch = Ref(content_hash(other), 1)
    act(world, "approve", proposal, by="ann")
    apply(world, new, proposal=proposal)
    world.seal()
    world.blobs.update({**world.loaded.modules, **new.modules})

    def lie(record: Record) -> Record:
        if not (isinstance(record, Governance) and record.action == "propose"):
            return record
        unsigned = replace(record, patch=open_.patch)
        assert unsigned.base is not None

        change = ProposedChange(unsigned.base, new.effective.hash, content_hash(other), None, ())
        message = governance_message(world.state.world, "propose", change, serial=0)
        return replace(unsigned, signature=key_of(OPERATOR.name).sign(message).signature)

    frames = sealed_again(world.frames, lie)

    assert kinds(frames, world) == {FindingKind.MANIFEST_INVALID}
    assert replays(frames, world) == "admission"


def test_the_values_of_a_closed_proposal_may_be_erased() -> None:
    """Replay takes the records that need them as they are, and counts them."""
    world = governed_journal()
    [rejected] = list(world.state.proposals.open.values())
    act(world, "withdraw", rejected.seq, by=OPERATOR.name)
    world.seal()
    values = (rejected.document.hash, rejected.patch.hash)
    for value in values:
        assert isinstance(world.control("erase", value=value), Admitted)
        world.seal()
    read = erasing(world, *values)

    found = verify_frames(world.frames, read, head=head_of(world.frames))
    again = replay(world.frames, read, runner(world), head=head_of(world.frames))

    assert found.findings == ()
    assert found.erased == 2
    assert again.erased >= 1


def test_work_between_votes_changes_nothing() -> None:
    world = governed("ann", "bob", quorum=2)
    new = version(2, "ann", "bob", quorum=2)
    proposal = propose(world, new)
    tell(world, "a", pay())
    act(world, "approve", proposal, by="bob")
    world.settle(world.open()[0], {"ref": "x"})
    world.run()
    act(world, "approve", proposal, by="ann")
    apply(world, new, proposal=proposal)
    tell(world, "a")
    world.blobs.update({**world.loaded.modules, **new.modules})

    assert kinds(world.frames, world) == set()
    assert replays(world.frames, world) is None


def test_a_fork_of_a_governed_world_verifies_and_replays() -> None:
    world = governed("ann")
    new = version(2, "ann")
    stale = propose(world, new)
    act(world, "approve", stale, by="ann")
    world.fork()
    again = propose(world, new)
    act(world, "approve", again, by="ann")
    apply(world, new, proposal=again)
    world.seal()
    world.blobs.update({**world.loaded.modules, **new.modules})

    assert kinds(world.frames, world) == set()
    assert replays(world.frames, world) is None
