"""A world in memory: inputs, the clock, what a test sees (spec/testing.md, T-1 to T-34)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.errors import BadUsage
from aos.manifest.keys import key_text
from aos.manifest.load import Loaded, ManifestProblems, load
from aos.testing import (
    Cell,
    CellFailed,
    Emitted,
    FaultSeen,
    InputRefused,
    World,
    WorldProblem,
    like,
)
from tests.memory_world import route
from tests.testing.stage import (
    CELL,
    CHARGE,
    DO,
    MODULES,
    NEWS,
    ONCE,
    ORDERS,
    PLAIN,
    SECOND,
    TELL,
    TIMER,
    WASM,
    charge,
    nodes,
    out,
    stage,
    then,
    timer,
)

START = 1_704_067_200 * SECOND
ALL = [
    CHARGE, ONCE, TIMER, "sys/http.request@1", "sys/blob.put@1", "sys/blob.get@1",
    "sys/cron.next@1", "sys/world.send@1",
]  # fmt: skip
STRANGE = key_text(bytes(SigningKey(bytes(32)).verify_key))
EXECUTORS: list[dict[str, Any]] = [
    {"name": "node", "public_key": STRANGE, "effects": ALL[2:]},
    {"name": "test", "public_key": STRANGE, "effects": ALL[:2]},
]
ORDER = {
    "order_id": "o1",
    "customer_id": "c1",
    "items": [{"sku": "tea", "quantity": 2, "price_cents": 450}],
    "patience": "30d",
}


def script_orders(world: World) -> None:
    world.on("stock.reserve", {"reservation": "r1"})
    world.on("card.charge", lambda params: {"charge": "c", "amount_cents": params["amount_cents"]})
    world.on("parcel.ship", {"parcel": "p1"})
    world.on("stock.release", {"released": True})
    world.on("card.refund", {"refunded_cents": 900})


def test_an_order_goes_from_its_event_to_its_end() -> None:
    with World(ORDERS) as world:
        script_orders(world)
        sent = world.send("shop/OrderPlaced@1", ORDER)
        world.run()

        assert sent.to == (("shop/order@1", "o1"),)
        assert world.status("shop/order@1", "o1") == "completed"
        assert world.state("order", "o1") == like({"outcome": "Shipped", "amount_cents": 900})
        assert world.events("shop/OrderShipped@1") == [like({"order_id": "o1"})]
        assert [each.name for each in world.asked()] == [
            "shop/stock.reserve@1", TIMER, "shop/card.charge@1", "shop/parcel.ship@1",
        ]  # fmt: skip


def test_thirty_days_pass_by_themselves() -> None:
    with World(ORDERS) as world:
        world.on("stock.reserve", {"reservation": "r1"})
        world.on("stock.release", {"released": True})
        world.send("shop/OrderPlaced@1", ORDER)
        world.run()
        (deadline,) = world.timers()
        assert deadline.due_ns == START + 30 * 86_400 * SECOND

        world.advance("29d23h")
        assert world.state("order", "o1")["outcome"] is None
        world.advance("1h")

        assert world.state("order", "o1")["phase"] != {"$tag": "Charging"}
        assert world.now_ns == START + 30 * 86_400 * SECOND


# T-2, T-3


def test_a_manifest_is_a_file_a_folder_nodes_or_loaded(tmp_path: Path) -> None:
    (tmp_path / "p.wasm").write_bytes(WASM)
    given = nodes()
    for each in given:
        if each["$kind"] == "defmodule":
            each["runtime"]["artifact"]["path"] = "p.wasm"  # type: ignore[index]  # the node above
    (tmp_path / "m.air.json").write_text(json.dumps(given))
    files = {"m.air.json": json.dumps(given).encode(), "p.wasm": WASM}

    found = [
        World(tmp_path).manifest,
        World(str(tmp_path / "m.air.json")).manifest,
        World(nodes(), modules=MODULES).manifest,
        World(load(files)).manifest,
    ]

    assert len({each.hash for each in found}) == 1


def test_a_manifest_that_has_changed_on_disk_is_read_again(tmp_path: Path) -> None:
    """T-7: only what is as it was is taken from an earlier time."""
    (tmp_path / "air").mkdir()
    module = tmp_path / "air" / "p.wasm"
    module.write_bytes(WASM)
    file = tmp_path / "air" / "m.air.json"

    def write(version: int) -> None:
        given = nodes(version=version)
        for each in given:
            if each["$kind"] == "defmodule":
                each["runtime"]["artifact"]["path"] = "p.wasm"  # type: ignore[index]  # the node above
        file.write_text(json.dumps(given))

    write(1)
    first = World(tmp_path).manifest
    assert World(tmp_path).manifest is first
    write(2)
    second = World(tmp_path).manifest
    assert second != first
    (tmp_path / "air" / "more.air.json").write_text(json.dumps({"$kind": "defschema"}))
    with pytest.raises(ManifestProblems):
        World(tmp_path)
    (tmp_path / "air" / "more.air.json").unlink()
    module.unlink()
    with pytest.raises(ManifestProblems):
        World(tmp_path)


def test_every_problem_of_a_manifest_is_told_at_once() -> None:
    broken = nodes()
    broken[0]["type"] = {"txt": {}}
    broken[1]["type"] = {"record": {"key": {"ref": "t/None@1"}}}

    with pytest.raises(ManifestProblems) as refused:
        World(broken, modules=MODULES)

    assert len(refused.value.problems) >= 2


def test_modules_go_with_nodes_that_name_them() -> None:
    with pytest.raises(BadUsage, match="no node is named t/other@1"):
        World(nodes(), modules={**MODULES, "t/other@1": WASM})
    with pytest.raises(BadUsage, match="modules= is only for a list of nodes"):
        World(ORDERS, modules=MODULES)
    with pytest.raises(ManifestProblems, match=r"artifact of t/puppet\.module@1 is missing"):
        World(nodes())


def test_executors_of_a_manifest_sign_with_keys_of_the_test() -> None:
    with World(nodes(executors=EXECUTORS), modules=MODULES) as world:
        asked = out(effects=((CHARGE, charge(), "count"), (TIMER, timer(START), "count")))
        world.send(DO, {"key": "a", "out": asked})
        world.run()
        world.effect(CHARGE).answer({"ref": "r"})
        world.run()

        assert world.state(CELL, "a") == 3
        assert world.asked(CHARGE)[0].status == "ok"


def test_an_effect_without_a_signer_in_a_loaded_manifest_is_a_problem() -> None:
    given = nodes(executors=[{**EXECUTORS[1], "effects": ALL}])
    for each in given:
        if each["$kind"] == "defmodule":
            each["runtime"]["artifact"]["path"] = "p.wasm"  # type: ignore[index]  # the node above
    world = World(load({"m.json": json.dumps(given).encode(), "p.wasm": WASM}))
    world.send(DO, {"key": "a", "out": out(effects=((CHARGE, charge(), None),))})
    world.run()

    with pytest.raises(WorldProblem, match="no executor of the manifest may sign for it"):
        world.effect(CHARGE).answer({"ref": "r"})


# T-4, T-13, T-14


def test_the_clock_is_where_it_was_set() -> None:
    assert stage().now_ns == START
    assert stage(now="2026-01-01T00:00:00Z").now_ns == 1_767_225_600 * SECOND
    assert stage(now=datetime(2026, 1, 1, tzinfo=UTC)).now_ns == 1_767_225_600 * SECOND
    assert stage(now=5).now_ns == 5
    with pytest.raises(BadUsage, match="this is not a time"):
        stage(now="yesterday")
    with pytest.raises(BadUsage, match="this is not a time"):
        stage(now=datetime(2026, 1, 1))  # noqa: DTZ001  # the one without a zone


def test_the_same_test_makes_the_same_journal() -> None:
    def journal(seed: str) -> bytes:
        world = stage(seed=seed)
        world.send(DO, {"key": "a", "out": out(effects=((CHARGE, charge(), "count"),))})
        world.run()
        world.effect(CHARGE).answer({"ref": "r"})
        world.run()
        return world.replay().frame

    assert journal("one") == journal("one")
    assert journal("one") != journal("two")


def test_timers_fire_in_the_order_of_their_deadlines_each_at_its_time() -> None:
    ring = then(out(9, events=((NEWS, {"what": {"$tag": "Good"}, "for": 1}),)))
    with stage() as world:
        for key, seconds in (("a", 3), ("b", 1), ("c", 2), ("d", 1)):
            asked = out(effects=((TIMER, timer(START + seconds * SECOND), ring),))
            world.send(DO, {"key": key, "out": asked})
        world.run()
        assert world.advance("1500ms") == 2
        assert [each.key for each in world.emitted()] == ["b", "d"]
        world.advance(timedelta(seconds=2))

        assert [each.key for each in world.emitted()] == ["b", "d", "c", "a"]
        assert world.now_ns == START + 3_500_000_000
        fired = [each.params["deliver_at_ns"] - START for each in world.asked(TIMER)]
        assert fired == [3 * SECOND, SECOND, 2 * SECOND, SECOND]
        assert world.timers() == []


def test_a_workflow_that_a_timer_starts_may_set_another_timer_on_the_way() -> None:
    second = then(out(2, effects=((TIMER, timer(START + 20 * SECOND), "count"),)))
    with stage() as world:
        asked = out(effects=((TIMER, timer(START + 10 * SECOND), second),))
        world.send(DO, {"key": "a", "out": asked})
        world.advance("1h")

        assert world.state(CELL, "a") == 3


def test_a_timer_of_the_past_fires_at_once() -> None:
    with stage() as world:
        world.send(DO, {"key": "a", "out": out(effects=((TIMER, timer(0), "count"),))})
        world.run()

        assert world.state(CELL, "a") == 2


def test_advance_to_goes_to_a_time_and_not_back() -> None:
    world = stage()
    world.advance_to("2024-01-02T00:00:00Z")
    assert world.now_ns == START + 86_400 * SECOND
    with pytest.raises(BadUsage, match="the clock does not go back"):
        world.advance_to(START)
    with pytest.raises(BadUsage, match="this is not a span of time"):
        world.advance("-1s")
    with pytest.raises(BadUsage, match="this is not a span of time"):
        world.advance("soon")


def test_finish_goes_to_the_last_deadline_or_says_what_is_still_due() -> None:
    with stage() as world:
        for key, seconds in (("a", 3), ("b", 90)):
            asked = out(effects=((TIMER, timer(START + seconds * SECOND), "count"),))
            world.send(DO, {"key": key, "out": asked})
        with pytest.raises(WorldProblem, match=r"not finished within 1 min; still due:\n.*timer"):
            world.finish("1m")
        assert world.now_ns == START + 3 * SECOND

        world.finish()

        assert world.now_ns == START + 90 * SECOND
        assert {each.state for each in world.cells()} == {2}


# T-5, T-6


def test_values_are_given_plain_or_as_authoring_json() -> None:
    emits = [
        out(events=((NEWS, value),))
        for value in (
            {"what": {"$tag": "Good"}, "for": 90 * SECOND},
            {"what": {"$tag": "Bad", "$value": "x"}, "for": 0},
        )
    ]
    with stage() as world:
        world.send(TELL, {"out": emits[0]})
        world.send(TELL, {})
        world.run()

        assert world.events(NEWS) == [{"what": {"$tag": "Good"}, "for": 90 * SECOND}]

    with World(ORDERS) as orders:
        orders.send("shop/OrderPlaced@1", {**ORDER, "patience": 30 * 86_400 * SECOND})
        orders.send("shop/OrderPlaced@1", {**ORDER, "order_id": "o2", "patience": "30d"})
        orders.run()
        deadlines = {each.state["deadline"] for each in orders.cells("order")}
        assert deadlines == {START + 30 * 86_400 * SECOND}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, r"\$\.key: missing"),
        ({"key": 1}, r"\$\.key"),
        ({"key": "a", "more": 1}, "more"),
        ({"key": "a", "out": 1.5}, "float"),
        ({"key": "a", "out": "not base64!"}, r"\$\.out"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(value: Any, problem: str) -> None:
    world = stage()
    with pytest.raises(BadUsage, match=problem):
        world.send(DO, value)
    assert world.run() == 0


def test_like_looks_at_what_it_names() -> None:
    value = {
        "phase": {"$tag": "Paid"},
        "by": {"$tag": "Card", "$value": {"no": 7}},
        "n": [1, {"a": 2}],
    }

    assert value == like({})
    assert value == like({"phase": "Paid", "by": {"Card": {}}, "n": [1, {}]})
    assert value == like({"phase": {"$tag": "Paid"}, "by": {"Card": like({"no": 7})}})
    assert value != like({"phase": "Open"})
    assert value != like({"by": {"Card": {"no": 8}}})
    assert value != like({"by": {"Cash": {}}})
    assert value != like({"n": [1]})
    assert value != like({"n": [True, {}]})
    assert value != like({"gone": None})
    assert [value] == [like({"phase": "Paid"})]
    assert like({"a": 1}) == {"a": 1, "b": 2}
    assert repr(like({"a": 1})) == "like({'a': 1})"


# T-10 to T-12, T-17


def test_a_submission_id_counts_once() -> None:
    with stage() as world:
        first = world.send(DO, {"key": "a"}, id="one")
        world.run()
        again = world.send(DO, {"key": "a"}, id="one")
        world.run()

        assert again.is_duplicate
        assert again.seq == first.seq
        assert world.state(CELL, "a") == 1
        with pytest.raises(InputRefused) as refused:
            world.send(DO, {"key": "b"}, id="one")
        assert refused.value.rule == "submission_id_is_taken"


def test_an_unknown_schema_is_refused_with_those_that_are_routed() -> None:
    with pytest.raises(BadUsage, match="no schema t/Other@1: expected one of t/Do@1, t/Tell@1"):
        stage().send("t/Other@1", {})


def test_nothing_runs_before_run() -> None:
    with stage() as world:
        world.send(DO, {"key": "a"})
        world.send(DO, {"key": "b"})
        assert world.cells() == [
            Cell(workflow=CELL, key=key, status="running", state=None) for key in ("a", "b")
        ]
        assert world.run() == 2
        assert world.run() == 0


def test_a_fault_that_the_test_does_not_expect_is_raised() -> None:
    with stage() as world:
        world.send(DO, {"key": "a", "fault": "no good"})
        world.send(DO, {"key": "b"})
        with pytest.raises(CellFailed, match=r"t/cell@1 a failed: guest: puppet: no good") as told:
            world.run()

        assert world.state(CELL, "b") == 1, "the run came to its end"
        assert told.value.faults == tuple(world.faults())
        assert world.status(CELL, "a") == "failed"
        world.send(DO, {"key": "c", "trap": True})
        world.run(may_fail=True)
        assert world.faults(CELL)[1] == FaultSeen(
            workflow=CELL, key="c", kind="trap", seq=8,
            message="step: an unreachable instruction is reached",
        )  # fmt: skip
        world.send(DO, {"key": "d", "trap": True})
        with pytest.raises(CellFailed, match=r"\n\(trap: a panic, an unwrap, an index") as trapped:
            world.run()
        assert "(fuel" not in str(trapped.value), "only of what there is"


def test_a_failed_cell_is_retried_or_skipped() -> None:
    with stage() as world:
        world.send(DO, {"key": "a", "fault": "x"})
        world.send(DO, {"key": "a"})
        world.run(may_fail=True)
        world.retry(CELL, "a")
        world.run(may_fail=True)
        assert len(world.faults()) == 2
        world.skip("cell", "a")
        world.run()

        assert world.state(CELL, "a") == 1
        with pytest.raises(InputRefused) as refused:
            world.retry(CELL, "a")
        assert refused.value.rule == "cell_has_not_failed"


def test_another_manifest_comes_in_the_middle() -> None:
    with stage() as world:
        world.send(DO, {"key": "a", "out": out(effects=((CHARGE, charge(), "count"),))})
        world.run()
        before = world.manifest.hash
        with pytest.raises(InputRefused, match="world_is_not_quiescent") as refused:
            world.apply(nodes(version=2), modules=MODULES)
        assert [(each.workflow, each.key) for each in refused.value.blockers] == [(CELL, "a")] * 2
        assert f"\n  {CELL} a: instance_is_not_terminal, status waiting" in str(refused.value)
        assert world.manifest.hash == before

        world.apply(nodes(version=2), modules=MODULES, mode="pin")
        assert world.manifest.hash != before
        world.apply(nodes(version=2), modules=MODULES)
        world.effect(CHARGE).answer({"ref": "r"})
        world.run()
        assert world.state(CELL, "a") == 2
        with pytest.raises(BadUsage, match="mode: expected one of strict, pin, migrate"):
            world.apply(nodes(), modules=MODULES, mode="now")


def test_a_world_that_does_not_come_to_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aos.testing.world.ROUNDS_MAX", 3)
    nested = "count"
    for _ in range(3):
        nested = then(out(effects=((TIMER, timer(0), nested),)))
    with stage(replay=False) as world:
        # The references grow with each level: the last fits the limit of a reference just so.
        world.send(DO, {"key": "a", "out": out(effects=((TIMER, timer(0), "count"),) * 5)})
        with pytest.raises(WorldProblem, match="does not become idle at 2024-01-01"):
            world.run()


# T-16


def test_a_crash_loses_nothing_that_the_journal_has() -> None:
    with stage() as world:
        asked = out(effects=((CHARGE, charge(), "count"), (TIMER, timer(START + SECOND), "count")))
        world.send(DO, {"key": "a", "out": asked}, id="one")
        world.restart()
        world.run()
        before = world.effect(CHARGE)
        world.restart()

        assert world.effect(CHARGE) == before
        assert world.effect(CHARGE).idempotency_key == before.idempotency_key
        assert world.send(DO, {"key": "a", "out": asked}, id="one").is_duplicate
        world.advance("1s")
        before.answer({"ref": "r"})
        world.run()
        assert world.state(CELL, "a") == 3


# T-30 to T-34


def test_a_missing_thing_is_none_and_an_impossible_one_is_refused() -> None:
    world = stage()
    assert world.state(CELL, "a") is None
    assert world.status(CELL, "a") is None
    assert world.state(PLAIN) is None
    with pytest.raises(BadUsage, match="no workflow is called"):
        world.state("t/other@1")
    with pytest.raises(BadUsage, match="t/cell@1 is keyed"):
        world.status(CELL)
    with pytest.raises(BadUsage, match="t/plain@1 is not keyed"):
        world.status(PLAIN, "a")
    with pytest.raises(BadUsage, match="the key of t/cell@1"):
        world.state(CELL, 7)
    with pytest.raises(BadUsage, match="no schema t/Other@1"):
        world.events("t/Other@1")
    with pytest.raises(BadUsage, match="no effect is called"):
        world.effects("t/other@1")


def test_a_deleted_cell_is_gone() -> None:
    with stage() as world:
        world.send(DO, {"key": "a"})
        world.send(DO, {"key": "a", "delete": True})
        world.run()

        assert world.state(CELL, "a") is None
        assert world.status(CELL, "a") is None
        assert world.cells() == []


def test_events_annotations_and_statuses_are_seen() -> None:
    news = {"what": {"$tag": "Bad", "$value": "x"}, "for": 0}
    with stage() as world:
        world.send(DO, {"key": "a", "out": out(7, events=((NEWS, news),), ann="one")})
        world.send(DO, {"key": "a", "out": out(8, status="completed", ann="two")})
        world.run()

        assert world.emitted(NEWS) == [
            Emitted(schema=NEWS, value=news, workflow=CELL, key="a", to=(), seq=5)
        ]
        assert world.annotations(CELL, "a") == ["one", "two"]
        assert world.cells(CELL) == [Cell(workflow=CELL, key="a", status="completed", state=8)]
        assert world.cells(PLAIN) == []


def test_the_trace_reads_as_the_journal_goes() -> None:
    world = stage()
    asked = out(effects=((CHARGE, charge(), "first"),), ann="asked")
    world.send(DO, {"key": "a", "out": asked})
    world.run()
    world.advance("1m30s")
    world.send(DO, {"key": "a", "trap": True})
    world.run(may_fail=True)
    text = world.trace()

    assert "    4 step     t/cell@1 a ← 3 · waiting · asks t/charge@1" in text
    assert "      │ state 1" in text
    assert "      │ annotation asked" in text
    assert '      │ asks t/charge@1 {"id":"a","cents":5} (first)' in text
    assert "2024-01-01T00:01:30.000Z (+1 min 30 s)" in text
    assert "failed: trap: step: an unreachable instruction is reached" in text
    assert "wasm trap" in text, "the engine's message follows"
    assert world.trace(last=2).startswith("… 4 records before\n")


def test_a_failure_in_a_with_block_carries_the_trace() -> None:
    def failing() -> None:
        with stage() as world:
            world.send(DO, {"key": "a"})
            assert world.state(CELL, "a") == 1

    with pytest.raises(AssertionError) as failed:
        failing()

    (note,) = failed.value.__notes__
    assert "event    t/Do@1" in note


def test_a_closed_world_takes_nothing_more() -> None:
    world = stage()
    world.close()
    world.close()
    with pytest.raises(WorldProblem, match="the world is closed"):
        world.send(DO, {"key": "a"})
    with pytest.raises(WorldProblem, match="the world is closed"):
        world.run()


def test_replay_compares_everything() -> None:
    world = stage()
    world.send(DO, {"key": "a"})
    world.run()
    report = world.replay()
    assert (report.steps, report.identical) == (1, True)


def test_an_event_for_existing_instances_only_creates_none() -> None:
    """T-17, T-31, K-42a."""
    own = nodes()
    own[-1]["routing"] = {
        "subscriptions": [route(DO, CELL, "key", creates=False), route(TELL, PLAIN)]
    }
    with World(own, modules=MODULES) as world:
        with pytest.raises(InputRefused, match="does not exist") as refused:
            world.send(DO, {"key": "a"})
        assert refused.value.rule == "instance_is_unknown"

        world.send(TELL, {"out": out(1, events=((DO, {"key": "b"}),))})
        world.run()

        (emitted,) = world.emitted(DO)
        assert (emitted.to, emitted.unknown) == ((), ((CELL, "b"),))
        assert world.cells(CELL) == []


def test_a_new_optional_field_needs_no_migration_and_the_journal_replays() -> None:
    """K-71d: strict and in the middle of a story, through the sandbox, a crash and a replay."""

    def version(*more: str) -> Loaded:
        own = nodes(version=1 + len(more))
        fields: dict[str, object] = {name: {"option": {"text": {}}} for name in more}
        state = next(each for each in own if each["name"] == "t/State@1")
        state["type"] = {"record": {"n": {"nat": {}}, **fields}}
        module = next(each for each in own if each["$kind"] == "defmodule")
        module["runtime"] = {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": "p.wasm"}}
        return load({"m.json": json.dumps(own).encode(), "p.wasm": WASM})

    with World(version()) as world:
        world.send(DO, {"key": "a", "out": out({"n": 1})})
        world.send(DO, {"key": "b", "out": out({"n": 2})})
        world.run()
        world.apply(version("owner"))
        assert world.state(CELL, "a") == {"n": 1}

        world.restart()
        world.send(DO, {"key": "a", "out": out({"n": 3, "owner": None})})
        world.run()
        world.snapshot()
        world.apply(version("owner", "why"))
        world.send(DO, {"key": "b", "out": out({"n": 4, "owner": "o", "why": "w"})})
        world.run()

        assert world.state(CELL, "b") == {"n": 4, "owner": "o", "why": "w"}
        with pytest.raises(InputRefused) as refused:
            world.apply(version("owner"))
        assert refused.value.blockers[0].workflow == CELL
        world.replay()
