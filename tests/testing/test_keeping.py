"""Snapshots and erasure in a test's world (spec/testing.md, T-16, T-18, T-19)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aos.core.kernel import world_state
from aos.core.kernel_protocol import KernelProtocol
from aos.errors import BadUsage
from aos.host.folder import restore
from aos.prove.replay.replay_report import Divergence
from aos.store.rows import SnapshotRow
from aos.store.store import Store
from aos.store.stored_world import open_stored
from aos.testing import InputRefused, World, WorldProblem, desk, like
from aos.testing.play import ScenarioFailure, play
from aos.testing.scenario import parse
from aos.values.digests import hash_text
from tests.testing.stage import (
    CELL,
    CHARGE,
    DO,
    NEWS,
    ORDERS,
    SECOND,
    TIMER,
    charge,
    out,
    stage,
    then,
    timer,
)
from tests.testing.test_world import ORDER, START, script_orders

LONG = "x" * 2_000
BAD = {"what": {"$tag": "Bad", "$value": LONG}, "for": 5}

# T-18


def test_after_a_snapshot_everything_continues() -> None:
    """Open effects, due timers, queued mail, and events sent under an id."""
    asked = out(effects=((CHARGE, charge(), "count"), (TIMER, timer(START + SECOND), "count")))
    with stage() as world:
        world.on(CHARGE, {"ref": "late"})
        world.send(DO, {"key": "a", "out": asked}, id="one")
        seq = world.snapshot()
        assert seq == world.records
        world.run()
        world.send(DO, {"key": "b", "out": out(7)})
        world.snapshot()

        assert world.send(DO, {"key": "a", "out": asked}, id="one").is_duplicate
        assert world.state(CELL, "b") is None
        world.run()
        assert (world.state(CELL, "a"), world.state(CELL, "b")) == (2, 7)
        world.advance("1s")
        assert world.state(CELL, "a") == 3
        assert [each.status for each in world.asked()] == ["ok", "ok"]


def test_an_answer_that_is_delayed_survives_a_snapshot_and_not_a_crash() -> None:
    with stage() as world:
        world.send(DO, {"key": "a", "out": out(effects=((CHARGE, charge(), "count"),))})
        world.run()
        world.effect(CHARGE).answer({"ref": "r"}, after="5s")
        world.snapshot()
        assert world.effect(CHARGE).due_ns == START + 5 * SECOND
        world.restart()
        assert world.effect(CHARGE).due_ns is None
        world.effect(CHARGE).answer({"ref": "r"}, after="5s")
        world.snapshot()
        world.advance("5s")
        assert world.state(CELL, "a") == 2


def test_a_snapshot_is_in_the_journal_and_makes_no_difference_to_what_is_decided() -> None:
    def states(*, has_snapshots: bool) -> list[Any]:
        with World(ORDERS) as world:
            script_orders(world)
            world.send("shop/OrderPlaced@1", ORDER)
            if has_snapshots:
                world.snapshot()
            world.run()
            if has_snapshots:
                world.snapshot()
                assert "snapshot" in world.trace()
            world.finish()
            return world.cells()

    assert states(has_snapshots=True) == states(has_snapshots=False) != []


def spy(monkeypatch: pytest.MonkeyPatch, module: Any, found: list[int]) -> None:
    """Note the snapshots that a module begins at."""

    def noting(store: Store, row: SnapshotRow | None, **options: Any) -> KernelProtocol:
        if row is not None:
            found.append(row.at)
        return open_stored(store, row, **options)

    monkeypatch.setattr(module, "open_stored", noting)


def test_the_world_comes_back_from_its_last_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-16"""
    found: list[int] = []
    spy(monkeypatch, restore, found)
    with stage() as world:
        first = world.snapshot()
        world.send(DO, {"key": "a"})
        world.run()
        last = world.snapshot()
        assert found == [first - 1, last - 1]
        world.send(DO, {"key": "a"})
        world.run()
        world.restart()

        assert found[2:] == [last - 1]
        assert world.state(CELL, "a") == 2


def test_it_is_replayed_from_the_genesis_and_from_each_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T-34"""
    found: list[int] = []
    spy(monkeypatch, desk, found)
    with stage() as world:
        first = world.snapshot()
        world.send(DO, {"key": "a"})
        world.run()
        last = world.snapshot()
        report = world.replay()

        assert (report.steps, report.snapshots) == (1, 2)
        assert found == [first - 1, last - 1]
    assert len(found) == 4


def test_a_snapshot_that_is_not_what_the_journal_says_fails_the_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T-34: the world's end finds an invalid snapshot, though the journal is valid."""
    world = stage()
    world.send(DO, {"key": "a"})
    world.run()
    world.snapshot()

    def other(store: Store, row: SnapshotRow, **options: Any) -> KernelProtocol:
        kernel = open_stored(store, row, **options)
        world_state(kernel).serial = 7
        return kernel

    monkeypatch.setattr(desk, "open_stored", other)
    with pytest.raises(Divergence, match="document"):
        world.close()


def test_a_closed_world_takes_neither() -> None:
    world = stage()
    world.close()
    with pytest.raises(WorldProblem, match="the world is closed"):
        world.snapshot()
    with pytest.raises(WorldProblem, match="the world is closed"):
        world.erase("blake3:" + "0" * 64)


# T-19


def test_an_erased_value_is_gone_and_the_journal_is_whole() -> None:
    with stage() as world:
        told = world.hash_of(NEWS, BAD)
        world.send(DO, {"key": "a", "out": out(1, events=((NEWS, BAD),))})
        world.run()
        assert world.events(NEWS) == [BAD]

        seq = world.erase(told)

        assert seq == world.records
        assert world.events(NEWS) == [{"$erased": told}]
        assert world.emitted(NEWS)[0].schema == NEWS
        assert LONG[:50] not in world.trace()
        assert told in world.trace()
        world.snapshot()
        world.restart()
        assert world.events(NEWS) == [{"$erased": told}]
        assert world.replay().identical


def test_params_of_an_effect_that_is_over_can_be_erased() -> None:
    params = charge(LONG)
    with stage() as world:
        world.send(DO, {"key": "a", "out": out(effects=((CHARGE, params, then(out(9))),))})
        world.run()
        asked = world.effect(CHARGE)
        with pytest.raises(InputRefused, match="the params of an intent") as refused:
            world.erase(world.hash_of("t/Charge@1", params))
        assert refused.value.rule == "value_is_in_use"
        assert asked.params == params

        asked.answer({"ref": "r"})
        world.run()
        told = world.hash_of("t/Charge@1", params)
        world.erase(told.removeprefix("blake3:"))

        (asked,) = world.asked(CHARGE, params=like({"$erased": told}))
        assert told[:40] in repr(asked)
        assert world.asked(CHARGE, params={"cents": 5}) == []


def test_a_blob_that_is_put_again_after_its_erasure_is_there() -> None:
    with stage() as world:
        told = world.hash_of(NEWS, BAD)
        world.send(DO, {"key": "a", "out": out(1, events=((NEWS, BAD),))})
        world.run()
        world.erase(told)
        world.send(DO, {"key": "a", "out": out(1, events=((NEWS, BAD),))})
        world.run()

        assert world.events(NEWS) == [BAD, BAD]


def test_erasing_a_missing_value_or_one_inside_its_record_is_refused() -> None:
    with stage() as world:
        world.send(DO, {"key": "a", "out": out(1, events=((NEWS, BAD),))})
        world.run()
        told = world.hash_of(NEWS, BAD)
        world.erase(told)
        before = world.records

        for value in (told, world.hash_of(DO, {"key": "a"})):
            with pytest.raises(InputRefused, match="more than 1,024 bytes lie outside") as refused:
                world.erase(value)
            assert refused.value.rule == "value_is_unknown"
        with pytest.raises(BadUsage, match="expected blake3: and 64 lower-case hex digits"):
            world.erase("blake3:12")
        with pytest.raises(BadUsage, match=r"hash_of t/Do@1"):
            world.hash_of(DO, {"key": 1})
        with pytest.raises(BadUsage, match="the manifest has no schema t/None@1"):
            world.hash_of("t/None@1", 1)
        assert world.records == before


def test_no_part_of_a_snapshot_is_erased_but_a_value_that_waited_when_it_was_taken() -> None:
    """Replay from that snapshot takes what the value led to as recorded."""
    with stage() as world:
        value = {"key": "a", "out": out(1, events=((NEWS, BAD),))}
        world.send(DO, value)
        world.snapshot()
        mark = world._desk.state.snapshot
        assert mark is not None
        with pytest.raises(InputRefused, match="mail of a cell"):
            world.erase(world.hash_of(DO, value))
        world.run()

        world.erase(world.hash_of(DO, value))

        before = world.records
        with pytest.raises(InputRefused, match="a part of the") as refused:
            world.erase(hash_text(mark.document))
        assert refused.value.rule == "value_is_in_use"
        assert world.records == before
        assert world.replay().erased > 0


# T-61


def test_both_are_words_of_a_scenario(tmp_path: Path) -> None:
    text = f"""
manifest = {str(ORDERS)!r}

[[step]]
send = "shop/OrderPlaced@1"
value = {{ order_id = "o", customer_id = "c", patience = "1d", items = [
  {{ sku = "{LONG}", quantity = 1, price_cents = 5 }},
] }}

[[step]]
snapshot = true

[[step]]
erase = "shop/OrderPlaced@1"
value = {{ order_id = "o", customer_id = "c", patience = "1d", items = [
  {{ sku = "{LONG}", quantity = 1, price_cents = 5 }},
] }}

[[step]]
erase = "shop/OrderPlaced@1"
value = {{ order_id = "o", customer_id = "c", patience = "1d", items = [
  {{ sku = "{LONG}", quantity = 1, price_cents = 5 }},
] }}
refused = "value_is_unknown"

[[step]]
restart = true

[[step]]
fail = "stock.reserve"
code = "none_left"
"""

    def played(text: str) -> ScenarioFailure | None:
        return play(parse(text.encode(), tmp_path / "x.scenario.toml")).failure

    assert played(text) is None
    failure = played(text.replace("restart = true", "erase = 'shop/OrderPlaced@1'\nvalue = {}"))
    assert failure is not None
    assert failure.message.startswith(
        "hash_of shop/OrderPlaced@1: this is not a valid shop/OrderPlaced@1"
    )
