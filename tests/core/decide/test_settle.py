"""An operator states how an effect ended (spec/kernel.md, K-108)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Answer, Refusal, Rule
from aos.core.journal.records import Control, KernelReceipt, Ref
from aos.core.snapshot.load import load, references
from aos.core.snapshot.take import take
from aos.core.state.cell import OpenIntent
from aos.core.state.state import Settlement
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.core.decide.test_control import rule_of
from tests.core.decide.test_isolation import same
from tests.core.decide.test_owed import folded
from tests.core.desk import DESK, ONCE, PAY, TIMER, desks, log_of, pay, tell, timer, wish
from tests.memory_world import MemoryWorld

PAID = encode({"ref": "x"})
GONE = encode({"code": "gone", "message": "the bank closed", "retryable": False})


def asked(*asks: Value) -> tuple[MemoryWorld, OpenIntent]:
    world = desks()
    tell(world, "a", *(asks or (pay("p"),)))
    return world, world.open()[0]


def settle(
    world: MemoryWorld, intent: Hash, status: str = "ok", payload: bytes = PAID, **more: Any
) -> Answer:
    return world.control("settle", intent=intent, status=status, payload=payload, **more)


def test_the_cell_receives_the_payload_of_the_operator() -> None:
    """K-108, K-80."""
    world, intent = asked()

    assert isinstance(settle(world, intent.intent), Admitted)
    world.run()

    assert log_of(world, "a")[-1] == f"{PAY} p ok"
    command, receipt = world.records()[-3:-1]
    assert isinstance(command, Control)
    assert isinstance(receipt, KernelReceipt)
    assert (receipt.root, receipt.status, receipt.payload) == (command.seq, "ok", PAID)
    assert (command.status, command.payload) == ("ok", PAID)
    assert world.sealed[-1].canceled == (intent.intent,)
    same(folded(world), world.state)


def test_an_error_of_the_operator_is_an_effect_error() -> None:
    world, intent = asked()
    settle(world, intent.intent, "error", GONE)
    world.run()
    assert log_of(world, "a")[-1] == f"{PAY} p error gone"


def test_a_long_payload_is_a_blob_of_the_command_and_of_its_receipt() -> None:
    world, intent = asked()
    payload = encode({"ref": "x" * 2000})
    value = content_hash(payload)

    settle(world, intent.intent, payload=payload)
    assert rule_of(world.control("erase", value=value)) is Rule.VALUE_IS_IN_USE
    world.run()

    command, receipt = world.records()[-3:-1]
    assert isinstance(command, Control)
    assert isinstance(receipt, KernelReceipt)
    assert command.payload == receipt.payload == Ref(value, len(payload))
    assert isinstance(world.control("erase", value=value), Admitted)
    world.run()
    same(folded(world), world.state)


@pytest.mark.parametrize(
    ("status", "payload"),
    [
        ("ok", encode({"ref": 5})),
        ("ok", GONE),
        ("ok", b"\xff"),
        ("error", PAID),
        ("error", encode({"code": "gone"})),
    ],
)
def test_a_payload_that_does_not_fit_is_refused(status: str, payload: bytes) -> None:
    world, intent = asked()
    before = folded(world)
    answer = settle(world, intent.intent, status, payload)
    assert rule_of(answer) is Rule.SETTLEMENT_DOES_NOT_FIT
    same(before, world.state)


def test_a_refusal_names_the_schema_and_the_place() -> None:
    world, intent = asked()
    answer = settle(world, intent.intent, payload=encode({"ref": 5}))
    assert isinstance(answer, Refusal)
    assert answer.message.startswith(f"a receipt of {PAY} with status ok is a t/Paid@1: $.ref: ")


@pytest.mark.parametrize(
    "about",
    [
        {"status": None},
        {"payload": None},
        {"status": "canceled"},
        {"status": "completed"},
        {"why": "because"},
        {"cell": (DESK, b"")},
        {"intent": Hash(b"short")},
    ],
)
def test_a_settlement_has_a_status_and_a_payload_and_nothing_else(about: dict[str, Any]) -> None:
    world, intent = asked()
    given = {"intent": intent.intent, "status": "ok", "payload": PAID, **about}
    assert rule_of(world.control("settle", **given)) is Rule.CONTROL_IS_INVALID


@pytest.mark.parametrize(
    "forge", [{"status": "error"}, {"payload": encode({"ref": "y"})}, {"intent": Hash(bytes(32))}]
)
def test_a_settlement_counts_only_as_it_was_signed(forge: dict[str, Any]) -> None:
    """J-42a."""
    world, intent = asked()
    answer = settle(world, intent.intent, forge=forge)
    assert rule_of(answer) is Rule.CONTROL_SIGNATURE_IS_WRONG


def test_an_intent_is_settled_once() -> None:
    world, intent = asked()
    settle(world, intent.intent)
    assert rule_of(settle(world, intent.intent)) is Rule.INTENT_IS_NOT_OPEN
    world.run()
    assert rule_of(settle(world, intent.intent)) is Rule.INTENT_IS_NOT_OPEN


def test_a_receipt_that_comes_before_the_answer_of_the_core_counts() -> None:
    world, intent = asked()
    settle(world, intent.intent, "error", GONE)
    assert isinstance(world.settle(intent, {"ref": "bank"}), Admitted)
    world.run()
    assert log_of(world, "a")[-1] == f"{PAY} p ok"
    assert not world.state.owed
    same(folded(world), world.state)


def test_a_receipt_that_comes_later_is_refused() -> None:
    world, intent = asked()
    settle(world, intent.intent)
    world.run()
    answer = world.settle(intent, {"ref": "bank"})
    assert rule_of(answer) is Rule.RECEIPT_INTENT_IS_UNKNOWN


def test_an_answer_of_the_core_cannot_be_settled() -> None:
    world = desks()
    head = wish("sys/introspect.journal_head@1", {})
    world.send("t/Tell@1", {"key": "a", "asks": [head], "note": ""})
    world.step()
    (intent,) = world.open()
    assert rule_of(settle(world, intent.intent)) is Rule.INTENT_IS_NOT_OPEN


def test_a_timer_may_be_settled_before_it_is_due() -> None:
    world = desks()
    tell(world, "a", timer(world, "t"))
    (intent,) = world.open()
    fired = encode({"delivered_at_ns": 5, "key": None})
    assert isinstance(settle(world, intent.intent, payload=fired), Admitted)
    world.run()
    assert log_of(world, "a")[-1] == f"{TIMER} t ok"


def test_an_effect_that_may_run_once_can_be_settled_in_its_attempt() -> None:
    world, intent = asked(wish(ONCE, {"n": 1}, "o"))
    world.attempt(intent, 1)
    settle(world, intent.intent)
    world.run()
    assert log_of(world, "a")[-1] == f"{ONCE} o ok"
    assert world.state.attempts == {}


def test_a_failed_instance_keeps_the_receipt_behind_its_fault() -> None:
    world, intent = asked()
    tell(world, "a", note="fail")
    settle(world, intent.intent)
    world.run()
    assert len(world.cell(DESK, "a").mailbox) == 2
    world.control("skip", cell=world.cell(DESK, "a").id)
    world.run()
    assert log_of(world, "a")[-1] == f"{PAY} p ok"


@pytest.mark.parametrize("size", [1, 2000])
def test_a_snapshot_keeps_a_settlement_that_is_owed(size: int) -> None:
    """SN-6, SN-9a."""
    world, intent = asked()
    payload = encode({"ref": "x" * size})
    settle(world, intent.intent, payload=payload)
    world.seal()

    taken = take(world.state, world.put)
    again = load(taken.document, world.read)

    (owed,) = again.owed
    slot = payload if size < 1024 else Ref(content_hash(payload), len(payload))
    assert owed.settlement == Settlement("ok", slot)
    needed = {hash for hash, _ in references(taken.document, world.read)}
    assert (content_hash(payload) in needed) == (size > 1024)
    assert take(again, world.put).document == taken.document
