"""Hundreds of concurrent instances: every receipt reaches its own, in whatever order they come."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.faults import FaultKind
from aos.core.journal.frame import Tip
from aos.core.journal.records import Faulted, Ref, Step
from aos.core.state.cell import EventMail, Mail, OpenIntent, ReceiptMail
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.values.cbor import Value, decode_record, encode
from tests.core.decide.test_effects import BUYER, PAY, TIMER, buyers, nodes, order
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    air,
    ask,
    event_of,
    route,
    state_of,
    workflow,
)
from tests.run_seed import examples


def shopper(envelope: Envelope) -> Envelope:
    """Asks for ``n`` payments, each named after its own key; logs the name in each receipt."""
    log = state_of(envelope) or []
    event = event_of(envelope)
    value = event["$value"]
    if event["$tag"] == "Buy":
        asked = [ask(PAY, {"n": i}, issuer_ref=f"{value['key']}/{i}") for i in range(value["n"])]
        return {"state": encode(log), "effects": asked}
    paid = decode_record(value["receipt_payload"])
    assert isinstance(paid, dict)
    return {"state": encode([*log, str(value["issuer_ref"]) + "=" + str(paid["ref"])])}


def name_of(intent: OpenIntent) -> str:
    return str(intent.issuer_ref)


def settle(world: MemoryWorld, intent: OpenIntent) -> None:
    answer = world.settle(intent, {"ref": name_of(intent)})
    assert isinstance(answer, Admitted)


def same(one: State, other: State) -> None:
    """Two states are equal in everything that a later record can depend on."""
    for name in State.__dataclass_fields__:
        if name in ("limits", "cells", "manifest", "intents", "abandoned"):
            continue
        assert getattr(one, name) == getattr(other, name), name
    assert one.effective.hash == other.effective.hash
    assert [shown(each) for each in one.intents.values()] == [
        shown(each) for each in other.intents.values()
    ]
    assert [shown(each) for each in one.abandoned.values()] == [
        shown(each) for each in other.abandoned.values()
    ]
    assert list(one.cells) == list(other.cells)
    for id, cell in one.cells.items():
        twin = other.cells[id]
        for name in type(cell).__dataclass_fields__:
            if name not in ("mailbox", "stepped_under"):
                assert getattr(cell, name) == getattr(twin, name), (id, name)
        assert [waiting(mail) for mail in cell.mailbox] == [waiting(mail) for mail in twin.mailbox]


def shown(intent: OpenIntent) -> list[object]:
    """An intent without the parts from its manifest, which are other objects after a restart."""
    lent = ("effect", "executors")
    fields = [getattr(intent, name) for name in OpenIntent._fields if name not in lent]
    return [*fields, intent.effect.name, intent.effect.hash, intent.executors]


def waiting(mail: Mail) -> list[object]:
    root = (mail.root.seq, mail.root.stamp, mail.root.steps)
    if isinstance(mail, EventMail):
        return [mail.entry, root, mail.depth, mail.schema, mail.value]
    held = mail.receipt if isinstance(mail, ReceiptMail) else mail.frame
    return [mail.entry, root, mail.depth, shown(mail.intent), held]


def folded(world: MemoryWorld) -> State:
    """The state that a restart would find."""
    state = State(tip=Tip(world=world.state.world))
    for frame in world.frames:
        fold_frame(state, frame, world.read)
    return state


def test_three_hundred_instances_get_their_own_receipts_in_reverse_order() -> None:
    world = buyers(shopper)
    keys = [f"order-{i}" for i in range(300)]
    for key in keys:
        world.send("t/Buy@1", {"key": key, "n": 2})
    world.run()

    for intent in reversed(world.open()):
        settle(world, intent)
    world.run()

    for key in keys:
        assert world.state_of(BUYER, key) == [f"{key}/1={key}/1", f"{key}/0={key}/0"]
        assert world.cell(BUYER, key).status == "running"


@settings(max_examples=examples(10))
@given(st.data())
def test_any_order_of_sends_steps_receipts_and_seals_delivers_each_to_its_own(
    data: st.DataObject,
) -> None:
    world = buyers(shopper)
    open_names: list[OpenIntent] = []
    expected: dict[str, list[str]] = {}
    for _ in range(data.draw(st.integers(5, 60))):
        match data.draw(st.sampled_from(["send", "step", "settle", "seal", "again"])):
            case "send":
                key = data.draw(st.sampled_from("abcdef"))
                expected.setdefault(key, [])
                world.send("t/Buy@1", {"key": key, "n": data.draw(st.integers(0, 3))})
            case "step":
                done = world.step()
                if isinstance(done, Step):
                    open_names += [world.state.intents[each.intent] for each in done.intents]
            case "settle" if open_names:
                index = data.draw(st.integers(0, len(open_names) - 1))
                intent = open_names.pop(index)
                settle(world, intent)
                key = name_of(intent).split("/")[0]
                expected[key].append(f"{name_of(intent)}={name_of(intent)}")
            case "seal":
                world.seal()
            case "again" if open_names:
                intent = data.draw(st.sampled_from(open_names))
                forged = world.settle(intent, {"ref": "x"}, forge={"signature": bytes(64)})
                assert not isinstance(forged, Admitted)
            case _:
                pass
    world.run()

    for key, log in expected.items():
        assert world.state_of(BUYER, key) == log
    same(world.state, folded(world))


def test_long_values_are_blobs_everywhere_and_found_again_after_a_restart() -> None:
    """J-15: state, event, params, payload, annotation; compared by hash, read for the guest."""
    seen: list[Any] = []
    long = "x" * 3000

    def module(envelope: Envelope) -> Envelope:
        event = event_of(envelope)
        seen.append(event)
        assert state_of(envelope) in (None, [long])
        if event["$tag"] == "Fired":
            return {"state": encode([long])}
        due = {"deliver_at_ns": event["$value"]["n"], "key": long}
        return {"state": encode([long]), "effects": [ask(TIMER, due, idempotency_key="k")]}

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
    due = world.now_ns + 10**6
    order(world, "a", due)
    (intent,) = world.open()
    assert isinstance(intent.params, Ref)
    fired: Value = {"delivered_at_ns": due, "key": long}

    def restart() -> None:
        world.seal()
        state = folded(world)
        same(world.state, state)
        world.restart()

    restart()
    early = world.settle(intent, fired)
    assert isinstance(early, Refusal)
    assert early.rule is Rule.TIMER_IS_NOT_DUE
    order(world, "a", due)
    world.now_ns = due
    assert isinstance(world.settle(intent, fired), Admitted)
    restart()
    world.run()
    assert seen[-1]["$value"]["requested"] == {"deliver_at_ns": due, "key": long}
    assert seen[-1]["$value"]["receipt"] == fired

    order(world, "a", due + 1)
    fault = world.steps()[-1]
    assert isinstance(fault, Faulted)
    assert fault.fault.kind is FaultKind.IDEMPOTENCY_CONFLICT
