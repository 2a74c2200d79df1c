"""Instances in flight stay on the version that they started with (spec/kernel.md, K-72 to K-74)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.faults import FaultKind
from aos.core.journal.inputs import PIN, STRICT, ManifestInput
from aos.core.journal.records import Control, Event, Faulted, Manifest, Step
from aos.core.state.version import is_pinned
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.manifest.shapes import Shapes
from aos.values.cbor import Value
from aos.values.digests import content_hash
from tests.core.cases import (
    ARMS,
    CASE,
    COUNTED,
    GO,
    LOG,
    PAY,
    TEXT,
    apply,
    case,
    cases,
    cell,
    folds_again,
    go,
    loaded,
    log_of,
    module,
    nodes,
    pay,
    tell,
)
from tests.memory_world import (
    OPERATOR,
    OPERATOR_KEY,
    MemoryWorld,
    air,
    route,
    schema,
    workflow,
)

EXPLICIT = {"lifecycle": "explicit"}
LONGER: dict[str, Any] = {"record": {**GO["record"], "more": TEXT}}


def refused(answer: object) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


def pinned(world: MemoryWorld, id: str) -> bool:
    return is_pinned(world.state, cell(world, id))


def versions(world: MemoryWorld) -> int:
    return len(world.state.eras.all)


def test_work_in_flight_ends_on_its_version_and_the_cell_continues_with_the_next() -> None:
    """K-72, K-74."""
    world = cases()
    tell(world, "a", 1)
    assert refused(apply(world, 2, STRICT)).rule is Rule.WORLD_IS_NOT_QUIESCENT
    assert isinstance(apply(world, 2, PIN), Admitted)
    assert pinned(world, "a")

    tell(world, "a")
    tell(world, "b", 1)
    pay(world, "a")
    pay(world, "b")
    assert not pinned(world, "a")
    tell(world, "a")

    assert log_of(world, "a") == ["v1 go", "v1 go", "v1 paid", "v2 go"]
    assert log_of(world, "b") == ["v2 go", "v2 paid"]
    steps = [each for each in world.steps() if isinstance(each, Step)]
    assert [(each.cell[1][1:], each.under) for each in steps] == [
        (b"a", None), (b"a", 2), (b"b", None), (b"a", 2), (b"b", None), (b"a", None),
    ]  # fmt: skip
    (record,) = [each for each in world.records() if isinstance(each, Manifest) and each.mode]
    assert record.mode == PIN
    folds_again(world)


def test_the_mode_is_part_of_what_the_operator_signs() -> None:
    world = cases()
    tell(world, "a", 1)
    given = signed(world, mode=STRICT)
    forged = replace(given, mode=PIN)
    answer = world.kernel.admit(forged, world.stamp())
    assert refused(answer).rule is Rule.MANIFEST_SIGNATURE_IS_WRONG
    answer = world.kernel.admit(replace(given, leaves=(CASE,)), world.stamp())
    assert refused(answer).rule is Rule.MANIFEST_SIGNATURE_IS_WRONG
    answer = world.kernel.admit(signed(world, mode="whatever"), world.stamp())
    assert refused(answer).rule is Rule.MANIFEST_MODE_IS_UNKNOWN


def signed(world: MemoryWorld, *, mode: str) -> ManifestInput:
    document = loaded(2).effective.document
    serial = world.state.serial
    message = ManifestInput.message(world.state.world, serial, content_hash(document), mode=mode)
    return ManifestInput(
        document=document,
        principal=OPERATOR.name,
        serial=serial,
        signature=OPERATOR_KEY.sign(message).signature,
        mode=mode,
    )


@pytest.mark.parametrize("most", [1, 4096])
def test_an_explicit_instance_at_rest_is_pinned_and_nothing_is_written_for_it(most: int) -> None:
    """It is in flight until its module declares its end, wherever it is kept meanwhile."""
    world = cases(**EXPLICIT)
    world.state.cells.keep(most)
    for id in "abc":
        tell(world, id)
    tell(world, "done", note="done")
    before = world.state.next_seq

    assert isinstance(apply(world, 2, PIN, **EXPLICIT), Admitted)

    assert all(each.changed < before for each in world.state.cells.values())
    tell(world, "d")
    tell(world, "a")
    tell(world, "a", note="done")
    tell(world, "a")
    tell(world, "done")

    assert log_of(world, "a") == ["v1 go", "v1 go", "v1 done", "v2 go"]
    assert log_of(world, "done") == ["v1 done", "v2 go"]
    assert (pinned(world, "b"), pinned(world, "d"), pinned(world, "done")) == (True, False, False)
    folds_again(world)


def test_three_versions_run_side_by_side() -> None:
    world = cases()
    tell(world, "a", 1)
    apply(world, 2, PIN)
    tell(world, "b", 1)
    apply(world, 3, PIN)
    tell(world, "c", 1)
    assert versions(world) == 3
    for id in "abc":
        tell(world, id)
        pay(world, id)
        tell(world, id)
    assert log_of(world, "a") == ["v1 go", "v1 go", "v1 paid", "v3 go"]
    assert log_of(world, "b") == ["v2 go", "v2 go", "v2 paid", "v3 go"]
    assert log_of(world, "c") == ["v3 go", "v3 go", "v3 paid", "v3 go"]
    folds_again(world)

    assert isinstance(apply(world, 4, STRICT), Admitted)
    assert versions(world) == 1
    tell(world, "a")
    assert log_of(world, "a")[-1] == "v4 go"
    assert cell(world, "a").version == 0
    folds_again(world)


def test_a_manifest_that_comes_back_is_the_same_version_again() -> None:
    world = cases()
    tell(world, "a", 1)
    apply(world, 2, PIN)
    assert isinstance(apply(world, 1, PIN), Admitted)
    tell(world, "a")
    assert world.steps()[-1].under is None
    apply(world, 3, PIN)
    pay(world, "a")
    assert log_of(world, "a") == ["v1 go", "v1 go", "v1 paid"]
    folds_again(world)


def test_a_strict_apply_waits_for_what_is_pinned() -> None:
    world = cases()
    tell(world, "a", 1)
    apply(world, 2, PIN)
    assert refused(apply(world, 3, STRICT)).rule is Rule.WORLD_IS_NOT_QUIESCENT
    pay(world, "a")
    assert isinstance(apply(world, 3, STRICT), Admitted)


# Events


def test_an_event_that_the_pinned_version_does_not_take_is_refused() -> None:
    """K-73."""
    world = cases()
    tell(world, "a", 1)
    apply(world, 2, PIN, event=LONGER)
    event: Value = {"id": "a", "asks": 0, "note": "go", "more": "x"}

    answer = refused(world.send("c/Go@1", event))
    assert answer.rule is Rule.EVENT_DOES_NOT_FIT_INSTANCE
    assert "in flight under an earlier manifest: it is no c/Go@1" in answer.message

    pay(world, "a")
    assert isinstance(world.send("c/Go@1", event), Admitted)
    world.run()
    assert log_of(world, "a") == ["v1 go", "v1 paid", "v2 go"]


def test_a_step_that_emits_such_an_event_faults_and_its_receiver_continues() -> None:
    world = cases()
    tell(world, "a", 1)
    arms = {**ARMS, "New": {"ref": "c/New@1"}}
    more = [*nodes(arms=arms), schema("c/New@1", GO)]
    new = air(more, [route("c/Go@1", CASE, "id"), route("c/New@1", CASE, "id")], version=2)

    def run(envelope: Any) -> Any:
        out = module("v2")(envelope)
        for event in out.get("domain_events", ()):
            event["schema"] = "c/New@1"
        return out

    assert isinstance(world.apply(new, {CASE: run}, mode=PIN), Admitted)
    tell(world, "b", note="tell:a")

    fault = cell(world, "b").fault
    assert fault is not None
    assert fault.kind is FaultKind.EVENT_INVALID
    assert "c/case@1 takes no c/New@1" in fault.message
    pay(world, "a")
    assert log_of(world, "a") == ["v1 go", "v1 paid"]
    folds_again(world)


# Effects


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"receipt": {"nat": {}}}, "gives it other params, another receipt or another executor"),
        ({"effects": []}, "the manifest does not have it"),
    ],
)
def test_an_effect_that_pinned_instances_need_blocks_the_manifest(
    more: dict[str, Any], problem: str
) -> None:
    """K-72b."""
    for explicit in ({}, EXPLICIT):
        world = cases(**explicit)
        tell(world, "a", asks=0 if explicit else 1)
        kept = nodes(**{**explicit, **more})
        if "effects" in more:
            kept = [node for node in kept if node["name"] not in (PAY, "c/Pay@1", "c/Paid@1")]
        new = air(kept, [route("c/Go@1", CASE, "id")], version=2)

        answer = refused(world.apply(new, mode=PIN))

        assert answer.rule is Rule.MANIFEST_DOES_NOT_FIT
        assert {each.kind for each in answer.blockers} == {"effect_is_needed"}
        assert problem in answer.blockers[-1].detail


def test_a_workflow_that_is_gone_ends_what_is_in_flight() -> None:
    world = cases()
    tell(world, "a", 1)
    other = [
        schema("o/E@1", {"record": {"n": {"nat": {}}}}),
        schema("o/S@1", {"unit": {}}),
        workflow("o/other@1", state="o/S@1", event="o/E@1"),
        *(node for node in nodes() if node["name"] in (PAY, "c/Pay@1", "c/Paid@1")),
    ]
    new = air(other, [route("o/E@1", "o/other@1")])
    assert refused(world.apply(new, mode=PIN)).blockers[0].kind == "workflow_has_cells"

    assert isinstance(world.apply(new, mode=PIN, leaves=(CASE,)), Admitted)
    pay(world, "a")

    assert log_of(world, "a") == ["v1 go", "v1 paid"]
    assert world.steps()[-1].under == 2
    assert cell(world, "a").is_kept
    folds_again(world)


# States


def test_an_instance_whose_state_does_not_fit_stays_on_its_version_when_it_is_done() -> None:
    """K-74."""
    world = cases()
    tell(world, "a", 1)
    assert isinstance(apply(world, 2, PIN, code="v2c", state=COUNTED), Admitted)
    pay(world, "a")
    tell(world, "a")
    tell(world, "b")
    assert log_of(world, "a") == ["v1 go", "v1 paid", "v1 go"]
    assert log_of(world, "b") == ["v2c go"]
    assert cell(world, "a").is_kept
    folds_again(world)

    answer = refused(apply(world, 3, STRICT, code="v3c", state=COUNTED))
    assert [(each.kind, each.cell) for each in answer.blockers] == [
        ("cell_does_not_fit", case("a"))
    ]
    tell(world, "a", note="forget")
    assert isinstance(apply(world, 3, STRICT, code="v3c", state=COUNTED), Admitted)
    tell(world, "a")
    assert log_of(world, "a") == ["v3c go"]


def test_a_pin_compares_each_effect_once_however_many_instances_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading the manifests for each open intent took 13 s with 5,000 of them."""
    world = cases()
    for n in range(20):
        tell(world, f"{n}", 1)
    made: list[Shapes] = []
    real = Shapes.__init__

    def counted(self: Shapes, old: Effective, new: Effective) -> None:
        made.append(self)
        real(self, old, new)

    monkeypatch.setattr(Shapes, "__init__", counted)
    assert isinstance(apply(world, 2, PIN), Admitted)
    assert 0 < len(made) <= 3


@pytest.mark.parametrize("most", [1, 4096])
def test_a_finished_instance_that_does_not_fit_stays_with_its_version_and_blocks_nothing(
    most: int,
) -> None:
    """K-74a: wherever it is stored, and after a restart."""
    world = cases()
    world.state.cells.keep(most)
    for id in "abc":
        tell(world, id)
    tell(world, "done", note="done")
    before = world.state.next_seq

    assert isinstance(apply(world, 2, PIN, code="v2c", state=COUNTED), Admitted)

    assert all(each.changed < before for each in world.state.cells.values())
    assert not any(pinned(world, id) for id in "abc")
    for id in "ab":
        tell(world, id)
    tell(world, "done")
    tell(world, "new")
    assert log_of(world, "a") == ["v1 go", "v1 go"]
    assert log_of(world, "done") == ["v1 done", "v1 go"]
    assert log_of(world, "new") == ["v2c go"]
    assert pinned(world, "a")
    kept = [each for each in world.records() if isinstance(each, Event) and each.kept]
    assert [each.kept for each in kept] == [(case("a"),), (case("b"),), (case("done"),)]
    folds_again(world)

    tell(world, "a", note="forget")
    tell(world, "a")
    assert log_of(world, "a") == ["v2c go"]
    folds_again(world)


def test_a_left_behind_instance_that_an_emitted_event_reaches_runs_under_its_version() -> None:
    """K-74a: the record of the step lists it."""
    world = cases()
    tell(world, "a")
    apply(world, 2, PIN, code="v2c", state=COUNTED)
    tell(world, "b", note="tell:a")
    assert log_of(world, "a") == ["v1 go", "v1 go"]
    (step,) = [each for each in world.steps() if isinstance(each, Step) and each.events]
    assert step.events[0].kept == (case("a"),)
    folds_again(world)


def test_a_left_behind_instance_takes_a_version_that_it_fits_and_blocks_a_strict_apply() -> None:
    """K-74a, K-71."""
    world = cases()
    tell(world, "a")
    apply(world, 2, PIN, code="v2c", state=COUNTED)
    answer = refused(apply(world, 3, STRICT, code="v3c", state=COUNTED))
    assert [(each.kind, each.cell) for each in answer.blockers] == [
        ("cell_does_not_fit", case("a"))
    ]
    assert isinstance(apply(world, 3, PIN), Admitted)
    tell(world, "a")
    assert log_of(world, "a") == ["v1 go", "v3 go"]
    folds_again(world)


def test_an_event_that_a_left_behind_instance_does_not_take_is_refused() -> None:
    """K-73, K-74a."""
    world = cases()
    tell(world, "a")
    apply(world, 2, PIN, code="v2c", state=COUNTED, event=LONGER)
    answer = refused(world.send("c/Go@1", {"id": "a", "asks": 0, "note": "go", "more": "x"}))
    assert answer.rule is Rule.EVENT_DOES_NOT_FIT_INSTANCE
    assert "is finished, and stays under an earlier manifest" in answer.message
    assert log_of(world, "a") == ["v1 go"]


def test_a_finished_instance_whose_own_manifest_lacks_its_workflow_must_fit() -> None:
    """K-72: it has no version that it could stay with."""
    world = cases()
    tell(world, "a")
    other = air(
        [
            schema("o/E@1", {"record": {"n": {"nat": {}}}}),
            schema("o/S@1", {"unit": {}}),
            workflow("o/other@1", state="o/S@1", event="o/E@1"),
        ],
        [route("o/E@1", "o/other@1")],
    )
    assert isinstance(world.apply(other, leaves=(CASE,)), Admitted)
    answer = refused(apply(world, 2, PIN, code="v2c", state=COUNTED))
    assert [(each.kind, each.cell) for each in answer.blockers] == [
        ("cell_does_not_fit", case("a"))
    ]
    assert answer.blockers[0].detail.startswith("its state is no c/Log@1")


def test_a_record_that_keeps_an_instance_that_is_not_left_behind_is_damage() -> None:
    world = cases()
    tell(world, "a")
    apply(world, 2, PIN, code="v2c", state=COUNTED)
    tell(world, "a")
    event = next(each for each in reversed(world.records()) if isinstance(each, Event))
    for kept in ((case("b"),), (case("a"), case("b"))):
        other = cases()
        tell(other, "a")
        apply(other, 2, PIN, code="v2c", state=COUNTED)
        with pytest.raises(Damage, match="under an earlier manifest, where it is not"):
            other.kernel.append(replace(event, kept=kept), {})


# Faults


def test_an_instance_that_fails_while_it_is_pinned_continues_with_its_version() -> None:
    """K-101a."""
    world = cases()
    tell(world, "a", 1)
    apply(world, 2, PIN)
    tell(world, "a", note="fail")
    pay(world, "a")
    fault = world.steps()[-1]
    assert isinstance(fault, Faulted)
    assert fault.under == 2
    assert pinned(world, "a")
    apply(world, 3, PIN)
    assert pinned(world, "a")

    assert isinstance(world.control("skip", cell=case("a")), Admitted)
    world.run()
    assert log_of(world, "a") == ["v1 go", "v1 paid"]
    tell(world, "a")
    assert log_of(world, "a")[-1] == "v3 go"
    folds_again(world)


def test_a_skip_that_leaves_nothing_to_do_keeps_the_version_until_a_step_has_ended() -> None:
    world = cases()
    tell(world, "a")
    world.send("c/Go@1", go("a", note="fail"))
    apply(world, 2, PIN)
    assert world.steps()[-1].under == 2
    world.control("skip", cell=case("a"))
    world.run()
    assert cell(world, "a").is_kept
    folds_again(world)
    tell(world, "a")
    tell(world, "a")
    assert log_of(world, "a") == ["v1 go", "v1 go", "v2 go"]
    folds_again(world)


def test_an_instance_that_failed_before_continues_with_the_manifest_in_force() -> None:
    """K-101: it was not in flight when the manifest came."""
    world = cases()
    tell(world, "a")
    tell(world, "a", note="fail")
    tell(world, "b", 1)
    apply(world, 2, PIN, state=LOG)
    tell(world, "a")
    world.control("skip", cell=case("a"))
    world.run()
    assert log_of(world, "a") == ["v1 go", "v2 go"]
    folds_again(world)


def test_a_record_that_names_another_version_than_the_instance_runs_under_is_damage() -> None:
    world = cases()
    tell(world, "a", 1)
    apply(world, 2, PIN)
    tell(world, "a")
    (step,) = [each for each in world.steps() if each.under]
    assert isinstance(step, Step)

    for under in (None, world.state.manifest_seq, 7):
        other = cases()
        tell(other, "a", 1)
        apply(other, 2, PIN)
        other.send("c/Go@1", go("a"))
        with pytest.raises(Damage, match="runs c/case@1 under the manifest of record"):
            other.kernel.append(replace(step, under=under), {})


# Unpin


@pytest.mark.parametrize("explicit", [{}, EXPLICIT])
def test_an_operator_lets_a_pinned_instance_continue_with_the_new_version(
    explicit: dict[str, Any],
) -> None:
    """K-107: in flight, at rest or failed."""
    world = cases(**explicit)
    tell(world, "a", 1)
    tell(world, "rests")
    tell(world, "fails", 1)
    apply(world, 2, PIN, **explicit)
    tell(world, "fails", note="fail")

    for id in ("a", "fails"):
        assert isinstance(world.control("unpin", cell=case(id)), Admitted)
    answer = world.control("unpin", cell=case("rests"))
    assert isinstance(answer, Admitted if explicit else Refusal)
    assert not any(pinned(world, id) for id in ("a", "rests", "fails"))
    world.control("skip", cell=case("fails"))
    pay(world, "a")
    pay(world, "fails")
    tell(world, "rests")

    assert log_of(world, "a") == log_of(world, "fails") == ["v1 go", "v2 paid"]
    assert log_of(world, "rests") == ["v1 go", "v2 go"]
    folds_again(world)


def test_an_instance_that_does_not_fit_stays_pinned() -> None:
    world = cases()
    tell(world, "a", 1)
    apply(world, 2, PIN, code="v2c", state=COUNTED)
    answer = refused(world.control("unpin", cell=case("a")))
    assert answer.rule is Rule.CELL_DOES_NOT_FIT
    assert "its state is no c/Log@1" in answer.message
    assert pinned(world, "a")

    for id in ("b", "nobody"):
        tell(world, "b", 1)
        answer = refused(world.control("unpin", cell=case(id)))
        assert answer.rule is Rule.CELL_IS_NOT_PINNED


def test_a_record_that_unpins_what_nothing_pins_is_damage() -> None:
    world = cases()
    tell(world, "a", 1)
    apply(world, 2, PIN)
    world.control("unpin", cell=case("a"))
    world.run()
    (record,) = [each for each in world.records() if isinstance(each, Control)]
    other = cases()
    tell(other, "a", 1)
    tell(other, "b")
    with pytest.raises(Damage, match="unpins c/case@1, which nothing pins"):
        other.kernel.append(replace(record, seq=other.state.next_seq), {})
