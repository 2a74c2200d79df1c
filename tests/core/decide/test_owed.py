"""Effects that the core answers itself (spec/kernel.md, K-80 to K-86)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.faults import FaultKind
from aos.core.journal.frame import Tip
from aos.core.journal.records import Faulted, KernelReceipt, Step
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.values.cbor import Value, decode_ingress, encode
from aos.values.digests import content_hash, hash_text
from tests.core.decide.test_isolation import same
from tests.core.desk import (
    DESK,
    EFFECT_CANCEL,
    PAY,
    TIMER,
    TIMER_CANCEL,
    cancel,
    cell_id,
    desk,
    desks,
    log_of,
    pay,
    tell,
    timer,
    wish,
)
from tests.memory_world import Envelope, MemoryWorld, ask, cbor, event_of, state_of


def kernel_receipts(world: MemoryWorld) -> list[KernelReceipt]:
    return [each for each in world.records() if isinstance(each, KernelReceipt)]


def folded(world: MemoryWorld) -> State:
    state = State(tip=Tip(world=world.state.world))
    for frame in world.frames:
        fold_frame(state, frame, world.read)
    return state


def test_a_timer_is_canceled_by_its_reference_and_both_receipts_arrive() -> None:
    """K-82, K-83."""
    world = desks()
    tell(world, "a", timer(world, "t"))
    (set_,) = world.open()

    tell(world, "a", cancel(ref="t", of=TIMER_CANCEL))

    assert world.open() == []
    assert log_of(world, "a") == [
        "told ",
        "told ",
        f"{TIMER} t canceled canceled",
        f"{TIMER_CANCEL} cancel ok",
    ]
    ended, answered = kernel_receipts(world)
    assert (ended.intent, ended.status, ended.by) == (set_.intent, "canceled", answered.intent)
    assert (answered.status, answered.by) == ("ok", None)
    same(folded(world), world.state)


def test_an_effect_is_canceled_by_its_intent() -> None:
    world = desks()
    tell(world, "a", pay("p"))
    (paying,) = world.open()

    tell(world, "a", cancel(intent=hash_text(paying.intent)))

    assert log_of(world, "a")[-2:] == [f"{PAY} p canceled canceled", f"{EFFECT_CANCEL} cancel ok"]
    assert isinstance(world.settle(paying, {"ref": "late"}), Refusal)


def test_a_reference_means_every_open_intent_of_the_cell_that_carries_it() -> None:
    world = desks()
    tell(world, "a", pay("p", 1), pay("q", 2), pay("p", 3), timer(world, "p"))
    tell(world, "b", pay("p", 4))

    tell(world, "a", cancel(ref="p"))

    assert [(each.cell, each.issuer_ref) for each in world.open()] == [
        (cell_id("a"), "q"),
        (cell_id("b"), "p"),
    ]
    tell(world, "a", cancel(ref="q", of=TIMER_CANCEL))
    assert log_of(world, "a")[-1] == f"{TIMER_CANCEL} cancel error already_settled"


@pytest.mark.parametrize("first", ["fires", "cancels"])
def test_between_fire_and_cancel_the_order_of_the_journal_decides(first: str) -> None:
    """K-83."""
    world = desks()
    tell(world, "a", timer(world, "t"))
    (set_,) = world.open()
    world.now_ns += 2 * 10**9
    fire: Value = {"delivered_at_ns": world.now_ns, "key": None}

    if first == "fires":
        assert isinstance(world.settle(set_, fire), Admitted)
        tell(world, "a", cancel(ref="t", of=TIMER_CANCEL))
        expected = [f"{TIMER} t ok", "told ", f"{TIMER_CANCEL} cancel error already_settled"]
    else:
        tell(world, "a", cancel(ref="t", of=TIMER_CANCEL))
        refused = world.settle(set_, fire)
        assert isinstance(refused, Refusal)
        assert refused.rule is Rule.RECEIPT_INTENT_IS_UNKNOWN
        expected = ["told ", f"{TIMER} t canceled canceled", f"{TIMER_CANCEL} cancel ok"]

    assert log_of(world, "a")[1:] == expected


def test_another_cells_intent_cannot_be_canceled() -> None:
    """K-82: by its hash either."""
    world = desks()
    tell(world, "b", pay("p"))
    (paying,) = world.open()

    tell(world, "a", cancel(intent=hash_text(paying.intent)), cancel(ref="p"))

    assert world.open() == [paying]
    assert log_of(world, "a")[-2:] == [f"{EFFECT_CANCEL} cancel error already_settled"] * 2


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"intent": None, "issuer_ref": None}, "params_invalid"),
        ({"intent": hash_text(content_hash(b"x")), "issuer_ref": "p"}, "params_invalid"),
        ({"intent": "sha256:" + "0" * 64, "issuer_ref": None}, "params_invalid"),
        ({"intent": hash_text(content_hash(b"x")), "issuer_ref": None}, "already_settled"),
    ],
)
def test_a_cancel_that_names_nothing_is_told_so(params: Value, code: str) -> None:
    world = desks()
    tell(world, "a", pay("p"))

    tell(world, "a", wish(EFFECT_CANCEL, params, "c"))

    assert log_of(world, "a")[-1] == f"{EFFECT_CANCEL} c error {code}"
    assert len(world.open()) == 1


def test_timer_cancel_takes_no_other_effect_and_kernel_effects_cannot_be_canceled() -> None:
    world = desks()
    tell(world, "a", pay("p"))
    (paying,) = world.open()
    tell(world, "a", cancel(intent=hash_text(paying.intent), of=TIMER_CANCEL))
    assert log_of(world, "a")[-1] == f"{TIMER_CANCEL} cancel error not_a_timer"

    # A step cannot know the hash of its own intents; by reference they are passed over.
    tell(world, "a", cancel(ref="cancel"), wish("sys/introspect.journal_head@1", {}, "cancel"))

    assert log_of(world, "a")[-2:] == [
        f"{EFFECT_CANCEL} cancel error already_settled",
        "sys/introspect.journal_head@1 cancel ok",
    ]


def test_no_step_runs_while_the_core_owes_a_receipt() -> None:
    """K-80: an input may come in between, and the receipts stay in order."""
    world = desks()
    world.send("t/Tell@1", {"key": "b", "asks": [], "note": "waits"})
    tell(world, "a", pay("p"))
    world.send("t/Tell@1", {"key": "a", "asks": [cancel(ref="p")], "note": ""})
    world.send("t/Tell@1", {"key": "b", "asks": [], "note": "waits"})
    assert isinstance(world.step(), Step)
    assert [each.intent for each in world.state.owed] == [world.open()[-1].intent]

    assert isinstance(world.send("t/Tell@1", {"key": "c", "asks": [], "note": ""}), Admitted)
    kinds = [type(world.step()).__name__ for _ in range(3)]

    assert kinds == ["KernelReceipt", "KernelReceipt", "Step"]


def test_a_receipt_that_comes_before_the_cancel_is_decided_wins() -> None:
    world = desks()
    tell(world, "a", pay("p"))
    (paying,) = world.open()
    world.send("t/Tell@1", {"key": "a", "asks": [cancel(ref="p")], "note": ""})
    world.step()

    assert isinstance(world.settle(paying, {"ref": "x"}), Admitted)
    world.run()

    assert log_of(world, "a")[-2:] == [
        f"{PAY} p ok",
        f"{EFFECT_CANCEL} cancel error already_settled",
    ]


def test_only_the_core_may_settle_its_own_effects() -> None:
    """K-51, K-80: not even the world's own key."""
    world = desks()
    tell(world, "a", pay("p"))
    world.send("t/Tell@1", {"key": "a", "asks": [cancel(ref="p")], "note": ""})
    world.step()
    canceling = world.open()[-1]

    refused = world.settle(canceling, {"cancelled": True})

    assert isinstance(refused, Refusal)
    assert refused.rule is Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN


def test_effects_that_the_core_answers_are_never_published() -> None:
    world = desks()
    tell(world, "a", pay("p"), wish("sys/introspect.journal_head@1", {}))
    published = [each.effect.name for frame in world.sealed for each in frame.to_publish]
    assert published == [PAY]
    tell(world, "a", cancel(ref="p"))
    (intent,) = world.sealed[-2].to_publish
    assert world.sealed[-1].canceled == (intent.intent,)


def test_a_loop_of_questions_ends_at_the_cascade() -> None:
    """K-81: an answer belongs to the input that caused the question."""

    def curious(envelope: Envelope) -> Envelope:
        return {
            "state": envelope["state"] or cbor([]),
            "effects": [ask("sys/introspect.journal_head@1", {})],
        }

    world = desks(curious, limits={"world": {"cascade_steps": 10}})
    tell(world, "a")

    assert len([each for each in world.records() if isinstance(each, Step)]) == 10
    faulted = [each for each in world.records() if isinstance(each, Faulted)]
    assert [each.fault.kind for each in faulted] == [FaultKind.CASCADE_TOO_LONG]


def test_a_full_mailbox_overloads_as_with_any_receipt() -> None:
    world = desks(limits={"world": {"mailbox": 2}})
    tell(world, "a", pay("p"))
    world.send("t/Tell@1", {"key": "a", "asks": [cancel(ref="p")], "note": ""})
    world.step()
    for _ in range(2):
        world.send("t/Tell@1", {"key": "a", "asks": [], "note": ""})
    world.run()

    outcomes = [each.outcome for each in kernel_receipts(world)]
    assert outcomes == ["overloaded", "delivered"]
    fault = world.cell(DESK, "a").fault
    assert fault is not None
    assert fault.kind is FaultKind.OVERLOADED


def test_a_cell_that_is_deleted_gets_no_answer() -> None:
    """K-46: answers that the core owes it are abandoned with all its other effects."""

    def module(envelope: Envelope) -> Envelope:
        return {"state": None} if state_of(envelope) else desk(envelope)

    world = desks(module)
    tell(world, "a", pay("p"))
    tell(world, "a", note="gone")
    assert list(world.state.abandoned) != []
    assert not world.state.owed


# Introspect


def answers(world: MemoryWorld, name: str, params: Value) -> Any:
    """Return the answer that the cell ``q`` gets to its question."""
    seen: list[Any] = []

    def module(envelope: Envelope) -> Envelope:
        event = event_of(envelope)
        if event["$tag"] == "Receipt":
            payload = decode_ingress(event["$value"]["receipt_payload"])
            seen.append((event["$value"]["status"], payload))
        return desk(envelope)

    (hash_,) = world.runner.modules
    world.runner.modules = {hash_: module}
    tell(world, "q", wish(f"sys/introspect.{name}@1", params))
    (found,) = seen
    return found


def test_a_workflow_can_ask_what_is_in_force_and_where_the_journal_is() -> None:
    """K-85."""
    world = desks()
    status, head = answers(world, "journal_head", {})
    (record,) = kernel_receipts(world)
    assert (status, head["meta"]["journal_height"]) == ("ok", record.seq)
    assert head["meta"]["manifest_hash"] == hash_text(world.effective.manifest_hash)

    status, found = answers(desks(), "manifest", {"consistency": "head"})
    assert (status, found["manifest"]) == ("ok", world.effective.document)


def test_a_workflow_can_read_the_state_of_a_cell() -> None:
    world = desks()
    tell(world, "a", note="x")
    params: Value = {"workflow": DESK, "key": encode("a"), "consistency": None}
    status, found = answers(world, "workflow_state", params)
    assert (status, decode_ingress(found["state"])) == ("ok", ["told x"])

    _, nothing = answers(desks(), "workflow_state", params)
    assert nothing["state"] is None


@pytest.mark.parametrize(
    ("name", "params", "code"),
    [
        ("manifest", {"consistency": "exact:3"}, "consistency_unsupported"),
        (
            "workflow_state",
            {"workflow": "t/no@1", "key": None, "consistency": None},
            "workflow_unknown",
        ),
        (
            "list_cells",
            {"workflow": "t/no@1", "after": None, "limit": None, "consistency": None},
            "workflow_unknown",
        ),
    ],
)
def test_a_question_that_cannot_be_answered_is_an_error(
    name: str, params: Value, code: str
) -> None:
    status, payload = answers(desks(), name, params)
    assert (status, payload["code"]) == ("error", code)


def test_an_answer_that_is_too_large_is_an_error() -> None:
    world = desks(limits={"world": {"event_bytes": 4096}})
    status, payload = answers(world, "manifest", {"consistency": None})
    assert (status, payload["code"]) == ("error", "too_large")


def test_cells_are_listed_in_pages_by_the_hash_of_their_key() -> None:
    """K-86."""
    keys = [f"k{i}" for i in range(7)]
    listed: list[Any] = []
    after: bytes | None = None
    for _ in range(9):
        world = desks()
        for key in keys:
            tell(world, key, note=key)
        params: Value = {"workflow": DESK, "after": after, "limit": 3, "consistency": None}
        status, page = answers(world, "list_cells", params)
        assert status == "ok"
        listed += page["cells"]
        after = page["next"]
        if after is None:
            break

    # The cell that asks has a state by then, too.
    expected = sorted([encode(key) for key in [*keys, "q"]], key=content_hash)
    assert [each["key"] for each in listed] == expected
    first = next(each for each in listed if each["key"] == encode("k0"))
    held = encode(["told k0"])
    assert (first["state_hash"], first["size"]) == (hash_text(content_hash(held)), len(held))
