"""Replay executes a journal again and names the first difference (spec/audit.md, A-10 to A-19)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.frame import Frame, Head, Tip, seal
from aos.core.journal.ports import Call, Ran
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import Faulted, Ref, Stamp, Step, slot
from aos.errors import Damage, Unavailable
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import Divergence
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.memory_world import Envelope, PythonRunner, Trap, state_of
from tests.prove.journals import (
    LEDGER,
    MODULES,
    ORDER,
    PAID,
    Shop,
    blob_reader,
    busy_shop,
    head_of,
    order,
    records,
    replaced,
    resealed,
    runner,
    with_header,
)

OTHER = Hash(b"\x07" * 32)
OTHER_CELL = (LEDGER, encode("c-9"))


@cache
def shop() -> Shop:
    """One world for all tests that do not change it."""
    return busy_shop()


def again(frames: Sequence[Frame], **more: Any) -> Any:
    return replay(frames, shop().read, runner(shop()), **more)


def divergence(frames: Sequence[Frame], **more: Any) -> Divergence:
    with pytest.raises(Divergence) as caught:
        again(frames, **more)
    return caught.value


def record(kind: type, which: Callable[[Any], bool] = lambda _: True) -> Any:
    return next(each for each in records(shop().frames) if isinstance(each, kind) and which(each))


def first_frame(seq: int) -> int:
    return next(f.header.first for f in shop().frames if f.header.last >= seq)


def test_an_untouched_journal_is_identical_to_the_last_byte() -> None:
    """A-10, A-15."""
    world = shop()
    reached: list[int] = []

    report = again(world.frames, head=head_of(world.frames), on_progress=reached.append)

    assert report.identical
    assert (report.frames, report.records, report.seq) == (6, 28, 28)
    assert (report.steps, report.faults, report.environmental) == (14, 2, 1)
    assert (report.events, report.receipts, report.manifests, report.starts) == (6, 5, 1, 1)
    assert (report.intents, report.emitted) == (6, 3)
    assert report.frame == world.frames[-1].hash
    assert report.log_root == world.frames[-1].header.log_root
    assert reached == [frame.header.last for frame in world.frames]


def test_a_report_is_a_document() -> None:
    """A-15."""
    document = again(shop().frames).to_document()

    assert document["identical"] is True
    assert document["frame"] == f"blake3:{shop().frames[-1].hash.hex()}"


def asking(found: Step) -> bool:
    return bool(found.intents)


def emitting(found: Step) -> bool:
    return bool(found.events)


def in_intent(**fields: Any) -> Callable[[Step], Step]:
    return lambda step: replaced(step, intents=(replaced(step.intents[0], **fields),))


def in_event(**fields: Any) -> Callable[[Step], Step]:
    return lambda step: replaced(step, events=(replaced(step.events[0], **fields),))


def with_(**fields: Any) -> Callable[[Any], Any]:
    return lambda found: replaced(found, **fields)


STATE = encode({"phase": "paid", "tries": 1, "amount": 6, "note": ""})
TAMPERED_STEPS = [
    ("cell", asking, with_(cell=OTHER_CELL)),
    ("entry", asking, with_(entry=(4, 1))),
    ("root", asking, with_(root=1)),
    ("depth", asking, with_(depth=9)),
    ("state", asking, with_(state=STATE)),
    ("state", asking, with_(state=None)),
    ("status", asking, with_(status="running")),
    ("ann", emitting, with_(ann=encode({"why": "guess"}))),
    ("ann", emitting, with_(ann=None)),
    ("fuel", asking, lambda step: replaced(step, fuel=step.fuel + 1)),
    ("pages", asking, with_(pages=2)),
    ("output", asking, with_(output=OTHER)),
    ("abandoned", asking, with_(abandoned=(OTHER,))),
    ("events", emitting, with_(events=())),
    ("events", asking, lambda step: replaced(step, events=record(Step, emitting).events)),
    ("events[0].schema", emitting, in_event(schema="shop/Placed@1")),
    ("events[0].value", emitting, in_event(value=encode({"customer": "c-1", "amount": 6}))),
    ("events[0].to", emitting, in_event(to=(OTHER_CELL,))),
    ("events[0].overloaded", emitting, in_event(overloaded=(OTHER_CELL,))),
    ("events[0].unknown", emitting, in_event(unknown=(OTHER_CELL,))),
    ("intents", asking, with_(intents=())),
    ("intents[0].intent", asking, in_intent(intent=OTHER)),
    ("intents[0].effect", asking, in_intent(effect="sys/timer.set@1")),
    ("intents[0].effect_hash", asking, in_intent(effect_hash=OTHER)),
    ("intents[0].params", asking, in_intent(params=encode({"amount": 6, "memo": ""}))),
    ("intents[0].key", asking, in_intent(key="charge-2")),
    ("intents[0].issuer_ref", asking, in_intent(issuer_ref="me")),
    ("under", asking, with_(under=2)),
    ("fits", asking, with_(fits=2)),
]


@pytest.mark.parametrize(("field", "which", "change"), TAMPERED_STEPS)
def test_a_changed_field_of_a_step_is_named(
    field: str, which: Callable[[Any], bool], change: Callable[[Any], Any]
) -> None:
    """A-12, A-13. The chain and the head are rebuilt, so that only replay can find the change."""
    step = record(Step, which)
    frames = resealed(shop().frames, step.seq, change)

    found = divergence(frames, head=head_of(frames))

    assert (found.frame, found.record) == (first_frame(step.seq), step.seq)
    assert found.field == field
    assert len(found.differences) == 1
    assert (found.kind, found.cell) == (
        "step",
        ((ORDER if field != "cell" else LEDGER), CELL[field]),
    )


CELL = dict.fromkeys([field for field, *_ in TAMPERED_STEPS], "ord-1") | {"cell": "c-9"}


def test_every_field_of_a_step_is_tampered_with() -> None:
    fields = {each.name for each in dataclasses.fields(Step)}

    assert fields - {field.partition("[")[0] for field, *_ in TAMPERED_STEPS} == {"seq"}


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("cell", with_(cell=OTHER_CELL)),
        ("entry", with_(entry=(4, 1))),
        ("root", with_(root=1)),
        ("depth", with_(depth=9)),
        ("fault", with_(fault=Fault(kind=FaultKind.TRAP, message="other words"))),
        ("fault", with_(fault=Fault(kind=FaultKind.GUEST, message="other kind"))),
        ("fuel", with_(fuel=1)),
        ("pages", with_(pages=2)),
        ("output", with_(output=OTHER)),
        ("under", with_(under=2)),
    ],
)
def test_a_changed_field_of_a_fault_is_named(field: str, change: Callable[[Any], Any]) -> None:
    """A-12."""
    fault = record(Faulted, lambda found: not found.fault.environmental)
    frames = resealed(shop().frames, fault.seq, change)

    found = divergence(frames)

    assert (found.record, found.field, found.kind) == (fault.seq, field, "fault")


def test_a_changed_state_is_shown_decoded_place_by_place() -> None:
    """A-13."""
    step = record(Step, asking)
    frames = resealed(shop().frames, step.seq, with_(state=STATE))

    found = divergence(frames)

    places = [(each.path, each.recorded, each.recomputed) for each in found.differences[0].places]
    assert places == [("$.amount", 6, 5), ("$.phase", "paid", "charging")]
    assert str(found).startswith(
        "frame 2, record 6 (step of shop/order.step@1 ord-1): replay differs in state.amount: "
        "expected 6 as recorded, found 5 recomputed (the journal was altered, or what ran"
    )
    assert found.to_document()["cell"] == {"workflow": ORDER, "key": "ord-1"}


def test_a_long_state_is_shown_decoded_too() -> None:
    """A-13. Both blobs are read: the recorded one from the store, the other as it was computed."""
    step = record(Step, lambda found: isinstance(found.state, Ref))
    blobs: dict[Hash, bytes] = {}
    long = slot(encode({"phase": "charging", "tries": 1, "amount": 2, "note": "n" * 3000}), blobs)
    frames = resealed(shop().frames, step.seq, with_(state=long))

    with pytest.raises(Divergence) as caught:
        replay(frames, lambda each: blobs.get(each) or shop().read(each), runner(shop()))

    places = [
        (each.path, each.recorded, each.recomputed) for each in caught.value.differences[0].places
    ]
    assert places == [("$.amount", 2, 20_000)]


def test_a_reference_of_another_size_is_shown_as_a_reference() -> None:
    """A-13."""
    step = record(Step, lambda found: isinstance(found.state, Ref))
    frames = resealed(shop().frames, step.seq, with_(state=Ref(step.state.hash, 1)))

    found = divergence(frames)

    place = found.differences[0].places[0]
    assert (found.field, place.path, place.recorded) == ("state", "$.size", 1)


def test_a_step_recorded_as_a_fault_differs_in_kind() -> None:
    """A-12."""
    step = record(Step, asking)
    fault = Fault(kind=FaultKind.TRAP, message="unreachable")

    def change(found: Step) -> Faulted:
        return Faulted(
            seq=found.seq, cell=found.cell, entry=found.entry, root=found.root, depth=0,
            fault=fault, fuel=0, pages=0, output=None,
        )  # fmt: skip

    found = divergence(resealed(shop().frames, step.seq, change))

    assert found.differences[0].recorded == "fault trap: unreachable"
    assert found.differences[0].recomputed == "step"


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("to", with_(to=(OTHER_CELL,))),
        ("overloaded", with_(overloaded=(OTHER_CELL,))),
        ("admission", with_(schema="shop/Nothing@1")),
        ("admission", with_(value=encode({"order_id": 1, "amount": 5}))),
        ("seq", with_(seq=99)),
    ],
)
def test_a_changed_field_of_an_event_is_named(field: str, change: Callable[[Any], Any]) -> None:
    """A-11."""
    found = divergence(resealed(shop().frames, 4, change))

    assert (found.record, found.field) == (4, field)


def test_a_changed_event_shows_where_it_first_matters() -> None:
    """A-11. Replay does not decide inputs again, but computes everything that follows from them."""
    other = encode({"order_id": "ord-1", "amount": 6})

    found = divergence(resealed(shop().frames, 4, with_(value=other)))

    assert (found.record, found.field) == (6, "state")


SIGNED = [
    ("attempt", 2), ("status", "error"), ("payload", encode({"id": "mine"})), ("started_ns", 1),
    ("finished_ns", 2**62), ("cost_cents", 5), ("signature", bytes(64)),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), SIGNED)
def test_a_changed_signed_field_of_a_receipt_is_refused_again(field: str, value: object) -> None:
    """A-11."""
    found = divergence(resealed(shop().frames, 8, with_(**{field: value})))

    assert (found.record, found.kind, found.field) == (8, "receipt", "admission")
    recomputed = found.differences[0].recomputed
    assert isinstance(recomputed, dict)
    assert recomputed["refused"] == "receipt_signature_is_wrong"


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("intent", OTHER, "receipt_intent_is_unknown"),
        ("effect", "sys/timer.set@1", "receipt_effect_differs"),
        ("executor", "shop", "receipt_executor_may_not_sign"),
        ("key_id", bytes(32), "receipt_executor_may_not_sign"),
    ],
)
def test_a_receipt_of_someone_else_is_refused_again(field: str, value: object, rule: str) -> None:
    """A-11."""
    found = divergence(resealed(shop().frames, 8, with_(**{field: value})))

    recomputed = found.differences[0].recomputed
    assert isinstance(recomputed, dict)
    assert (found.field, recomputed["refused"]) == ("admission", rule)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cell", OTHER_CELL),
        ("payload_schema", None),
        ("outcome", "rejected"),
        ("problem", "a misfit"),
        ("abandoned", (OTHER,)),
    ],
)
def test_the_records_that_follow_a_receipt_are_compared(field: str, value: object) -> None:
    """A-12."""
    found = divergence(resealed(shop().frames, 8, with_(**{field: value})))

    assert (found.record, found.field) == (8, field)


def test_a_manifest_that_no_operator_signed_is_refused_again() -> None:
    """A-11."""
    found = divergence(resealed(shop().frames, 2, with_(signature=bytes(64))))

    recomputed = found.differences[0].recomputed
    assert isinstance(recomputed, dict)
    assert (found.record, recomputed["refused"]) == (2, "manifest_signature_is_wrong")


def test_a_genesis_that_the_world_key_did_not_sign_differs() -> None:
    """A-11."""
    found = divergence(resealed(shop().frames, 1, with_(signature=bytes(64))))

    assert (found.record, found.kind, found.field) == (1, "genesis", "signature")


def test_a_journal_of_other_semantics_names_what_to_do() -> None:
    """A-18."""
    with pytest.raises(Damage, match="replay with the release that knows them"):
        again(resealed(shop().frames, 1, with_(semantics=2)))


def test_a_left_out_step_is_named_where_the_order_breaks() -> None:
    """A-12. The ring's head is no longer the recorded cell."""

    def renumbered(frames: Sequence[Frame]) -> list[Frame]:
        found = list(frames)
        for seq in range(6, found[-1].header.last + 1):
            found = resealed(found, seq, with_(seq=seq))
        return found

    frames = renumbered(resealed(shop().frames, 6, lambda _: None))

    found = divergence(frames)

    assert (found.record, found.field) == (6, "cell")
    assert found.differences[0].recorded == {"workflow": ORDER, "key": "ord-2"}
    assert found.differences[0].recomputed == {"workflow": ORDER, "key": "ord-1"}


def test_a_step_too_many_finds_no_cell_ready() -> None:
    """A-12."""
    world = shop()
    last = record(Step, lambda found: found.seq == 28)
    extra = resealed(world.frames, 29, lambda found: found)
    frame = extra[-1]
    tip = Tip(world=frame.header.world)
    for each in extra:
        _, tip = seal(tip, each.records, each.salt)
    more, _ = seal(tip, [to_bytes(replaced(last, seq=29))], bytes(32))

    found = divergence([*extra, more])

    assert (found.frame, found.record, found.field) == (29, 29, "cell")
    assert found.differences[0].recomputed is None


def test_an_environmental_fault_is_taken_from_the_record() -> None:
    """A-16. This runner would not meet it: it never runs the step."""
    world = shop()
    healthy = {**MODULES, ORDER: _without_stack_fault}
    machine = PythonRunner(world.by_hash(world.loaded, healthy))

    report = replay(world.frames, world.read, machine)

    assert report.environmental == 1
    assert machine.calls == report.steps - 1


def _without_stack_fault(envelope: Envelope) -> Envelope:
    try:
        return order(envelope)
    except Trap as trap:
        if trap.fault.kind is not FaultKind.STACK:
            raise
        return {"state": None}


def test_the_rest_of_an_environmental_fault_is_compared() -> None:
    """A-16."""
    fault = record(Faulted, lambda found: found.fault.environmental)

    found = divergence(resealed(shop().frames, fault.seq, with_(depth=3, root=1)))

    assert [each.field for each in found.differences] == ["root", "depth"]


def test_a_machine_that_lacks_memory_is_not_a_difference() -> None:
    """A-17."""

    class Small:
        def run(self, call: Call) -> Ran:  # noqa: ARG002  # its answer is always the same
            fault = Fault(kind=FaultKind.HOST_MEMORY, message="the machine had no memory for it")
            return Ran(output=None, fault=fault, fuel=0, pages=0)

    with pytest.raises(Unavailable, match=r"record 6: this machine could not run it: the machine"):
        replay(shop().frames, shop().read, Small())


class Engine:
    """A runner of another version, that burns twice the fuel."""

    def __init__(self) -> None:
        self._inner = runner(shop())

    def run(self, call: Call) -> Ran:
        ran = self._inner.run(call)
        return ran._replace(fuel=2 * ran.fuel)


def test_fuel_of_another_engine_version_is_taken_from_the_record() -> None:
    """A-16. The start record says that 50.0.1 ran."""
    world = shop()

    report = replay(world.frames, world.read, Engine(), wasmtime="51.0.0")

    assert report.fuel_taken == report.steps - report.environmental
    with pytest.raises(Divergence) as caught:
        replay(world.frames, world.read, Engine(), wasmtime="50.0.1")
    assert caught.value.field == "fuel"


def test_a_module_that_is_not_deterministic_is_caught_at_its_first_step() -> None:
    """A-10."""
    calls = 0

    def moody(envelope: Envelope) -> Envelope:
        nonlocal calls
        calls += 1
        state = state_of(envelope) or {"total": 0, "count": 0}
        return {"state": encode({**state, "total": calls})}

    world = Shop()
    world.runner.modules = {
        **world.runner.modules,
        **world.by_hash(world.loaded, {LEDGER: moody}),
    }
    for amount in (1, 2, 3):
        world.send(PAID, {"customer": "c-1", "amount": amount})
    world.run()
    first = next(each for each in world.records() if isinstance(each, Step))

    with pytest.raises(Divergence) as caught:
        replay(world.frames, world.read, runner(world))

    assert (caught.value.record, caught.value.field) == (first.seq, "state")
    assert [each.field for each in caught.value.differences] == ["state", "output"]
    assert caught.value.differences[0].places[0].path == "$.total"


@pytest.mark.parametrize("field", ["world", "prev", "root", "log_root"])
def test_a_changed_header_is_named(field: str) -> None:
    """A-12."""
    frames = list(shop().frames)
    frames[2] = with_header(frames[2], **{field: OTHER})

    found = divergence(frames)

    assert (found.frame, found.record) == (frames[2].header.first, None)
    assert found.field == f"header.{field}"


def test_a_journal_that_ends_before_its_head_differs() -> None:
    """A-12."""
    world = shop()

    found = divergence(world.frames[:-1], head=head_of(world.frames))

    assert [each.field for each in found.differences] == [
        "head.seq", "head.frame", "head.log_root", "head.frames",
    ]  # fmt: skip
    assert found.record is None


def test_a_head_that_the_world_key_did_not_sign_differs() -> None:
    """A-12."""
    head = head_of(shop().frames)
    forged = Head(
        world=head.world, seq=head.seq, frame=head.frame, log_root=head.log_root,
        frames=head.frames, signature=bytes(64),
    )  # fmt: skip

    assert divergence(shop().frames, head=forged).field == "head.signature"


def test_a_missing_blob_names_the_record_that_needs_it() -> None:
    """A-18."""
    step = record(Step, lambda found: isinstance(found.state, Ref))
    later = record(Step, lambda found: found.cell == step.cell and found.seq > step.seq)

    with pytest.raises(Damage, match=f"record {later.seq}: blob blake3:0+ is missing"):
        replay(shop().frames, blob_reader(shop(), without=step.state.hash), runner(shop()))


def test_an_empty_journal_is_damage() -> None:
    with pytest.raises(Damage, match="it has no genesis"):
        again([])


def test_stamps_are_taken_as_recorded() -> None:
    """A-11. An unused stamp changes nothing that follows; only the signed head vouches for it."""
    later = Stamp(shop().now_ns + 1, bytes(64))
    frames = resealed(shop().frames, 24, with_(stamp=later))

    assert again(frames).identical
    assert divergence(frames, head=head_of(shop().frames)).field == "head.frame"
