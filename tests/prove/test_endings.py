"""Settled effects and ended instances in replay, verify, views and traces (spec/kernel.md, K-108 to
K-109a)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from aos.core.journal.records import Control, KernelReceipt
from aos.errors import BadUsage
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import Divergence
from aos.prove.verify.findings import FindingKind
from aos.prove.verify.verify import verify_store
from aos.read.trace.render import lines, plain
from aos.read.trace.trace import trace
from aos.read.trace.trace_nodes import NO_CELL_WAITS
from aos.read.trace.trace_tree import Node
from aos.read.views.cell_view import cell
from aos.read.views.intent_view import intent
from aos.read.views.journal_view import record
from aos.read.views.record_view import summary
from aos.read.views.view import View
from aos.store.derived import DerivedRows, differences
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, hash_text
from tests.core.desk import DESK, cell_id, pay, tell
from tests.prove.desks import Desk, erasing, only
from tests.prove.journals import (
    head_of,
    records,
    replaced,
    resealed,
    runner,
    store_of,
    verify_frames,
)

OTHER = Hash(b"\x07" * 32)
PAID = encode({"ref": "x" * 2000})
GONE = encode({"code": "gone", "message": "the bank closed", "retryable": False})
PAID_SETTLED, GONE_SETTLED, ENDED, FAILED, REMOVED = range(5)


@cache
def a_desk() -> Desk:
    """A desk with one cell for each history:

    paid      pay is settled by the operator, with a long receipt
    refused   pay is settled as an error
    ghost     waits for pay, and is ended
    broken    fails on its second event with a third behind it, and is ended
    removed   waits for pay, and is removed; its receipt comes late
    """
    world = Desk()
    for key in ("paid", "refused", "ghost", "removed"):
        tell(world, key, pay("p"))
    tell(world, "broken")
    tell(world, "broken", note="fail")
    tell(world, "broken", note="behind")
    late = world.open_of("removed")[0]
    paid, refused = (world.open_of(key)[0].intent for key in ("paid", "refused"))
    world.command("settle", intent=paid, status="ok", payload=PAID)
    world.command("settle", intent=refused, status="error", payload=GONE)
    world.command("end", cell=cell_id("ghost"), status="completed", why="ordered\ntwice")
    world.command("end", cell=cell_id("broken"), status="failed")
    world.command("remove", cell=cell_id("removed"), why="a test")
    world.settle(late, {"ref": "late"})
    world.run()
    return world


@cache
def view() -> View:
    return View(a_desk().state, store_of(a_desk()), now_ns=a_desk().now_ns)


def command(place: int) -> Control:
    found = only(a_desk(), Control, place)
    assert isinstance(found, Control)
    return found


def intent_of(key: str) -> str:
    return next(
        hash_text(asked.intent)
        for each in a_desk().steps()
        if each.cell == cell_id(key)
        for asked in getattr(each, "intents", ())
    )


def nodes(root: Node) -> list[Node]:
    return [root, *(node for child in root.children for node in nodes(child))]


# Replay and verify


def test_all_of_it_is_decided_again() -> None:
    """A-10."""
    world = a_desk()
    report = replay(world.frames, world.read, runner(world), head=head_of(world.frames))
    assert report.identical
    assert (report.controls, report.kernel_receipts) == (5, 2)


def test_a_settlement_whose_payload_was_erased_is_taken_as_it_is() -> None:
    """A-16a."""
    world = Desk()
    tell(world, "a", pay("p"))
    world.command("settle", intent=world.open_of("a")[0].intent, status="ok", payload=PAID)
    value = content_hash(PAID)
    world.command("erase", value=value)

    report = replay(world.frames, erasing(world, value), runner(world), head=head_of(world.frames))

    (found,) = report.erasures
    settled = only(world, Control, 0).seq
    assert (found.value, found.records) == (value, (settled, settled + 1, settled + 2))
    assert verify_frames(world.frames, erasing(world, value)).is_sound


def test_the_journal_and_its_rows_are_sound() -> None:
    """A-28, ST-31."""
    store = store_of(a_desk())
    report = verify_store(store)
    assert report.is_sound, [str(each) for each in report.findings]
    rows = DerivedRows()
    for each in records(a_desk().frames):
        rows.take(each)
    assert not list(differences(store, rows))
    abandoned = {hash_text(each) for each, row in rows.intents.items() if row.abandoned}
    assert abandoned == {intent_of("ghost"), intent_of("removed")}


CHANGED: list[tuple[type, int, str, Any, tuple[FindingKind, str]]] = [
    (Control, PAID_SETTLED, "status", "error", (FindingKind.SIGNATURE_WRONG, "admission")),
    (Control, PAID_SETTLED, "status", "completed", (FindingKind.VALUE_INVALID, "admission")),
    (Control, PAID_SETTLED, "payload", GONE, (FindingKind.SIGNATURE_WRONG, "admission")),
    (Control, PAID_SETTLED, "intent", OTHER, (FindingKind.RECORD_CANNOT_FOLLOW, "admission")),
    (Control, GONE_SETTLED, "payload", None, (FindingKind.VALUE_INVALID, "admission")),
    (Control, ENDED, "status", "failed", (FindingKind.SIGNATURE_WRONG, "admission")),
    (Control, ENDED, "status", "ok", (FindingKind.VALUE_INVALID, "admission")),
    (Control, ENDED, "why", None, (FindingKind.SIGNATURE_WRONG, "admission")),
    (Control, ENDED, "abandoned", (), (FindingKind.RECORD_CANNOT_FOLLOW, "abandoned")),
    (Control, ENDED, "dropped", 1, (FindingKind.RECORD_CANNOT_FOLLOW, "dropped")),
    (Control, FAILED, "dropped", 1, (FindingKind.RECORD_CANNOT_FOLLOW, "dropped")),
    (Control, REMOVED, "action", "end", (FindingKind.VALUE_INVALID, "admission")),
    (KernelReceipt, 0, "status", "error", (FindingKind.AUTHORITY_MISSING, "status")),
    (KernelReceipt, 0, "payload", encode({"ref": "y"}), (FindingKind.AUTHORITY_MISSING, "payload")),
    (
        KernelReceipt,
        1,
        "payload",
        encode({"code": "x"}),
        (FindingKind.AUTHORITY_MISSING, "payload"),
    ),
]


@pytest.mark.parametrize(("kind", "place", "field", "value", "found_as"), CHANGED)
def test_a_changed_field_is_found_by_verify_and_by_replay(
    kind: type, place: int, field: str, value: object, found_as: tuple[FindingKind, str]
) -> None:
    """A-11, A-24."""
    world, (wrong, named) = a_desk(), found_as
    changed = only(world, kind, place)
    frames = resealed(world.frames, changed.seq, lambda each: replaced(each, **{field: value}))

    report = verify_frames(frames, world.read)
    found = next(each for each in report.findings if each.kind is wrong)
    assert found.record == changed.seq
    with pytest.raises(Divergence) as caught:
        replay(frames, world.read, runner(world))
    assert (caught.value.record, caught.value.field) == (changed.seq, named)


# Views


def test_a_settlement_has_its_status_and_payload() -> None:
    """A-37d."""
    found = record(view(), command(GONE_SETTLED).seq)
    assert list(found)[2:] == [
        "at_ns", "action", "cell", "intent", "value", "status", "payload", "why", "restamp",
        "dropped", "abandoned", "principal", "serial", "values",
    ]  # fmt: skip
    assert (found["status"], found["payload"]["code"]) == ("error", "gone")
    text = summary(found)
    assert text.startswith(f"settle {intent_of('refused')[:15]}… as error by operator · ")
    (value,) = record(view(), command(PAID_SETTLED).seq)["values"]
    assert (value["where"], value["value"]) == ("payload", hash_text(content_hash(PAID)))


def test_an_end_says_what_it_took_and_why() -> None:
    """A-37d."""
    found = record(view(), command(ENDED).seq)
    assert found["abandoned"] == [intent_of("ghost")]
    assert summary(found) == (
        f"end {DESK} ghost as completed by operator · 1 intent abandoned · ordered twice"
    )
    assert summary(record(view(), command(FAILED).seq)) == (
        f"end {DESK} broken as failed by operator · 2 events dropped"
    )
    assert summary(record(view(), command(REMOVED).seq)) == (
        f"remove {DESK} removed by operator · 1 intent abandoned · a test"
    )


def test_an_intent_names_the_operator_who_settled_or_abandoned_it() -> None:
    """A-67."""
    settled = intent(view(), intent_of("paid"))
    assert [each["seq"] for each in settled["settlements"]] == [command(PAID_SETTLED).seq]
    assert (settled["cancels"], settled["abandoned_by"]) == ([], None)

    for key, place in (("ghost", ENDED), ("removed", REMOVED)):
        abandoned = intent(view(), intent_of(key))
        assert abandoned["status"] == "abandoned"
        assert abandoned["abandoned_by"] == {
            each: value
            for each, value in record(view(), command(place).seq).items()
            if each != "values"
        }


def test_a_cell_names_the_operator_who_ended_it() -> None:
    """A-64."""
    found = cell(view(), "desk", "ghost")
    assert found["ended_by"]["seq"] == command(ENDED).seq
    (reason,) = found["reasons"]
    assert reason["text"] == (
        f"operator ended it as completed, by record {command(ENDED).seq}: ordered twice"
    )
    assert cell(view(), "desk", "paid")["ended_by"] is None
    with pytest.raises(BadUsage, match="or it was deleted"):
        cell(view(), "desk", "removed")


def test_the_last_command_counts_until_the_module_runs_again() -> None:
    """A-64."""
    world = Desk()
    tell(world, "a")
    for status in ("completed", "failed"):
        world.command("end", cell=cell_id("a"), status=status)
    found = cell(View(world.state, store_of(world)), "desk", "a")
    assert found["ended_by"]["status"] == "failed"
    tell(world, "a")
    assert cell(View(world.state, store_of(world)), "desk", "a")["ended_by"] is None


# Traces


def test_a_settlement_is_followed_by_its_receipt_and_the_step() -> None:
    """A-40."""
    place = command(PAID_SETTLED).seq
    found = trace(view(), [str(place)])
    target, receipt, step = nodes(found.roots[0])
    assert (target.kind, receipt.kind, step.kind) == ("control", "kernel_receipt", "step")
    assert receipt.note == f"ok, settled by operator (record {place})"


def test_an_effect_shows_the_command_and_the_receipt_of_the_operator() -> None:
    found = trace(view(), [intent_of("paid")])
    (asked,) = [each for each in nodes(found.roots[0]) if each.kind == "intent"]
    assert [each.kind for each in asked.children] == ["control", "kernel_receipt"]
    assert asked.status == "ok"
    text = "\n".join(plain(lines(found)))
    assert f"settled by operator (record {command(PAID_SETTLED).seq})" in text


def test_an_abandoned_effect_names_who_ended_its_instance() -> None:
    """A-42."""
    found = trace(view(), [intent_of("ghost")])
    (asked,) = [each for each in nodes(found.roots[0]) if each.kind == "intent"]
    assert asked.status == "abandoned"
    assert asked.note == (
        f"{NO_CELL_WAITS.partition(':')[0]}: operator ended it as completed, by record "
        f"{command(ENDED).seq}: ordered twice"
    )
    late = trace(view(), [intent_of("removed")])
    (asked,) = [each for each in nodes(late.roots[0]) if each.kind == "intent"]
    assert asked.note == NO_CELL_WAITS


def test_mail_that_was_dropped_is_not_said_to_wait() -> None:
    """A-42."""
    events = [
        each for each in a_desk().records() if getattr(each, "to", ()) == (cell_id("broken"),)
    ]
    found = trace(view(), [str(events[2].seq)])
    (event,) = nodes(found.roots[0])
    assert event.status == "dropped"
    assert event.note == (
        f"{DESK} broken did not run it: operator ended it as failed, by record "
        f"{command(FAILED).seq}"
    )


def test_the_timeline_of_a_cell_shows_the_command() -> None:
    """A-45."""
    found = trace(view(), ["desk", "broken"])
    assert [each.kind for each in found.roots] == ["event", "event", "event", "control"]
    assert [each.status for each in found.roots[2:]] == ["dropped", "recorded"]
    removed = trace(view(), ["desk", "removed"])
    assert [each.kind for each in removed.roots] == ["event", "control", "receipt"]
    (case,) = removed.cases
    assert case.status == "absent"


def test_nothing_follows_from_an_end() -> None:
    """A-40."""
    world = Desk()
    tell(world, "a")
    world.command("end", cell=cell_id("a"), status="completed")
    tell(world, "a", note="on")
    place = only(world, Control, 0).seq
    found = trace(View(world.state, store_of(world)), [str(place)])
    assert [each.kind for each in nodes(found.roots[0])] == ["control"]
