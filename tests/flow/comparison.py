"""A journal of the flows of modules/conformance/flow, compared with the model turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from aos.core.journal.records import (
    CellId,
    Emitted,
    Event,
    KernelReceipt,
    Receipt,
    Record,
    Slot,
    Stamp,
    Step,
    slot_bytes,
)
from aos.manifest.names import TIMER
from aos.values.cbor import decode_record
from aos.values.digests import Hash
from tests.flow.model import Flow, Turn

RUN: Final = "f/run@1"
PART: Final = "f/part@1"
SCHEMAS: Final = {RUN: "f/Run", PART: "f/Part"}
CANCEL: Final = "sys/effect.cancel@1"
UNDO_STATES: Final = ("registered", "running", "done", "stuck", "skipped")


class Comparison:
    """The model of each flow in a journal. It gets the turns of the journal, in their order."""

    def __init__(self, read: Callable[[Hash], bytes]) -> None:
        self.read_blob = read
        self.flows: dict[CellId, Flow] = {}
        self.turns = 0
        self.by_seq: dict[int, Record] = {}
        self.states: dict[CellId, bytes | None] = {}
        self.references: dict[Hash, str | None] = {}
        """The issuer reference of each intent."""
        self.left_out: set[CellId] = set()
        """Cells that are not compared any more: they have run another version of the code."""
        self.without = "later"
        """The flag of the nodes that are not in the version that new flows run (``model.Flow``)."""

    def follow(self, records: Iterable[Record]) -> None:
        """Give each turn to the model, and compare."""
        for record in records:
            self.by_seq[record.seq] = record
            if isinstance(record, Step):
                self.references |= {each.intent: each.issuer_ref for each in record.intents}
                if record.cell not in self.left_out:
                    self.compare_turn(record)

    def compare_states(self) -> None:
        """Compare the last state of each flow."""
        for id, flow in self.flows.items():
            if id not in self.left_out:
                self.compare_state(id, flow)

    def read(self, slot: Slot) -> Any:
        return decode_record(slot_bytes(slot, self.read_blob))

    def compare_turn(self, step: Step) -> None:
        self.turns += 1
        workflow, key = step.cell
        flow = self.flows.get(step.cell)
        if flow is None:
            without = self.without if workflow == RUN else "later"
            flow = Flow(SCHEMAS[workflow], str(decode_record(key)), without=without)
            self.flows[step.cell] = flow
        arm, value = self.mail(step, workflow)
        expected = flow.turn(self.stamp(step), arm, value)
        found = self.made(step)
        state = None if step.state is None else slot_bytes(step.state, self.read_blob)
        said = f"record {step.seq}, {arm} {value}"
        if expected is None:
            expected = Turn()
            assert state == self.states.get(step.cell), f"{said}: the state has changed"
        self.states[step.cell] = state
        assert found.asks == expected.asks, said
        assert found.emits == expected.emits, said
        assert sorted(found.timers) == sorted(expected.timers), said
        assert sorted(found.cancels) == sorted(expected.cancels), said

    def stamp(self, step: Step) -> int:
        """The time of the input that caused a turn, which is the turn's time."""
        stamp: Stamp = getattr(self.by_seq[step.root], "stamp")  # noqa: B009  # each cause has one
        return stamp.ns

    def mail(self, step: Step, workflow: str) -> tuple[str, Any]:
        seq, index = step.entry
        record: Record | Emitted = self.by_seq[seq]
        if isinstance(record, Step):
            record = record.events[index]
        if isinstance(record, Event | Emitted):
            return arm_of(record.schema, self.read(record.value), SCHEMAS[workflow])
        assert isinstance(record, Receipt | KernelReceipt)
        reference = self.references[record.intent]
        if record.outcome == "rejected":
            return "Receipt", (reference, "rejected", "receipt_payload_invalid", None)
        payload = self.read(record.payload) if record.effect.startswith("f/") else None
        if record.status == "ok":
            return "Receipt", (reference, "ok", "", payload and payload["note"])
        if record.status == "error" and isinstance(payload, dict):
            return "Receipt", (reference, "error", payload["code"], payload["retryable"])
        return "Receipt", (reference, record.status, "", None)

    def made(self, step: Step) -> Turn:
        turn = Turn()
        for each in step.intents:
            params = self.read(each.params)
            if each.effect == TIMER:
                turn.timers.append((str(each.issuer_ref), params["deliver_at_ns"]))
            elif each.effect == CANCEL:
                turn.cancels.append(params["issuer_ref"])
            else:
                asked = (each.effect, params["what"], str(each.key), str(each.issuer_ref))
                turn.asks.append(asked)
        turn.emits = [told(each.schema, self.read(each.value)) for each in step.events]
        return turn

    def compare_state(self, id: CellId, flow: Flow) -> None:
        data = self.states.get(id)
        assert data is not None
        state: Any = decode_record(data)
        assert state["status"] == flow.status, (id, state["status"], flow.status)
        output = state["output"]
        assert (None if output is None else decode_record(output)) == flow.output
        error = None if state["error"] is None else without_messages(decode_record(state["error"]))
        assert error == (None if flow.error is None else flow.error.shape)
        stored: Any = decode_record(state["inbox"])
        inbox = [(each[0], each[1], self.read(each[2])["text"]) for each in stored[1]]
        assert inbox == [(each.number, each.schema, each.text) for each in flow.inbox]
        assert stored[0] == flow.messages
        history: Any = decode_record(state["ops"])
        undos = [(each[0], UNDO_STATES[each[3]], each[4]) for each in history[2]]
        assert undos == [(each.path, each.state, each.attempts) for each in flow.undos]


def arm_of(schema: str, value: Any, prefix: str) -> tuple[str, Any]:
    if schema in ("f/Note@1", "f/Bell@1"):
        return "Message", (schema, value["text"])
    if schema == f"{prefix}@1":
        return "Start", value
    arm = schema.removeprefix(prefix).removesuffix("@1")
    if arm == "Control":
        return arm, value["command"]
    if arm == "Return":
        result = value["result"]
        plain = {"$tag": result["$tag"], "$value": decode_record(result["$value"])}
        return arm, value | {"result": plain}
    return arm, value


def told(schema: str, value: Any) -> tuple[Any, ...]:
    """An emitted event as the model writes it."""
    match schema:
        case "f/Told@1":
            return schema, value["text"]
        case "f/Part@1":
            return schema, value["id"]
        case "f/PartCall@1":
            return schema, value["input"]["id"], value["reply"]
        case "f/PartControl@1" | "f/RunControl@1":
            command = value["command"]
            return schema, value["instance"], command["$tag"], command["$value"]["parent"]
    result = value["result"]
    data = decode_record(result["$value"])
    given = data if result["$tag"] == "Ok" else without_messages(data)
    return schema, value["path"], value["attempt"], result["$tag"], given


def without_messages(stored: Any) -> list[Any]:
    kind, code, _, path, causes = stored
    return [kind, code, path, [without_messages(each) for each in causes]]
