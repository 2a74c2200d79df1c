"""Steps are atomic, fair and bounded (spec/kernel.md, K-30 to K-46)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.decide.routing import KEY_BYTES_MAX
from aos.core.journal.faults import FaultKind
from aos.core.journal.record_codec import RECORD_BYTES_MAX, from_bytes, to_bytes
from aos.core.journal.records import INLINE_BYTES, Emitted, Event, Faulted, Step
from aos.core.limits import LIMITS
from aos.manifest.limits import STEP_RANGES, WORLD_RANGES
from aos.values.cbor import RECORD_ITEMS_MAX, Value, encode
from aos.values.digests import Hash
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    Module,
    Trap,
    air,
    ask,
    effect,
    emit,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)

COUNTER = "t/counter@1"
NODES = [
    schema("t/Add@1", {"record": {"key": {"text": {}}, "by": {"int": {}}}}),
    schema("t/Count@1", {"record": {"sum": {"int": {}}}}),
    schema("t/Key@1", {"text": {}}),
    schema("t/Note@1", {"text": {}}),
    schema("t/Ping@1", {"record": {}}),
    schema("t/Pong@1", {"record": {}}),
    effect("t/ping@1", "t/Ping@1", "t/Pong@1"),
    schema(
        "t/CounterEvent@1",
        {"variant": {"Add": {"ref": "t/Add@1"}, "Done": {"ref": "sys/EffectReceiptEnvelope@1"}}},
    ),
]


def add(key: str, by: int = 1) -> Value:
    return {"key": key, "by": by}


def count(envelope: Envelope) -> Envelope:
    """A counter: its state is the sum of the amounts sent to it."""
    state = state_of(envelope) or {"sum": 0}
    event = event_of(envelope)["$value"]
    return {"state": encode({"sum": state["sum"] + event["by"]})}


def counters(
    module: Module = count, *, limits: dict[str, Any] | None = None, **more: object
) -> MemoryWorld:
    counter = workflow(
        COUNTER, state="t/Count@1", event="t/CounterEvent@1", key_schema="t/Key@1",
        annotations="t/Note@1", effects=["t/ping@1"], **more,
    )  # fmt: skip
    extra: dict[str, Any] = {} if limits is None else {"limits": limits}
    loaded = air([*NODES, counter], [route("t/Add@1", COUNTER, "key")], **extra)
    return MemoryWorld(loaded, {COUNTER: module})


def answers(output: Any) -> Module:
    """A module that gives the same answer to every envelope."""
    return lambda _: output


STATE = encode({"sum": 1})


def test_each_key_has_a_cell_of_its_own() -> None:
    world = counters()
    for key, by in [("a", 1), ("b", 10), ("a", 2)]:
        world.send("t/Add@1", add(key, by))

    world.run()

    assert world.state_of(COUNTER, "a") == {"sum": 3}
    assert world.state_of(COUNTER, "b") == {"sum": 10}


def test_a_module_sees_its_state_its_event_in_its_arm_and_its_key() -> None:
    seen: list[Envelope] = []

    def module(envelope: Envelope) -> Envelope:
        seen.append(envelope)
        return count(envelope)

    world = counters(module)
    world.send("t/Add@1", add("a"))
    world.send("t/Add@1", add("a", 2))
    world.run()

    event = encode({"$tag": "Add", "$value": {"key": "a", "by": 2}})
    assert seen[1] == {
        "version": 1,
        "state": encode({"sum": 1}),
        "event": {"schema": "t/CounterEvent@1", "value": event, "key": encode("a")},
    }
    assert seen[0]["state"] is None


def test_a_context_is_given_only_to_who_declares_it() -> None:
    seen: list[Envelope] = []

    def module(envelope: Envelope) -> Envelope:
        seen.append(envelope)
        return count(envelope)

    world = counters(module, context="sys/WorkflowContext@1")
    world.send("t/Add@1", add("a"))
    world.send("t/Add@1", add("b"))
    stamps = [each.stamp for each in world.seal() if isinstance(each, Event)]
    world.run()

    context = world.effective.schemas["sys/WorkflowContext@1"]
    first, second = (context.from_record(each["ctx"]) for each in seen)
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first["now_ns"] == stamps[0].ns
    assert first["logical_now_ns"] == stamps[1].ns, "the clock is the highest stamp admitted so far"
    assert first["workflow"] == COUNTER
    assert first["key"] == encode("a")
    assert first["cell_mode"] is True
    assert first["entropy"] != second["entropy"]
    assert [each.seq for each in world.steps()] == [
        first["journal_height"],
        second["journal_height"],
    ]


def test_ready_cells_take_turns_one_entry_each() -> None:
    world = counters()
    for key in ["a", "a", "a", "b", "b", "c"]:
        world.send("t/Add@1", add(key))

    world.run()

    order = [step.cell[1] for step in world.steps()]
    assert order == [encode(key) for key in ["a", "b", "c", "a", "b", "a"]]


BAD_OUTPUTS: list[tuple[str, Any, FaultKind, str]] = [
    ("garbage", b"\xff\x00", FaultKind.OUTPUT_MALFORMED, "the output is not CBOR"),
    ("not a map", [1], FaultKind.OUTPUT_MALFORMED, "$: expected a map, found array"),
    ("no state", {}, FaultKind.OUTPUT_MALFORMED, "$.state: expected bytes or null, found nothing"),
    ("unknown field", {"state": STATE, "sate": 1}, FaultKind.OUTPUT_MALFORMED, 'found "sate"'),
    ("state as text", {"state": "x"}, FaultKind.OUTPUT_MALFORMED, "$.state: expected bytes"),
    ("status", {"state": STATE, "status": "done"}, FaultKind.OUTPUT_MALFORMED, 'found "done"'),
    (
        "state misfit",
        {"state": encode({"sum": "1"})},
        FaultKind.STATE_INVALID,
        "$.sum: expected int",
    ),
    (
        "state not canonical",
        {"state": b"\xa1\x63sum\x18\x01"},
        FaultKind.STATE_INVALID,
        "t/Count@1",
    ),
    ("state trailing", {"state": STATE + b"\x00"}, FaultKind.STATE_INVALID, "t/Count@1"),
    ("ann misfit", {"state": STATE, "ann": encode(5)}, FaultKind.ANNOTATION_INVALID, "t/Note@1"),
    (
        "unknown event",
        {"state": STATE, "domain_events": [emit("t/Nope@1", None)]},
        FaultKind.EVENT_INVALID,
        '$.domain_events[0]: schema "t/Nope@1" is not in the manifest',
    ),
    (
        "a forged continuation",
        {"state": STATE, "domain_events": [emit("sys/EffectReceiptEnvelope@1", None)]},
        FaultKind.EVENT_INVALID,
        "sys/EffectReceiptEnvelope@1 is a continuation, which only the kernel delivers",
    ),
    (
        "event misfit",
        {"state": STATE, "domain_events": [emit("t/Add@1", {"key": "a", "by": "1"})]},
        FaultKind.EVENT_INVALID,
        "$.by: expected int",
    ),
    (
        "event key",
        {"state": STATE, "domain_events": [{**emit("t/Add@1", add("a")), "key": encode("b")}]},
        FaultKind.KEY_INVALID,
        "key: expected",
    ),
    (
        "undeclared effect",
        {"state": STATE, "effects": [ask("sys/timer.set@1", {"deliver_at_ns": 1})]},
        FaultKind.EFFECT_UNDECLARED,
        '$.effects[0]: "sys/timer.set@1" is not in effects_emitted of t/counter@1',
    ),
    (
        "params misfit",
        {"state": STATE, "effects": [ask("t/ping@1", {"x": 1})]},
        FaultKind.PARAMS_INVALID,
        "$.effects[0]: t/ping@1",
    ),
    (
        "effect twice named",
        {"state": STATE, "effects": [{**ask("t/ping@1", {}), "kind": "t/ping@1"}]},
        FaultKind.OUTPUT_MALFORMED,
        "effect or its alias kind, found both",
    ),
    (
        "deleted with effects",
        {"state": None, "effects": [ask("t/ping@1", {})]},
        FaultKind.DELETED_WITH_EFFECTS,
        "state null deletes the cell",
    ),
    (
        "one key, two params",
        {
            "state": STATE,
            "effects": [
                ask("t/ping@1", {}, idempotency_key=b"k" * 257),
            ],
        },
        FaultKind.OUTPUT_MALFORMED,
        "at most 256 bytes, found 257",
    ),
    (
        "too many effects",
        {"state": STATE, "effects": [ask("t/ping@1", {})] * 65},
        FaultKind.TOO_MANY_EFFECTS,
        "expected at most 64 effects, found 65",
    ),
    (
        "too many events",
        {"state": STATE, "domain_events": [emit("t/Add@1", add("a"))] * 257},
        FaultKind.TOO_MANY_EVENTS,
        "expected at most 256 domain events, found 257",
    ),
    (
        "its own fault",
        {"fault": {"kind": "diverged", "message": "expected step a, found b", "detail": b"\x01"}},
        FaultKind.GUEST,
        "diverged: expected step a, found b",
    ),
    (
        "both fault and state",
        {"fault": {"kind": "k", "message": "m"}, "state": STATE},
        FaultKind.OUTPUT_MALFORMED,
        "expected fault alone, found fault beside state",
    ),
]


@pytest.mark.parametrize(
    ("output", "kind", "message"),
    [pytest.param(*rest, id=name) for name, *rest in BAD_OUTPUTS],
)
def test_an_output_that_breaks_a_rule_fails_its_instance_alone(
    output: Any, kind: FaultKind, message: str
) -> None:
    def module(envelope: Envelope) -> Any:
        event = event_of(envelope)["$value"]
        return output if event["key"] == "bad" else count(envelope)

    world = counters(module)
    for key in ["good", "bad", "good"]:
        world.send("t/Add@1", add(key))
    world.run()

    (fault,) = [each for each in world.records() if isinstance(each, Faulted)]
    assert fault.fault.kind is kind
    assert message in fault.fault.message
    assert fault.cell == (COUNTER, encode("bad"))
    bad = world.cell(COUNTER, "bad")
    assert (bad.status, bad.state, list(bad.inflight)) == ("failed", None, [])
    assert world.open() == []
    assert world.state_of(COUNTER, "good") == {"sum": 2}


def test_a_trap_keeps_the_state_and_holds_the_mail_that_comes_after() -> None:
    def module(envelope: Envelope) -> Envelope:
        if event_of(envelope)["$value"]["by"] == 0:
            raise Trap
        return count(envelope)

    world = counters(module)
    for by in [5, 0, 7]:
        world.send("t/Add@1", add("a", by))
    world.run()
    world.send("t/Add@1", add("a", 9))
    world.run()

    cell = world.cell(COUNTER, "a")
    assert world.state_of(COUNTER, "a") == {"sum": 5}
    assert cell.fault is not None
    assert cell.fault.kind is FaultKind.TRAP
    assert [type(step) for step in world.steps()] == [Step, Faulted]
    assert [mail.entry[0] for mail in cell.mailbox] == [4, 5, 8], (
        "the entry that failed is the first in the mailbox"
    )
    assert not world.state.ring


def test_a_declared_end_does_not_stop_delivery() -> None:
    world = counters(lambda envelope: {**count(envelope), "status": "completed"})
    world.send("t/Add@1", add("a"))
    world.run()
    assert world.cell(COUNTER, "a").status == "completed"

    world.send("t/Add@1", add("a"))
    world.run()

    assert world.state_of(COUNTER, "a") == {"sum": 2}


def test_a_declared_status_holds_until_another_is_declared() -> None:
    said = iter(["failed", None, "running"])

    def module(envelope: Envelope) -> Envelope:
        status = next(said)
        return count(envelope) | ({} if status is None else {"status": status})

    world = counters(module)
    statuses = []
    for _ in range(3):
        world.send("t/Add@1", add("a"))
        world.run()
        statuses.append(world.cell(COUNTER, "a").status)

    assert statuses == ["failed", "failed", "running"]


def test_state_null_deletes_the_cell_and_abandons_what_it_waits_for() -> None:
    def module(envelope: Envelope) -> Envelope:
        if event_of(envelope)["$value"]["by"] == 0:
            return {"state": None}
        return {**count(envelope), "effects": [ask("t/ping@1", {})]}

    world = counters(module)
    world.send("t/Add@1", add("a"))
    world.run()
    (intent,) = world.open()
    assert world.cell(COUNTER, "a").status == "waiting"

    world.send("t/Add@1", add("a", 0))
    world.run()

    assert (COUNTER, encode("a")) not in world.state.cells
    assert world.open() == []
    assert world.sealed[-1].abandoned == (intent.intent,)
    late = world.settle(intent, {})
    assert isinstance(late, Admitted)
    world.run()
    assert (COUNTER, encode("a")) not in world.state.cells, "recorded, not delivered"

    world.send("t/Add@1", add("a", 4))
    world.run()
    assert world.state_of(COUNTER, "a") == {"sum": 4}


def test_mail_that_waits_behind_a_deletion_meets_no_state() -> None:
    def module(envelope: Envelope) -> Envelope:
        return {"state": None} if event_of(envelope)["$value"]["by"] == 0 else count(envelope)

    world = counters(module)
    for by in [1, 0, 5]:
        world.send("t/Add@1", add("a", by))
    world.run()

    assert world.state_of(COUNTER, "a") == {"sum": 5}


def relay(envelope: Envelope) -> Envelope:
    """Emits an event to the next key for as long as ``by`` is above zero."""
    event = event_of(envelope)["$value"]
    more = [] if event["by"] == 0 else [emit("t/Add@1", add(event["key"], event["by"] - 1))]
    return {**count(envelope), "domain_events": more}


def test_emitted_events_are_delivered_and_counted_from_their_root() -> None:
    world = counters(relay)
    answer = world.send("t/Add@1", add("a", 3))
    assert isinstance(answer, Admitted)
    world.run()

    assert [(step.root, step.depth) for step in world.steps()] == [
        (answer.seq, depth) for depth in range(4)
    ]
    assert world.state_of(COUNTER, "a") == {"sum": 6}


def test_a_cascade_that_goes_too_deep_faults_the_step_that_would_continue_it() -> None:
    world = counters(relay, limits={"world": {"cascade_depth": 3}})
    world.send("t/Add@1", add("a", 10))
    world.run()

    *steps, last = world.steps()
    assert len(steps) == 3
    assert isinstance(last, Faulted)
    assert last.fault.kind is FaultKind.CASCADE_TOO_DEEP


def test_a_cascade_that_takes_too_many_steps_is_cut_without_running_the_module() -> None:
    world = counters(relay, limits={"world": {"cascade_steps": 4}})
    world.send("t/Add@1", add("a", 10))
    world.run()

    *_, last = world.steps()
    assert isinstance(last, Faulted)
    assert last.fault.kind is FaultKind.CASCADE_TOO_LONG
    assert world.runner.calls == 4


def test_an_overfull_mailbox_fails_the_receiver_and_never_the_sender() -> None:
    def flood(envelope: Envelope) -> Envelope:
        event = event_of(envelope)["$value"]
        if event["key"] != "sender":
            return count(envelope)
        return {**count(envelope), "domain_events": [emit("t/Add@1", add("receiver"))] * 5}

    world = counters(flood, limits={"world": {"mailbox": 3}})
    world.send("t/Add@1", add("sender"))
    world.run()

    assert world.cell(COUNTER, "sender").status == "running"
    receiver = world.cell(COUNTER, "receiver")
    assert receiver.fault is not None
    assert receiver.fault.kind is FaultKind.OVERLOADED
    assert receiver.mail_uncounted == 2


def test_a_full_mailbox_counts_the_entry_that_is_running_as_gone() -> None:
    def again(envelope: Envelope) -> Envelope:
        event = event_of(envelope)["$value"]
        more = [emit("t/Add@1", add("a", 0))] if event["by"] == 1 else []
        return {**count(envelope), "domain_events": more}

    world = counters(again, limits={"world": {"mailbox": 1}})
    world.send("t/Add@1", add("a", 1))
    world.run()

    assert world.cell(COUNTER, "a").status == "running"
    assert len(world.steps()) == 2


def test_values_over_a_kilobyte_are_kept_as_blobs() -> None:
    world = counters(lambda envelope: {**count(envelope), "ann": encode("x" * 2000)})
    world.send("t/Add@1", add("k" * 1021))
    world.run()

    (event,) = [each for each in world.records() if isinstance(each, Event)]
    (step,) = world.steps()
    assert isinstance(step, Step)
    assert not isinstance(event.value, bytes)
    assert not isinstance(step.ann, bytes | None)
    assert world.read(event.value.hash) == encode(add("k" * 1021))
    assert world.read(step.ann.hash) == encode("x" * 2000)


def test_a_cell_that_sends_itself_mail_still_joins_the_ring_last() -> None:
    """K-41."""

    def both(envelope: Envelope) -> Envelope:
        event = event_of(envelope)["$value"]
        more = [emit("t/Add@1", add(key, 0)) for key in ("a", "b")] if event["by"] == 1 else []
        return {**count(envelope), "domain_events": more}

    world = counters(both)
    world.send("t/Add@1", add("a"))
    world.run()

    assert [step.cell[1] for step in world.steps()] == [encode(key) for key in "aba"]


def test_a_cell_that_overloads_itself_is_failed_and_its_own_step_is_kept() -> None:
    """K-43: the results of the step are kept."""

    def flood(envelope: Envelope) -> Envelope:
        return {**count(envelope), "domain_events": [emit("t/Add@1", add("a"))] * 3}

    world = counters(flood, limits={"world": {"mailbox": 2}})
    world.send("t/Add@1", add("a"))
    world.run()

    (step,) = world.steps()
    assert isinstance(step, Step)
    assert (len(step.events[2].overloaded), step.status) == (1, "running")
    cell = world.cell(COUNTER, "a")
    assert (cell.status, world.state_of(COUNTER, "a")) == ("failed", {"sum": 1})
    assert cell.fault is not None
    assert cell.fault.kind is FaultKind.OVERLOADED
    assert (len(cell.mailbox), cell.mail_uncounted, list(world.state.ring)) == (2, 1, [])


def test_a_deleted_cell_that_overloads_itself_stays_as_failed_and_holds_its_mail() -> None:
    def flood(envelope: Envelope) -> Envelope:
        if event_of(envelope)["$value"]["by"] == 1:
            return {**count(envelope), "effects": [ask("t/ping@1", {})]}
        return {"state": None, "domain_events": [emit("t/Add@1", add("a"))] * 3}

    world = counters(flood, limits={"world": {"mailbox": 2}})
    world.send("t/Add@1", add("a"))
    world.run()
    world.send("t/Add@1", add("a", 2))
    world.run()

    cell = world.cell(COUNTER, "a")
    assert (cell.state, cell.status, world.open()) == (None, "failed", [])
    assert len(cell.mailbox) == 2


def test_mail_for_a_failed_instance_is_no_overload() -> None:
    """K-44: past the bound it is counted, from one record as from many."""

    def flood(envelope: Envelope) -> Any:
        event = event_of(envelope)["$value"]
        if event["key"] == "bad":
            return b"\xff"
        return {**count(envelope), "domain_events": [emit("t/Add@1", add("bad"))] * 5}

    world = counters(flood, limits={"world": {"mailbox": 3}})
    world.send("t/Add@1", add("bad"))
    world.run()
    world.send("t/Add@1", add("sender"))
    world.run()

    bad = world.cell(COUNTER, "bad")
    assert bad.fault is not None
    assert bad.fault.kind is FaultKind.OUTPUT_MALFORMED
    assert (len(bad.mailbox), bad.mail_uncounted) == (3, 3)
    step = world.steps()[-1]
    assert isinstance(step, Step)
    assert [(len(event.to), len(event.overloaded)) for event in step.events] == [(1, 0)] * 5


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ({"state": STATE, "x" * 10**6: 1}, FaultKind.OUTPUT_MALFORMED),
        ({"state": STATE, "status": "\U000e0001" * 10**5}, FaultKind.OUTPUT_MALFORMED),
        ({"state": STATE, "domain_events": [emit("x" * 10**6, 1)]}, FaultKind.EVENT_INVALID),
        ({"state": STATE, "effects": [ask("\n" * 10**6, 1)]}, FaultKind.EFFECT_UNDECLARED),
        (
            {
                "state": STATE,
                "domain_events": [{**emit("t/Add@1", add("a")), "key": bytes(10**6)}],
            },
            FaultKind.KEY_INVALID,
        ),
        (
            {"state": STATE, "domain_events": [emit("t/Add@1", {"\U000e0001" * 10**5: 1})]},
            FaultKind.EVENT_INVALID,
        ),
    ],
)
def test_a_modules_message_never_makes_a_long_record(output: Any, kind: FaultKind) -> None:
    """K-33: a fault quotes a few words, in characters that every release writes alike."""
    world = counters(answers(output))
    world.send("t/Add@1", add("a"))
    world.run()

    (fault,) = world.steps()
    assert isinstance(fault, Faulted)
    assert fault.fault.kind is kind
    assert len(fault.fault.message) < 1500
    assert fault.fault.message.replace("…", "").isascii()


def test_a_path_into_a_hostile_value_is_cut() -> None:
    deep: Any = {}
    for _ in range(60):
        deep = {"\U000e0001" * 64: deep}
    data = encode(deep)[:-1] + b"\xff"
    world = counters(answers({"state": data}))
    world.send("t/Add@1", add("a"))
    world.run()

    (fault,) = world.steps()
    assert isinstance(fault, Faulted)
    assert 4000 < len(fault.fault.message.encode()) <= 4096


def test_a_key_has_at_most_a_kilobyte() -> None:
    """K-40: every record of its cell contains the key."""

    def long(envelope: Envelope) -> Envelope:
        return {**count(envelope), "domain_events": [emit("t/Add@1", add("k" * 1022))]}

    world = counters(long)
    world.send("t/Add@1", add("k" * 1021))
    world.run()

    (fault,) = world.steps()
    assert isinstance(fault, Faulted)
    assert fault.fault.kind is FaultKind.KEY_INVALID
    assert "expected at most 1024 bytes, found 1025" in fault.fault.message


def test_a_step_delivers_to_a_bounded_number_of_mailboxes() -> None:
    nodes = [
        *(node for node in NODES if node["$kind"] == "defschema"),
        *(workflow(f"t/w{i}@1", state="t/Count@1", event="t/Ping@1") for i in range(9)),
        workflow("t/fan@1", state="t/Count@1", event="t/Add@1", limits={"events": 4096}),
    ]
    routes = [route("t/Ping@1", f"t/w{i}@1") for i in range(9)] + [route("t/Add@1", "t/fan@1")]

    def fan(envelope: Envelope) -> Envelope:
        by = event_of(envelope)["by"]
        return {"state": STATE, "domain_events": [emit("t/Ping@1", {})] * by}

    modules: dict[str, Module] = {f"t/w{i}@1": answers({"state": STATE}) for i in range(9)}

    def ran(by: int) -> Any:
        world = MemoryWorld(air(nodes, routes), {**modules, "t/fan@1": fan})
        world.send("t/Add@1", add("a", by))
        return world.step()

    step, fault = ran(1820), ran(1821)

    assert isinstance(step, Step)
    assert sum(len(event.to) for event in step.events) == 16_380
    assert isinstance(fault, Faulted)
    assert fault.fault.kind is FaultKind.TOO_MANY_EVENTS
    assert fault.fault.message == "expected at most 16384 deliveries, found 16389"


def test_the_largest_step_can_be_read_back() -> None:
    """J-16: whatever the limits let through."""
    cell = ("t/" + "n" * 252 + "@1", bytes(KEY_BYTES_MAX))
    most = STEP_RANGES["events"].high
    to = (cell,) * (LIMITS.deliveries // most)
    step = Step(
        seq=2**63,
        cell=cell,
        entry=(2**63, most),
        root=2**63,
        depth=100_000,
        state=None,
        status="running",
        events=(Emitted(schema=cell[0], value=bytes(INLINE_BYTES), to=to, overloaded=()),) * most,
        intents=(),
        abandoned=(),
        ann=bytes(INLINE_BYTES),
        fuel=10**12,
        pages=2**16,
        output=Hash(bytes(32)),
    )
    data = to_bytes(step)
    assert from_bytes(data) == step
    intents = WORLD_RANGES["instance_intents"].high
    assert len(data) + intents * len(encode(bytes(32))) + 100 < RECORD_BYTES_MAX
    assert 13 * most + 3 * LIMITS.deliveries + intents < RECORD_ITEMS_MAX


def test_an_events_key_need_not_suit_a_receiver_without_keys() -> None:
    nodes = [
        *NODES,
        workflow(
            COUNTER, state="t/Count@1", event="t/CounterEvent@1", key_schema="t/Key@1",
            effects=["t/ping@1"],
        ),
        workflow("t/audit@1", state="t/Count@1", event="t/Add@1"),
    ]  # fmt: skip
    routes = [route("t/Add@1", COUNTER, "key"), route("t/Add@1", "t/audit@1")]

    def once(envelope: Envelope) -> Envelope:
        event = event_of(envelope)["$value"]
        more = [{**emit("t/Add@1", add("b", 0)), "key": encode("b")}] if event["by"] else []
        return {**count(envelope), "domain_events": more}

    modules: dict[str, Module] = {COUNTER: once, "t/audit@1": answers({"state": STATE})}
    world = MemoryWorld(air(nodes, routes), modules)
    world.send("t/Add@1", add("a"))
    world.run()

    assert all(isinstance(step, Step) for step in world.steps())
    assert world.state_of(COUNTER, "b") == {"sum": 0}


def test_one_event_that_two_routes_lead_to_one_cell_is_delivered_twice() -> None:
    """K-40."""
    nodes = [
        schema("t/Move@1", {"record": {"from": {"text": {}}, "to": {"text": {}}}}),
        schema("t/Key@1", {"text": {}}),
        schema("t/Moves@1", {"nat": {}}),
        workflow("t/account@1", state="t/Moves@1", event="t/Move@1", key_schema="t/Key@1"),
    ]
    routes = [route("t/Move@1", "t/account@1", field) for field in ("from", "to")]

    def moves(envelope: Envelope) -> Envelope:
        return {"state": encode((state_of(envelope) or 0) + 1)}

    world = MemoryWorld(air(nodes, routes), {"t/account@1": moves})
    for to in ("b", "a"):
        world.send("t/Move@1", {"from": "a", "to": to})
    world.run()

    assert (world.state_of("t/account@1", "a"), world.state_of("t/account@1", "b")) == (3, 1)


def test_an_option_of_the_envelope_may_be_null() -> None:
    nothing = {"fault": None, "domain_events": None, "effects": None, "ann": None, "status": None}
    world = counters(answers({"state": STATE, **nothing}))
    world.send("t/Add@1", add("a"))
    world.run()
    assert world.state_of(COUNTER, "a") == {"sum": 1}


def test_an_event_that_reaches_no_cell_is_never_too_deep() -> None:
    """K-45."""

    def noting(envelope: Envelope) -> Envelope:
        relayed = relay(envelope)
        return {**relayed, "domain_events": [*relayed["domain_events"], emit("t/Note@1", "n")]}

    world = counters(noting, limits={"world": {"cascade_depth": 2}})
    world.send("t/Add@1", add("a", 2))
    world.run()

    assert [len(step.events) for step in world.steps() if isinstance(step, Step)] == [2, 2, 1]


def only_existing(**more: Any) -> MemoryWorld:
    """Counters that ``t/Add@1`` creates, and whose ``t/Stop@1`` is for existing ones only. An
    ``emits`` of the first event is emitted by the counter that it reaches."""
    stop = schema("t/Stop@1", {"record": {"key": {"text": {}}, "emits": {"list": {"text": {}}}}})
    arms = {"Add": {"ref": "t/Add@1"}, "Stop": {"ref": "t/Stop@1"}}
    nodes = [
        *(each for each in NODES if each["name"] != "t/CounterEvent@1"),
        schema("t/CounterEvent@1", {"variant": arms}),
        stop,
        workflow(COUNTER, state="t/Count@1", event="t/CounterEvent@1", key_schema="t/Key@1"),
    ]
    routes = [route("t/Add@1", COUNTER, "key"), route("t/Stop@1", COUNTER, "key", creates=False)]

    def module(envelope: Envelope) -> Envelope:
        event = event_of(envelope)["$value"]
        emits = [
            emit("t/Add@1", add(each[1:]))
            if each.startswith("+")
            else emit("t/Stop@1", {"key": each, "emits": []})
            for each in event.get("emits", [])
        ]
        return {"state": STATE, "domain_events": emits}

    return MemoryWorld(air(nodes, routes, **more), {COUNTER: module})


def stop(key: str, *emits: str) -> Value:
    return {"key": key, "emits": list(emits)}


def test_an_event_for_existing_instances_only_is_refused_at_the_door_and_creates_none() -> None:
    """K-42a, K-11."""
    world = only_existing()
    before = world.state.next_seq

    answer = world.send("t/Stop@1", stop("a"), "stop-a")

    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.INSTANCE_IS_UNKNOWN
    assert answer.message == (
        't/counter@1 "a" does not exist, and t/Stop@1 is only for instances that do '
        "(check the key; the route says creates: false)"
    )
    assert (world.state.next_seq, list(world.state.cells)) == (before, [])

    world.send("t/Add@1", add("a"))
    assert isinstance(world.send("t/Stop@1", stop("a"), "stop-a"), Admitted)
    world.run()
    assert isinstance(world.send("t/Stop@1", stop("a")), Admitted)


def test_an_emitted_event_for_a_missing_instance_is_journaled_as_undelivered() -> None:
    """K-42a. An instance that an earlier event of the same step creates exists."""
    world = only_existing()
    world.send("t/Add@1", add("a"))
    world.run()

    world.send("t/Stop@1", stop("a", "b", "a", "+c", "c"))
    records = world.run()

    (first, *_) = [each for each in records if isinstance(each, Step) and each.events]
    reached = [(event.to, event.unknown) for event in first.events]
    a, b, c = ((COUNTER, encode(key)) for key in "abc")
    assert reached == [((), (b,)), ((a,), ()), ((c,), ()), ((c,), ())]
    assert first.status == "running"
    assert b not in world.state.cells
    assert world.state_of(COUNTER, "c") == {"sum": 1}


def test_one_missing_instance_refuses_an_event_for_all_its_targets() -> None:
    """K-42a, K-11."""
    two = workflow("t/late@1", state="t/Count@1", event="t/Add@1", key_schema="t/Key@1")
    counter = workflow(COUNTER, state="t/Count@1", event="t/Add@1", key_schema="t/Key@1")
    routes = [
        route("t/Add@1", COUNTER, "key"),
        route("t/Add@1", "t/late@1", "key", creates=False),
    ]
    world = MemoryWorld(air([*NODES[:5], counter, two], routes), {})

    answer = world.send("t/Add@1", add("a"))

    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.INSTANCE_IS_UNKNOWN
    assert answer.message.startswith('t/late@1 "a" does not exist')


def test_a_failed_instance_exists_even_if_its_first_step_failed() -> None:
    """K-42a, K-44."""
    stopped = only_existing(limits={"step": {"state_bytes": 1}})
    stopped.send("t/Add@1", add("a"))
    stopped.run()
    assert stopped.state.cells[COUNTER, encode("a")].fault is not None

    assert isinstance(stopped.send("t/Stop@1", stop("a")), Admitted)
