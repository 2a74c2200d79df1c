"""Recorded steps on a candidate build (spec/audit.md, A-80 to A-88)."""

from __future__ import annotations

import pytest
from benchmarks.changed_manifest import changed_manifest

from aos.core.journal.records import Event, Ref
from aos.errors import BadUsage
from aos.prove.replay.difference import FieldDifference
from aos.prove.verify.journal_source import source_of_store
from aos.prove.whatif.against import AgainstReport, against, named_module
from aos.sandbox.inspect import ModuleRefused
from aos.testing import World
from aos.values.cbor import encode
from tests.testing.builds import answering
from tests.testing.stage import (
    CELL,
    CHARGE,
    DO,
    MODULE,
    NEWS,
    ORDERS,
    ROOT,
    WASM,
    charge,
    nodes,
    out,
    stage,
)

GOOD = {"what": {"$tag": "Good"}, "for": 5}
OUT = out(7, effects=((CHARGE, charge(), "ref"),), events=((NEWS, GOOD),), ann="said")


def recorded(*values: object) -> World:
    """A world whose cell a took these, by the puppet."""
    world = stage()
    for value in values:
        world.send(DO, value)
    world.run(may_fail=True)
    return world


def compare(world: World, *candidates: bytes, name: str | None = None) -> AgainstReport:
    (wasm,) = candidates
    return against(source_of_store(world._desk.store), {name: wasm})


def only(report: AgainstReport) -> tuple[tuple[str, ...], tuple[FieldDifference, ...]]:
    (found,) = report.first
    return found.classes, found.differences


def test_the_same_build_makes_no_difference() -> None:
    world = recorded({"key": "a", "out": OUT}, {"key": "b", "fault": "x"}, {"key": "b"})
    report = compare(world, WASM)

    assert report.is_same
    assert (report.compared, report.different) == (2, 0)
    assert report.fuel_recorded == report.fuel_candidate > 0
    assert report.to_document()["same"] is True


@pytest.mark.parametrize(
    ("output", "classes", "field", "recorded_value", "candidate_value"),
    [
        (out(8, effects=((CHARGE, charge(), "ref"),), events=((NEWS, GOOD),), ann="said"),
         ("state",), "state", 7, 8),
        (out(7, effects=((CHARGE, charge(cents=6), "ref"),), events=((NEWS, GOOD),), ann="said"),
         ("effects",), "intents[0].params", {"id": "a", "cents": 5}, {"id": "a", "cents": 6}),
        (out(7, effects=((CHARGE, charge(), "other"),), events=((NEWS, GOOD),), ann="said"),
         ("effects",), "intents[0].issuer_ref", "ref", "other"),
        (out(7, effects=((CHARGE, charge(), "ref"),), ann="said"),
         ("events",), "events", 1, 0),
        (out(7, effects=((CHARGE, charge(), "ref"),), events=((NEWS, GOOD),), ann="else"),
         ("annotation",), "ann", "said", "else"),
        (out(7, effects=((CHARGE, charge(), "ref"),), events=((NEWS, GOOD),)),
         ("annotation",), "ann", "said", None),
        (out(7, effects=((CHARGE, charge(), "ref"),), events=((NEWS, GOOD),), ann="said",
             status="completed"),
         ("status",), "status", "waiting", "completed"),
    ],
)  # fmt: skip
def test_each_part_of_a_step_that_differs_is_named_and_shown(
    output: bytes,
    classes: tuple[str, ...],
    field: str,
    recorded_value: object,
    candidate_value: object,
) -> None:
    report = compare(recorded({"key": "a", "out": OUT}), answering(output))

    found, differences = only(report)
    assert found == classes
    assert differences[0].field == field
    assert (differences[0].recorded, differences[0].recomputed) == (recorded_value, candidate_value)
    assert report.by_class == dict.fromkeys(classes, 1)
    assert report.by_workflow == {CELL: 1}


def test_a_fault_against_a_step_and_another_fault_are_told() -> None:
    trapping = answering(OUT, before="unreachable")
    (classes, differences) = only(compare(recorded({"key": "a", "out": OUT}), trapping))
    assert classes == ("fault",)
    assert differences[0].recorded == "step"
    assert "fault trap" in str(differences[0].recomputed)

    (classes, differences) = only(compare(recorded({"key": "a", "fault": "x"}), trapping))
    assert classes == ("fault",)
    assert differences[0].field == "fault"

    (classes, differences) = only(compare(recorded({"key": "a", "fault": "x"}), answering(OUT)))
    assert differences[0].recomputed == "step"


def test_every_step_runs_on_what_was_recorded_and_not_on_what_the_candidate_made() -> None:
    """A-81: the third step is the same, though the second differs."""
    world = recorded(
        {"key": "a", "out": out(1)}, {"key": "a", "out": out(2)}, {"key": "a", "out": out(1)}
    )
    report = compare(world, answering(out(1)))
    assert (report.compared, report.different) == (3, 1)
    assert [each.seq for each in report.first] == [6 + 1]
    assert report.first[0].on == DO


def test_receipts_and_frames_are_run_again_too() -> None:
    world = recorded({"key": "a", "out": out(1, effects=((CHARGE, charge(), "count"),))})
    effect = world.effect(CHARGE)
    effect.frame("half", 1)
    world.run()
    effect.answer({"ref": "r"})
    world.run()
    report = compare(world, answering(out(1)))

    assert [each.on for each in report.first] == [
        DO,
        "stream frame of t/charge@1: half",
        "receipt of t/charge@1: ok",
    ]
    assert report.to_document()["by_class"] == {
        "state": 2, "events": 0, "effects": 1, "status": 1, "annotation": 0, "fault": 0,
        "migration": 0, "misfit": 0,
    }  # fmt: skip


def faulting(text: str) -> bytes:
    """A build that says so, as an SDK does."""
    kind, _, message = text.partition(": ")
    return answering(encode({"fault": {"kind": kind, "message": message}}))


@pytest.mark.parametrize(
    ("candidate", "schema"),
    [
        (answering(out("text")), "t/State@1"),
        (answering(out(1, ann="x").replace(encode(encode("x")), encode(encode(1)))), "t/Note@1"),
        (answering(out(1, events=((NEWS, {"what": 1}),))), NEWS),
        (answering(out(1, events=(("t/New@1", 1),))), "t/New@1"),
        (answering(out(1, effects=((CHARGE, {"id": 1}, None),))), "t/Charge@1"),
        (faulting("sdk_input: state: a field is missing or unknown at byte 1"), "t/State@1"),
        (faulting("sdk_input: event: expected $value at byte 10"), DO),
        (faulting("sdk_input: key: expected text at byte 0"), "t/Key@1"),
        (faulting("sdk_payload: the receipt of t/charge@1 is not of its schema"), "t/Charged@1"),
        (faulting("sdk_payload: the receipt of t/none@1 is not of its schema"), None),
        (faulting("sdk_input: input: cut short at byte 0"), None),
        (faulting("own: state: t/State@1: $: it is late"), None),
        (answering(b"no"), None),
        (answering(out(1), before="unreachable"), None),
        (answering(out(2)), None),
    ],
)
def test_a_schema_that_is_another_one_in_the_candidate_is_named(
    candidate: bytes, schema: str | None
) -> None:
    """A-84a"""
    report = compare(recorded({"key": "a"}, {"key": "b"}), candidate)

    assert report.different == 2
    assert report.to_document()["schemas"] == ({} if schema is None else {schema: 2})


def test_of_a_receipt_that_cannot_be_read_the_workflows_event_is_named() -> None:
    """A-84a"""
    world = recorded({"key": "a", "out": out(1, effects=((CHARGE, charge(), "count"),))})
    world.effect(CHARGE).answer({"ref": "r"})
    world.run()
    report = compare(world, faulting("sdk_input: event: an unknown arm at byte 19"))

    assert report.schemas == {DO: 1, "t/CellEvent@1": 1}


def test_a_candidate_without_an_entrypoint_is_told_plainly() -> None:
    report = compare(recorded({"key": "a"}), answering(OUT, entrypoint="stop"))
    assert not report.is_same
    assert report.compared == 0
    assert "step" in report.missing[CELL]
    assert report.missing_steps[CELL] == 1


def test_a_file_that_is_no_module_is_refused() -> None:
    with pytest.raises(ModuleRefused, match="not a WASM module"):
        compare(recorded({"key": "a"}), b"no")


def test_of_several_modules_one_is_named() -> None:
    world = World(changed_manifest(ORDERS, is_open=True))
    world.send("shop/OrderCharged@1", {"order_id": "o", "customer_id": "c", "amount_cents": 1})
    world.run()
    ledger = (ROOT / "modules" / "ledger" / "ledger.wasm").read_bytes()
    with pytest.raises(BadUsage, match=r"several modules: say which with NAME=FILE, one of shop/l"):
        compare(world, ledger)
    with pytest.raises(BadUsage, match="'order' is the name of no module of this journal"):
        compare(world, ledger, name="order")
    report = compare(world, ledger, name="ledger.module")
    assert (report.is_same, report.compared) == (True, 1)
    # Other words in the same place: an annotation that is as long.
    changed = ledger.replace(b"posted", b"POSTED")
    assert only(compare(world, changed, name="shop/ledger.module@1"))[0] == ("annotation",)


def test_a_modules_name_may_be_short_and_must_be_one() -> None:
    names = ["a/x@1", "b/x@1", "b/y@2"]
    assert named_module("y", names) == "b/y@2"
    assert named_module("b/y", names) == "b/y@2"
    with pytest.raises(BadUsage, match=r"'x' is the name of several modules: .*a/x@1, b/x@1"):
        named_module("x", names)


def test_steps_of_every_manifest_that_had_the_module_are_compared() -> None:
    world = recorded({"key": "a", "out": out(1)})
    world.apply(nodes(version=2), modules={MODULE: answering(out(3))})
    world.send(DO, {"key": "a"})
    world.run()
    report = compare(world, answering(out(3)))
    assert (report.compared, report.different) == (2, 1)


def test_values_erased_since_and_faults_of_the_machine_are_left_out() -> None:
    long = {"key": "a", "fault": "x" * 2000}
    world = recorded(long, {"key": "b", "out": None})
    blob = next(
        record.value.hash
        for record in world._desk.records
        if isinstance(record, Event) and isinstance(record.value, Ref)
    )
    world._desk.store._erase(blob, 99)
    report = compare(world, WASM)
    assert (report.erased, report.compared, report.is_same) == (1, 1, True)


def test_many_differences_are_counted_and_the_first_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aos.prove.whatif.against.DIFFERENCES_KEPT", 2)
    world = recorded(*({"key": f"k{n}"} for n in range(5)))
    report = compare(world, answering(out(9)))
    assert (report.different, len(report.first)) == (5, 2)
    assert report.to_document()["left_out"] == 3
