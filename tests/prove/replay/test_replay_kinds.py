"""Replay of what the core settles, of streams, attempts and commands; and of values that were
erased (spec/audit.md, A-10 to A-16a)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Frame, Tip, seal
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import (
    Attempt,
    Control,
    KernelReceipt,
    Receipt,
    Record,
    Ref,
    Step,
    Stream,
)
from aos.errors import Damage
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import RECORDS_NAMED, Divergence, ReplayReport
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, hash_text
from tests.core.desk import DESK, INTROSPECT, PAY, cell_id, pay, tell, wish
from tests.memory_world import MemoryWorld, PythonRunner
from tests.prove.desks import LONG, Desk, erasing, every_kind, long_event, only, told_long
from tests.prove.journals import head_of, replaced, resealed, runner, store_of

OTHER = Hash(b"\x07" * 32)


@cache
def desk() -> Desk:
    """One world for all tests that do not change it."""
    return every_kind()


def again(frames: Sequence[Frame], world: MemoryWorld | None = None, **more: Any) -> ReplayReport:
    world = world or desk()
    return replay(frames, world.read, runner(world), **more)


def divergence(frames: Sequence[Frame], world: MemoryWorld | None = None) -> Divergence:
    with pytest.raises(Divergence) as caught:
        again(frames, world)
    return caught.value


def test_every_kind_of_record_is_decided_again() -> None:
    """A-10, A-15."""
    world = desk()

    report = again(world.frames, head=head_of(world.frames))

    assert (report.kernel_receipts, report.streams, report.attempts, report.controls) == (
        5,
        2,
        3,
        4,
    )
    assert (report.receipts, report.faults, report.erased) == (4, 2, 0)
    assert report.erasures == ()
    assert report.seq == world.state.next_seq - 1


CANCELED, OWN = 0, 1
"""Places of kernel receipts: a timer that its cell canceled, and the answer to the cancel."""

TAMPERED: list[tuple[type, int, str, Any, str]] = [
    (KernelReceipt, CANCELED, "intent", OTHER, "intent"),
    (KernelReceipt, CANCELED, "cell", cell_id("other"), "cell"),
    (KernelReceipt, CANCELED, "effect", PAY, "effect"),
    (KernelReceipt, CANCELED, "status", "error", "status"),
    (KernelReceipt, CANCELED, "payload", encode({"cancelled": True}), "payload"),
    (KernelReceipt, CANCELED, "payload_schema", None, "payload_schema"),
    (KernelReceipt, CANCELED, "root", 1, "root"),
    (KernelReceipt, CANCELED, "depth", 1, "depth"),
    (KernelReceipt, CANCELED, "by", None, "by"),
    (KernelReceipt, OWN, "by", OTHER, "by"),
    (KernelReceipt, CANCELED, "outcome", "rejected", "outcome"),
    (KernelReceipt, CANCELED, "problem", "a misfit", "problem"),
    (KernelReceipt, CANCELED, "abandoned", (OTHER,), "abandoned"),
    (Stream, 0, "intent", OTHER, "admission"),
    (Stream, 0, "cell", cell_id("other"), "cell"),
    (Stream, 0, "effect", "t/once@1", "admission"),
    (Stream, 0, "attempt", 2, "admission"),
    (Stream, 0, "frame_seq", 2, "admission"),
    (Stream, 0, "frame_kind", "other", "admission"),
    (Stream, 0, "payload", b"\x07", "admission"),
    (Stream, 0, "payload_ref", OTHER, "admission"),
    (Stream, 0, "executor", "test", "admission"),
    (Stream, 0, "key_id", bytes(32), "admission"),
    (Stream, 0, "signature", bytes(64), "admission"),
    (Attempt, 0, "intent", OTHER, "admission"),
    (Attempt, 0, "cell", cell_id("other"), "cell"),
    (Attempt, 0, "attempt", 1, "admission"),
    (Attempt, 0, "phase", "lost", "admission"),
    (Attempt, 0, "code", "exception", "admission"),
    (Control, 0, "action", "skip", "admission"),
    (Control, 0, "cell", cell_id("other"), "admission"),
    (Control, 0, "intent", OTHER, "admission"),
    (Control, 0, "value", OTHER, "admission"),
    (Control, 0, "principal", "nobody", "admission"),
    (Control, 0, "serial", 5, "admission"),
    (Control, 0, "signature", bytes(64), "admission"),
    (Control, 0, "status", "completed", "admission"),
    (Control, 0, "payload", b"\x01", "admission"),
    (Control, 0, "why", "another", "admission"),
    (Control, 0, "restamp", True, "admission"),
    (Control, 0, "dropped", 3, "dropped"),
    (Control, 0, "abandoned", (OTHER,), "abandoned"),
    (Receipt, 1, "batch", None, "admission"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "place", "field", "value", "named"), TAMPERED)
def test_a_changed_field_is_named(
    kind: type, place: int, field: str, value: object, named: str
) -> None:
    """A-11, A-12."""
    record = only(desk(), kind, place)
    frames = resealed(desk().frames, record.seq, lambda each: replaced(each, **{field: value}))

    found = divergence(frames)

    assert (found.record, found.kind, found.field) == (record.seq, record.KIND, named)


def test_every_field_of_the_new_kinds_is_tampered_with() -> None:
    """But the stamp, which only the head vouches for, and why there was another attempt, which the
    host alone says (K-98)."""
    for kind in (KernelReceipt, Stream, Attempt, Control):
        left = {each.name for each in dataclasses.fields(kind)} - {
            field for of, _, field, *_ in TAMPERED if of is kind
        }
        assert left - {"seq", "stamp"} == ({"problem"} if kind is Attempt else set())


@pytest.mark.parametrize("fields", [{"index": 2}, {"size": 2}, {"path": (OTHER,)}])
def test_a_changed_place_in_a_batch_is_refused_again(fields: dict[str, Any]) -> None:
    """A-11, J-40."""
    record = only(desk(), Receipt, 1)

    def change(receipt: Any) -> Any:
        return replaced(receipt, batch=replaced(receipt.batch, **fields))

    found = divergence(resealed(desk().frames, record.seq, change))

    recomputed = found.differences[0].recomputed
    assert isinstance(recomputed, dict)
    assert (found.record, recomputed["refused"]) == (record.seq, "receipt_signature_is_wrong")


def with_frame(world: MemoryWorld, *records: Record) -> list[Frame]:
    """The world's journal with one more frame, as one who holds no key may write it."""
    tip = Tip(world=world.state.world)
    for frame in world.frames:
        _, tip = seal(tip, frame.records, frame.salt)
    more, _ = seal(tip, [to_bytes(each) for each in records], bytes(32))
    return [*world.frames, more]


def test_a_receipt_that_the_core_does_not_owe_differs() -> None:
    """A-12."""
    seq = desk().state.next_seq
    extra = replaced(only(desk(), KernelReceipt), seq=seq)

    found = divergence(with_frame(desk(), extra))

    assert (found.record, found.field) == (seq, "kind")
    assert found.differences[0].recomputed == "no receipt is owed"


def test_a_step_before_the_receipt_that_is_owed_differs() -> None:
    """A-12, K-80."""
    record = only(desk(), KernelReceipt, CANCELED)
    step = only(desk(), Step, 2)
    frames = resealed(desk().frames, record.seq, lambda _: replaced(step, seq=record.seq))

    found = divergence(frames)

    assert (found.record, found.field) == (record.seq, "kind")
    assert found.differences[0].recomputed == "kernel_receipt"


# Values that were erased.


def erased() -> tuple[Desk, Hash]:
    """A long event has run, other things have happened, its value was erased, more has happened."""
    world = Desk()
    value = told_long(world, "a")
    tell(world, "b", note="between")
    world.command("erase", value=value)
    tell(world, "b", note="after")
    return world, value


def without(world: MemoryWorld, *values: Hash) -> ReplayReport:
    return replay(world.frames, erasing(world, *values), runner(world), head=head_of(world.frames))


def test_a_record_that_needs_an_erased_value_is_taken_and_named() -> None:
    """A-16a. All else is decided again."""
    world, value = erased()

    machine = runner(world)
    report = replay(world.frames, erasing(world, value), machine, head=head_of(world.frames))

    (event, step) = (4, 5)
    assert report.identical
    assert (report.erased, machine.calls) == (2, report.steps - 1)
    (found,) = report.erasures
    assert (found.value, found.records, found.unnamed) == (value, (event, step), 0)
    assert found.by == only(world, Control).seq
    assert report.to_document()["erasures"] == [
        {"value": hash_text(value), "by": found.by, "records": [event, step], "unnamed": 0}
    ]
    assert replay(world.frames, world.read, runner(world)).erased == 0


def test_a_store_that_erased_it_is_replayed_the_same() -> None:
    """A-16a."""
    world, value = erased()
    store = store_of(world)
    assert not store.has_blob(value)

    assert replay(world.frames, store.blob, runner(world)).erased == 2


def test_comparison_continues_after_a_taken_record() -> None:
    """A-16a."""
    world, value = erased()
    last = [each for each in world.records() if isinstance(each, Step)][-1]
    frames = resealed(world.frames, last.seq, lambda each: replaced(each, status="completed"))

    with pytest.raises(Divergence) as caught:
        replay(frames, erasing(world, value), runner(world))

    assert (caught.value.record, caught.value.field) == (last.seq, "status")


def test_a_taken_record_must_still_follow_from_the_state() -> None:
    """A-16a, K-2."""
    world, value = erased()
    frames = resealed(world.frames, 5, lambda each: replaced(each, root=1))

    with pytest.raises(Damage, match="frame 4, record 5: record 5 names record 1 as its cause"):
        replay(frames, erasing(world, value), runner(world))


def test_a_row_that_says_erased_is_not_believed_without_a_record() -> None:
    """A-16a: nor with an erasure that is earlier than the use."""
    world = Desk()
    value = told_long(world, "a")
    with pytest.raises(Damage) as caught:
        without(world, value)
    assert str(caught.value).startswith(
        f"record 4: the value {hash_text(value)} is missing: expected its bytes, or a record that "
        "erases it, found a row that says it was erased"
    )

    world.command("erase", value=value)
    told_long(world, "a")
    with pytest.raises(Damage, match="record 7: the value"):
        without(world, value)


def test_a_value_that_came_again_is_there() -> None:
    """K-104: the same bytes are a new value."""
    world = Desk()
    value = told_long(world, "a")
    world.command("erase", value=value)
    told_long(world, "a")
    assert store_of(world).blob(value)

    assert replay(world.frames, store_of(world).blob, runner(world)).erased == 0


def test_a_step_whose_state_was_erased_is_taken_and_the_one_that_made_it_is_not() -> None:
    """A-16a: the new state of a step is compared by its hash."""
    world = Desk()
    told_long(world, "a")
    state = world.cell(DESK, "a").state
    assert isinstance(state, Ref)
    tell(world, "a", note="delete")
    world.command("erase", value=state.hash)
    made, deleted = (each.seq for each in world.records() if isinstance(each, Step))

    report = without(world, state.hash)

    assert report.erasures[0].records == (deleted,)
    frames = resealed(world.frames, made, lambda each: replaced(each, state=Ref(OTHER, 5)))
    with pytest.raises(Divergence) as caught:
        replay(frames, erasing(world, state.hash), runner(world))
    assert (caught.value.record, caught.value.field) == (made, "state")


def test_payloads_that_were_erased_are_taken() -> None:
    """A-16a: of receipts, of stream frames, and what the core answered out of a state."""
    world = Desk()
    told_long(world, "a")
    state = world.cell(DESK, "a").state
    assert isinstance(state, Ref)
    asked: Value = {"workflow": DESK, "key": encode("a"), "consistency": None}
    tell(world, "b", pay("p"), wish(INTROSPECT[1], asked))
    (paying,) = world.open_of("b")
    assert isinstance(world.stream(paying, 0, payload=encode(LONG)), Admitted)
    world.run()
    assert isinstance(world.settle(paying, {"ref": LONG}), Admitted)
    world.run()
    tell(world, "a", note="delete")
    answer, frame, receipt = only(world, KernelReceipt), only(world, Stream), only(world, Receipt)
    values = [state.hash, *(each.payload.hash for each in (answer, frame, receipt))]
    for value in values:
        world.command("erase", value=value)

    report = without(world, *values)

    taken = {seq for each in report.erasures for seq in each.records}
    assert {answer.seq, frame.seq, receipt.seq} <= taken
    assert report.erased == len(taken)


def test_a_module_is_never_erased() -> None:
    """A-16a: replay accepts an erasure only of values; an erased module is damage."""
    world, _ = erased()
    module = world.effective.workflows[DESK].module.hash

    class Lacking(PythonRunner):
        def run(self, call: Any) -> Any:
            return self.read(module) and super().run(call)

        read: Callable[[Hash], bytes]

    machine = Lacking(dict(world.runner.modules))
    machine.read = erasing(world, module)
    with pytest.raises(Damage, match=r"frame 4, record 5: the value .* was erased"):
        replay(world.frames, world.read, machine)


def test_so_many_records_are_named_for_a_value_and_the_rest_counted() -> None:
    """A-15."""
    world = Desk()
    for _ in range(RECORDS_NAMED):
        world.send("t/Tell@1", {"key": "same", "asks": [], "note": LONG})
    world.run()
    value = long_event("same")
    world.command("erase", value=value)

    (found,) = without(world, value).erasures

    assert (len(found.records), found.unnamed) == (RECORDS_NAMED, RECORDS_NAMED)
