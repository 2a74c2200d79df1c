"""The smallest programs in which the engine once did something else than its model."""

from __future__ import annotations

from typing import Any

from aos.values.cbor import decode_record
from tests.flow.comparison import RUN
from tests.flow.model import SECOND, Node
from tests.flow.programs import KEY, Action, Modelled


def node(op: str, **fields: Any) -> Node:
    return {
        "op": op, "name": op, "number": 1, "span": 0, "limit": None, "text": "", "flags": [],
        "every": 1, "keep": 0, "nodes": [],
    } | fields  # fmt: skip


def begin(nodes: list[Node], body: list[int], *actions: Action) -> Modelled:
    """A world in which a program has begun and actions have happened, with a crash after each."""
    modelled = Modelled()
    modelled.begin({"id": KEY, "nodes": nodes, "body": body})
    modelled.go_on()
    for action in actions:
        modelled.act(action)
    return modelled


def asked(modelled: Modelled) -> list[str]:
    return [each.params["what"] for each in modelled.world.asked("f/undo@1")]


def test_a_cancel_without_rollback_does_not_undo_a_step_in_doubt() -> None:
    step = node("step", flags=["rollback_unknown"])
    modelled = begin([step], [0], ("Cancel", 1, True, True))

    assert asked(modelled) == []
    assert modelled.status == "cancelled"
    modelled.world.close()


def test_a_race_that_undoes_its_losers_is_rolling_back() -> None:
    nodes = [
        node("race", nodes=[1, 2], flags=["rollback_losers"]),
        node("branch", name="loser", nodes=[3, 4]),
        node("branch", name="winner", nodes=[5]),
        node("step", flags=["rollback"]),
        node("sleep", name="nap", span=100 * SECOND),
        node("listen"),
    ]
    modelled = begin(nodes, [0], ("ok", 0, True, True), ("note", 0, True, True))

    assert asked(modelled) == ["step"]
    assert modelled.status == "rolling_back"
    modelled.finish()
    assert modelled.status == "completed"
    modelled.world.close()


def test_the_messages_of_several_losers_are_consumed_in_the_order_in_which_they_came() -> None:
    nodes = [
        node("race", nodes=[1, 2, 3]),
        node("branch", name="second", nodes=[4, 5, 6]),
        node("branch", name="first", nodes=[7, 8]),
        node("branch", name="winner", nodes=[9]),
        node("step"),
        node("listen"),
        node("sleep", span=100 * SECOND),
        node("listen"),
        node("sleep", span=100 * SECOND),
        node("listen_until", span=100 * SECOND),
        node("listen_n", number=5),
    ]
    note = ("note", 0, True, True)
    bell = ("bell", 0, True, True)
    modelled = begin(nodes, [0, 10], note, ("ok", 0, True, True), note, bell)

    assert output(modelled) == "winner=m3;;m1+m2;"


def output(modelled: Modelled) -> Any:
    data = modelled.world.state(RUN, KEY)["output"]
    return None if data is None else decode_record(data)
