"""An operator ends an instance, or removes it (spec/kernel.md, K-109)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Answer, Rule
from aos.core.decide.control import WHY_BYTES_MAX
from aos.core.journal.inputs import PIN
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import CellId, Control
from aos.core.state.fold import fold
from aos.core.state.version import is_pinned
from aos.errors import Damage
from tests.core import cases
from tests.core.decide.test_control import failed, rule_of
from tests.core.decide.test_isolation import same
from tests.core.decide.test_owed import folded
from tests.core.desk import DESK, cell_id, desks, log_of, pay, tell, wish
from tests.memory_world import MemoryWorld

A = cell_id("a")


def end(world: MemoryWorld, cell: CellId = A, status: str = "completed", **more: Any) -> Answer:
    return world.control("end", cell=cell, status=status, **more)


def remove(world: MemoryWorld, cell: CellId = A, **more: Any) -> Answer:
    return world.control("remove", cell=cell, **more)


def command(world: MemoryWorld) -> Control:
    *_, found = [each for each in world.records() if isinstance(each, Control)]
    return found


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_an_instance_that_waits_has_the_status_of_the_command_and_its_state(status: str) -> None:
    """K-109."""
    world = desks()
    tell(world, "a", pay("p"), pay("q"))
    first, second = world.open()

    assert isinstance(end(world, status=status, why="the shop closed"), Admitted)
    world.seal()

    cell = world.cell(DESK, "a")
    assert (cell.status, list(cell.inflight), log_of(world, "a")) == (status, [], ["told "])
    assert world.state.cells.statuses(DESK)[status] == 1
    assert not world.state.cells.active
    assert list(world.state.abandoned) == [first.intent, second.intent]
    assert world.sealed[-1].abandoned == (first.intent, second.intent)
    record = command(world)
    assert (record.status, record.why) == (status, "the shop closed")
    assert (record.dropped, record.abandoned) == (None, (first.intent, second.intent))
    same(folded(world), world.state)


def test_a_late_receipt_of_an_ended_instance_is_journaled_and_delivered_to_no_cell() -> None:
    """K-56."""
    world = desks()
    tell(world, "a", pay("p"))
    (intent,) = world.open()
    end(world)
    answer = world.settle(intent, {"ref": "x"})
    assert isinstance(answer, Admitted)
    assert answer.outcome == "abandoned"
    world.run()
    assert log_of(world, "a") == ["told "]


def test_the_mail_of_a_failed_instance_is_dropped_and_counted() -> None:
    world = failed()
    end(world)
    world.run()
    cell = world.cell(DESK, "a")
    assert (cell.status, cell.fault, len(cell.mailbox)) == ("completed", None, 0)
    assert log_of(world, "a") == ["told 1"]
    assert command(world).dropped == 2
    same(folded(world), world.state)


def test_mail_that_was_ready_is_dropped_and_leaves_the_ring() -> None:
    world = desks()
    tell(world, "a")
    for key in ("a", "b", "a"):
        world.send("t/Tell@1", {"key": key, "asks": [], "note": "late"})
    end(world)
    assert list(world.state.ring) == [cell_id("b")]
    world.run()
    assert log_of(world, "a") == ["told "]
    assert log_of(world, "b") == ["told late"]
    assert command(world).dropped == 2


def test_mail_past_the_limit_is_forgotten_and_not_counted() -> None:
    """K-44."""
    world = desks(limits={"world": {"mailbox": 1}})
    tell(world, "a", note="fail")
    tell(world, "a")
    assert world.cell(DESK, "a").mail_uncounted == 1
    tell(world, "b")
    end(world)
    world.run()
    assert command(world).dropped == 1
    assert A not in world.state.cells


def test_an_ended_instance_takes_mail_that_comes_later() -> None:
    """K-60: as if its module had declared the status."""
    world = desks()
    tell(world, "a")
    end(world)
    tell(world, "a", note="on")
    assert log_of(world, "a") == ["told ", "told on"]
    assert world.cell(DESK, "a").status == "completed"


def test_an_answer_that_the_core_owes_to_an_ended_instance_is_not_made() -> None:
    world = desks()
    head = wish("sys/introspect.journal_head@1", {})
    world.send("t/Tell@1", {"key": "a", "asks": [head, pay("p")], "note": ""})
    world.step()
    assert len(world.state.owed) == 1

    end(world)
    world.run()

    assert not world.state.owed
    assert len(world.state.abandoned) == 2
    assert log_of(world, "a") == ["told "]
    same(folded(world), world.state)


def test_an_instance_that_never_got_a_state_is_gone() -> None:
    world = desks()
    tell(world, "a", note="fail")
    assert isinstance(end(world, status="failed"), Admitted)
    world.run()
    assert len(world.state.cells) == 0
    assert world.state.cells.statuses(DESK).total() == 0
    same(folded(world), world.state)


def test_a_removed_cell_is_gone_with_its_state_its_keys_and_its_mail() -> None:
    """K-109a."""
    world = failed()
    tell(world, "b", pay("p"))
    (intent,) = world.open()
    for key in ("a", "b"):
        assert isinstance(remove(world, cell_id(key), why="a test"), Admitted)
    world.run()
    assert len(world.state.cells) == 0
    assert list(world.state.abandoned) == [intent.intent]
    assert world.state.cells.statuses(DESK).total() == 0
    same(folded(world), world.state)
    tell(world, "a", note="new")
    assert log_of(world, "a") == ["told new"]


def test_a_removed_cell_does_not_come_back_from_a_snapshot() -> None:
    world = desks()
    tell(world, "a")
    tell(world, "b")
    assert isinstance(world.snapshot(), Admitted)
    remove(world)
    world.run()
    assert list(world.state.cells) == [cell_id("b")]
    same(folded(world), world.state)


def test_a_cell_that_is_not_there_is_refused() -> None:
    world = desks()
    tell(world, "a")
    for cell in (cell_id("b"), ("t/none@1", b"")):
        assert rule_of(end(world, cell)) is Rule.CELL_IS_UNKNOWN
        assert rule_of(remove(world, cell)) is Rule.CELL_IS_UNKNOWN
    remove(world)
    assert rule_of(remove(world)) is Rule.CELL_IS_UNKNOWN


def test_a_command_that_changes_nothing_is_refused() -> None:
    world = desks()
    tell(world, "a")
    end(world)
    assert rule_of(end(world)) is Rule.CELL_HAS_ENDED
    assert isinstance(end(world, status="failed"), Admitted)
    tell(world, "a", pay("p"))
    assert isinstance(end(world, status="failed"), Admitted)
    assert rule_of(end(world, status="failed")) is Rule.CELL_HAS_ENDED


@pytest.mark.parametrize(
    ("action", "about"),
    [
        ("end", {}),
        ("end", {"status": "running"}),
        ("end", {"status": "ok"}),
        ("end", {"status": "completed", "payload": b"\x01"}),
        ("end", {"status": "completed", "why": ""}),
        ("end", {"status": "completed", "why": "x" * (WHY_BYTES_MAX + 1)}),
        ("remove", {"status": "completed"}),
        ("remove", {"why": ""}),
        ("retry", {"why": "because"}),
    ],
)
def test_a_command_with_other_fields_is_refused(action: str, about: dict[str, Any]) -> None:
    world = failed()
    before = folded(world)
    assert rule_of(world.control(action, cell=A, **about)) is Rule.CONTROL_IS_INVALID
    same(before, world.state)


@pytest.mark.parametrize(
    "forge", [{"status": "failed"}, {"why": "another"}, {"cell": cell_id("b")}, {"why": None}]
)
def test_an_end_counts_only_as_it_was_signed(forge: dict[str, Any]) -> None:
    """J-42a."""
    world = failed()
    answer = end(world, why="because", forge=forge)
    assert rule_of(answer) is Rule.CONTROL_SIGNATURE_IS_WRONG


def test_a_pinned_instance_stays_under_its_manifest_until_its_state_fits() -> None:
    """K-74, K-109."""
    world = cases.cases()
    cases.tell(world, "a", 1)
    assert isinstance(cases.apply(world, 2, PIN), Admitted)
    id = cases.cell(world, "a").id
    assert isinstance(end(world, id), Admitted)
    world.run()

    cell = cases.cell(world, "a")
    assert (cell.status, cell.is_kept) == ("completed", True)
    assert is_pinned(world.state, cell)
    cases.tell(world, "a")
    assert not is_pinned(world.state, cases.cell(world, "a"))
    same(folded(world), world.state)


def test_a_removed_instance_begins_again_under_the_manifest_in_force() -> None:
    world = cases.cases()
    cases.tell(world, "a", 1)
    assert isinstance(cases.apply(world, 2, PIN), Admitted)
    id = cases.cell(world, "a").id
    assert isinstance(remove(world, id), Admitted)
    world.run()
    cases.tell(world, "a")
    assert not is_pinned(world.state, cases.cell(world, "a"))
    same(folded(world), world.state)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dropped": 1}, "drops 1 entries of mail"),
        ({"dropped": None}, "drops None entries of mail"),
        ({"abandoned": ()}, "abandons other intents"),
        ({"cell": cell_id("b")}, "there is no such cell"),
        ({"status": None}, "is a command that is none"),
        ({"status": "ok"}, "is a command that is none"),
        ({"action": "retry", "status": None}, "ends no instance"),
    ],
)
def test_a_record_that_does_not_follow_is_damage(change: dict[str, Any], text: str) -> None:
    """K-2."""
    world = desks()
    tell(world, "a", pay("p"))
    tell(world, "a", note="fail")
    tell(world, "a")
    state = folded(world)
    end(world)
    world.seal()
    wrong = replace(command(world), **change)
    assert from_bytes(to_bytes(wrong)) == wrong
    with pytest.raises(Damage, match=text):
        fold(state, wrong, world.read)
