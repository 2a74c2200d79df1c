"""Commands of operators, keys for good, receipts in batches (spec/kernel.md, K-100 to K-106)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer, Refusal, Rule
from aos.core.journal.faults import FaultKind
from aos.core.journal.records import Batch, Control, KernelReceipt, Receipt, Ref
from aos.core.journal.statements import BATCH_MAX
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.core.decide.test_isolation import same
from tests.core.decide.test_owed import folded
from tests.core.desk import (
    ARMS,
    DESK,
    PAY,
    cancel,
    cell_id,
    desk,
    desks,
    log_of,
    nodes,
    pay,
    tell,
    wish,
)
from tests.memory_world import (
    OPERATOR_KEY,
    WORLD_KEY,
    Envelope,
    MemoryWorld,
    air,
    event_of,
    route,
)


def rule_of(answer: Answer) -> Rule:
    assert isinstance(answer, Refusal), answer
    return answer.rule


def failed() -> MemoryWorld:
    """A cell that failed on its second event, with a third behind it."""
    world = desks()
    tell(world, "a", note="1")
    tell(world, "a", note="fail")
    tell(world, "a", note="3")
    return world


def mend(world: MemoryWorld) -> None:
    """From here on the module accepts the entry that it failed on."""

    def module(envelope: Envelope) -> Envelope:
        event = event_of(envelope)
        if event["$value"].get("note") == "fail":
            return {"state": encode([*_log(envelope), "mended"])}
        return desk(envelope)

    (hash_,) = world.runner.modules
    world.runner.modules = {hash_: module}


def _log(envelope: Envelope) -> list[Any]:
    from tests.memory_world import state_of

    return list(state_of(envelope) or [])


def test_a_retry_runs_the_entry_that_failed_first_and_then_the_others() -> None:
    """K-101."""
    world = failed()
    mend(world)
    assert isinstance(world.control("retry", cell=cell_id("a")), Admitted)
    world.run()
    assert log_of(world, "a") == ["told 1", "mended", "told 3"]
    assert world.cell(DESK, "a").status == "running"
    same(folded(world), world.state)


def test_a_retry_that_fails_again_is_where_it_was() -> None:
    world = failed()
    world.control("retry", cell=cell_id("a"))
    world.run()
    cell = world.cell(DESK, "a")
    assert cell.fault is not None
    assert (cell.fault.kind, len(cell.mailbox)) == (FaultKind.GUEST, 2)


def test_a_skip_drops_the_entry_that_failed() -> None:
    world = failed()
    assert isinstance(world.control("skip", cell=cell_id("a")), Admitted)
    world.run()
    assert log_of(world, "a") == ["told 1", "told 3"]
    same(folded(world), world.state)


def test_a_skip_that_leaves_nothing_leaves_no_cell() -> None:
    world = desks()
    tell(world, "a", note="fail")
    world.control("skip", cell=cell_id("a"))
    world.run()
    assert len(world.state.cells) == 0
    same(folded(world), world.state)


def test_an_instance_that_failed_on_no_entry_can_be_retried_and_not_skipped() -> None:
    world = desks()
    tell(world, "a", pay("p"), pay("q"))
    first, _ = world.open()
    world.settle(first, {"ref": 5})
    world.run()
    fault = world.cell(DESK, "a").fault
    assert fault is not None
    assert fault.kind is FaultKind.RECEIPT_INVALID

    assert rule_of(world.control("skip", cell=cell_id("a"))) is Rule.CELL_HAS_NOTHING_TO_SKIP
    assert isinstance(world.control("retry", cell=cell_id("a")), Admitted)
    tell(world, "a", note="on")

    assert log_of(world, "a")[-1] == "told on"
    assert len(world.state.abandoned) == 1


def test_a_retry_after_a_cascade_that_was_too_long_counts_steps_from_zero() -> None:
    world = desks(limits={"world": {"cascade_steps": 2}})
    tell(
        world,
        "a",
        wish("sys/introspect.journal_head@1", {}),
        wish("sys/introspect.journal_head@1", {}),
    )
    fault = world.cell(DESK, "a").fault
    assert fault is not None
    assert fault.kind is FaultKind.CASCADE_TOO_LONG
    world.control("retry", cell=cell_id("a"))
    world.run()
    assert len(log_of(world, "a")) == 3


@pytest.mark.parametrize("cell", [cell_id("b"), ("t/none@1", b""), cell_id("a")])
def test_only_what_a_fault_has_failed_can_be_retried(cell: Any) -> None:
    world = desks()
    tell(world, "a", note="1")
    assert rule_of(world.control("retry", cell=cell)) is Rule.CELL_HAS_NOT_FAILED


def changed(arms: dict[str, Any], state: object = None) -> Any:
    """The manifest with other arms, or another state schema."""
    more = nodes(arms)
    if state is not None:
        log = next(node for node in more if node["name"] == "t/Log@1")
        log["type"] = state
    return air(more, [route("t/Tell@1", DESK, "key")], version=2)


def test_a_retry_runs_the_module_of_the_manifest_in_force() -> None:
    world = failed()

    def module(envelope: Envelope) -> Envelope:
        return {"state": encode([*_log(envelope), "second version"])}

    assert isinstance(world.apply(changed(ARMS), {DESK: module}), Admitted)
    world.control("retry", cell=cell_id("a"))
    world.run()
    assert log_of(world, "a") == ["told 1", "second version", "second version"]


def test_an_entry_that_does_not_fit_the_manifest_in_force_is_not_run() -> None:
    """K-102."""
    world = failed()
    assert isinstance(world.apply(changed(ARMS, state={"nat": {}}), {DESK: desk}), Admitted)
    answer = world.control("retry", cell=cell_id("a"))
    assert rule_of(answer) is Rule.CELL_DOES_NOT_FIT
    assert isinstance(answer, Refusal)
    assert "its state is no t/Log@1" in answer.message


def test_mail_that_the_new_manifest_does_not_take_can_be_skipped_one_by_one() -> None:
    world = desks()
    tell(world, "a", pay("p"))
    (intent,) = world.open()
    tell(world, "a", note="fail")
    world.stream(intent, 0)
    world.settle(intent, {"ref": "x"})
    world.run()
    (told,) = world.cell(DESK, "a").mailbox[0].entry[:1]
    assert told
    world.apply(changed({"Receipt": ARMS["Receipt"]}), {DESK: desk})
    # The frame was refused, because the instance had failed: fail, and a receipt behind it.
    assert isinstance(world.control("skip", cell=cell_id("a")), Admitted)
    world.run()
    assert log_of(world, "a")[-1] == f"{PAY} p ok"


# Which principals may command


@pytest.mark.parametrize(
    ("forge", "rule"),
    [
        ({"principal": "mallory"}, Rule.CONTROL_PRINCIPAL_IS_UNKNOWN),
        ({"serial": 1}, Rule.CONTROL_SERIAL_IS_WRONG),
        ({"serial": False}, Rule.CONTROL_SERIAL_IS_WRONG),
        ({"signature": bytes(64)}, Rule.CONTROL_SIGNATURE_IS_WRONG),
        ({"action": "skip"}, Rule.CONTROL_SIGNATURE_IS_WRONG),
        ({"cell": cell_id("b")}, Rule.CONTROL_SIGNATURE_IS_WRONG),
    ],
)
def test_a_command_counts_only_as_it_was_signed(forge: dict[str, Any], rule: Rule) -> None:
    """K-100."""
    world = failed()
    before = folded(world)
    assert rule_of(world.control("retry", cell=cell_id("a"), forge=forge)) is rule
    same(before, world.state)


def test_a_command_is_good_once() -> None:
    world = failed()
    given = _signed(world)
    assert isinstance(world.kernel.admit(given, world.stamp()), Admitted)
    world.run()
    assert rule_of(world.kernel.admit(given, world.stamp())) is Rule.CONTROL_SERIAL_IS_WRONG


def _signed(world: MemoryWorld) -> Any:
    from aos.core.journal.inputs import ControlInput

    given = ControlInput(
        action="retry",
        principal="operator",
        serial=world.state.controls,
        signature=b"",
        cell=cell_id("a"),
    )
    return replace(given, signature=OPERATOR_KEY.sign(given.message(world.state.world)).signature)


@pytest.mark.parametrize(
    "about",
    [
        {},
        {"cell": cell_id("a"), "intent": Hash(bytes(32))},
        {"intent": Hash(bytes(32))},
    ],
)
def test_a_command_names_exactly_what_it_is_about(about: dict[str, Any]) -> None:
    assert rule_of(failed().control("retry", **about)) is Rule.CONTROL_IS_INVALID


def test_an_unknown_command_or_a_hash_that_is_none_is_refused() -> None:
    world = failed()
    assert rule_of(world.control("destroy", cell=cell_id("a"))) is Rule.CONTROL_IS_INVALID
    assert rule_of(world.control("cancel", intent=Hash(b"x"))) is Rule.CONTROL_IS_INVALID


def test_an_operator_cancels_any_open_intent() -> None:
    """K-103."""
    world = desks()
    tell(world, "a", pay("p"))
    (intent,) = world.open()

    assert isinstance(world.control("cancel", intent=intent.intent), Admitted)
    world.run()

    assert log_of(world, "a")[-1] == f"{PAY} p canceled canceled"
    answer = world.control("cancel", intent=intent.intent)
    assert rule_of(answer) is Rule.INTENT_IS_NOT_OPEN
    command, settled = world.records()[-3:-1]
    assert isinstance(command, Control)
    assert isinstance(settled, KernelReceipt)
    assert settled.root == command.seq
    same(folded(world), world.state)


def test_two_ends_of_one_intent_are_one() -> None:
    """A command and an effect cancel the same intent before either is decided."""
    world = desks()
    tell(world, "a", pay("p"))
    (intent,) = world.open()
    world.send("t/Tell@1", {"key": "a", "asks": [cancel(ref="p")], "note": ""})
    world.step()
    world.control("cancel", intent=intent.intent)
    world.run()
    settled = [each for each in world.records() if isinstance(each, KernelReceipt)]
    assert [each.status for each in settled] == ["canceled", "ok"]
    same(folded(world), world.state)


# Erasure


def long_note(world: MemoryWorld) -> Hash:
    """A long event that has run; the state after it is long, too."""
    note = "personal " * 200
    tell(world, "a", note=note)
    return content_hash(encode({"key": "a", "asks": [], "note": note}))


def test_a_value_is_erased_once_nothing_needs_it() -> None:
    """K-104."""
    world = desks()
    value = long_note(world)
    (event,) = [each for each in world.records() if getattr(each, "schema", "") == "t/Tell@1"]
    assert event.value == Ref(value, event.value.size)  # type: ignore[union-attr]

    assert isinstance(world.control("erase", value=value), Admitted)
    world.run()

    assert world.sealed[-1].erased == (value,)
    del world.blobs[value]
    same(folded(world), world.state)


def test_a_value_in_use_is_not_erased() -> None:
    world = desks()
    long_note(world)
    state = world.cell(DESK, "a").state
    assert isinstance(state, Ref)
    assert rule_of(world.control("erase", value=state.hash)) is Rule.VALUE_IS_IN_USE
    for value in (world.effective.hash, world.effective.workflows[DESK].module.hash):
        assert rule_of(world.control("erase", value=value)) is Rule.VALUE_IS_IN_USE
    first = world.effective.hash
    assert isinstance(world.apply(changed(ARMS), {DESK: desk}), Admitted)
    assert rule_of(world.control("erase", value=first)) is Rule.VALUE_IS_IN_USE


def test_mail_that_waits_is_needed() -> None:
    world = failed()
    value = long_note(world)
    assert rule_of(world.control("erase", value=value)) is Rule.VALUE_IS_IN_USE


def test_a_value_that_comes_again_in_the_same_frame_stays() -> None:
    world = desks()
    value = long_note(world)
    world.control("erase", value=value)
    long_note(world)
    assert world.sealed[-1].erased == ()
    assert value in world.sealed[-1].blobs


# Keys


def key_text(key: SigningKey) -> str:
    return f"ed25519:{bytes(key.verify_key).hex()}"


SHOP, NEXT = SigningKey(bytes([5]) * 32), SigningKey(bytes([6]) * 32)
NODE_ENTRY = {"name": "node", "public_key": key_text(WORLD_KEY), "effects": ["sys/timer.set@1"]}


def shop(key: SigningKey, **more: object) -> dict[str, object]:
    return {"name": "test", "public_key": key_text(key), "effects": [PAY, "t/once@1"], **more}


def with_executors(*entries: dict[str, object], version: int = 1) -> Any:
    return air(
        nodes(ARMS), [route("t/Tell@1", DESK, "key")], version=version,
        executors=[NODE_ENTRY, *entries],
    )  # fmt: skip


def signed_by(world: MemoryWorld, intent: Any, key: SigningKey) -> Any:
    given = replace(
        world.receipt(intent, {"ref": "x"}),
        executor="test",
        key_id=bytes(key.verify_key),
    )
    return replace(given, signature=key.sign(given.message(world.state.world)).signature)


def abandoned_world() -> tuple[MemoryWorld, Any]:
    """The shop was asked, and its asker is gone."""
    world = MemoryWorld(with_executors(shop(SHOP)), {DESK: desk})
    tell(world, "a", pay("p"))
    (intent,) = world.open()
    tell(world, "a", note="delete")
    return world, intent


def test_a_retired_key_still_proves_what_was_asked_for_while_it_was_in_force() -> None:
    """K-106."""
    world, late = abandoned_world()
    retired = shop(NEXT, retired_keys=[key_text(SHOP)])
    assert isinstance(world.apply(with_executors(retired, version=2), {DESK: desk}), Admitted)
    tell(world, "b", pay("q"))
    (fresh,) = world.open()

    answer = world.kernel.admit(signed_by(world, fresh, SHOP), world.stamp())
    assert rule_of(answer) is Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN
    told = world.kernel.admit(signed_by(world, late, SHOP), world.stamp())
    assert isinstance(told, Admitted)
    assert told.outcome == "abandoned"
    assert isinstance(world.kernel.admit(signed_by(world, fresh, NEXT), world.stamp()), Admitted)


def test_a_revoked_key_proves_nothing_and_never_comes_back() -> None:
    """K-106: under no later manifest."""
    world, late = abandoned_world()
    revoked = shop(NEXT, revoked_keys=[key_text(SHOP)])
    assert isinstance(world.apply(with_executors(revoked, version=2), {DESK: desk}), Admitted)
    # The next manifest no longer speaks of it.
    assert isinstance(world.apply(with_executors(shop(NEXT), version=3), {DESK: desk}), Admitted)

    answer = world.kernel.admit(signed_by(world, late, SHOP), world.stamp())
    assert rule_of(answer) is Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN
    for back in (shop(SHOP), shop(NEXT, retired_keys=[key_text(SHOP)])):
        again = world.apply(with_executors(back, version=4), {DESK: desk})
        assert rule_of(again) is Rule.MANIFEST_IS_INVALID
        assert isinstance(again, Refusal)
        assert "which an earlier manifest revoked" in again.message
    world.seal()
    same(folded(world), world.state)


# Batches (J-40)


def asked(count: int) -> tuple[MemoryWorld, list[Any]]:
    world = desks()
    tell(world, "a", *(pay(f"p{i}", i) for i in range(count)))
    return world, world.open()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8])
def test_receipts_that_were_signed_together_are_each_taken_alone(count: int) -> None:
    world, intents = asked(count)
    batch = world.batch([world.receipt(each, {"ref": "x"}) for each in intents])
    for given in reversed(batch):
        assert isinstance(world.kernel.admit(given, world.stamp()), Admitted)
    world.run()
    assert world.open() == []
    recorded = [each for each in world.records() if isinstance(each, Receipt)]
    assert {each.batch.size for each in recorded if each.batch} == {count}
    same(folded(world), world.state)


def test_a_receipt_is_proved_only_by_its_own_path() -> None:
    world, intents = asked(5)
    batch = world.batch([world.receipt(each, {"ref": "x"}) for each in intents])
    one = batch[1]
    assert one.batch is not None
    place = one.batch
    wrong = [
        replace(one, batch=batch[2].batch),
        replace(one, batch=None),
        replace(one, batch=replace(place, index=2)),
        replace(one, batch=replace(place, index=5)),
        replace(one, batch=replace(place, size=6)),
        replace(one, batch=replace(place, size=BATCH_MAX + 1)),
        replace(one, batch=replace(place, path=place.path[:-1])),
        replace(one, batch=replace(place, path=(*place.path, place.path[0]))),
        replace(one, batch=replace(place, path=place.path * 40)),
        replace(one, payload=encode({"ref": "y"})),
        replace(one, attempt=2),
        replace(one, batch=Batch(index=0, size=1, path=())),
    ]
    for given in wrong:
        answer = world.kernel.admit(given, world.stamp())
        assert rule_of(answer) is Rule.RECEIPT_SIGNATURE_IS_WRONG
    assert isinstance(world.kernel.admit(one, world.stamp()), Admitted)


def test_a_receipt_that_waited_is_delivered_as_it_was_admitted() -> None:
    """K-101, K-102: under a manifest without effects too, which has no sys/EffectError@1."""
    world = desks()
    tell(world, "a", pay("p"))
    (intent,) = world.open()
    tell(world, "a", note="fail")
    world.fail(intent, "declined")
    world.run()
    plain = [node for node in nodes(ARMS) if node["$kind"] != "defeffect"]
    for node in plain:
        if node["$kind"] == "defworkflow":
            node["effects_emitted"] = []
    bare = air(plain, [route("t/Tell@1", DESK, "key")], version=2)
    assert isinstance(world.apply(bare, {DESK: desk}), Admitted)
    assert "sys/EffectError@1" not in world.effective.schemas

    assert isinstance(world.control("skip", cell=cell_id("a")), Admitted)
    world.run()

    assert log_of(world, "a")[-1] == f"{PAY} p error declined"
    same(folded(world), world.state)
