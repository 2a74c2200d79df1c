"""Effects, receipts and continuations (spec/kernel.md, K-20 to K-23 and K-50 to K-57)."""

from __future__ import annotations

from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer, Refusal, Rule
from aos.core.journal.faults import FaultKind
from aos.core.journal.records import Faulted, Receipt
from aos.values.cbor import Value, encode
from aos.values.digests import content_hash, hash_text
from tests.memory_world import (
    WORLD_KEY,
    Envelope,
    MemoryWorld,
    Module,
    air,
    ask,
    effect,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)

BUYER = "t/buyer@1"
PAY = "t/pay@1"
TIMER = "sys/timer.set@1"
ENVELOPE = {"Receipt": {"ref": "sys/EffectReceiptEnvelope@1"}}
REJECTED = {"Rejected": {"ref": "sys/EffectReceiptRejected@1"}}


def nodes(arms: dict[str, Any], **more: object) -> list[dict[str, object]]:
    return [
        schema("t/Buy@1", {"record": {"key": {"text": {}}, "n": {"nat": {}}}}),
        schema("t/Key@1", {"text": {}}),
        schema("t/Log@1", {"list": {"text": {}}}),
        schema("t/Pay@1", {"record": {"n": {"nat": {}}}}),
        schema("t/Paid@1", {"record": {"ref": {"text": {}}}}),
        schema("t/BuyerEvent@1", {"variant": {"Buy": {"ref": "t/Buy@1"}, **arms}}),
        effect(PAY, "t/Pay@1", "t/Paid@1", **more),
        workflow(
            BUYER, state="t/Log@1", event="t/BuyerEvent@1", key_schema="t/Key@1",
            effects=[PAY, TIMER],
        ),
    ]  # fmt: skip


def buy(envelope: Envelope) -> Envelope:
    """Asks for a payment when told to buy; logs every continuation as text."""
    log = state_of(envelope) or []
    event = event_of(envelope)
    value = event["$value"]
    if event["$tag"] == "Buy":
        return {
            "state": encode(log),
            "effects": [ask(PAY, {"n": value["n"]}, issuer_ref=f"buy {value['n']}")],
        }
    return {"state": encode([*log, f"{event['$tag']} {value['issuer_ref']} {value['status']}"])}


def buyers(
    module: Module = buy,
    arms: dict[str, Any] | None = None,
    *,
    effect_fields: dict[str, Any] | None = None,
    **manifest: Any,
) -> MemoryWorld:
    arms = ENVELOPE if arms is None else arms
    loaded = air(nodes(arms, **(effect_fields or {})), [route("t/Buy@1", BUYER, "key")], **manifest)
    return MemoryWorld(loaded, {BUYER: module})


def order(world: MemoryWorld, key: str, n: int = 1) -> None:
    answer = world.send("t/Buy@1", {"key": key, "n": n})
    assert isinstance(answer, Admitted), answer
    world.run()


PAID: Value = {"ref": "ok"}


def test_a_receipt_reaches_the_cell_that_asked_and_no_other() -> None:
    world = buyers()
    for key in ["a", "b"]:
        order(world, key)
    first, second = world.open()

    world.settle(second, PAID)
    world.run()

    assert world.state_of(BUYER, "a") == []
    assert world.state_of(BUYER, "b") == ["Receipt buy 1 ok"]
    assert world.open() == [first]
    assert [world.cell(BUYER, key).status for key in "ab"] == ["waiting", "running"]


def test_the_continuation_says_who_asked_for_what_and_who_answered() -> None:
    seen: list[Any] = []

    def module(envelope: Envelope) -> Envelope:
        seen.append(event_of(envelope))
        return buy(envelope)

    world = buyers(module)
    order(world, "a", 7)
    (intent,) = world.open()
    world.settle(intent, PAID)
    world.run()

    got = seen[-1]["$value"]
    (receipt,) = [each for each in world.records() if isinstance(each, Receipt)]
    assert got == {
        "origin_module_id": BUYER,
        "origin_workflow_hash": hash_text(world.effective.workflows[BUYER].hash),
        "origin_instance_key": encode("a"),
        "intent_id": hash_text(intent.intent),
        "effect": PAY,
        "effect_hash": hash_text(world.effective.effects[PAY].hash),
        "executor_module": None,
        "executor_module_hash": None,
        "executor_entrypoint": None,
        "params_hash": hash_text(content_hash(encode({"n": 7}))),
        "issuer_ref": "buy 7",
        "receipt_payload": encode(PAID),
        "status": "ok",
        "emitted_at_seq": intent.seq,
        "cost_cents": None,
        "signature": receipt.signature,
        "payload_schema": "t/Paid@1",
    }
    event = world.effective.workflows[BUYER].event
    event.from_record(encode(seen[-1]))


@pytest.mark.parametrize("status", ["error", "timeout", "canceled"])
def test_another_status_carries_an_error(status: str) -> None:
    seen: list[Any] = []

    def module(envelope: Envelope) -> Envelope:
        seen.append(event_of(envelope))
        return buy(envelope)

    world = buyers(module)
    order(world, "a")
    world.fail(world.open()[0], "declined", status=status)
    world.run()

    assert seen[-1]["$value"]["payload_schema"] == "sys/EffectError@1"
    assert world.state_of(BUYER, "a") == [f"Receipt buy 1 {status}"]


def test_a_payload_of_another_status_may_be_the_receipts_own_schema() -> None:
    world = buyers()
    order(world, "a")
    answer = world.settle(world.open()[0], PAID, status="error")
    assert isinstance(answer, Admitted)
    (receipt,) = [each for each in world.seal() if isinstance(each, Receipt)]
    assert receipt.payload_schema == "t/Paid@1"


def test_a_payload_that_does_not_fit_is_told_to_who_can_hear_it() -> None:
    world = buyers(arms={**ENVELOPE, **REJECTED})
    order(world, "a")
    (intent,) = world.open()

    assert isinstance(world.settle(intent, {"ref": 5}), Admitted)
    world.run()

    assert world.open() == []
    assert world.state_of(BUYER, "a") == ["Rejected buy 1 ok"]
    (receipt,) = [each for each in world.records() if isinstance(each, Receipt)]
    assert receipt.outcome == "rejected"
    assert receipt.problem is not None
    assert "$.ref: expected text" in receipt.problem


def test_a_payload_that_does_not_fit_fails_who_cannot_hear_it_and_abandons_the_rest() -> None:
    world = buyers()
    order(world, "a", 1)
    order(world, "a", 2)
    order(world, "b")
    first, second, other = world.open()

    assert isinstance(world.settle(first, {"ref": 5}), Admitted)
    world.run()

    cell = world.cell(BUYER, "a")
    assert cell.status == "failed"
    assert cell.fault is not None
    assert cell.fault.kind is FaultKind.RECEIPT_INVALID
    assert world.open() == [other]
    assert world.sealed[-1].abandoned == (second.intent,)
    late = world.settle(second, PAID)
    assert isinstance(late, Admitted)
    (receipt,) = [each for each in world.seal() if isinstance(each, Receipt)]
    assert receipt.outcome == "abandoned"
    assert isinstance(world.settle(second, PAID), Refusal), "once"
    assert world.cell(BUYER, "a").mailbox == type(cell.mailbox)()


OTHER = SigningKey(bytes([9]) * 32)

FORGED: list[tuple[str, dict[str, Any], Rule]] = [
    ("another intent", {"intent": content_hash(b"x")}, Rule.RECEIPT_INTENT_IS_UNKNOWN),
    ("another effect", {"effect": TIMER}, Rule.RECEIPT_EFFECT_DIFFERS),
    ("another status", {"status": "timeout"}, Rule.RECEIPT_SIGNATURE_IS_WRONG),
    ("an unknown status", {"status": "fine"}, Rule.RECEIPT_STATUS_IS_UNKNOWN),
    ("another payload", {"payload": encode({"ref": "x"})}, Rule.RECEIPT_SIGNATURE_IS_WRONG),
    ("another attempt", {"attempt": 2}, Rule.RECEIPT_SIGNATURE_IS_WRONG),
    ("no attempt", {"attempt": 0}, Rule.RECEIPT_ATTEMPT_IS_OLD),
    ("another time", {"finished_ns": 2**62}, Rule.RECEIPT_SIGNATURE_IS_WRONG),
    ("times that run back", {"finished_ns": 1}, Rule.RECEIPT_TIMES_ARE_INVALID),
    ("a cost", {"cost_cents": 5}, Rule.RECEIPT_SIGNATURE_IS_WRONG),
    ("another executor", {"executor": "shop"}, Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN),
    ("another key", {"key_id": bytes(OTHER.verify_key)}, Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN),
    ("no signature", {"signature": b""}, Rule.RECEIPT_SIGNATURE_IS_WRONG),
    ("a zero signature", {"signature": bytes(64)}, Rule.RECEIPT_SIGNATURE_IS_WRONG),
    ("too large", {"payload": bytes(2**20 + 1)}, Rule.RECEIPT_IS_TOO_LARGE),
]


@pytest.mark.parametrize(
    ("fields", "rule"), [pytest.param(*rest, id=name) for name, *rest in FORGED]
)
def test_a_forged_receipt_is_refused_and_changes_nothing(
    fields: dict[str, Any], rule: Rule
) -> None:
    world = buyers()
    order(world, "a")
    (intent,) = world.open()

    answer = world.settle(intent, PAID, forge=fields)

    assert isinstance(answer, Refusal)
    assert answer.rule is rule
    assert world.open() == [intent]
    assert world.seal() == []
    assert isinstance(world.settle(intent, PAID), Admitted), "the true one still counts"


def test_one_flipped_bit_in_a_signature_is_refused() -> None:
    world = buyers()
    order(world, "a")
    (intent,) = world.open()
    good = world.receipt(intent, PAID).signature
    for bit in range(512):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        answer = world.settle(intent, PAID, forge={"signature": bytes(bad)})
        assert isinstance(answer, Refusal)
        assert answer.rule is Rule.RECEIPT_SIGNATURE_IS_WRONG


def test_a_receipt_of_another_world_is_refused() -> None:
    ours, theirs = buyers(), buyers()
    order(ours, "a")
    order(theirs, "a")
    (intent,) = ours.open()
    theirs.state.tip = type(theirs.state.tip)(world=content_hash(b"another world"))
    foreign = theirs.receipt(intent, PAID)

    answer = ours.kernel.admit(foreign, ours.stamp())

    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.RECEIPT_SIGNATURE_IS_WRONG


def test_a_second_receipt_finds_nothing_open() -> None:
    world = buyers()
    order(world, "a")
    (intent,) = world.open()
    world.settle(intent, PAID)

    answer = world.settle(intent, PAID)

    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.RECEIPT_INTENT_IS_UNKNOWN


SHOP = SigningKey(bytes([7]) * 32)


def key_text(key: SigningKey) -> str:
    return "ed25519:" + bytes(key.verify_key).hex()


def signed_by(world: MemoryWorld, key: SigningKey, name: str) -> Answer:
    (intent, *_) = world.open()
    who = {"executor": name, "key_id": bytes(key.verify_key)}
    message = world.receipt(intent, PAID, forge=who).message(world.state.world)
    return world.settle(intent, PAID, forge={**who, "signature": key.sign(message).signature})


def test_only_a_listed_executor_signs_for_its_effects() -> None:
    world = buyers(
        executors=[
            {"name": "test", "public_key": key_text(SHOP), "effects": [PAY]},
            {"name": "node", "public_key": key_text(WORLD_KEY), "effects": [TIMER]},
            {"name": "idle", "public_key": key_text(OTHER), "effects": []},
        ]
    )
    order(world, "a")

    for key, name in [(OTHER, "idle"), (OTHER, "test"), (SHOP, "idle"), (WORLD_KEY, "node")]:
        answer = signed_by(world, key, name)
        assert isinstance(answer, Refusal)
        assert answer.rule is Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN
    assert isinstance(signed_by(world, SHOP, "test"), Admitted)


def timed(envelope: Envelope) -> Envelope:
    log = state_of(envelope) or []
    event = event_of(envelope)
    if event["$tag"] == "Buy":
        due = {"deliver_at_ns": event["$value"]["n"], "key": None}
        return {"state": encode(log), "effects": [ask(TIMER, due)]}
    return {"state": encode([*log, event["$tag"]])}


def test_a_timer_receipt_before_its_deadline_is_refused() -> None:
    world = buyers(timed)
    due = world.now_ns + 10**9
    order(world, "a", due)
    (intent,) = world.open()
    fired: Value = {"delivered_at_ns": due, "key": None}

    early = world.settle(intent, fired)
    assert isinstance(early, Refusal)
    assert early.rule is Rule.TIMER_IS_NOT_DUE
    world.now_ns = due

    assert isinstance(world.settle(intent, fired), Admitted)
    world.run()
    assert world.state_of(BUYER, "a") == ["Receipt"]


def test_a_typed_arm_of_air_2_gets_the_timer_when_there_is_no_envelope_arm() -> None:
    seen: list[Any] = []

    def module(envelope: Envelope) -> Envelope:
        seen.append(event_of(envelope))
        return timed(envelope)

    loaded = air(
        [
            *nodes({"Fired": {"ref": "sys/TimerFired@1"}})[:-1],
            workflow(
                BUYER, state="t/Log@1", event="t/BuyerEvent@1", key_schema="t/Key@1",
                effects=[TIMER],
            ),
        ],
        [route("t/Buy@1", BUYER, "key")],
    )  # fmt: skip
    world = MemoryWorld(loaded, {BUYER: module})
    due = world.now_ns
    order(world, "a", due)
    world.settle(world.open()[0], {"delivered_at_ns": due + 5, "key": None})
    world.run()

    got = seen[-1]
    assert got["$tag"] == "Fired"
    assert got["$value"]["requested"] == {"deliver_at_ns": due, "key": None}
    assert got["$value"]["receipt"] == {"delivered_at_ns": due + 5, "key": None}
    world.effective.workflows[BUYER].event.from_record(encode(got))


def keyed(key: str | bytes) -> Module:
    def module(envelope: Envelope) -> Envelope:
        event = event_of(envelope)
        if event["$tag"] != "Buy":
            return {"state": encode([])}
        return {
            "state": encode([]),
            "effects": [ask(PAY, {"n": event["$value"]["n"]}, idempotency_key=key)],
        }

    return module


def test_a_requested_key_is_one_thing_outside_and_two_intents_inside() -> None:
    world = buyers(keyed("charge"))
    order(world, "a")
    order(world, "a")
    order(world, "b")

    first, second, other = world.open()
    assert first.intent != second.intent
    assert first.idempotency_key == second.idempotency_key
    assert first.idempotency_key != other.idempotency_key, "the cell is part of it"


def test_a_requested_key_may_be_shared_by_the_whole_world() -> None:
    world = buyers(keyed("charge"), effect_fields={"idempotency_scope": "world"})
    order(world, "a")
    order(world, "b")

    first, other = world.open()
    assert first.idempotency_key == other.idempotency_key


@pytest.mark.parametrize("scope", ["cell", "world"])
def test_the_same_key_with_other_params_faults(scope: str) -> None:
    world = buyers(keyed(b"charge"), effect_fields={"idempotency_scope": scope})
    order(world, "a", 1)
    order(world, "a", 2)

    last = world.steps()[-1]
    assert isinstance(last, Faulted)
    assert last.fault.kind is FaultKind.IDEMPOTENCY_CONFLICT
    assert len(world.open()) == 1


def test_without_a_requested_key_the_intent_is_the_key() -> None:
    world = buyers()
    order(world, "a")
    (intent,) = world.open()
    assert intent.idempotency_key == hash_text(intent.intent)


def test_an_instance_may_not_open_more_than_its_share() -> None:
    world = buyers(limits={"world": {"instance_intents": 2}})
    for n in range(3):
        order(world, "a", n)

    last = world.steps()[-1]
    assert isinstance(last, Faulted)
    assert last.fault.kind is FaultKind.OPEN_WORK_EXCEEDED
    assert len(world.open()) == 2


def test_a_world_that_is_full_of_open_work_says_so_at_ingress() -> None:
    world = buyers(limits={"world": {"open_intents": 1}})
    order(world, "a")

    answer = world.send("t/Buy@1", {"key": "b", "n": 1})
    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.WORLD_IS_BUSY

    world.settle(world.open()[0], PAID)
    assert isinstance(world.send("t/Buy@1", {"key": "b", "n": 1}), Admitted)


def test_a_receipt_for_a_failed_instance_is_kept_for_it() -> None:
    def module(envelope: Envelope) -> Any:
        if event_of(envelope)["$value"].get("n") == 0:
            return b"\xff"
        return buy(envelope)

    world = buyers(module)
    order(world, "a", 1)
    order(world, "a", 0)
    assert world.cell(BUYER, "a").status == "failed"

    assert isinstance(world.settle(world.open()[0], PAID), Admitted)
    world.run()

    assert len(world.cell(BUYER, "a").mailbox) == 2
    assert world.open() == []


def executors(key: SigningKey, **more: list[str]) -> list[dict[str, Any]]:
    node = {"name": "node", "public_key": key_text(WORLD_KEY), "effects": [TIMER]}
    return [{"name": "test", "public_key": key_text(key), "effects": [PAY], **more}, node]


@pytest.mark.parametrize(
    ("more", "signer", "rule"),
    [
        ({"retired_keys": [key_text(SHOP)]}, SHOP, None),
        ({}, SHOP, None),
        ({"revoked_keys": [key_text(SHOP)]}, SHOP, Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN),
        ({"retired_keys": [key_text(SHOP)]}, OTHER, Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN),
    ],
)
def test_a_receipt_is_held_against_the_executors_of_when_it_was_asked_for(
    more: dict[str, list[str]], signer: SigningKey, rule: Rule | None
) -> None:
    """K-51: only abandoned intents can outlive a manifest; a revoked key proves nothing."""

    def ask_then_leave(envelope: Envelope) -> Envelope:
        return buy(envelope) if envelope["state"] is None else {"state": None}

    world = buyers(ask_then_leave, executors=executors(SHOP))
    order(world, "a")
    (intent,) = world.open()
    order(world, "a")
    later = buyers(executors=executors(OTHER, **more)).loaded
    assert isinstance(world.apply(later), Admitted)
    world.seal()

    who = {"executor": "test", "key_id": bytes(signer.verify_key)}
    message = world.receipt(intent, PAID, forge=who).message(world.state.world)
    answer = world.settle(intent, PAID, forge={**who, "signature": signer.sign(message).signature})

    if rule is None:
        assert isinstance(answer, Admitted)
        (receipt,) = world.seal()
        assert isinstance(receipt, Receipt)
        assert receipt.outcome == "abandoned"
    else:
        assert isinstance(answer, Refusal)
        assert answer.rule is rule


def test_an_instance_that_failed_keeps_its_first_fault() -> None:
    def module(envelope: Envelope) -> Any:
        return b"\xff" if event_of(envelope)["$value"].get("n") == 0 else buy(envelope)

    world = buyers(module)
    for n in (1, 2, 0):
        order(world, "a", n)
    first, _ = world.open()
    before = world.cell(BUYER, "a").fault_seq

    assert isinstance(world.settle(first, {"ref": 5}), Admitted)

    cell = world.cell(BUYER, "a")
    assert cell.fault is not None
    assert (cell.fault.kind, cell.fault_seq) == (FaultKind.OUTPUT_MALFORMED, before)
    assert world.open() == [], "the rest is abandoned all the same"


def test_a_status_without_an_arm_is_told_apart_from_a_payload_that_does_not_fit() -> None:
    """K-55."""
    seen: list[Any] = []

    def module(envelope: Envelope) -> Envelope:
        seen.append(event_of(envelope)["$value"])
        return timed(envelope)

    arms = {"Fired": {"ref": "sys/TimerFired@1"}, **REJECTED}
    loaded = air(
        [
            *nodes(arms)[:-1],
            workflow(
                BUYER, state="t/Log@1", event="t/BuyerEvent@1", key_schema="t/Key@1",
                effects=[TIMER],
            ),
        ],
        [route("t/Buy@1", BUYER, "key")],
    )  # fmt: skip
    world = MemoryWorld(loaded, {BUYER: module})
    payloads: list[Value] = [{"code": "x", "message": "y", "retryable": True}, "neither"]
    for payload in payloads:
        order(world, "a", world.now_ns)
        world.settle(world.open()[0], payload, status="error")
        world.run()

    rejected = [value for value in seen if "error_code" in value]
    assert [value["error_code"] for value in rejected] == [
        "receipt_status_has_no_arm",
        "receipt_payload_invalid",
    ]
    assert rejected[0]["error_message"] == f"{BUYER} has no arm for a receipt with status error"
    assert rejected[1]["error_message"].startswith("sys/EffectError@1: $: expected record")
    assert "; sys/TimerSetReceipt@1: $: expected record" in rejected[1]["error_message"]


def test_a_timer_may_end_early_in_another_way_than_by_firing() -> None:
    """K-52."""
    world = buyers(timed)
    order(world, "a", world.now_ns + 10**9)
    assert isinstance(world.fail(world.open()[0], "gone", status="canceled"), Admitted)


def test_a_requested_key_is_forgotten_when_others_were_asked_for_last() -> None:
    """K-22: asking again counts as asking."""

    def module(envelope: Envelope) -> Envelope:
        n = event_of(envelope)["$value"]["n"]
        return {"state": encode([]), "effects": [ask(PAY, {"n": n}, idempotency_key=str(n % 10))]}

    def faults(limits: dict[str, Any], *asked: int) -> int:
        world = buyers(module, limits=limits)
        for n in asked:
            order(world, "a", n)
        assert len(world.cell(BUYER, "a").keys) <= 2
        return sum(isinstance(each, Faulted) for each in world.steps())

    for limits in (
        {"world": {"instance_keys": 2}},
        {"world": {"instance_keys": 1}, "step": {"keys": 2}},
        {"world": {"instance_keys": 9}, "step": {"keys": 2}},
    ):
        assert faults(limits, 1, 2, 11) == 1, "1 is remembered"
        assert faults(limits, 1, 2, 3, 11) == 0, "1 was forgotten for 3"
        assert faults(limits, 1, 2, 1, 3, 11) == 1, "2 was"


def test_an_abandoned_intent_past_the_bound_is_unknown() -> None:
    """K-56."""

    def module(envelope: Envelope) -> Envelope:
        n = event_of(envelope)["$value"]["n"]
        return {"state": None} if n == 0 else {**buy(envelope), "effects": [ask(PAY, {"n": 1})] * n}

    world = buyers(module, limits={"world": {"abandoned_intents": 2}})
    order(world, "a", 3)
    first, second, third = world.open()
    order(world, "a", 0)

    answer = world.settle(first, PAID)
    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.RECEIPT_INTENT_IS_UNKNOWN
    for late in (third, second):
        assert isinstance(world.settle(late, PAID), Admitted)
    assert world.state.abandoned == {}


def test_a_receipt_that_finds_the_mailbox_full_fails_its_instance() -> None:
    world = buyers(limits={"world": {"mailbox": 2}})
    order(world, "a", 1)
    for n in (2, 3):
        world.send("t/Buy@1", {"key": "a", "n": n})

    assert isinstance(world.settle(world.open()[0], PAID), Admitted)
    world.run()

    (receipt,) = [each for each in world.records() if isinstance(each, Receipt)]
    assert receipt.outcome == "overloaded"
    cell = world.cell(BUYER, "a")
    assert (cell.status, len(cell.mailbox), cell.mail_uncounted) == ("failed", 2, 1)
    assert world.open() == []


def test_one_step_may_ask_twice_under_one_key_and_only_for_the_same() -> None:
    """K-22: also before anything is remembered."""

    def module(envelope: Envelope) -> Envelope:
        n = event_of(envelope)["$value"]["n"]
        asked = [ask(PAY, {"n": each}, idempotency_key="k") for each in (5, n)]
        return {"state": encode([]), "effects": asked}

    world = buyers(module)
    order(world, "a", 5)
    assert len({intent.idempotency_key for intent in world.open()}) == 1
    assert len(world.open()) == 2

    order(world, "b", 6)
    fault = world.steps()[-1]
    assert isinstance(fault, Faulted)
    assert fault.fault.kind is FaultKind.IDEMPOTENCY_CONFLICT
