"""Follow a journal under another manifest (spec/shadow.md, SH-9 to SH-43)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from nacl.signing import SigningKey

import aos.prove.whatif.shadow as shadow_module
import aos.prove.whatif.shadow_report as reports
from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import RETRY
from aos.core.journal.records import Ref, Step
from aos.errors import Erased, Refused
from aos.manifest.keys import key_text
from aos.manifest.load import Loaded
from aos.manifest.names import TIMER
from aos.prove.verify.journal_source import source_of_store
from aos.read.views.proposal_view import read_report
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, hash_text
from tests.memory_world import (
    OPERATOR_KEY,
    START_NS,
    Envelope,
    MemoryWorld,
    air,
    ask,
    effect,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)
from tests.prove.journals import (
    CHARGE,
    LEDGER,
    MODULES,
    ORDER,
    PLACED,
    SECOND,
    Shop,
    busy_shop,
    ledger,
    order,
    shop,
    shop_with,
    store_of,
)
from tests.prove.whatif.naive_world import Rule, versioned
from tests.prove.whatif.shadows import shadow_bytes, shadow_of_world, shadowed


def ruled(rule: Rule) -> MemoryWorld:
    world = MemoryWorld(versioned(1), rule.modules())
    world.blobs.update(world.loaded.modules)
    return world


def place(world: MemoryWorld, name: str, amount: int = 5) -> None:
    world.send(PLACED, {"order_id": name, "amount": amount})
    world.run()


def declined_once() -> MemoryWorld:
    """An order whose first charge was declined; it waited two seconds, and was then charged."""
    world = ruled(Rule())
    place(world, "o-1")
    world.fail(world.open()[0], "declined")
    world.run()
    world.now_ns += 2 * SECOND
    world.settle(world.open()[0], {"delivered_at_ns": world.now_ns, "key": None})
    world.run()
    world.settle(world.open()[0], {"id": "ch-1"})
    world.run()
    return world


TEXT: dict[str, object] = {"text": {}}
INTEGER: dict[str, object] = {"int": {}}
ORDER_STATE = {"phase": TEXT, "tries": INTEGER, "amount": INTEGER, "note": TEXT}
Fields = dict[str, dict[str, object]]


def orders_alone(
    *,
    placed: Fields | None = None,
    charged: Fields | None = None,
    state: Fields | None = None,
    ingress: list[str] | None = None,
) -> Loaded:
    """The shop without its ledger, with more fields in two of its schemas, another state, or a list
    of the events that are accepted from outside."""
    receipt = {"ref": "sys/EffectReceiptEnvelope@1"}
    nodes = [
        schema(PLACED, {"record": {"order_id": TEXT, "amount": INTEGER, **(placed or {})}}),
        schema("shop/OrderEvent@1", {"variant": {"placed": {"ref": PLACED}, "receipt": receipt}}),
        schema("shop/Order@1", {"record": ORDER_STATE if state is None else state}),
        schema("shop/Key@1", TEXT),
        schema("shop/Charge@1", {"record": {"amount": INTEGER, "memo": TEXT}}),
        schema("shop/Charged@1", {"record": {"id": TEXT, **(charged or {})}}),
        effect(CHARGE, "shop/Charge@1", "shop/Charged@1"),
        workflow(
            ORDER,
            state="shop/Order@1",
            event="shop/OrderEvent@1",
            key_schema="shop/Key@1",
            context="sys/WorkflowContext@1",
            effects=[CHARGE, TIMER],
        ),
    ]
    routing: dict[str, object] = {"subscriptions": [route(PLACED, ORDER, "order_id")]}
    if ingress is not None:
        routing["ingress"] = ingress
    return air(nodes, [], version=2, routing=routing)


# Differences


def test_another_retry_rule_differs_where_it_decides_otherwise_and_in_what_follows() -> None:
    report = shadowed(declined_once(), versioned(2), Rule(tries=1).modules())

    assert not report["same"]
    first, second = report["differences"]
    assert first["cell"] == {"workflow": ORDER, "key": "o-1"}
    assert first["first"]["classes"] == ["state", "effects", "status"]
    assert first["first"]["on"] == "receipt of shop/card.charge@1: error"
    assert first["classes"] == ["state", "effects", "status", "step_missing"]
    assert (first["last"]["recorded"]["status"], first["last"]["shadow"]["status"]) == (
        "completed", "failed",
    )  # fmt: skip
    assert first["last"]["shadow"]["state"]["phase"] == "refused"
    # The ledger never hears of the payment.
    assert second["cell"] == {"workflow": LEDGER, "key": "c-1"}
    assert second["classes"] == ["step_missing"]
    assert second["last"] == {
        "recorded": {"status": "running", "state": {"total": 5, "count": 1}, "fault": None},
        "shadow": None,
    }
    assert report["steps"]["missing"] == 3
    assert report["by_class"]["step_missing"] == 3
    assert report["effects"]["recorded"][CHARGE] == {"asked": 2, "receipts": {"error": 1, "ok": 1}}
    assert report["effects"]["shadow"][CHARGE] == {"asked": 1, "receipts": {"error": 1}}
    assert report["cells"][ORDER] == {
        "same": 0, "different": 1,
        "by_class": {"state": 1, "effects": 1, "status": 1, "step_missing": 1},
    }  # fmt: skip


def test_a_step_that_comes_later_is_the_same_step() -> None:
    """SH-15: with another pause the timer is another effect, and the charge after it is the same
    one: it gets the recorded answer, and its step is compared with the recorded one."""
    report = shadowed(declined_once(), versioned(2), Rule(pause_ns=SECOND // 2).modules())

    assert report["by_class"] == {
        **dict.fromkeys(report["by_class"], 0), "effects": 1, "step_extra": 1, "step_missing": 1,
    }  # fmt: skip
    (found,) = report["differences"]
    places = {each["path"]: each for each in found["first"]["differences"][0]["places"]}
    assert list(places) == ["$.deliver_at_ns"]
    assert found["last"]["recorded"] == found["last"]["shadow"]
    assert report["answered"]["timers"] == 1


def test_an_effect_that_no_one_asked_for_stays_open_and_is_told() -> None:
    world = ruled(Rule(tries=1))
    place(world, "o-1")
    world.fail(world.open()[0], "declined")
    world.run()
    report = shadowed(world, versioned(2), Rule(tries=2, pause_ns=0).modules())

    assert report["pending"] == {"recorded": 0, "shadow": 1}
    (pending,) = report["open"]
    assert (pending["effect"], pending["recorded"]) == (CHARGE, False)
    assert pending["cell"] == {"workflow": ORDER, "key": "o-1"}
    assert report["answered"] == {"timers": 1, "blobs": 0, "core": 0, "file": 0}


def test_a_file_answers_what_the_journal_does_not() -> None:
    """SH-25"""
    world = ruled(Rule(tries=1))
    place(world, "o-1", 3)
    place(world, "o-2", 4)
    for each in world.open():
        world.fail(each, "declined")
    world.run()
    lines: list[dict[str, Any]] = [
        {"effect": CHARGE, "params": {"amount": 4}, "status": "error", "payload": {
            "code": "no", "message": "never", "retryable": False}},
        {"effect": CHARGE, "status": "ok", "payload": {"id": "scripted"}},
    ]  # fmt: skip
    script = "\n".join(map(json.dumps, lines)).encode()
    after = Rule(tries=2, pause_ns=0).modules()
    report, shadow = shadow_of_world(world, versioned(2), after, answers=script)

    phases = {id[1]: _state(shadow.state.cells[id].state)["phase"] for id in shadow.course.touched
              if id[0] == ORDER}  # fmt: skip
    assert phases == {encode("o-1"): "paid", encode("o-2"): "refused"}
    assert report["answered"]["file"] == 2
    assert report["answers"].startswith("blake3:")
    assert shadowed(world, versioned(2), after)["answers"] is None


def _state(held: object) -> Any:
    assert isinstance(held, bytes)
    return decode_record(held)


def test_an_event_that_the_manifest_refuses_is_told() -> None:
    world = ruled(Rule())
    place(world, "o-1")
    proposed = orders_alone(placed={"currency": TEXT})
    report = shadowed(world, proposed, {ORDER: Rule().order})

    assert report["inputs"] == {"admitted": 0, "refused": 1}
    (found,) = report["differences"]
    assert found["classes"] == ["step_missing", "event_refused"]
    assert found["first"]["differences"][0]["shadow"].startswith("event_is_invalid: shop/Placed@1")
    assert found["last"]["shadow"] is None


def test_a_workflow_that_the_manifest_removes_runs_no_step() -> None:
    """SH-9: the apply would be blocked, and the rest of the shadow runs all the same."""
    world = busy_shop()
    nodes_without_ledger = orders_alone(placed={"currency": TEXT})
    report = shadowed(world, nodes_without_ledger, {ORDER: order}, first=world.state.next_seq - 1)

    assert report["blockers"]["total"] == 0  # it begins with the first manifest
    assert report["inputs"]["refused"] == 6
    later = _later_shop()
    report = shadowed(later, nodes_without_ledger, {ORDER: order}, first=later.state.next_seq - 1)
    kinds = {each["kind"] for each in report["blockers"]["first"]}
    assert kinds == {"intent_is_open", "instance_is_not_terminal"}
    assert not report["blocked"]


def _later_shop() -> Shop:
    """A shop with a snapshot while orders are open."""
    world = Shop()
    world.place("ord-1", 5)
    world.place("ord-2", 6)
    world.run()
    assert isinstance(world.snapshot(), Admitted)
    world.run()
    return world


# Pairs


def keeping(envelope: Envelope) -> Envelope:
    """Keeps the identity of its effect in its state."""
    event = event_of(envelope)
    if event["$tag"] == "placed":
        charge = ask(CHARGE, {"amount": 1, "memo": ""})
        return {"state": encode({"seen": ""}), "effects": [charge]}
    state: Value = {"seen": event["$value"]["intent_id"]}
    return {"state": encode(state), "status": "completed"}


def test_an_effect_under_another_definition_is_the_same_effect() -> None:
    """SH-31: the hash of the intent differs, and a state that keeps it does not."""

    def loaded(version: int, timeout_ms: int) -> Loaded:
        text: dict[str, object] = {"text": {}}
        nodes = [
            schema(PLACED, {"record": {"order_id": text}}),
            schema("shop/OrderEvent@1", {"variant": {
                "placed": {"ref": PLACED}, "receipt": {"ref": "sys/EffectReceiptEnvelope@1"}}}),
            schema("shop/Seen@1", {"record": {"seen": text}}),
            schema("shop/Key@1", text),
            schema("shop/Charge@1", {"record": {"amount": {"int": {}}, "memo": text}}),
            schema("shop/Charged@1", {"record": {"id": text}}),
            effect(CHARGE, "shop/Charge@1", "shop/Charged@1", timeout_ms=timeout_ms),
            workflow(ORDER, state="shop/Seen@1", event="shop/OrderEvent@1",
                     key_schema="shop/Key@1", effects=[CHARGE]),
        ]  # fmt: skip
        return air(nodes, [route(PLACED, ORDER, "order_id")], version=version)

    world = MemoryWorld(loaded(1, 1000), {ORDER: keeping})
    world.blobs.update(world.loaded.modules)
    world.send(PLACED, {"order_id": "o-1"})
    world.run()
    world.settle(world.open()[0], {"id": "ch-1"})
    world.run()
    report, shadow = shadow_of_world(world, loaded(2, 2000), {ORDER: keeping})

    assert report["same"], report["differences"]
    id = ORDER, encode("o-1")
    assert shadow.state.cells[id].state != shadow.recorded.cells[id].state


def test_a_command_reaches_the_paired_effect() -> None:
    world = ruled(Rule())
    place(world, "o-1")
    world.control("cancel", intent=world.open()[0].intent)
    world.run()
    place(world, "o-2")
    world.control(
        "settle", intent=world.open()[-1].intent, status="ok", payload=encode({"id": "by hand"})
    )
    world.run()
    report = shadowed(world, versioned(2), Rule().modules())

    assert report["same"], report["differences"]
    assert report["inputs"] == {"admitted": 4, "refused": 0}


def test_an_event_that_the_manifest_no_longer_accepts_from_outside_is_told() -> None:
    """SH-11, M-30b."""
    world = ruled(Rule())
    place(world, "o-1")
    proposed = orders_alone(ingress=[])

    report = shadowed(world, proposed, {ORDER: Rule().order})

    assert report["inputs"] == {"admitted": 0, "refused": 1}
    (found,) = report["differences"]
    assert found["classes"] == ["step_missing", "event_refused"]
    same = shadowed(world, orders_alone(ingress=[PLACED]), {ORDER: Rule().order})
    assert same["inputs"] == {"admitted": 1, "refused": 0}


def test_a_command_to_a_cell_that_has_not_failed_is_refused() -> None:
    def broken(envelope: Envelope) -> Envelope:
        return b"no output"  # type: ignore[return-value]

    world = MemoryWorld(shop(), {ORDER: broken, LEDGER: ledger})
    world.blobs.update(world.loaded.modules)
    world.send(PLACED, {"order_id": "o-1", "amount": 3})
    world.run()
    world.control(RETRY, cell=(ORDER, encode("o-1")))
    world.run()
    report = shadowed(world, shop(2), MODULES)

    (found,) = report["differences"]
    assert found["classes"] == ["fault", "step_missing", "event_refused"]
    assert found["first"]["differences"][0]["recorded"].startswith("fault output_malformed")
    assert report["inputs"] == {"admitted": 1, "refused": 1}


def test_a_status_that_differs_at_the_end_is_told() -> None:
    """SH-32a: the receipt fails the instance, and the journal ends before its step."""
    world = ruled(Rule())
    place(world, "o-1")
    world.settle(world.open()[0], {"id": "ch-1"})
    world.seal()
    report = shadowed(world, orders_alone(charged={"more": TEXT}), {ORDER: Rule().order})

    (found,) = report["differences"]
    assert (found["classes"], found["first"]["on"]) == (["status"], "the end")
    assert found["last"]["shadow"]["fault"] == "receipt_invalid"
    assert found["last"]["recorded"]["fault"] is None


def test_a_fork_is_followed() -> None:
    """SH-11: its open work is canceled in both."""
    world = declined_once()
    place(world, "o-2")
    world.fork()
    place(world, "o-3")
    world.settle(world.open()[0], {"id": "ch-3"})
    world.run()
    same = shadowed(world, versioned(2), Rule().modules())
    differs = shadowed(world, versioned(2), Rule(tries=1).modules())

    assert same["same"], same["differences"]
    assert same["world"] == hash_text(world.state.world)
    assert {each["cell"]["key"] for each in differs["differences"]} == {"o-1", "o-2", "c-1"}


# Values that cannot be compared


def test_steps_that_need_an_erased_value_are_counted_and_taken_over() -> None:
    """SH-34"""
    world = busy_shop()
    held = [each.state for each in world.steps() if isinstance(each, Step)]
    gone = [each.hash for each in held if isinstance(each, Ref)][-1]
    source = source_of_store(store_of(world))

    def read(hash: Hash, /) -> bytes:
        if hash == gone:
            raise Erased(f"the value {hash.hex()} was erased")
        return source.blob(hash)

    # The shadow makes the state itself, so only a beginning after it needs the stored one.
    late = _snapshot_of(world)
    source = source_of_store(store_of(world))
    report = shadowed(
        world, shop(2), MODULES, first=late,
        source=replace(source, blob=read, has_blob=lambda each: each != gone),
    )  # fmt: skip

    assert report["same"], report["differences"]
    assert report["steps"]["erased"] == 1


def _snapshot_of(world: Shop) -> int:
    answer = world.snapshot()
    assert isinstance(answer, Admitted)
    world.place("ord-6", 1)
    world.run()
    return answer.seq


def test_a_manifest_that_never_comes_to_rest_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_module, "ROUNDS_MAX", 50)
    world = ruled(Rule())
    place(world, "o-1")

    def restless(envelope: Envelope) -> Envelope:
        again = ask(TIMER, {"deliver_at_ns": START_NS, "key": None})
        return {"state": encode(state_of(envelope) or _START), "effects": [again]}

    with pytest.raises(Refused, match="after record 4: the proposed manifest does not come to"):
        shadowed(world, versioned(2), {ORDER: restless, LEDGER: ledger})


_START: Value = {"phase": "new", "tries": 0, "amount": 0, "note": ""}


def test_a_manifest_that_this_world_cannot_take_is_refused() -> None:
    key = key_text(bytes(OPERATOR_KEY.verify_key))
    executors = [
        {"name": "node", "public_key": key, "effects": [TIMER]},
        {
            "name": "test",
            "public_key": key_text(bytes(SigningKey(bytes(32)).verify_key)),
            "effects": [CHARGE],
        },
    ]

    with pytest.raises(Refused, match="cannot be shadowed: executors: node must have"):
        shadowed(busy_shop(), shop_with(2, executors=executors), MODULES)


def test_states_that_do_not_fit_a_migration_end_the_shadow() -> None:
    """SH-9: nothing could run."""
    world = _later_shop()
    proposed = orders_alone(state={"phase": TEXT})
    report = shadowed(
        world, proposed, {ORDER: order}, first=world.state.next_seq - 1, mode="migrate"
    )

    assert (report["same"], report["blocked"]) == (False, True)
    assert report["from"] == report["to"]
    assert {each["kind"] for each in report["blockers"]["first"]} == {
        "instance_is_not_terminal", "intent_is_open",
    }  # fmt: skip


# The report


def test_a_report_lists_a_hundred_cells_and_counts_the_others() -> None:
    world = ruled(Rule())
    for number in range(130):
        place(world, f"o-{number:03}")
    report = shadowed(world, versioned(2), Rule(deadline_ns=SECOND).modules())

    assert (len(report["differences"]), report["left_out"]) == (100, 30)
    assert report["cells"][ORDER]["different"] == 130
    assert [each["cell"]["key"] for each in report["differences"]] == [
        f"o-{number:03}" for number in range(100)
    ]
    assert report["pending"] == {"recorded": 130, "shadow": 260}
    assert len(report["open"]) == 260


def test_a_report_has_at_most_a_mebibyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "REPORT_BYTES_MAX", 20_000)
    world = ruled(Rule())
    for number in range(130):
        place(world, f"o-{number:03}")
    report = shadow_bytes(world, versioned(2), Rule(deadline_ns=SECOND).modules())
    found = read_report(report)

    assert len(report) <= 20_000
    assert found["left_out"] == 130 - len(found["differences"]) > 30
    assert found["cells"][ORDER]["different"] == 130
    assert found["pending"]["shadow"] == 260


def test_the_same_request_gives_the_same_bytes() -> None:
    world = declined_once()
    first, second = (shadow_bytes(world, versioned(2), Rule(tries=1).modules()) for _ in range(2))

    assert first == second
