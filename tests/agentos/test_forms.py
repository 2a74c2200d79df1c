"""Inputs and valid outputs of a module with ``abi: "agentos"``, field by field. The modules here
are Python functions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal
from aos.core.decide.control import uses_in_state
from aos.core.journal.records import Faulted, Record, Ref, Step, slot_bytes
from aos.core.state.cell import OpenIntent
from aos.manifest.load import Loaded
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash, hash_text
from aos.values.sha256 import read_name
from tests.memory_world import Envelope, MemoryWorld, Trap, air, effect, route, schema, workflow

NAME = "t/work@1"
TAGGED = b"\xd9\xd9\xf7"

TEXT: dict[str, object] = {"text": {}}
NAT: dict[str, object] = {"nat": {}}
HASH: dict[str, object] = {"hash": {}}
ENVELOPE = {"ref": "sys/EffectReceiptEnvelope@1"}
EFFECTS = (
    "sys/blob.put@1",
    "sys/blob.get@1",
    "sys/timer.set@1",
    "sys/http.request@1",
    "sys/introspect.list_cells@1",
    "sys/introspect.workflow_state@1",
    "sys/introspect.manifest@1",
    "t/ask@1",
)


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def given(blob: bytes) -> str:
    """The given name of a blob with this content hash (AG-30)."""
    return sha(encode(["aos/given/1", blob]))


def nodes(
    *,
    state: object = NAT,
    answer: Mapping[str, object] = MappingProxyType({}),
    effects: tuple[str, ...] = EFFECTS,
    **more: object,
) -> list[dict[str, object]]:
    return [
        schema("t/State@1", {"record": {"n": state}}),
        schema("t/Id@1", TEXT),
        schema("t/Ask@1", {"record": {"id": TEXT, "blob": {"option": HASH}}}),
        schema("t/Told@1", {"record": {"id": TEXT, "n": {"option": NAT}}}),
        schema("t/Answer@1", {"record": {"blob": HASH, "others": {"list": HASH}, **answer}}),
        schema("t/Note@1", {"record": {"said": TEXT, "more": {"option": NAT}}}),
        schema(
            "t/Event@1",
            {
                "variant": {
                    "Ask": {"ref": "t/Ask@1"},
                    "Receipt": ENVELOPE,
                    "Frame": {"ref": "sys/EffectStreamFrame@1"},
                    "Rejected": {"ref": "sys/EffectReceiptRejected@1"},
                }
            },
        ),
        effect("t/ask@1", "t/Ask@1", "t/Answer@1"),
        workflow(
            NAME,
            state="t/State@1",
            event="t/Event@1",
            effects=effects,
            context="sys/WorkflowContext@1",
            key_schema="t/Id@1",
            **more,
        ),
    ]


class Play:
    """A world whose module answers what it is told to, and keeps what it was called with."""

    def __init__(self, **more: Any) -> None:
        self.calls: list[Any] = []
        self.answer: Any = {"state": encode({"n": 1})}
        self.traps = False
        self.world = MemoryWorld(self.loaded(**more), {NAME: self.step})

    @staticmethod
    def loaded(abi: str | None = "agentos", version: int = 1, **more: Any) -> Loaded:
        return air(nodes(**more), [route("t/Ask@1", NAME, "id")], abi=abi, version=version)

    def step(self, envelope: Envelope) -> Any:
        """Answers an event as it was told to, and keeps its state for everything else."""
        self.calls.append(envelope)
        if self.traps:
            raise Trap
        if "event" not in envelope:
            return self.answer
        value: Any = decode_record(envelope["event"]["value"])
        return self.answer if value["$tag"] == "Ask" else {"state": envelope["state"]}

    def ask(self, answer: Any = None, *, blob: str | None = None) -> Record:
        """Send an event; return the record of the step."""
        if answer is not None:
            self.answer = answer
        said = self.world.send("t/Ask@1", {"id": "abc", "blob": blob})
        assert isinstance(said, Admitted), said
        return self.run()

    def run(self) -> Record:
        """Run what is to run; return the record of the first step."""
        found = [each for each in self.world.run() if isinstance(each, Step | Faulted)]
        return found[0]

    def emit(self, kind: str, params: Any, **more: object) -> OpenIntent:
        """Have the module ask for an effect; return the intent."""
        record = self.asked(kind, params, **more)
        return self.world.state.intents[record.intents[0].intent]

    def asked(self, kind: str, params: Any, **more: object) -> Step:
        answer = {
            "state": encode({"n": 1}),
            "domain_events": [],
            "effects": [{"kind": kind, "params_cbor": encode(params), **more}],
            "ann": None,
        }
        record = self.ask(answer)
        assert isinstance(record, Step), record
        return record

    def told(self) -> Mapping[str, Any]:
        """Return the value of the last call's event, without its variant tag."""
        value: Any = decode_record(self.calls[-1]["event"]["value"])
        found: Mapping[str, Any] = value["$value"]
        return found


@pytest.fixture
def play() -> Play:
    return Play()


def test_keys_begin_with_tag_55799(play: Play) -> None:
    """AG-5."""
    play.ask()

    key = TAGGED + encode("abc")
    context: Any = decode_record(play.calls[0]["ctx"])
    assert play.calls[0]["event"]["key"] == key
    assert context["key"] == key


def test_the_context_is_told_by_every_name_that_it_had(play: Play) -> None:
    """AG-6: and the hash of the manifest is one that the SDK decodes."""
    play.ask()

    context: Any = decode_record(play.calls[0]["ctx"])
    workflow_ = play.world.effective.workflows[NAME]
    assert context["workflow_op_hash"] == context["workflow_hash"] == hash_text(workflow_.hash)
    assert context["manifest_hash"] == given(play.world.effective.manifest_hash)
    assert context["workflow"] == NAME
    assert context["cell_mode"] is True


def test_an_envelope_has_every_name_that_its_fields_had(play: Play) -> None:
    """AG-7, AG-24."""
    intent = play.emit("sys/timer.set@1", {"deliver_at_ns": 1}, issuer_ref="mine")
    play.world.settle(intent, {"delivered_at_ns": 5, "key": None})
    play.run()

    told = play.told()
    assert told["effect"] == told["effect_op"] == told["effect_kind"] == "sys/timer.set@1"
    assert told["effect_hash"] == told["effect_op_hash"] == hash_text(intent.effect.hash)
    assert told["origin_workflow_hash"] == told["origin_workflow_op_hash"]
    assert told["origin_instance_key"] == TAGGED + encode("abc")
    assert told["adapter_id"] == "node"
    assert told["intent_id"] == hash_text(intent.intent)
    assert told["issuer_ref"] == "mine"
    params = encode({"deliver_at_ns": 1, "key": None})
    assert told["params_hash"] == sha(TAGGED + params)
    assert decode_record(told["receipt_payload"]) == {"delivered_at_ns": 5, "key": None}


def test_a_put_is_completed_before_it_is_hashed(play: Play) -> None:
    """AG-24, AG-31."""
    intent = play.emit("sys/blob.put@1", {"bytes": b"x"})

    params = encode({"bytes": b"x", "blob_ref": sha(b"x"), "refs": []})
    assert slot_bytes(intent.params, play.world.read) == params
    ref = "sha256:" + "0" * 64
    play.world.settle(intent, {"blob_ref": sha(b"x"), "edge_ref": ref, "size": 1})
    play.run()
    assert play.told()["params_hash"] == sha(TAGGED + params)
    assert decode_record(play.told()["receipt_payload"]) == {
        "blob_ref": sha(b"x"),
        "edge_ref": ref,
        "size": 1,
    }


def test_a_put_under_another_name_is_a_fault(play: Play) -> None:
    """AG-31."""
    wrong: Value = {"bytes": b"x", "blob_ref": sha(b"y")}
    answer = {"state": None, "effects": [{"kind": "sys/blob.put@1", "params_cbor": encode(wrong)}]}
    record = play.ask({**answer, "state": encode({"n": 1})})

    assert isinstance(record, Faulted)
    assert record.fault.kind.value == "params_invalid"
    assert f"$.blob_ref: expected {sha(b'x')}, the SHA-256 of bytes" in record.fault.message


def test_params_of_http_are_hashed_as_they_were_asked_for(play: Play) -> None:
    """AG-24: headers as text, and without the body that only ours have."""
    asked: Value = {"method": "GET", "url": "http://a", "headers": {"x": "y"}}
    intent = play.emit("sys/http.request@1", asked)
    receipt: Value = {
        "status": 200,
        "headers": {},
        "body_ref": sha(b"body"),
        "body": None,
        "timings": {"start_ns": 1, "end_ns": 2},
    }
    play.world.settle(intent, receipt)
    play.run()

    theirs = encode({"method": "GET", "url": "http://a", "headers": {"x": "y"}, "body_ref": None})
    assert play.told()["params_hash"] == sha(TAGGED + theirs)
    payload: Any = decode_record(play.told()["receipt_payload"])
    assert payload["adapter_id"] == "node"
    assert payload["body_ref"] == sha(b"body")


def test_answers_of_the_core_about_itself_have_the_forms_that_the_sdk_reads(play: Play) -> None:
    """AG-25, AG-5."""
    play.asked("sys/introspect.list_cells@1", {"workflow": NAME})

    told = play.told()
    assert told["params_hash"] == sha(TAGGED + encode({"workflow": NAME}))
    payload: Any = decode_record(told["receipt_payload"])
    assert payload["cells"][0]["key"] == TAGGED + encode("abc")
    assert payload["cells"][0]["state_hash"] == given(content_hash(encode({"n": 1})))
    assert payload["meta"]["manifest_hash"] == given(play.world.effective.manifest_hash)
    assert named(play) == {}


def test_a_key_that_is_asked_about_may_have_the_tag(play: Play) -> None:
    """AG-5."""
    key = TAGGED + encode("abc")
    asked: Any = {"workflow": NAME, "key": key, "consistency": "head"}
    play.asked("sys/introspect.workflow_state@1", asked)

    payload: Any = decode_record(play.told()["receipt_payload"])
    assert payload["state"] == encode({"n": 1})
    assert play.told()["params_hash"] == sha(TAGGED + encode(asked))


def named(play: Play) -> dict[str, Hash]:
    """The names that the world was told."""
    found = [read_name(data) for data in play.world.blobs.values()]
    return {f"sha256:{each.sha256.hex()}": each.blob for each in found if each is not None}


def test_a_blob_of_an_event_gets_a_name(play: Play) -> None:
    """AG-33."""
    blob = content_hash(b"uploaded")
    play.ask(blob=hash_text(blob))

    assert play.told()["blob"] == given(blob)
    assert named(play) == {given(blob): blob}


def test_a_hash_of_another_algorithm_stays(play: Play) -> None:
    play.ask(blob=sha(b"x"))

    assert play.told()["blob"] == sha(b"x")
    assert named(play) == {}


def test_blobs_of_a_receipt_get_names(play: Play) -> None:
    """AG-33: of an executor that knows nothing of SHA-256."""
    intent = play.emit("t/ask@1", {"id": "abc"})
    one, other = content_hash(b"1"), content_hash(b"2")
    answer: Value = {"blob": hash_text(one), "others": [hash_text(other), sha(b"3")]}
    play.world.settle(intent, answer)
    play.run()

    assert decode_record(play.told()["receipt_payload"]) == {
        "blob": given(one),
        "others": [given(other), sha(b"3")],
    }
    assert named(play) == {given(one): one, given(other): other}


def test_an_error_is_rejected_and_never_in_the_arm_of_receipts(play: Play) -> None:
    """AG-16."""
    intent = play.emit("t/ask@1", {"id": "abc"})
    play.world.fail(intent, "broken")
    play.run()

    told = play.told()
    assert "receipt_payload" not in told
    assert (told["status"], told["error_code"]) == ("error", "receipt_payload_invalid")
    assert told["error_message"].startswith("broken: ")


def test_a_failure_in_the_form_of_the_receipt_is_delivered(play: Play) -> None:
    """AG-16."""
    answer: Value = {"blob": f"blake3:{64 * '1'}", "others": []}
    intent = play.emit("t/ask@1", {"id": "abc"})
    play.world.settle(intent, answer, status="timeout")
    play.run()

    told = play.told()
    payload: Any = decode_record(told["receipt_payload"])
    assert (told["status"], payload["others"]) == ("timeout", [])


def test_an_answer_of_the_kernel_itself_is_no_exception(play: Play) -> None:
    """AG-16."""
    play.asked("sys/introspect.workflow_state@1", {"workflow": "t/none@1", "consistency": "head"})

    assert play.told()["error_message"].startswith("workflow_unknown: ")


def test_a_frame_names_its_blob_so(play: Play) -> None:
    """AG-7, AG-33."""
    intent = play.emit("t/ask@1", {"id": "abc"})
    blob = content_hash(b"part")
    play.world.stream(intent, 0, payload_ref=blob)
    play.run()

    assert play.told()["payload_ref"] == given(blob)
    assert play.told()["effect_op"] == "t/ask@1"
    assert named(play) == {given(blob): blob}


def test_a_rejected_receipt_has_the_names_too(play: Play) -> None:
    """AG-7."""
    intent = play.emit("t/ask@1", {"id": "abc"})
    play.world.settle(intent, {"no": "answer"})
    play.run()

    told = play.told()
    assert told["error_code"] == "receipt_payload_invalid"
    assert told["effect_kind"] == "t/ask@1"
    assert told["payload_hash"].startswith("sha256:")


@pytest.mark.parametrize("state", [b"\xff", b"", encode({"other": 1}), b"\xbf\xff"])
def test_any_state_is_kept_as_it_came(play: Play, state: bytes) -> None:
    """AG-10."""
    record = play.ask({"state": state})

    assert isinstance(record, Step)
    play.ask({"state": state})
    assert play.calls[-1]["state"] == state


def test_a_state_is_bounded_all_the_same() -> None:
    """AG-10."""
    play = Play(limits={"state_bytes": 4})
    record = play.ask({"state": bytes(5)})

    assert isinstance(record, Faulted)
    assert record.fault.kind.value == "state_invalid"


def test_an_effect_may_say_a_cap_slot(play: Play) -> None:
    """AG-4."""
    intent = play.emit("sys/timer.set@1", {"deliver_at_ns": 1}, cap_slot="default")

    assert intent.effect.name == "sys/timer.set@1"


def test_a_module_of_ours_may_not() -> None:
    play = Play(abi=None)
    slot = {"kind": "sys/timer.set@1", "params_cbor": encode({"deliver_at_ns": 1}), "cap_slot": "x"}
    record = play.ask({"state": encode({"n": 1}), "effects": [slot]})

    assert isinstance(record, Faulted)
    assert record.fault.kind.value == "output_malformed"


def test_a_module_of_ours_is_called_as_ever() -> None:
    """AG-1: keys, context and continuations without any of this."""
    play = Play(abi=None)
    play.ask(blob=hash_text(content_hash(b"x")))

    context: Any = decode_record(play.calls[0]["ctx"])
    assert play.calls[0]["event"]["key"] == encode("abc")
    assert "workflow_op_hash" not in context
    assert play.told()["blob"] == hash_text(content_hash(b"x"))


def test_an_undeclared_annotation_is_ignored(play: Play) -> None:
    """AG-9."""
    record = play.ask({"state": encode({"n": 1}), "ann": b"\xff"})

    assert isinstance(record, Step)
    assert record.ann is None


@pytest.mark.parametrize(("ann", "kept"), [(b"\xbf\x64said\x61a\xff", True), (b"\xa0", False)])
def test_one_that_was_declared_is_read(ann: bytes, *, kept: bool) -> None:
    """AG-9."""
    play = Play(annotations="t/Note@1")
    record = play.ask({"state": encode({"n": 1}), "ann": ann})

    if kept:
        assert isinstance(record, Step)
        assert record.ann == encode({"said": "a", "more": None})
    else:
        assert isinstance(record, Faulted)
        assert record.fault.kind.value == "annotation_invalid"


def test_an_event_that_does_not_fit_is_a_fault(play: Play) -> None:
    """AG-22."""
    wrong = {"schema": "t/Ask@1", "value": bytes.fromhex("fb3ff8000000000000")}
    record = play.ask({"state": encode({"n": 1}), "domain_events": [wrong]})

    assert isinstance(record, Faulted)
    assert record.fault.kind.value == "event_invalid"
    assert "a float" in record.fault.message


@pytest.mark.parametrize(
    ("key", "fits"),
    [
        (TAGGED + encode("abc"), True),
        (encode("abc"), True),
        (b"abc", False),
        (TAGGED + encode("x"), False),
    ],
)
def test_an_event_may_say_its_key(play: Play, key: bytes, *, fits: bool) -> None:
    """AG-5: as it was told, or as we spell it."""
    event = {"schema": "t/Ask@1", "value": encode({"id": "abc"}), "key": key}
    play.answer = {"state": encode({"n": 1}), "domain_events": [event]}
    said = play.world.send("t/Ask@1", {"id": "first", "blob": None})
    assert isinstance(said, Admitted)
    play.world.step()
    cell = play.world.state.cells.get((NAME, encode("first")))

    assert cell is not None
    assert (cell.fault is None) == fits


def test_an_opaque_state_fits_a_manifest_of_the_same_form(play: Play) -> None:
    """AG-12: a change of the state's schema does not matter."""
    play.ask({"state": b"\xff"})

    assert isinstance(play.world.apply(Play.loaded(version=2, state=TEXT)), Admitted)


def test_an_opaque_state_is_compared_when_the_form_changes(play: Play) -> None:
    """AG-12: even with an unchanged schema, because no one has checked an opaque state."""
    play.ask({"state": b"\xff"})
    refused = play.world.apply(Play.loaded(abi=None, version=2))

    assert isinstance(refused, Refusal)
    assert refused.blockers is not None
    assert [each.kind for each in refused.blockers] == ["cell_does_not_fit"]


def test_one_that_fits_goes_over(play: Play) -> None:
    play.ask({"state": encode({"n": 1})})

    assert isinstance(play.world.apply(Play.loaded(abi=None, version=2)), Admitted)


def test_a_state_of_ours_goes_over_to_the_other_form() -> None:
    play = Play(abi=None)
    play.ask({"state": encode({"n": 1})})

    assert isinstance(play.world.apply(Play.loaded(version=2)), Admitted)


def test_a_migration_may_return_any_state() -> None:
    """AG-12."""
    play = Play(abi=None)
    play.ask({"state": encode({"n": 1})})
    migrate = {"from": "t/State@1", "entrypoint": "take_over"}
    loaded = Play.loaded(version=2, migrate=migrate)
    play.answer = {"state": b"\xff"}
    said = play.world.apply(loaded, {NAME: play.step}, mode="migrate")

    assert isinstance(said, Admitted), said
    play.world.seal()
    cell = play.world.state.cells.get((NAME, encode("abc")))
    assert cell is not None
    assert cell.state is not None
    assert slot_bytes(cell.state, play.world.read) == b"\xff"


@pytest.mark.parametrize(("abi", "is_refused"), [("agentos", True), (None, False)])
def test_params_are_needed_while_a_frame_waits_that_tells_their_hash(
    abi: str | None, *, is_refused: bool
) -> None:
    """AG-24: they outlive their intent by the frame, and an erasure waits for that."""
    play = Play(abi=abi)
    intent = play.emit("t/ask@1", {"id": "x" * 2000})
    assert isinstance(intent.params, Ref)
    play.world.stream(intent, 0)
    cell = play.world.state.cells[intent.cell]
    needs = list(uses_in_state(play.world.state, intent.params.hash, play.world.read))
    assert len(cell.mailbox) == 1
    assert (f"mail of a cell of {NAME}" in needs) == is_refused


def test_a_receipt_of_before_is_told_under_a_manifest_that_has_another() -> None:
    """AG-33: the cell failed at it, and is retried; its type is another one by now."""
    play = Play()
    asked = {"kind": "t/ask@1", "params_cbor": encode({"id": "abc", "blob": None})}
    step = play.ask({"state": b"s", "status": "completed", "effects": [asked]})
    assert isinstance(step, Step)
    intent = play.world.state.intents[step.intents[0].intent]
    answer: Value = {"blob": hash_text(content_hash(b"1")), "others": []}
    play.traps = True
    play.world.settle(intent, answer)
    assert isinstance(play.run(), Faulted)
    play.traps = False
    other = {"blob": NAT, "others": {"record": {"new": HASH}}, "more": HASH}
    applied = play.world.apply(Play.loaded(version=2, answer=other), {NAME: play.step})
    assert isinstance(applied, Admitted), applied
    assert isinstance(play.world.control("retry", cell=intent.cell), Admitted)

    assert isinstance(play.run(), Step)
    assert decode_record(play.told()["receipt_payload"]) == answer


@pytest.mark.parametrize(("over", "kind"), [(0, None), (1, "params_invalid")])
def test_the_completed_params_of_a_put_are_bounded(over: int, kind: str | None) -> None:
    """AG-31: params are no longer than events may be, with the name that was filled in."""
    play = Play()
    most = play.world.effective.limits.event_bytes
    frame = len(encode({"bytes": bytes(1 << 17), "blob_ref": sha(b""), "refs": []})) - (1 << 17)
    asked: Value = {"bytes": bytes(most - frame + over)}
    effect = {"kind": "sys/blob.put@1", "params_cbor": encode(asked)}
    play.answer = {"state": b"", "effects": [effect]}
    play.world.send("t/Ask@1", {"id": "abc", "blob": None})
    record = play.run()

    if kind is None:
        assert isinstance(record, Step), record
    else:
        assert isinstance(record, Faulted)
        assert (record.fault.kind.value, "too large" in record.fault.message) == (kind, True)
