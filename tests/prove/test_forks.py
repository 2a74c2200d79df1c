"""A journal that continues as another world: folded, verified, replayed (K-110 to K-116, J-43)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.core.journal.fork import forked_world_id, message_of
from aos.core.journal.frame import Frame, Head, Tip, seal
from aos.core.journal.inputs import ControlInput
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Fork, KernelReceipt, Principal, Record, Start
from aos.core.snapshot.load import load
from aos.core.snapshot.take import take
from aos.core.state.fold import fold_frame
from aos.core.state.state import Ancestor, State
from aos.errors import Damage
from aos.host.executors.redelivery import left_open
from aos.host.folder.restore import restore
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import Divergence
from aos.prove.verify.findings import Finding, FindingKind, VerifyReport
from aos.prove.verify.verify import verify_store
from aos.read.trace.trace import trace
from aos.read.views.journal_view import record as record_view
from aos.read.views.record_view import summary
from aos.read.views.view import View
from aos.store.derived import differences
from aos.store.memory_store import MemoryStore
from aos.store.stored_world import identity_at
from aos.values.cbor import Value, decode_record
from aos.values.digests import Hash, content_hash
from tests.core.desk import ONCE, cancel, cell_id, pay, tell, timer, wish
from tests.memory_world import OPERATOR, OPERATOR_KEY, START_NS, WORLD_KEY, MemoryWorld
from tests.prove.desks import Desk, erasing, told_long
from tests.prove.journals import head_of, replaced, resealed, runner, verify_frames
from tests.store.journal import derived_rows

OTHER = Hash(b"\x07" * 32)


def working() -> Desk:
    """Three open effects of two cells, one of which has begun and may run only once."""
    world = Desk()
    tell(world, "a", pay("p"), timer(world, "t"))
    tell(world, "b", wish(ONCE, {"n": 1}, "o"))
    assert isinstance(world.attempt(world.open_of("b")[0], 1), Admitted)
    world.run()
    return world


def forked(open_work: str = "cancel") -> tuple[Desk, Fork]:
    world = working()
    record = world.fork(open_work)
    world.run()
    tell(world, "later", pay("q"))
    return world, record


@cache
def a_fork() -> tuple[Desk, Fork]:
    """One for all tests that do not change it."""
    return forked()


def folded(world: MemoryWorld) -> State:
    state = State(tip=Tip(world=world.frames[0].header.world))
    for frame in world.frames:
        fold_frame(state, frame, world.read)
    return state


def verified(world: MemoryWorld, frames: Sequence[Frame] | None = None) -> VerifyReport:
    found = world.frames if frames is None else frames
    return verify_frames(found, world.read, head=head_of(found))


def replayed(world: MemoryWorld, frames: Sequence[Frame] | None = None) -> Any:
    found = world.frames if frames is None else frames
    return replay(found, world.read, runner(world), head=head_of(found))


def stored(world: MemoryWorld) -> MemoryStore:
    """The journal in a store, a transaction for each frame."""
    store = MemoryStore()
    store.put_blobs(world.blobs)
    for group in world.sealed:
        head = Head.of(group.tip).signed(WORLD_KEY)
        store.append([group], head, expected=group.frame.header.prev)
    return store


def test_a_fork_is_another_world_with_everything_that_the_first_had() -> None:
    """K-110, K-111, J-43, J-45"""
    before = working()
    world, record = a_fork()

    worlds = [frame.header.world for frame in world.frames]
    assert worlds[: len(before.frames)] == [before.state.world] * len(before.frames)
    assert set(worlds[len(before.frames) :]) == {forked_world_id(record)}
    assert [each.hash for each in world.frames[: len(before.frames)]] == [
        each.hash for each in before.frames
    ]
    assert world.state.world == forked_world_id(record) != before.state.world
    assert world.state.ancestors == (Ancestor(before.state.world, record.at),)
    assert world.state.clock_ns > before.state.clock_ns > START_NS
    assert world.state.serial == before.state.serial
    assert {cell.id for cell in before.state.cells.values()} <= {
        cell.id for cell in world.state.cells.values()
    }


def test_a_fork_is_folded_verified_and_replayed() -> None:
    """K-116"""
    for open_work in ("cancel", "keep"):
        world, record = forked(open_work)
        assert take(folded(world), content_hash) == take(world.state, content_hash)
        report = verified(world)
        assert report.is_sound, report.findings
        assert report.world == forked_world_id(record)
        assert replayed(world).world == forked_world_id(record)
        store = stored(world)
        assert list(differences(store, derived_rows(store.frames()))) == []
        assert verify_store(store).is_sound
        state = restore(store, forked_world_id(record))
        assert take(state, content_hash) == take(world.state, content_hash)
        with pytest.raises(Damage, match="the store holds another world"):
            restore(store, record.parent)


def test_inherited_work_is_canceled_by_the_core_in_its_order() -> None:  # K-112
    world, record = a_fork()
    receipts = [
        each
        for each in world.records()
        if isinstance(each, KernelReceipt) and each.root == record.seq
    ]
    opened = list(working().state.intents)
    assert [each.intent for each in receipts] == opened
    assert {(each.status, each.outcome, each.depth) for each in receipts} == {
        ("canceled", "delivered", 0)
    }
    [payload] = {each.payload for each in receipts}
    assert isinstance(payload, bytes)
    assert decode_record(payload) == {
        "code": "canceled", "message": "the world was forked", "retryable": False,
    }  # fmt: skip
    assert not any(world.state.is_inherited(each) for each in world.open())


def test_kept_work_waits_for_people(monkeypatch: pytest.MonkeyPatch) -> None:  # K-113
    world, _ = forked("keep")
    kept = [each for each in world.open() if world.state.is_inherited(each)]
    assert len(kept) == 3
    own = [each.intent.intent for each in left_open(world.kernel.open_intents())]
    assert own == [each.intent for each in world.open() if each not in kept]

    paying = next(each for each in kept if each.key == "p" or each.issuer_ref == "p")
    world.command("cancel", intent=paying.intent)
    assert paying.intent not in world.state.intents
    assert verified(world).is_sound
    replayed(world)


def test_a_receipt_counts_in_the_world_that_it_was_signed_for() -> None:  # K-114
    before = working()
    paying = before.open_of("a")[0]
    old = before.receipt(paying, {"ref": "x"})
    for world in (forked("keep")[0], forked("cancel")[0]):
        refused = world.kernel.admit(old, world.stamp())
        assert isinstance(refused, Refusal)
        assert refused.rule in (Rule.RECEIPT_SIGNATURE_IS_WRONG, Rule.RECEIPT_INTENT_IS_UNKNOWN)
    assert isinstance(before.kernel.admit(old, before.stamp()), Admitted)
    # Effects settled before the fork stay settled; their proofs name the parent world.
    before.run()
    before.fork()
    assert verified(before).is_sound
    replayed(before)
    # A kept one is answered by who signs for the fork.
    world, _ = forked("keep")
    kept = next(each for each in world.open() if each.intent == paying.intent)
    assert isinstance(world.settle(kept, {"ref": "by hand"}), Admitted)
    world.run()
    assert verified(world).is_sound
    replayed(world)


def test_commands_and_manifests_are_signed_for_the_fork() -> None:  # K-114
    world = working()
    paying = world.open_of("a")[0].intent
    world.fork("keep")
    given = ControlInput(
        action="cancel",
        principal=OPERATOR.name,
        serial=world.state.controls,
        signature=b"",
        intent=paying,
    )
    parent = world.state.ancestors[0].world
    old = dataclasses.replace(given, signature=OPERATOR_KEY.sign(given.message(parent)).signature)
    refused = world.kernel.admit(old, world.stamp())
    assert isinstance(refused, Refusal)
    assert refused.rule is Rule.CONTROL_SIGNATURE_IS_WRONG
    world.command("cancel", intent=paying)
    assert verified(world).is_sound


def test_the_dedup_window_and_attempts_stay() -> None:  # K-111
    world = working()
    told: Value = {"key": "c", "asks": [], "note": ""}
    first = world.send("t/Tell@1", told, "once")
    assert isinstance(first, Admitted)
    world.run()
    world.fork("keep")
    again = world.send("t/Tell@1", told, "once")
    assert again == Duplicate(seq=first.seq)
    once = world.open_of("b")[0]
    assert world.state.attempt(once) == 1


def test_forks_of_forks(monkeypatch: pytest.MonkeyPatch) -> None:  # K-110, K-116
    world = working()
    records = [world.fork("keep", name=f"fork {number}") for number in range(3)]
    tell(world, "c", pay("z"))
    assert [each.at for each in world.state.ancestors] == [each.at for each in records]
    assert len({each.header.world for each in world.frames}) == 4
    assert verified(world).is_sound
    replayed(world)
    store = stored(world)
    assert take(restore(store, world.state.world), content_hash) == take(world.state, content_hash)
    for record in records:
        found = identity_at(store, record.seq)
        assert (found.world, found.since) == (forked_world_id(record), record.seq)
        assert identity_at(store, record.at).world == record.parent
    assert identity_at(store, world.state.tip.seq).world == forked_world_id(records[-1])


def test_a_snapshot_knows_the_ancestors() -> None:  # K-111, SN-23
    world = working()
    plain = take(world.state, world.put)
    assert b"ancestors" not in world.read(plain.document)
    world.fork("keep")
    taken = take(world.state, world.put)
    again = load(taken.document, world.read)
    assert again.ancestors == world.state.ancestors
    assert take(again, content_hash).document == taken.document
    assert isinstance(world.snapshot(), Admitted)
    tell(world, "c")
    assert verified(world).is_sound


def test_values_that_the_parent_erased_later_may_be_missing() -> None:  # K-115
    world = working()
    gone = told_long(world, "long")
    world.fork(erased=(gone,))
    tell(world, "c")
    report = verify_frames(world.frames, erasing(world, gone), head=head_of(world.frames))
    assert report.is_sound, report.findings
    assert report.erased == 1
    again = replay(world.frames, erasing(world, gone), runner(world))
    assert [(each.value, each.by) for each in again.erasures] == [
        (gone, world.state.ancestors[0].at + 1)
    ]
    store = stored(world)
    assert store.erased(gone) is not None
    assert list(differences(store, derived_rows(store.frames()))) == []


def test_a_fork_has_a_document_a_line_and_a_trace() -> None:  # A-37f
    world, record = a_fork()
    view = View(world.state, stored(world), now_ns=world.now_ns)
    found = record_view(view, record.seq)
    assert found["kind"] == "fork"
    assert (found["at"], found["open_work"], found["erased"]) == (record.at, "cancel", [])
    assert summary(found) == (
        f"world {found['world'][:15]}…, forked of {found['parent'][:15]}… after record {record.at}"
        " · open effects: cancel"
    )
    [root] = trace(view, str(record.seq)).roots
    assert [each.kind for each in root.children] == ["kernel_receipt"] * 3


# Forged and damaged journals


def forged(**fields: Any) -> list[Frame]:
    """Return the journal with a changed fork record and all later frames sealed again."""
    world, record = a_fork()
    return resealed(world.frames, record.seq, lambda each: dataclasses.replace(each, **fields))


def signed(record: Fork, key: SigningKey = WORLD_KEY) -> Fork:
    return dataclasses.replace(record, signature=key.sign(message_of(record)).signature)


def findings(frames: Sequence[Frame]) -> set[FindingKind]:
    world, _ = a_fork()
    return {each.kind for each in verify_frames(frames, world.read).findings}


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("parent", OTHER, FindingKind.IDENTITY_WRONG),
        ("at", 1, FindingKind.IDENTITY_WRONG),
        ("frame", OTHER, FindingKind.CHAIN_BROKEN),
        ("nonce", b"other", FindingKind.SIGNATURE_WRONG),
        ("world_key", b"\x01" * 32, FindingKind.SIGNATURE_WRONG),
        ("operators", (Principal("eve", b"\x02" * 32),), FindingKind.SIGNATURE_WRONG),
        ("open_work", "keep", FindingKind.SIGNATURE_WRONG),
        ("open_work", "drop", FindingKind.RECORD_UNREADABLE),
        ("erased", (OTHER,), FindingKind.SIGNATURE_WRONG),
        ("cut", OTHER, FindingKind.SIGNATURE_WRONG),
        ("signature", bytes(64), FindingKind.SIGNATURE_WRONG),
    ],
)
def test_a_forged_field_is_found_though_the_chain_was_rebuilt(
    field: str, value: Any, kind: FindingKind
) -> None:
    """J-44, A-24b"""
    world, record = a_fork()
    frames = forged(**{field: value})
    assert kind in findings(frames)
    with pytest.raises((Divergence, Damage)):
        replay(frames, world.read, runner(world))
    assert field in {each.name for each in dataclasses.fields(record)}


def test_a_fork_by_another_key_is_another_fork() -> None:  # J-43
    """A fork record signed with another key makes another fork: sound, but not this world."""
    world, record = a_fork()
    key = SigningKey(bytes([9]) * 32)
    other = signed(replaced(record, world_key=bytes(key.verify_key), signature=b""), key)
    state = State(tip=Tip(world=record.parent))
    tip = Tip(world=record.parent)
    for frame in world.frames:
        if frame.header.last > record.at:
            break
        fold_frame(state, frame, world.read)
        tip = state.tip
    mine, _ = seal(
        dataclasses.replace(tip, world=forked_world_id(other)), [to_bytes(other)], bytes(32)
    )
    fold_frame(state, mine, world.read)
    assert state.world == forked_world_id(other) != forked_world_id(record)
    assert state.world_key == bytes(key.verify_key)


def with_frame(world: MemoryWorld, of: Hash, *made: Record) -> list[Frame]:
    """The journal and a frame behind it that says to be of world ``of``."""
    tip = dataclasses.replace(world.state.tip, world=of)
    frame, _ = seal(tip, [to_bytes(each) for each in made], bytes(32))
    return [*world.frames, frame]


def a_record(world: MemoryWorld, **fields: Any) -> Fork:
    tip = world.state.tip
    record = Fork(
        seq=tip.seq + 1, stamp=world.stamp(), parent=tip.world, at=tip.seq, frame=tip.frame,
        nonce=b"x", world_key=bytes(WORLD_KEY.verify_key), operators=(OPERATOR,),
        open_work="keep", erased=(), cut=None, signature=b"",
    )  # fmt: skip
    return signed(dataclasses.replace(record, **fields))


def test_no_frame_is_another_worlds_without_a_fork() -> None:  # J-45
    world = working()
    start = Start(seq=world.state.next_seq, stamp=world.stamp(), host=(("kernel", "0"),))
    frames = with_frame(world, OTHER, start)
    with pytest.raises(Damage, match="is another world's"):
        fold_frame(world.state, frames[-1], world.read)
    report = verify_frames(frames, world.read)
    assert {each.kind for each in report.findings} == {FindingKind.CHAIN_BROKEN}
    with pytest.raises(Divergence):
        replay(frames, world.read, runner(world))


def test_a_fork_is_the_first_record_of_its_frame_and_named_by_it() -> None:  # J-45
    world = working()
    record = a_record(world)
    frames = with_frame(world, record.parent, record)
    with pytest.raises(Damage, match=r"holds a fork|it contains a fork"):
        fold_frame(folded(world), frames[-1], world.read)
    assert FindingKind.CHAIN_BROKEN in {
        each.kind for each in verify_frames(frames, world.read).findings
    }
    with pytest.raises(Divergence):
        replay(frames, world.read, runner(world))
    start = Start(seq=record.seq, stamp=record.stamp, host=(("kernel", "0"),))
    late = a_record(world, seq=record.seq + 1, at=record.seq)
    for of in (record.parent, forked_world_id(late)):
        frames = with_frame(world, of, start, late)
        with pytest.raises(Damage):
            fold_frame(folded(world), frames[-1], world.read)
        assert verify_frames(frames, world.read).findings
        with pytest.raises((Divergence, Damage)):
            replay(frames, world.read, runner(world))


def test_one_flipped_bit_of_a_fork_is_found_and_named() -> None:
    world, record = a_fork()
    place = next(
        number for number, each in enumerate(world.frames) if each.header.first == record.seq
    )
    draw = Random(3)
    for _ in range(40):
        frames = list(world.frames)
        kept = list(frames[place].records)
        data = bytearray(kept[0])
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        kept[0] = bytes(data)
        frames[place] = dataclasses.replace(frames[place], records=tuple(kept))
        found: Sequence[Finding] = verify_frames(
            frames, world.read, head=head_of(world.frames)
        ).findings
        assert [(each.kind, each.record) for each in found] == [
            (FindingKind.RECORD_ALTERED, record.seq)
        ]


def test_a_flipped_bit_of_its_header_is_found() -> None:
    world, record = a_fork()
    place = next(
        number for number, each in enumerate(world.frames) if each.header.first == record.seq
    )
    frames = list(world.frames)
    header = dataclasses.replace(frames[place].header, world=OTHER)
    frames[place] = dataclasses.replace(frames[place], header=header, hash=header.hash())
    found = verify_frames(frames, world.read, head=head_of(world.frames)).findings
    assert [each.kind for each in found] == [FindingKind.FRAME_ALTERED]
    assert isinstance(from_bytes(frames[place].records[0]), Fork)


def test_a_store_takes_another_world_by_a_fork_alone() -> None:  # ST-2
    world = working()
    store = stored(world)
    head = store.head()
    assert head is not None
    other = forked()[0]
    group = next(each for each in other.sealed if each.frame.header.first == head.seq + 1)
    odd = dataclasses.replace(group.tip, world=OTHER)
    frame, tip = seal(
        Tip(world=OTHER, seq=head.seq, frame=head.frame, log=world.state.tip.log),
        group.frame.records[1:], bytes(32),
    )  # fmt: skip
    wrong = dataclasses.replace(group, frame=frame, tip=tip, erased=())
    with pytest.raises(Damage, match="the journal does not end where this process left it"):
        store.append([wrong], Head.of(tip).signed(WORLD_KEY), expected=head.frame)
    store.append([group], Head.of(group.tip).signed(WORLD_KEY), expected=head.frame)
    assert odd.world == OTHER


def test_a_cell_hears_of_the_cancel_and_may_ask_again() -> None:  # K-112
    world, _ = a_fork()
    assert world.cell(*cell_id("a")[:1], "a").mailbox is not None
    tell(world, "later", cancel(ref="q"))
    assert verified(world).is_sound
