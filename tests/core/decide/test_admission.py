"""Which inputs are admitted and refused; a refusal changes nothing (K-11 to K-14, K-70)."""

from __future__ import annotations

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.core.journal.inputs import EventInput, ManifestInput, StartInput
from aos.core.journal.records import Event, Manifest
from aos.core.kernel import open_kernel
from aos.core.limits import Limits
from aos.manifest.load import Loaded
from aos.values.cbor import Value, encode
from aos.values.digests import content_hash
from tests.core.decide.test_effects import BUYER, PAID, buyers, key_text, order
from tests.core.decide.test_steps import COUNTER, NODES, add, counters
from tests.memory_world import (
    OPERATOR_KEY,
    WORLD_KEY,
    Envelope,
    MemoryWorld,
    air,
    emit,
    event_of,
    route,
    schema,
    workflow,
)


def refused(answer: object) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


@pytest.mark.parametrize(
    ("schema", "value", "rule", "message"),
    [
        ("t/Nope@1", add("a"), Rule.EVENT_SCHEMA_IS_UNKNOWN, '"t/Nope@1" is not in the manifest'),
        ("sys/VaultPutParams@1", {}, Rule.EVENT_SCHEMA_IS_UNKNOWN, "not in the manifest"),
        (
            "sys/EffectReceiptEnvelope@1",
            {},
            Rule.EVENT_SCHEMA_IS_UNKNOWN,
            "sys/EffectReceiptEnvelope@1 is a continuation, which only the kernel delivers",
        ),
        ("t/Add@1", {"key": "a"}, Rule.EVENT_IS_INVALID, "$.by"),
        ("t/Add@1", {"key": "a", "by": 2**63}, Rule.EVENT_IS_INVALID, "$.by"),
        ("t/Add@1", {"key": "a", "by": 1, "x": 1}, Rule.EVENT_IS_INVALID, "x"),
    ],
)
def test_an_event_that_does_not_fit_is_refused(
    schema: str, value: Value, rule: Rule, message: str
) -> None:
    world = counters()
    answer = refused(world.send(schema, value))
    assert answer.rule is rule
    assert message in answer.message
    assert [type(each) for each in world.seal()] == [Manifest]


def accepting(*schemas: str) -> MemoryWorld:
    """Counters in which ``t/Start@1`` makes a step emit ``t/Add@1``; ``schemas`` are all that is
    accepted from outside."""
    arms = {"Start": {"ref": "t/Start@1"}, "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"}}
    nodes = [
        *NODES,
        schema("t/Start@1", {"record": {"key": {"text": {}}}}),
        schema("t/StarterEvent@1", {"variant": arms}),
        workflow("t/starter@1", state="t/Count@1", event="t/StarterEvent@1", key_schema="t/Key@1"),
        workflow(COUNTER, state="t/Count@1", event="t/CounterEvent@1", key_schema="t/Key@1"),
    ]
    routes = [route("t/Start@1", "t/starter@1", "key"), route("t/Add@1", COUNTER, "key")]
    loaded = air(nodes, [], routing={"subscriptions": routes, "ingress": list(schemas)})
    state = encode({"sum": 1})

    def start(_: Envelope) -> Envelope:
        return {"state": state, "domain_events": [emit("t/Add@1", add("a"))]}

    return MemoryWorld(loaded, {"t/starter@1": start, COUNTER: lambda _: {"state": state}})


@pytest.mark.parametrize("value", [add("a"), {"odd": 1}])
def test_an_event_that_only_steps_emit_is_refused_from_outside(value: Value) -> None:
    """K-11, M-30b: before its value is looked at, and whatever its submission id."""
    world = accepting("t/Start@1")

    answer = refused(world.send("t/Add@1", value, "s" * 300))

    assert answer.rule is Rule.EVENT_IS_INTERNAL
    assert answer.message == (
        "t/Add@1 is not accepted from outside: only the world's own steps emit it "
        "(routing.ingress of the manifest in force does not list it)"
    )
    assert [type(each) for each in world.seal()] == [Manifest]


def test_steps_emit_what_nobody_can_send() -> None:
    """M-30b: the list is about events from outside alone."""
    world = accepting("t/Start@1")

    assert isinstance(world.send("t/Start@1", {"key": "a"}), Admitted)
    world.run()

    assert world.state_of(COUNTER, "a") == {"sum": 1}


def test_a_manifest_that_closes_an_event_refuses_it_also_when_it_is_sent_again() -> None:
    """K-11: M-30b is looked at before K-12, as the schema and the value are."""
    world = accepting("t/Start@1", "t/Add@1")
    assert isinstance(world.send("t/Add@1", add("a"), "s-1"), Admitted)
    world.run()

    world.apply(accepting().loaded)

    assert refused(world.send("t/Add@1", add("a"), "s-1")).rule is Rule.EVENT_IS_INTERNAL
    assert refused(world.send("t/Nope@1", {})).rule is Rule.EVENT_SCHEMA_IS_UNKNOWN


def test_a_built_in_schema_is_an_event_like_any_other() -> None:
    """K-11: only continuations are apart."""
    commit = "sys/WorkspaceCommit@1"
    nodes = [
        *NODES,
        workflow("t/keeper@1", state="t/Count@1", event=commit, key_schema="t/Key@1"),
    ]
    meta: Value = {"root_hash": f"sha256:{64 * '0'}", "owner": "o", "created_at": 1}
    value: Value = {"workspace": "w", "expected_head": None, "meta": meta}

    def keep(envelope: Envelope) -> Envelope:
        # It emits the same for another key, once.
        is_first = event_of(envelope)["workspace"] == "w"
        other = emit(commit, {"workspace": "v", "expected_head": None, "meta": meta})
        return {"state": encode({"sum": 1}), "domain_events": [other] if is_first else []}

    loaded = air(nodes, [route(commit, "t/keeper@1", "workspace")])
    world = MemoryWorld(loaded, {"t/keeper@1": keep})

    assert world.send(commit, value) == Admitted(seq=3, to=(("t/keeper@1", encode("w")),))
    world.run()
    assert world.state_of("t/keeper@1", "v") == {"sum": 1}


def test_bytes_that_are_not_cbor_are_refused() -> None:
    world = counters()
    given = EventInput(schema="t/Add@1", value=b"\xbf\xff")
    assert refused(world.kernel.admit(given, world.stamp())).rule is Rule.EVENT_IS_INVALID


def test_an_event_without_a_subscription_is_journaled_and_reaches_no_cell() -> None:
    world = counters()
    answer = world.send("t/Note@1", "hello")
    assert answer == Admitted(seq=3, to=())
    (event,) = [each for each in world.seal() if isinstance(each, Event)]
    assert event.to == ()


def test_an_event_reaches_every_subscriber_in_manifest_order() -> None:
    nodes = [
        *NODES,
        workflow("t/late@1", state="t/Count@1", event="t/Add@1", key_schema="t/Key@1"),
        workflow("t/early@1", state="t/Count@1", event="t/Add@1"),
    ]
    loaded = air(nodes, [route("t/Add@1", "t/late@1", "key"), route("t/Add@1", "t/early@1")])
    world = MemoryWorld(loaded, {})
    answer = world.send("t/Add@1", add("a"))
    assert answer == Admitted(seq=3, to=(("t/late@1", encode("a")), ("t/early@1", b"")))


def test_the_same_submission_is_answered_and_another_under_its_id_is_refused() -> None:
    world = counters()
    first = world.send("t/Add@1", add("a"), "order-1")
    assert isinstance(first, Admitted)

    assert world.send("t/Add@1", add("a"), "order-1") == Duplicate(seq=first.seq)
    other = refused(world.send("t/Add@1", add("a", 2), "order-1"))

    assert other.rule is Rule.SUBMISSION_ID_IS_TAKEN
    assert [type(each) for each in world.seal()] == [Manifest, Event]


def test_the_same_value_in_another_spelling_is_the_same_submission() -> None:
    world = counters()
    world.send("t/Add@1", add("a"), "order-1")
    spelled = EventInput(
        schema="t/Add@1", value=b"\xa2\x63key\x61a\x62by\x18\x01", submission_id="order-1"
    )
    assert isinstance(world.kernel.admit(spelled, world.stamp()), Duplicate)


def test_submission_ids_are_forgotten_by_age_and_by_number() -> None:
    world = counters(limits={"world": {"dedup_rows": 2, "dedup_ns": 10**9}})
    for name in ["one", "two", "three"]:
        world.send("t/Add@1", add("a"), name)
    assert list(world.state.submissions) == ["two", "three"]

    world.now_ns += 2 * 10**9
    world.send("t/Add@1", add("a"), "four")
    assert list(world.state.submissions) == ["four"]


@pytest.mark.parametrize("name", ["", "x" * 257, "é" * 129])
def test_a_submission_id_has_1_to_256_bytes(name: str) -> None:
    answer = refused(counters().send("t/Add@1", add("a"), name))
    assert answer.rule is Rule.SUBMISSION_ID_IS_INVALID


def test_a_world_without_a_manifest_takes_no_event() -> None:
    world = counters()
    kernel = open_kernel(world=world.state.world, read=world.read)
    answer = kernel.admit(EventInput(schema="t/Add@1", value=b"\xa0"), world.stamp())
    assert refused(answer).rule is Rule.WORLD_HAS_NO_MANIFEST


def second(version: int = 2) -> Loaded:
    counter = workflow(
        COUNTER, state="t/Count@1", event="t/CounterEvent@1", key_schema="t/Key@1",
        annotations="t/Note@1", effects=["t/ping@1"],
    )  # fmt: skip
    return air([*NODES, counter], [route("t/Add@1", COUNTER, "key")], version=version)


def test_a_manifest_comes_into_force_at_quiescence() -> None:
    world = counters()
    world.send("t/Add@1", add("a"))
    loaded = second()

    blocked = refused(world.apply(loaded))
    assert blocked.rule is Rule.WORLD_IS_NOT_QUIESCENT
    assert [each.kind for each in blocked.blockers] == [
        "instance_is_not_terminal",
        "mail_is_queued",
    ]
    world.run()

    assert isinstance(world.apply(loaded), Admitted)
    assert world.effective.hash == loaded.effective.hash


def test_an_open_intent_blocks_and_its_receipt_unblocks() -> None:
    world = buyers()
    order(world, "a")
    other = buyers(limits={"step": {"fuel": 5}}).loaded

    blocked = refused(world.apply(other))
    assert [each.kind for each in blocked.blockers] == [
        "instance_is_not_terminal",
        "intent_is_open",
    ]

    world.settle(world.open()[0], PAID)
    world.run()
    assert isinstance(world.apply(other), Admitted)


def test_an_explicit_lifecycle_ends_only_by_word_or_fault() -> None:
    said: list[str] = []

    def module(envelope: dict[str, object]) -> dict[str, object]:
        status = {"status": said[-1]} if said else {}
        return {"state": encode({"sum": 0}), **status}

    world = counters(module, lifecycle="explicit")
    world.send("t/Add@1", add("a"))
    world.run()
    assert refused(world.apply(second())).rule is Rule.WORLD_IS_NOT_QUIESCENT

    said.append("completed")
    world.send("t/Add@1", add("a"))
    world.run()
    assert isinstance(world.apply(second()), Admitted)


def command(world: MemoryWorld, loaded: Loaded, **fields: object) -> object:
    document = loaded.effective.document
    serial = fields.pop("serial", world.state.serial)
    assert isinstance(serial, int)
    message = ManifestInput.message(world.state.world, serial, content_hash(document))
    signature = OPERATOR_KEY.sign(message).signature
    given = {
        "document": document, "principal": "operator", "serial": serial, "signature": signature,
        **fields,
    }  # fmt: skip
    return world.kernel.admit(ManifestInput(**given), world.stamp())  # type: ignore[arg-type]  # a table of wrong fields


def test_only_an_operators_word_applies_and_only_once() -> None:
    world = counters()
    loaded = second()
    intruder = SigningKey(bytes([5]) * 32)
    message = ManifestInput.message(world.state.world, 1, loaded.effective.hash)

    cases: list[tuple[dict[str, object], Rule]] = [
        ({"principal": "mallory"}, Rule.MANIFEST_PRINCIPAL_IS_UNKNOWN),
        ({"signature": intruder.sign(message).signature}, Rule.MANIFEST_SIGNATURE_IS_WRONG),
        ({"signature": bytes(64)}, Rule.MANIFEST_SIGNATURE_IS_WRONG),
        ({"document": second(3).effective.document}, Rule.MANIFEST_SIGNATURE_IS_WRONG),
        ({"serial": 0}, Rule.MANIFEST_SERIAL_IS_WRONG),
        ({"serial": 2}, Rule.MANIFEST_SERIAL_IS_WRONG),
    ]
    for fields, rule in cases:
        assert refused(command(world, loaded, **fields)).rule is rule
    assert isinstance(command(world, loaded), Admitted)
    assert refused(command(world, loaded)).rule is Rule.MANIFEST_IS_IN_FORCE


def test_a_listed_node_must_be_the_worlds_own_key() -> None:
    world = counters()
    other = SigningKey(bytes([5]) * 32)
    counter = workflow(
        COUNTER, state="t/Count@1", event="t/CounterEvent@1", key_schema="t/Key@1",
        effects=["t/ping@1"],
    )  # fmt: skip
    loaded = air(
        [*NODES, counter],
        [route("t/Add@1", COUNTER, "key")],
        executors=[
            {"name": "node", "public_key": key_text(other), "effects": []},
            {"name": "test", "public_key": key_text(OPERATOR_KEY), "effects": ["t/ping@1"]},
        ],
    )
    answer = refused(world.apply(loaded))
    assert answer.rule is Rule.MANIFEST_IS_INVALID
    assert "node must have this world's own key" in answer.message


def test_workflows_of_an_earlier_manifest_keep_their_cells() -> None:
    world = counters()
    world.send("t/Add@1", add("a"))
    world.run()
    nodes = [
        schema("u/E@1", {"record": {"k": {"text": {}}}}),
        schema("u/S@1", {"unit": {}}),
        workflow("u/other@1", state="u/S@1", event="u/E@1"),
    ]
    other = air(nodes, [route("u/E@1", "u/other@1")])
    answer = refused(world.apply(other))
    assert answer.rule is Rule.MANIFEST_DOES_NOT_FIT
    assert answer.blockers[0].kind == "workflow_has_cells"
    assert isinstance(world.apply(other, leaves=(COUNTER,)), Admitted)
    assert world.state_of(COUNTER, "a") == {"sum": 1}
    assert BUYER not in world.effective.workflows


def test_a_submission_id_that_is_not_unicode_is_refused() -> None:
    answer = refused(counters().send("t/Add@1", add("a"), "\ud800"))
    assert answer.rule is Rule.SUBMISSION_ID_IS_INVALID
    assert "text that is not Unicode" in answer.message


def test_a_submission_id_names_nothing_any_more_when_its_time_is_up() -> None:
    """K-12: also when nothing has come under an id since."""
    world = counters(limits={"world": {"dedup_ns": 10**9}})
    first = world.send("t/Add@1", add("a"), "one")
    world.send("t/Add@1", add("a"), "two")
    assert isinstance(first, Admitted)
    world.now_ns += 10**9 - 3_000
    assert isinstance(world.send("t/Add@1", add("a"), "one"), Duplicate)
    world.now_ns += 10**9

    again = world.send("t/Add@1", add("a", 5), "one")

    assert isinstance(again, Admitted)
    assert list(world.state.submissions) == ["one"]
    assert world.state.submissions["one"].seq == again.seq


def test_a_key_over_a_kilobyte_is_refused() -> None:
    world = counters()
    answer = refused(world.send("t/Add@1", add("k" * 1022)))
    assert answer.rule is Rule.EVENT_KEY_IS_INVALID
    assert answer.message == (
        "t/Add@1: $.key: too long for a key of t/counter@1: expected at most 1024 bytes, found 1025"
    )


def test_an_event_reaches_a_bounded_number_of_mailboxes() -> None:
    world = counters()
    world.state.limits = Limits(deliveries=0)
    assert refused(world.send("t/Add@1", add("a"))).rule is Rule.EVENT_REACHES_TOO_MANY
    assert isinstance(world.send("t/Note@1", "unrouted"), Admitted)


def test_the_worlds_key_signs_as_node_and_under_no_other_name() -> None:
    world = counters()
    counter = workflow(
        COUNTER, state="t/Count@1", event="t/CounterEvent@1", key_schema="t/Key@1",
        effects=["t/ping@1"],
    )  # fmt: skip
    named = {"name": "test", "public_key": key_text(WORLD_KEY), "effects": ["t/ping@1"]}
    loaded = air([*NODES, counter], [route("t/Add@1", COUNTER, "key")], executors=[named])
    answer = refused(world.apply(loaded))
    assert answer.rule is Rule.MANIFEST_IS_INVALID
    assert "no other may" in answer.message


@pytest.mark.parametrize("serial", [-1, 2**64, 2**100, -(2**100)])
def test_a_serial_of_any_size_is_wrong(serial: int) -> None:
    world = counters()
    document = second().effective.document
    given = ManifestInput(
        document=document, principal="operator", serial=serial, signature=bytes(64)
    )
    assert refused(world.kernel.admit(given, world.stamp())).rule is Rule.MANIFEST_SERIAL_IS_WRONG


def test_a_record_that_cannot_be_written_is_not_folded() -> None:
    """K-2: the record's bytes are made before the state changes."""
    world = counters()
    given = StartInput(host=(("kernel", "\ud800"),))
    with pytest.raises(TypeError):
        world.kernel.admit(given, world.stamp())
    assert (world.state.next_seq, world.kernel.pending_records) == (3, 1)
