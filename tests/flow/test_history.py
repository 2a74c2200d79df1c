"""A flow's history and state are read strictly, and never guessed (spec/flow.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aos.flow.failure import Failure
from aos.flow.flow_state import FlowState
from aos.flow.history import History, OperationNode, tree, waits, walk
from aos.flow.operation import IssuerRef, OperationState, UndoState, escaped
from aos.flow.operation import OperationKind as Kind
from aos.values.cbor import encode
from aos.values.errors import ValueProblem
from tests.flow.histories import (
    SECOND,
    START_NS,
    failure,
    listen_extra,
    op,
    ops,
    state,
    step_extra,
    undo,
)

RUNNING, PENDING = OperationState.RUNNING, OperationState.PENDING

RACE = ops(
    op(Kind.STEP, "charge", attempts=1, outcome={"charge": "c-1"}, extra=["shop/charge@1"]),
    op(Kind.RACE, "ship/or%cancel", state=RUNNING),
    op(Kind.BRANCH, "ship", parent=2, state=RUNNING),
    op(Kind.BRANCH, "cancel", parent=2, state=RUNNING),
    op(Kind.STEP, "ship", parent=3, state=RUNNING, attempts=2, last=START_NS + SECOND,
       extra=step_extra("shop/ship@1")),
    op(Kind.LISTEN, "~asked", parent=4, state=RUNNING, extra=listen_extra("shop/Cancel@1")),
    undos=[undo("charge", "shop/refund@1", {"charge": "c-1"})],
)  # fmt: skip


def test_operations_form_a_tree_by_their_parents_and_names_are_escaped_in_paths() -> None:
    found = [node.path for node in walk(tree(History.read(RACE)))]

    assert found == [
        "charge",
        "ship%2For%25cancel",
        "ship%2For%25cancel/ship",
        "ship%2For%25cancel/ship/ship",
        "ship%2For%25cancel/cancel",
        "ship%2For%25cancel/cancel/%7Easked",
    ]


def test_an_iteration_is_named_by_its_number() -> None:
    history = ops(
        op(Kind.LOOP, "all", state=RUNNING),
        op(Kind.ITERATION, "~10", parent=1, state=RUNNING),
        op(Kind.STEP, "fetch", parent=2, outcome=1, extra=["shop/charge@1"]),
    )

    assert [node.path for node in walk(tree(History.read(history)))][-1] == "all/~10/fetch"


def test_an_operation_keeps_its_result_or_its_failure() -> None:
    told = failure("no_funds", "the card is empty", path="charge")
    history = History.read(
        ops(
            op(Kind.STEP, "a", outcome={"charge": "c"}, extra=["shop/charge@1"]),
            op(
                Kind.STEP,
                "b",
                state=OperationState.FAILED,
                outcome=told,
                extra=["shop/charge@1"],
            ),
        )
    )

    first, second = history.operations
    assert first.details.value == encode({"charge": "c"})
    assert second.details.failure == Failure(
        kind="critical", code="no_funds", message="the card is empty", path="charge"
    )
    assert second.details.failure.text == "critical no_funds: the card is empty (at charge)"


def test_a_flow_waits_for_each_operation_that_is_not_over() -> None:
    found = waits(History.read(RACE))

    assert [(each.path, each.kind) for each in found] == [
        ("ship%2For%25cancel/ship/ship", "effect"),
        ("ship%2For%25cancel/cancel/%7Easked", "message"),
    ]
    ship, asked = found
    assert (ship.effect, ship.attempt, ship.since_ns) == ("shop/ship@1", 2, START_NS + SECOND)
    assert (asked.schemas, asked.since_ns) == (("shop/Cancel@1",), START_NS)


def test_a_step_between_two_attempts_waits_for_a_time_and_a_call_for_its_child() -> None:
    """FL-22, FL-23"""
    found = waits(
        History.read(
            ops(
                op(Kind.STEP, "a", state=PENDING, attempts=1, last=START_NS,
                   extra=step_extra("shop/ship@1", retry_ns=START_NS + SECOND, until_ns=9)),
                op(Kind.CALL, "b", state=RUNNING,
                   extra=["shop/pay@1", "shop/PayControl@1", encode("k-1")]),
                op(Kind.SLEEP, "c", state=RUNNING, extra=[START_NS + 7]),
            )
        )
    )  # fmt: skip

    pause, call, sleep = found
    assert (pause.kind, pause.until_ns) == ("pause", START_NS + SECOND)
    assert (call.kind, call.workflow, call.key) == ("child", "shop/pay@1", encode("k-1"))
    assert (sleep.kind, sleep.until_ns) == ("sleep", START_NS + 7)


def test_the_operations_of_a_kept_iteration_have_no_values() -> None:
    """FL-27"""
    kept = ops(
        op(Kind.LOOP, "all", state=RUNNING, extra=[11, b"\xf6", []]),
        op(Kind.ITERATION, "~10", parent=1),
        op(Kind.STEP, "fetch", parent=2),
    )
    operation = History.read(kept).operations[-1]

    assert (operation.state, operation.details.effect) == (OperationState.COMPLETED, None)


def test_a_stuck_compensation_waits_for_an_operator() -> None:
    stuck = undo(
        "charge", "shop/refund@1", {"charge": "c"}, state=UndoState.STUCK, attempts=5,
        last=START_NS + SECOND, failure=failure("down", kind="exhausted"),
    )  # fmt: skip
    [found] = waits(History.read(ops(undos=[stuck])))

    assert (found.path, found.kind, found.attempt) == ("charge/~undo", "resume", 5)


def test_a_flow_without_operations_waits_for_nothing() -> None:
    assert waits(History.read(ops())) == ()
    assert History.read(b"") == History.read(ops())


BAD: dict[str, tuple[bytes, str]] = {
    "of a later format": (
        ops(format=2),
        "ops: expected a history of format 1, found format 2: a later SDK wrote it, so a later",
    ),
    "no list": (encode({"ops": 1}), "ops: expected a list, found map[1]"),
    "cut short": (ops(op(Kind.EMIT, "a", extra=["x"]))[:-4], "cut short"),
    "an unknown kind": (
        encode([1, [[0, 18, "a", 2, 0, 0, None, None, [None]]], []]),
        "ops[1][0][1]: expected 0 to 17, found nat 18",
    ),
    "an unknown state": (
        encode([1, [[0, 1, "a", 6, 0, 0, None, None, [None]]], []]),
        "ops[1][0][3]: expected 0 to 5, found nat 6",
    ),
    "a parent that comes later": (
        encode([1, [[1, 8, "a", 1, 0, 0, None, None, [None]]], []]),
        "ops[1][0][0]: expected 0 or 1 + the index of an earlier scope, found 1",
    ),
    "a parent that is no scope": (
        ops(op(Kind.LOCAL, "a"), op(Kind.LOCAL, "b", parent=1)),
        "ops[1][1][0]: expected 0 or 1 + the index of an earlier scope, found 1",
    ),
    "a time that is text": (
        encode([1, [[0, 1, "a", 2, 0, "now", None, None, [None]]], []]),
        'ops[1][0][5]: expected a whole number, found text "now"',
    ),
    "a body without an outcome": (
        encode([1, [[0, 1, "a", 2, 0, 0, None, None, []]], []]),
        "ops[1][0][8]: expected an outcome, found nothing",
    ),
    "a step without an effect": (
        ops(op(Kind.STEP, "a", state=RUNNING)),
        "ops[1][0][8]: too short for a step: 1 items",
    ),
    "a failure that is none": (
        encode([1, [[0, 1, "a", 3, 0, 0, None, None, [["critical"]]]], []]),
        "ops[1][0][8][0]: expected 5 items, found 1",
    ),
    "a compensation that is none": (
        encode([1, [], [[]]]),
        "ops[2][0]: expected 9 items, found 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_history_that_cannot_be_read_is_an_error_with_its_place(name: str) -> None:
    data, message = BAD[name]

    with pytest.raises(ValueProblem) as problem:
        History.read(data)

    assert message in str(problem.value)


@pytest.mark.parametrize("name", BAD)
def test_the_rest_of_a_state_is_read_where_its_history_cannot_be(name: str) -> None:
    data, message = BAD[name]
    found = FlowState.read(
        state(data, status="sleeping", inputs={"order_id": "o"}, inbox=[("shop/Cancel@1", 1)])
    )

    assert found.history is None
    assert message in (found.history_problem or "")
    assert (found.status, found.input) == ("sleeping", encode({"order_id": "o"}))
    assert [each.schema for each in found.inbox] == ["shop/Cancel@1"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (encode(7), "$: expected a map, found nat 7"),
        (state(status="lost"), "$.status: expected one of pending, running, "),
        (encode({"status": "running"}), "$.schemas: expected a map, found null"),
    ],
)
def test_data_that_is_no_state_of_a_flow_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ValueProblem) as problem:
        FlowState.read(data)

    assert message in str(problem.value)


def test_each_prefix_of_a_history_is_refused() -> None:
    for size in range(1, len(RACE)):
        with pytest.raises(ValueProblem):
            History.read(RACE[:size])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flow:charge#1", ("charge", 1, None)),
        ("flow:all/~3/fetch#12", ("all/~3/fetch", 12, None)),
        ("flow:a#1:x#2:sleep", ("a#1:x", 2, "sleep")),
        ("flow:charge/~undo#5:retry", ("charge/~undo", 5, "retry")),
    ],
)
def test_an_issuer_reference_names_the_operation_its_attempt_and_role(
    text: str, expected: tuple[Any, ...]
) -> None:
    found = IssuerRef.read(text)

    assert found is not None
    assert (found.path, found.attempt, found.role) == expected


@pytest.mark.parametrize(
    "text", [None, "", "flow:", "flow:a", "flow:a#", "flow:a#x", "a#1", "flow:a#1:later"]
)
def test_other_references_are_none_of_a_flow(text: str | None) -> None:
    assert IssuerRef.read(text) is None


@pytest.mark.parametrize(
    ("name", "part"), [("a/b%c", "a%2Fb%25c"), ("~1", "%7E1"), ("a~1", "a~1"), ("é:#", "é:#")]
)
def test_a_name_is_escaped_where_a_path_could_not_be_read(name: str, part: str) -> None:
    assert escaped(name) == part


VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "spec" / "vectors" / "flow.json").read_text("utf-8")
)


@pytest.mark.parametrize("vector", VECTORS, ids=[each["name"] for each in VECTORS])
def test_each_vector_of_a_history_is_read_with_its_paths_kinds_and_states(
    vector: dict[str, Any],
) -> None:
    """FL-20 to FL-28"""
    history = History.read(bytes.fromhex(vector["ops_hex"]))

    assert [
        {"path": node.path, "kind": node.operation.kind.word, "state": node.operation.state.word}
        for node in flat(history)
    ] == vector["operations"]
    assert [{"path": each.path, "state": each.state.word} for each in history.compensations] == [
        {name: each[name] for name in ("path", "state")} for each in vector["compensations"]
    ]


def flat(history: History) -> list[OperationNode]:
    """The operations in the order of the list."""
    nodes = {id(node.operation): node for node in walk(tree(history))}
    return [nodes[id(each)] for each in history.operations]
