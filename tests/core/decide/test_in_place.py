"""Workflows that take a new module while they are in flight (spec/kernel.md, K-75)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.inputs import PIN, STRICT
from aos.core.state.version import is_pinned
from aos.manifest.load import Loaded
from tests.core.cases import (
    ARMS,
    CASE,
    COUNTED,
    GO,
    PAY,
    TEXT,
    apply,
    case,
    cases,
    cell,
    folds_again,
    go,
    log_of,
    module,
    nodes,
    pay,
    tell,
)
from tests.memory_world import MemoryWorld, air, event_of, route, schema, workflow

IN_PLACE: dict[str, Any] = {"upgrade": "in_place"}
EXPLICIT: dict[str, Any] = {"lifecycle": "explicit"}
LONGER: dict[str, Any] = {"record": {**GO["record"], "more": TEXT}}


def problems(answer: object) -> list[tuple[str, str]]:
    assert isinstance(answer, Refusal), answer
    assert answer.rule is Rule.MANIFEST_DOES_NOT_FIT
    return [(each.kind, each.detail) for each in answer.blockers]


def in_place(version: int = 2, **more: Any) -> Loaded:
    return air(nodes(**IN_PLACE, **more), [route("c/Go@1", CASE, "id")], version=version)


def busy() -> MemoryWorld:
    """A cell with an effect open and mail to run."""
    world = cases()
    tell(world, "a", 1)
    world.send("c/Go@1", go("a", note="queued"))
    return world


@pytest.mark.parametrize("mode", [STRICT, PIN])
def test_an_instance_in_flight_takes_the_new_module_at_its_next_step(mode: str) -> None:
    """The instance keeps its mail, its open effects and its state."""
    world = busy()
    assert isinstance(world.apply(in_place(), {CASE: module("v2")}, mode=mode), Admitted)
    world.run()
    pay(world, "a")
    assert log_of(world, "a") == ["v1 go", "v2 queued", "v2 paid"]
    assert all(each.under is None for each in world.steps())
    folds_again(world)


def test_an_explicit_instance_at_rest_takes_it_too() -> None:
    world = cases(**EXPLICIT)
    tell(world, "a")
    answer = world.apply(in_place(**EXPLICIT), {CASE: module("v2")})
    assert isinstance(answer, Admitted)
    tell(world, "a")
    assert log_of(world, "a") == ["v1 go", "v2 go"]


def test_other_workflows_are_waited_for_as_ever() -> None:
    world = cases()
    tell(world, "a", 1)
    more = [
        *nodes(),
        schema("o/S@1", {"unit": {}}),
        workflow("o/other@1", state="o/S@1", event="c/Go@1", **IN_PLACE),
    ]
    answer = world.apply(air(more, [route("c/Go@1", CASE, "id")], version=2))
    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.WORLD_IS_NOT_QUIESCENT


@pytest.mark.parametrize("mode", [STRICT, PIN])
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"state": COUNTED},
            ("cell_does_not_fit", "its state is no c/Log@1: $: expected record, found list[1]"),
        ),
        (
            {"event": LONGER},
            ("cell_does_not_fit", "the entry of record 5: it is no c/Go@1: $.more: missing"),
        ),
        (
            {"receipt": {"nat": {}}},
            (
                "effect_is_needed",
                "c/pay@1 of record 4 is open: the manifest gives it other params, another ",
            ),
        ),
    ],
)
def test_a_cell_that_does_not_fit_refuses_the_manifest(
    mode: str, more: dict[str, Any], expected: tuple[str, str]
) -> None:
    """K-75."""
    world = busy()
    found = problems(world.apply(in_place(**more), {CASE: module("v2")}, mode=mode))
    kind, detail = found[0]
    assert kind == expected[0]
    assert detail.startswith(expected[1])
    world.run()
    pay(world, "a")
    assert log_of(world, "a") == ["v1 go", "v1 queued", "v1 paid"]


def test_an_open_effect_needs_an_arm_for_its_receipt() -> None:
    world = cases()
    tell(world, "a", 1)
    keeps = [
        *nodes(arms={}, effects=[], **IN_PLACE),
        schema("o/S@1", {"unit": {}}),
        schema("o/Event@1", {"variant": {"Go": {"ref": "c/Go@1"}, **ARMS}}),
        workflow("o/other@1", state="o/S@1", event="o/Event@1", effects=[PAY]),
    ]
    answer = world.apply(air(keeps, [route("c/Go@1", CASE, "id")], version=2))
    assert problems(answer) == [
        (
            "cell_does_not_fit",
            "it waits for c/pay@1 of record 4: c/case@1 has no arm for its receipt",
        )
    ]


def test_an_instance_that_was_pinned_before_continues_with_the_new_module() -> None:
    """Also where nothing but its past says that it was."""
    world = cases(**EXPLICIT)
    for id in "ab":
        tell(world, id, 1 if id == "a" else 0)
    apply(world, 2, PIN, **EXPLICIT)
    assert is_pinned(world.state, cell(world, "a"))
    assert is_pinned(world.state, cell(world, "b"))

    answer = world.apply(in_place(3, **EXPLICIT), {CASE: module("v3")}, mode=PIN)

    assert isinstance(answer, Admitted)
    assert not is_pinned(world.state, cell(world, "a"))
    assert not is_pinned(world.state, cell(world, "b"))
    apply(world, 4, PIN, **EXPLICIT)
    for id in "ab":
        tell(world, id)
    assert log_of(world, "a")[-1] == log_of(world, "b")[-1] == "v3 go"
    folds_again(world)


def test_a_receipt_without_an_arm_meets_the_new_version_as_it_would_any_other() -> None:
    """Its outcome is decided by the workflow that the instance runs then."""
    world = cases()
    tell(world, "a", 1)
    legacy = in_place(arms={**ARMS, "Rejected": {"ref": "sys/EffectReceiptRejected@1"}})

    def run(envelope: Any) -> Any:
        if event_of(envelope)["$tag"] == "Rejected":
            return {"state": envelope["state"], "status": "failed"}
        return module("v2")(envelope)

    assert isinstance(world.apply(legacy, {CASE: run}), Admitted)
    world.settle(world.open()[0], {"wrong": 1})
    world.run()
    assert world.cell(CASE, "a").declared == "failed"
    assert world.state.cells[case("a")].fault is None
    folds_again(world)
