"""Verify of what the core settles, of streams, attempts, commands and batches; of revoked keys and
of values that were erased (spec/audit.md, A-20 to A-29)."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Frame, Tip, seal
from aos.core.journal.inputs import PIN
from aos.core.journal.journal_clock import CLOCK_AHEAD_NS
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import (
    Attempt,
    Control,
    Event,
    KernelReceipt,
    Receipt,
    Record,
    Ref,
    Stamp,
    Step,
    Stream,
)
from aos.core.journal.statements import BATCH_MAX
from aos.errors import Damage
from aos.prove.verify.findings import Finding, FindingKind, VerifyReport
from aos.prove.verify.verify import verify_store
from aos.values.cbor import Value, encode
from aos.values.digests import Hash
from tests.core.decide.test_clock import ahead
from tests.core.decide.test_control import (
    NEXT,
    SHOP,
    abandoned_world,
    key_text,
    shop,
    signed_by,
    with_executors,
)
from tests.core.desk import (
    ARMS,
    DESK,
    EFFECT_CANCEL,
    INTROSPECT,
    ONCE,
    PAY,
    TIMER,
    TIMER_CANCEL,
    cell_id,
    desk,
    nodes,
    tell,
    wish,
)
from tests.memory_world import MemoryWorld, air, route
from tests.prove.desks import Desk, erasing, every_kind, only, told_long
from tests.prove.journals import head_of, replaced, resealed, store_of, verify_frames

OTHER = Hash(b"\x07" * 32)


@cache
def a_desk() -> Desk:
    """One world for all tests that do not change it."""
    return every_kind()


def verify(frames: Sequence[Frame], **more: Any) -> VerifyReport:
    return verify_frames(frames, a_desk().read, **more)


def the_only(report: VerifyReport) -> Finding:
    assert len(report.findings) == 1, [str(each) for each in report.findings]
    return report.findings[0]


def frame_of(frames: Sequence[Frame], seq: int) -> int:
    return next(each.header.first for each in frames if each.header.last >= seq)


def test_every_kind_of_record_is_sound_and_counted() -> None:
    """A-28."""
    world = a_desk()

    report = verify_store(store_of(world))

    assert report.is_sound, [str(each) for each in report.findings]
    assert (report.kernel_receipts, report.streams, report.attempts, report.controls) == (
        5,
        2,
        3,
        4,
    )
    # Genesis, manifest, head; receipts, those of a batch each; stream frames; commands.
    assert report.signatures == 3 + 4 + 2 + 4
    assert report.erased == 1
    assert VerifyReport.from_document(report.to_document()) == report


def flips() -> Iterator[tuple[int, int, int]]:
    """(record, byte, bit): six of each record of a new kind, the same ones each time."""
    draw = random.Random(3)
    for record in a_desk().records():
        if isinstance(record, KernelReceipt | Stream | Attempt | Control) or (
            isinstance(record, Receipt) and record.batch
        ):
            for _ in range(6):
                yield record.seq, draw.randrange(len(to_bytes(record))), draw.randrange(8)


@pytest.mark.parametrize(("seq", "byte", "bit"), list(flips()))
def test_one_flipped_bit_is_found_and_the_record_named(seq: int, byte: int, bit: int) -> None:
    """A-23."""
    frames = list(a_desk().frames)
    first = frame_of(frames, seq)
    place = next(i for i, each in enumerate(frames) if each.header.first == first)
    kept = list(frames[place].records)
    data = bytearray(kept[seq - first])
    data[byte] ^= 1 << bit
    kept[seq - first] = bytes(data)
    frames[place] = dataclasses.replace(frames[place], records=tuple(kept))

    found = the_only(verify(frames, head=head_of(a_desk().frames)))

    assert (found.kind, found.frame, found.record) == (FindingKind.RECORD_ALTERED, first, seq)
    assert f"bit {bit} of byte {byte} was flipped" in found.message


CANCELED, OWN, LOST, ASKED, GIVEN_UP = range(5)
"""Places of kernel receipts: a timer that its cell canceled, the answer to the cancel, a run that
was lost, the answer to an introspection, an effect that an operator canceled."""

BEGUN, ONLY_RUN, LOSS = range(3)
RETRY, SKIP, CANCEL, ERASE = range(4)

FORGED: list[tuple[type, int, str, Any, FindingKind]] = [
    (KernelReceipt, CANCELED, "intent", OTHER, FindingKind.RECORD_CANNOT_FOLLOW),
    (KernelReceipt, CANCELED, "cell", cell_id("other"), FindingKind.IDENTITY_WRONG),
    (KernelReceipt, CANCELED, "effect", PAY, FindingKind.IDENTITY_WRONG),
    (KernelReceipt, CANCELED, "status", "ok", FindingKind.AUTHORITY_MISSING),
    (KernelReceipt, CANCELED, "payload", encode({}), FindingKind.VALUE_INVALID),
    (KernelReceipt, CANCELED, "payload", Ref(OTHER, 2000), FindingKind.BLOB_DAMAGED),
    (KernelReceipt, CANCELED, "payload_schema", None, FindingKind.VALUE_INVALID),
    (KernelReceipt, CANCELED, "payload_schema", "t/Nothing@1", FindingKind.VALUE_INVALID),
    (KernelReceipt, CANCELED, "root", 1, FindingKind.RECORD_CANNOT_FOLLOW),
    (KernelReceipt, CANCELED, "depth", 1, FindingKind.RECORD_CANNOT_FOLLOW),
    (KernelReceipt, CANCELED, "by", None, FindingKind.AUTHORITY_MISSING),
    (KernelReceipt, CANCELED, "by", OTHER, FindingKind.AUTHORITY_MISSING),
    (KernelReceipt, CANCELED, "outcome", "lost", FindingKind.RECORD_UNREADABLE),
    (KernelReceipt, CANCELED, "abandoned", (OTHER,), FindingKind.RECORD_CANNOT_FOLLOW),
    (KernelReceipt, OWN, "by", OTHER, FindingKind.AUTHORITY_MISSING),
    (KernelReceipt, ASKED, "status", "canceled", FindingKind.AUTHORITY_MISSING),
    (KernelReceipt, LOST, "status", "canceled", FindingKind.AUTHORITY_MISSING),
    (KernelReceipt, GIVEN_UP, "status", "ok", FindingKind.AUTHORITY_MISSING),
    (KernelReceipt, GIVEN_UP, "root", 46, FindingKind.AUTHORITY_MISSING),
    (Stream, 0, "intent", OTHER, FindingKind.RECORD_CANNOT_FOLLOW),
    (Stream, 0, "cell", cell_id("other"), FindingKind.IDENTITY_WRONG),
    (Stream, 0, "effect", ONCE, FindingKind.IDENTITY_WRONG),
    (Stream, 0, "attempt", 2, FindingKind.SIGNATURE_WRONG),
    (Stream, 0, "attempt", 0, FindingKind.ATTEMPT_WRONG),
    (Stream, 0, "frame_seq", 2, FindingKind.SIGNATURE_WRONG),
    (Stream, 0, "frame_kind", "other", FindingKind.SIGNATURE_WRONG),
    (Stream, 0, "payload", b"\x07", FindingKind.SIGNATURE_WRONG),
    (Stream, 0, "payload", Ref(OTHER, 2000), FindingKind.BLOB_DAMAGED),
    (Stream, 0, "payload_ref", OTHER, FindingKind.SIGNATURE_WRONG),
    (Stream, 0, "executor", "test", FindingKind.AUTHORITY_MISSING),
    (Stream, 0, "key_id", bytes(32), FindingKind.AUTHORITY_MISSING),
    (Stream, 0, "signature", bytes(64), FindingKind.SIGNATURE_WRONG),
    (Stream, 1, "frame_seq", 0, FindingKind.RECORD_CANNOT_FOLLOW),
    (Attempt, BEGUN, "intent", OTHER, FindingKind.RECORD_CANNOT_FOLLOW),
    (Attempt, BEGUN, "cell", cell_id("other"), FindingKind.IDENTITY_WRONG),
    (Attempt, BEGUN, "attempt", 1, FindingKind.ATTEMPT_WRONG),
    (Attempt, BEGUN, "phase", "lost", FindingKind.ATTEMPT_WRONG),
    (Attempt, BEGUN, "phase", "over", FindingKind.RECORD_UNREADABLE),
    (Attempt, BEGUN, "code", "exception", FindingKind.ATTEMPT_WRONG),
    (Attempt, ONLY_RUN, "attempt", 2, FindingKind.ATTEMPT_WRONG),
    (Attempt, LOSS, "phase", "begun", FindingKind.ATTEMPT_WRONG),
    (Attempt, LOSS, "attempt", 2, FindingKind.ATTEMPT_WRONG),
    (Control, RETRY, "action", "skip", FindingKind.SIGNATURE_WRONG),
    (Control, RETRY, "action", "dance", FindingKind.RECORD_UNREADABLE),
    (Control, RETRY, "cell", cell_id("other"), FindingKind.SIGNATURE_WRONG),
    (Control, RETRY, "intent", OTHER, FindingKind.VALUE_INVALID),
    (Control, RETRY, "value", OTHER, FindingKind.VALUE_INVALID),
    (Control, RETRY, "principal", "nobody", FindingKind.AUTHORITY_MISSING),
    (Control, RETRY, "serial", 5, FindingKind.SIGNATURE_WRONG),
    (Control, RETRY, "serial", 5, FindingKind.RECORD_CANNOT_FOLLOW),
    (Control, RETRY, "signature", bytes(64), FindingKind.SIGNATURE_WRONG),
    (Control, RETRY, "status", "completed", FindingKind.VALUE_INVALID),
    (Control, RETRY, "payload", b"\x01", FindingKind.VALUE_INVALID),
    (Control, RETRY, "why", "another", FindingKind.VALUE_INVALID),
    (Control, RETRY, "restamp", True, FindingKind.SIGNATURE_WRONG),
    (Control, SKIP, "restamp", True, FindingKind.SIGNATURE_WRONG),
    (Control, CANCEL, "restamp", True, FindingKind.VALUE_INVALID),
    (Control, CANCEL, "restamp", True, FindingKind.RECORD_CANNOT_FOLLOW),
    (Control, RETRY, "dropped", 3, FindingKind.RECORD_CANNOT_FOLLOW),
    (Control, RETRY, "abandoned", (OTHER,), FindingKind.RECORD_CANNOT_FOLLOW),
    (Control, CANCEL, "intent", OTHER, FindingKind.SIGNATURE_WRONG),
    (Control, ERASE, "value", OTHER, FindingKind.SIGNATURE_WRONG),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "place", "field", "value", "wrong"), FORGED)
def test_a_forged_field_is_found_though_the_chain_was_rebuilt(
    kind: type, place: int, field: str, value: object, wrong: FindingKind
) -> None:
    """A-24 to A-26."""
    record = only(a_desk(), kind, place)
    frames = resealed(a_desk().frames, record.seq, lambda each: replaced(each, **{field: value}))

    report = verify(frames, head=head_of(frames))

    found = next(each for each in report.findings if each.kind is wrong)
    assert (found.frame, found.record) == (frame_of(frames, record.seq), record.seq)


def test_every_field_of_the_new_kinds_is_forged() -> None:
    """Except the stamp and the cause of a further attempt, which only the head proves, and the
    problem of a payload, which replay computes."""
    for kind in (KernelReceipt, Stream, Attempt, Control):
        left = {each.name for each in dataclasses.fields(kind)} - {
            field for of, _, field, *_ in FORGED if of is kind
        }
        assert left <= {"seq", "stamp", "problem"}, kind


PLACES: list[dict[str, Any]] = [
    {"index": 2}, {"index": 3}, {"size": 2}, {"size": BATCH_MAX + 1}, {"path": (OTHER,)},
    {"path": (OTHER,) * 40}, {"path": ()},
]  # fmt: skip


@pytest.mark.parametrize("fields", PLACES)
def test_a_forged_place_in_a_batch_is_found(fields: dict[str, Any]) -> None:
    """A-24, J-40."""
    record = only(a_desk(), Receipt, 1)

    def change(receipt: Any) -> Any:
        return replaced(receipt, batch=replaced(receipt.batch, **fields))

    found = the_only(verify(resealed(a_desk().frames, record.seq, change)))

    assert (found.kind, found.record) == (FindingKind.SIGNATURE_WRONG, record.seq)


def test_a_receipt_without_its_batch_is_not_signed() -> None:
    """A-24: nor is one whose signature covers nothing but itself signed for others."""
    record = only(a_desk(), Receipt, 1)
    frames = resealed(a_desk().frames, record.seq, lambda each: replaced(each, batch=None))

    assert the_only(verify(frames)).kind is FindingKind.SIGNATURE_WRONG


def test_receipts_of_the_core_are_unsigned() -> None:
    """A-24, K-80: the world's key neither."""
    world = a_desk()
    own = only(world, KernelReceipt, ASKED)

    def change(_: Record) -> Any:
        return replaced(
            only(world, Receipt), seq=own.seq, intent=own.intent, cell=own.cell, effect=own.effect,
            payload=own.payload, payload_schema=own.payload_schema, attempt=1,
        )  # fmt: skip

    report = verify(resealed(world.frames, own.seq, change))

    found = next(each for each in report.findings if each.kind is FindingKind.AUTHORITY_MISSING)
    assert found.record == own.seq
    assert "answered by the core itself: expected no signature" in found.message


def test_the_core_settles_no_effect_of_an_executor_without_a_cause() -> None:
    """A-24: an unsigned receipt must follow from a command or a loss."""
    world = a_desk()
    signed, own = only(world, Receipt), only(world, KernelReceipt, GIVEN_UP)

    def change(_: Record) -> Any:
        return replaced(
            own, seq=signed.seq, intent=signed.intent, cell=signed.cell, effect=signed.effect,
            root=12, by=None,
        )  # fmt: skip

    report = verify(resealed(world.frames, signed.seq, change))

    found = next(each for each in report.findings if each.kind is FindingKind.AUTHORITY_MISSING)
    assert found.record == signed.seq
    assert "record 12 neither canceled, settled nor lost t/pay@1" in found.message


OWN_EFFECTS: list[tuple[str, Value]] = [
    (TIMER_CANCEL, {"intent": None, "issuer_ref": "none"}),
    (EFFECT_CANCEL, {"intent": None, "issuer_ref": "none"}),
    (INTROSPECT[0], {"consistency": None}),
    (INTROSPECT[1], {"workflow": DESK, "key": encode("a"), "consistency": None}),
    (INTROSPECT[2], {}),
    (INTROSPECT[3], {"workflow": DESK, "after": None, "limit": None, "consistency": None}),
]


@pytest.mark.parametrize(("effect", "params"), OWN_EFFECTS, ids=[name for name, _ in OWN_EFFECTS])
def test_an_answer_is_read_by_the_manifest_under_which_its_effect_was_requested(
    effect: str, params: Value
) -> None:
    """A-26, K-54, K-72b: the manifest in force at the answer needs to have none of the core's
    effects."""
    world = Desk()
    world.send("t/Tell@1", {"key": "a", "asks": [wish(effect, params)], "note": ""})
    assert isinstance(world.step(), Step)
    without = [
        {**node, "effects_emitted": [PAY, ONCE, TIMER]} if node["name"] == DESK else node
        for node in nodes(ARMS)
    ]
    loaded = air(without, [route("t/Tell@1", DESK, "key")], version=2)
    assert isinstance(world.apply(loaded, {DESK: desk}, mode=PIN), Admitted)
    world.blobs.update(loaded.modules)
    world.run()
    answer = only(world, KernelReceipt)
    assert (answer.effect, answer.outcome) == (effect, "delivered")
    assert answer.payload_schema not in world.effective.schemas or answer.status == "error"

    report = verify_frames(world.frames, world.read)

    assert report.is_sound, [str(each) for each in report.findings]


def test_a_payload_is_delivered_only_by_the_schemas_of_its_effect() -> None:
    """A-26, K-54: another schema that the manifest has is not enough."""
    own = only(a_desk(), KernelReceipt, CANCELED)
    frames = resealed(
        a_desk().frames, own.seq, lambda each: replaced(each, payload_schema="t/Tell@1")
    )

    found = the_only(verify(frames))

    assert (found.kind, found.record) == (FindingKind.VALUE_INVALID, own.seq)
    assert found.message == (
        "payload: delivered by another schema than its effect has: expected sys/EffectError@1 or "
        "sys/TimerSetReceipt@1, found t/Tell@1"
    )


def test_an_effect_that_may_run_only_once_is_not_begun_twice() -> None:
    """K-97: whatever the fold lets pass."""
    loss = only(a_desk(), Attempt, LOSS)
    frames = resealed(
        a_desk().frames, loss.seq, lambda each: replaced(each, phase="begun", attempt=2)
    )

    found = verify(frames).findings[0]

    assert (found.kind, found.record) == (FindingKind.ATTEMPT_WRONG, loss.seq)
    assert found.message == (
        "t/once@1 may run only once: expected none after attempt 1, found attempt 2"
    )


def test_a_receipt_of_an_attempt_before_the_last_one_is_found() -> None:
    """K-95."""
    begun, receipt = only(a_desk(), Attempt, BEGUN), only(a_desk(), Receipt)
    frames = resealed(a_desk().frames, begun.seq, lambda each: replaced(each, attempt=3))

    found = the_only(verify(frames))

    assert (found.kind, found.record) == (FindingKind.ATTEMPT_WRONG, receipt.seq)
    assert found.message.endswith("expected attempt 3 or a later one, found attempt 2")


# Keys that were revoked.


def with_record(world: MemoryWorld, record: Record) -> list[Frame]:
    """The world's journal with one more record, as one who holds the world's key may write it."""
    world.seal()
    tip = Tip(world=world.state.world)
    for frame in world.frames:
        _, tip = seal(tip, frame.records, frame.salt)
    more, _ = seal(tip, [to_bytes(record)], bytes(32))
    return [*world.frames, more]


def late_receipt(world: MemoryWorld, intent: Any) -> Receipt:
    """The record that the core would write if it took the shop's late receipt for this intent."""
    given = signed_by(world, intent, SHOP)
    return Receipt(
        seq=world.state.next_seq, stamp=world.stamp(), intent=given.intent, cell=intent.cell,
        effect=given.effect, attempt=1, status="ok", payload=given.payload, payload_schema=None,
        started_ns=given.started_ns, finished_ns=given.finished_ns, cost_cents=None,
        executor="test", key_id=given.key_id, signature=given.signature, outcome="abandoned",
        problem=None, abandoned=(),
    )  # fmt: skip


@pytest.mark.parametrize("revokes", [False, True])
def test_a_revoked_key_proves_nothing_under_any_later_manifest(revokes: bool) -> None:
    """A-24, K-106: the manifest in force does not name it any more."""
    world, late = abandoned_world()
    keys = {"revoked_keys" if revokes else "retired_keys": [key_text(SHOP)]}
    for version, entry in ((2, shop(NEXT, **keys)), (3, shop(NEXT))):
        loaded = with_executors(entry, version=version)
        assert isinstance(world.apply(loaded, {DESK: desk}), Admitted)
        world.blobs.update(loaded.modules)
    world.blobs.update(world.loaded.modules)
    receipt = late_receipt(world, late)

    report = verify_frames(with_record(world, receipt), world.read)

    if revokes:
        found = the_only(report)
        assert (found.kind, found.record) == (FindingKind.AUTHORITY_MISSING, receipt.seq)
    else:
        assert report.is_sound, [str(each) for each in report.findings]


def test_a_manifest_that_takes_a_revoked_key_back_is_found() -> None:
    """K-106."""
    world, _ = abandoned_world()
    world.blobs.update(world.loaded.modules)
    manifests = [
        with_executors(shop(NEXT, revoked_keys=[key_text(SHOP)]), version=2),
        with_executors(shop(NEXT), version=3),
    ]
    for loaded in manifests:
        assert isinstance(world.apply(loaded, {DESK: desk}), Admitted)
        world.blobs.update(loaded.modules)
    world.seal()
    back = with_executors(shop(SHOP), version=3)
    document = back.effective.document
    world.blobs.update({back.effective.hash: document, **back.modules})
    last = world.state.manifest_seq
    frames = resealed(
        world.frames, last,
        lambda each: replaced(each, document=Ref(back.effective.hash, len(document))),
    )  # fmt: skip

    report = verify_frames(frames, world.read)

    found = next(each for each in report.findings if each.kind is FindingKind.MANIFEST_INVALID)
    assert found.record == last
    assert found.message == (
        f"executor test: it has {key_text(SHOP)}, which an earlier manifest revoked"
    )


# Values that were erased.


def test_a_value_that_a_record_erased_may_be_missing() -> None:
    """A-26a."""
    world = Desk()
    value = told_long(world, "a")
    world.command("erase", value=value)

    report = verify_frames(world.frames, erasing(world, value), head=head_of(world.frames))

    assert report.is_sound
    assert report.erased == 1
    assert verify_frames(world.frames, world.read).erased == 0


def test_a_row_that_says_erased_is_not_believed_without_a_record() -> None:
    """A-26a."""
    world = Desk()
    value = told_long(world, "a")

    found = the_only(verify_frames(world.frames, erasing(world, value)))

    assert (found.kind, found.record) == (FindingKind.BLOB_DAMAGED, 4)
    assert found.frame == frame_of(world.frames, 4)
    assert "expected its bytes, or a later record that erases it, found no such record" in (
        found.message
    )


def test_a_value_that_came_again_after_its_erasure_must_be_there() -> None:
    """A-26a."""
    world = Desk()
    value = told_long(world, "a")
    world.command("erase", value=value)
    told_long(world, "a")
    assert verify_store(store_of(world)).is_sound

    found = the_only(verify_frames(world.frames, erasing(world, value)))

    assert (found.kind, found.record) == (FindingKind.BLOB_DAMAGED, 7)
    world.command("erase", value=value)
    assert verify_frames(world.frames, erasing(world, value)).is_sound


def test_an_altered_value_is_damage_though_a_record_erases_it() -> None:
    """A-26: its reader must say that it was erased."""
    world = Desk()
    value = told_long(world, "a")
    world.command("erase", value=value)

    def altered(hash: Hash, /) -> bytes:
        if hash == value:
            raise Damage("blob is altered")
        return world.read(hash)

    assert the_only(verify_frames(world.frames, altered)).kind is FindingKind.BLOB_DAMAGED


@pytest.mark.parametrize("what", ["the manifest", "a module"])
def test_a_manifest_and_its_modules_are_never_erased(what: str) -> None:
    """K-104: not by an operator's record either."""
    world = Desk()
    tell(world, "a", note="x")
    module = world.effective.workflows[DESK].module.hash
    value = world.effective.hash if what == "the manifest" else module
    other = told_long(world, "b")
    world.command("erase", value=other)
    erase = only(world, Control)
    frames = resealed(world.frames, erase.seq, lambda each: replaced(each, value=value))

    report = verify_frames(frames, erasing(world, value))

    found = next(each for each in report.findings if each.kind is FindingKind.BLOB_DAMAGED)
    assert found.record == 2
    assert "was erased" in found.message
    assert FindingKind.RECORD_CANNOT_FOLLOW not in {
        each.kind for each in report.findings if each.record == 2
    }


def set_back() -> tuple[MemoryWorld, Control]:
    """A world whose clock was ahead, and the command that set it back."""
    world, _ = ahead()
    world.blobs.update(world.loaded.modules)
    assert isinstance(world.control("clock"), Admitted)
    world.seal()
    record = world.records()[-1]
    assert isinstance(record, Control)
    return world, record


def test_a_command_that_sets_back_a_clock_that_was_ahead_is_sound() -> None:
    """A-26, K-109b."""
    world, _ = set_back()

    report = verify_frames(world.frames, world.read, head=head_of(world.frames))

    assert report.is_sound, [str(each) for each in report.findings]
    assert report.stamps_behind == 0


@pytest.mark.parametrize("ahead_ns", [CLOCK_AHEAD_NS, 0, -5 * CLOCK_AHEAD_NS])
def test_a_command_that_sets_a_clock_which_is_not_ahead_is_found(ahead_ns: int) -> None:
    """A-26, K-109b: its stamp, which no signature covers, was forged."""
    world, record = set_back()
    before_ns = max(each.stamp.ns for each in world.records() if isinstance(each, Event))
    stamp = Stamp(before_ns - ahead_ns, record.stamp.entropy)
    frames = resealed(world.frames, record.seq, lambda each: replaced(each, stamp=stamp))

    report = verify_frames(frames, world.read, head=head_of(frames))

    found = next(each for each in report.findings if each.kind is FindingKind.VALUE_INVALID)
    assert (found.frame, found.record) == (frame_of(frames, record.seq), record.seq)
    assert found.message == (
        "a command sets the journal clock back, which is not ahead of its stamp: "
        f"expected more than {CLOCK_AHEAD_NS} ns, found {ahead_ns} ns"
    )


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("action", "retry", FindingKind.SIGNATURE_WRONG),
        ("serial", 1, FindingKind.SIGNATURE_WRONG),
        ("principal", "nobody", FindingKind.AUTHORITY_MISSING),
        ("signature", bytes(64), FindingKind.SIGNATURE_WRONG),
        ("cell", cell_id("a"), FindingKind.VALUE_INVALID),
        ("why", "because", FindingKind.VALUE_INVALID),
    ],
)
def test_a_forged_field_of_a_command_that_sets_the_clock_is_found(
    field: str, value: object, wrong: FindingKind
) -> None:
    """A-24, K-100."""
    world, record = set_back()
    frames = resealed(world.frames, record.seq, lambda each: replaced(each, **{field: value}))

    report = verify_frames(frames, world.read, head=head_of(frames))

    found = next(each for each in report.findings if each.kind is wrong)
    assert found.record == record.seq
