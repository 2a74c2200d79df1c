"""States, events and params that lack only fields of type option fit, and events with null fields
that their receiver does not know (spec/kernel.md, K-71d, K-73a)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.inputs import PIN, STRICT
from aos.core.journal.records import Event, Step
from aos.core.snapshot.take import take
from aos.manifest.load import Loaded
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import content_hash
from tests.core.cases import ARMS, CASE, GO, TEXT, case, cell, folds_again, nodes
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    Trap,
    air,
    ask,
    event_of,
    route,
    state_of,
    workflow,
)

NEW: dict[str, Any] = {"option": TEXT}
LINE: dict[str, Any] = {"record": {"text": TEXT}}
OLD_STATE: dict[str, Any] = {"record": {"lines": {"list": LINE}}}
NEW_STATE: dict[str, Any] = {
    "record": {"lines": {"list": {"record": {"text": TEXT, "by": NEW}}}, "owner": NEW}
}
NEW_GO: dict[str, Any] = {"record": {**GO["record"], "reason": NEW}}
IN_PLACE = {"upgrade": "in_place"}


class Script:
    """A module in a version: it keeps the states and events that it is given."""

    def __init__(self, *, is_new: bool, fails: bool = False) -> None:
        self.is_new = is_new
        self.fails = fails
        self.states: list[Any] = []
        self.events: list[Any] = []

    def __call__(self, envelope: Envelope) -> Envelope:
        state, event = state_of(envelope), event_of(envelope)
        self.states.append(state)
        self.events.append(event["$value"])
        if self.fails:
            raise Trap
        more: Any = {"by": None} if self.is_new else {}
        lines = [*(state["lines"] if state else []), {"text": "line", **more}]
        held: Any = {"lines": lines, **({"owner": "me"} if self.is_new else {})}
        asks = event["$value"].get("asks", 0)
        return {"state": encode(held), "effects": [ask("c/pay@1", {"n": n}) for n in range(asks)]}


def version(number: int, **more: Any) -> Loaded:
    given = {"state": OLD_STATE} if number == 1 else {"state": NEW_STATE, "event": NEW_GO}
    return air(nodes(**given, **more), [route("c/Go@1", CASE, "id")], version=number)


def begun(**more: Any) -> tuple[MemoryWorld, Script]:
    old = Script(is_new=False)
    return MemoryWorld(version(1, **more), {CASE: old}), old


def send(world: MemoryWorld, id: str, asks: int = 0, **more: Value) -> Any:
    event: Any = {"id": id, "asks": asks, "note": "go", **more}
    answer = world.send("c/Go@1", event)
    world.run()
    return answer


@pytest.mark.parametrize("mode", [STRICT, PIN])
def test_a_new_optional_field_at_any_depth_needs_no_migration(mode: str) -> None:
    """K-71, K-71d: the apply changes no recorded byte, and the module gets null once."""
    world, _ = begun()
    send(world, "a")
    send(world, "b")
    before = cell(world, "a").state
    new = Script(is_new=True)

    assert isinstance(world.apply(version(2), {CASE: new}, mode=mode), Admitted)
    world.run()
    assert cell(world, "a").state == before
    send(world, "a")
    send(world, "a")

    first, second = new.states
    assert first == {"lines": [{"text": "line", "by": None}], "owner": None}
    assert second == {"lines": [{"text": "line", "by": None}] * 2, "owner": "me"}
    assert cell(world, "b").state == before
    folds_again(world)


def test_a_field_that_is_removed_again_or_required_does_not_fit() -> None:
    """K-71."""
    world, _ = begun()
    send(world, "a")
    required: Any = {"record": {"lines": {"list": LINE}, "owner": TEXT}}
    smaller: Any = {"record": {}}
    for state in (required, smaller):
        loaded = air(nodes(state=state), [route("c/Go@1", CASE, "id")], version=2)
        answer = world.apply(loaded, {CASE: Script(is_new=True)})
        assert isinstance(answer, Refusal)
        assert answer.rule is Rule.MANIFEST_DOES_NOT_FIT

    new = Script(is_new=True)
    assert isinstance(world.apply(version(2), {CASE: new}), Admitted)
    send(world, "a")
    answer = world.apply(version(1), {CASE: Script(is_new=False)})
    assert isinstance(answer, Refusal)
    assert answer.blockers[0].kind == "cell_does_not_fit"


def test_mail_and_effects_in_flight_continue_under_the_new_schemas_in_place() -> None:
    """K-71d, K-72b, K-75: queued mail is completed too, and open effects may have new params."""
    world, _ = begun()
    send(world, "a", asks=1)
    world.send("c/Go@1", {"id": "a", "asks": 0, "note": "queued"})
    new = Script(is_new=True)
    loaded = version(2, **IN_PLACE)
    changed = nodes(state=NEW_STATE, event=NEW_GO, **IN_PLACE)
    pay = next(each for each in changed if each["name"] == "c/Pay@1")
    pay["type"] = {"record": {"n": {"nat": {}}, "memo": NEW}}
    loaded = air(changed, [route("c/Go@1", CASE, "id")], version=2)

    assert isinstance(world.apply(loaded, {CASE: new}), Admitted)
    world.run()
    (intent,) = world.open()
    world.settle(intent, {"ref": "r"})
    world.run()

    assert new.events[0] == {"id": "a", "asks": 0, "note": "queued", "reason": None}
    assert [state["owner"] for state in new.states if isinstance(state, dict)] == [None, "me"]
    assert intent.params == encode({"n": 0})
    folds_again(world)


def test_a_receipt_with_a_new_field_is_another_effect() -> None:
    """K-72b: an open effect's receipt is read by the schema with which it was requested."""
    world, _ = begun()
    send(world, "a", asks=1)
    changed = nodes(state=NEW_STATE, **IN_PLACE)
    paid = next(each for each in changed if each["name"] == "c/Paid@1")
    paid["type"] = {"record": {"ref": TEXT, "fee": {"option": {"nat": {}}}}}

    answer = world.apply(
        air(changed, [route("c/Go@1", CASE, "id")], version=2), {CASE: Script(is_new=True)}
    )

    assert isinstance(answer, Refusal)
    assert answer.blockers[0].kind == "effect_is_needed"


def test_a_pinned_instance_is_released_with_a_state_that_only_lacks_options() -> None:
    """K-74, K-71d."""
    world, old = begun()
    send(world, "a", asks=1)
    new = Script(is_new=True)
    assert isinstance(world.apply(version(2), {CASE: new}, mode=PIN), Admitted)
    (intent,) = world.open()

    world.settle(intent, {"ref": "r"})
    records = world.run()

    (step,) = [each for each in records if isinstance(each, Step)]
    assert (step.under, step.fits) == (2, world.state.manifest_seq)
    assert len(old.states) == 2
    send(world, "a", reason="why")
    assert new.states[0] == {"lines": [{"text": "line", "by": None}] * 2, "owner": None}
    folds_again(world)


def pinned() -> tuple[MemoryWorld, Script]:
    """A world whose instance ``a`` is pinned to a version without the field ``reason``."""
    world, old = begun()
    send(world, "a", asks=1)
    assert isinstance(world.apply(version(2), {CASE: Script(is_new=True)}, mode=PIN), Admitted)
    return world, old


def test_a_pinned_instance_gets_an_event_whose_new_optional_field_is_empty() -> None:
    """K-73a: the recorded event has the field, and the module is called without it."""
    world, old = pinned()

    assert isinstance(send(world, "a", reason=None), Admitted)

    assert old.events[-1] == {"id": "a", "asks": 0, "note": "go"}
    (event,) = [each for each in world.records() if isinstance(each, Event)][1:]
    assert event.value == encode({"id": "a", "asks": 0, "note": "go", "reason": None})
    assert world.steps()[-1].under == 2
    folds_again(world)


def test_a_pinned_instance_takes_no_event_with_a_value_that_its_version_does_not_know() -> None:
    """K-73a."""
    world, old = pinned()

    answer = send(world, "a", reason="why")

    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.EVENT_DOES_NOT_FIT_INSTANCE
    assert answer.message == (
        "c/Go@1: an instance of c/case@1 is in flight under an earlier manifest: it is no c/Go@1: "
        "$.reason: unknown field that is not null (known: id, asks, note) "
        "(send it again when that instance is done)"
    )
    assert len(old.events) == 1


@pytest.mark.parametrize(("reason", "events"), [(None, 2), ("why", 1)])
def test_an_emitted_event_reaches_a_pinned_instance_if_its_new_field_is_null(
    reason: str | None, events: int
) -> None:
    """K-73, K-73a."""
    world, old = begun()
    send(world, "a", asks=1)

    def tells_a(_: Envelope) -> Envelope:
        value: Value = {"id": "a", "asks": 0, "note": "told", "reason": reason}
        event: Value = {"schema": "c/Go@1", "value": encode(value)}
        return {"state": encode({"lines": [], "owner": None}), "domain_events": [event]}

    world.apply(version(2), {CASE: tells_a}, mode=PIN)
    send(world, "b")

    assert len(old.events) == events
    assert (cell(world, "b").fault is None) == (reason is None)
    folds_again(world)


def test_waiting_mail_with_an_empty_field_that_was_removed_continues_in_place() -> None:
    """K-73a, K-75: the later manifest may lack the field, too."""
    world = MemoryWorld(version(2), {CASE: Script(is_new=True)})
    world.send("c/Go@1", {"id": "a", "asks": 0, "note": "queued", "reason": None})
    old = Script(is_new=False)

    assert isinstance(world.apply(version(1, **IN_PLACE), {CASE: old}), Admitted)
    world.run()

    assert old.events == [{"id": "a", "asks": 0, "note": "queued"}]
    folds_again(world)


def test_a_retried_instance_gets_null_although_its_last_record_is_newer_than_the_manifest() -> None:
    """K-71d, K-101: the fault wrote a record of the cell, and no state."""
    world, _ = begun()
    send(world, "a")
    new = Script(is_new=True, fails=True)
    assert isinstance(world.apply(version(2), {CASE: new}), Admitted)
    send(world, "a")
    assert cell(world, "a").last_seq > world.state.manifest_seq
    new.fails = False

    world.control("retry", cell=case("a"))
    world.run()

    assert new.states == [{"lines": [{"text": "line", "by": None}], "owner": None}] * 2


def test_introspection_gives_the_state_as_its_module_would_get_it() -> None:
    """K-85, K-71d."""
    world, _ = begun()
    send(world, "a")
    looker = "c/looker@1"
    seen: list[Any] = []

    def look(envelope: Envelope) -> Envelope:
        event = event_of(envelope)
        if event["$tag"] == "Paid":
            seen.append(decode_record(event["$value"]["receipt_payload"]))
            return {"state": encode([])}
        params: Value = {"workflow": CASE, "key": encode("a"), "consistency": None}
        return {"state": encode([]), "effects": [ask("sys/introspect.workflow_state@1", params)]}

    more: list[Any] = [
        {"$kind": "defschema", "name": "c/Look@1", "type": {"record": {}}},
        {"$kind": "defschema", "name": "c/Lines@1", "type": {"list": TEXT}},
        {
            "$kind": "defschema",
            "name": "c/LookEvent@1",
            "type": {"variant": {"Look": {"ref": "c/Look@1"}, **ARMS}},
        },
        workflow(
            looker, state="c/Lines@1", event="c/LookEvent@1",
            effects=["sys/introspect.workflow_state@1"],
        ),
    ]  # fmt: skip
    loaded = air(
        [*nodes(state=NEW_STATE), *more],
        [route("c/Go@1", CASE, "id"), route("c/Look@1", looker)],
        version=2,
    )
    assert isinstance(world.apply(loaded, {CASE: Script(is_new=True), looker: look}), Admitted)

    world.send("c/Look@1", {})
    world.run()

    (answer,) = seen
    state = decode_record(answer["state"])
    assert state == {"lines": [{"text": "line", "by": None}], "owner": None}


def test_the_snapshot_is_the_same_whether_a_state_was_read_or_not() -> None:
    """K-71d: completing a state leaves no trace in the world's state."""
    world, _ = begun()
    send(world, "a")
    world.apply(version(2), {CASE: Script(is_new=True)})
    world.run()
    blobs: dict[Any, bytes] = {}

    def put(data: bytes) -> Any:
        blobs[content_hash(data)] = data
        return content_hash(data)

    before = take(world.state, put).document
    cell(world, "a").stepped_under = 99
    assert take(world.state, put).document == before
