"""Run a single step: (state, event) -> (state, events, effects) (spec/testing.md, T-40 to T-42).

It calls the kernel's own ``decide_step`` on a state built for it, so envelope and checks are the
same as in a world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from aos.core.decide.answers import Decided
from aos.core.decide.step import decide_step
from aos.core.journal.identity import ENTROPY_BYTES
from aos.core.journal.records import CellId, Faulted, Receipt, Slot, Step, Stream, slot, slot_hash
from aos.core.journal.vocabulary import STATUSES, word_of
from aos.core.state.cell import Cell, EventMail, Mail, OpenIntent, ReceiptMail, Root, StreamMail
from aos.core.state.continuation import settled_arm, takes
from aos.errors import BadUsage
from aos.fastcore.core_kind import CoreKind
from aos.manifest.effective import Route, Workflow
from aos.manifest.names import ENVELOPE, ERROR, NODE, REJECTED, STREAM, TIMER
from aos.read.lens.lookup import find_effect, find_workflow
from aos.testing.desk import Desk
from aos.testing.plain import START, Time, canonical, payload_bytes, plain, plain_state, read_time
from aos.testing.scripts import Fail, Reply, Timeout, reply
from aos.testing.sources import SHARED, Source, loaded
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, digest, hash_text
from aos.values.errors import ValueProblem
from aos.worker.failure import AttemptFailure

REJECTED_PAYLOAD: Final = b"\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """An event about an effect that the workflow requested; made by the functions below."""

    effect: str
    status: str
    answer: object = None
    params: object = None
    issuer_ref: str | None = None
    cost_cents: int | None = None
    kind: str | None = None
    seq: int = 0


Event: TypeAlias = tuple[str, object] | Continuation


def answered(
    effect: str,
    value: object = None,
    *,
    params: object = None,
    issuer_ref: str | None = None,
    cost_cents: int | None = None,
) -> Continuation:
    """The receipt ``ok`` of an effect."""
    return Continuation(
        effect=effect, status="ok", answer=value, params=params, issuer_ref=issuer_ref,
        cost_cents=cost_cents,
    )  # fmt: skip


def failed(
    effect: str,
    code: str,
    message: str = "",
    *,
    retryable: bool = False,
    params: object = None,
    issuer_ref: str | None = None,
) -> Continuation:
    """The receipt ``error`` of an effect."""
    answer = Fail(code, message, retryable)
    return Continuation(
        effect=effect, status="error", answer=answer, params=params, issuer_ref=issuer_ref
    )


def timed_out(
    effect: str, message: str = "", *, params: object = None, issuer_ref: str | None = None
) -> Continuation:
    """The receipt ``timeout`` of an effect."""
    answer = Timeout(message)
    return Continuation(
        effect=effect, status="timeout", answer=answer, params=params, issuer_ref=issuer_ref
    )


def canceled(effect: str, *, params: object = None, issuer_ref: str | None = None) -> Continuation:
    """The receipt ``canceled`` of an effect."""
    return Continuation(effect=effect, status="canceled", params=params, issuer_ref=issuer_ref)


def rejected(effect: str, *, params: object = None, issuer_ref: str | None = None) -> Continuation:
    """A receipt whose payload does not fit (K-54)."""
    return Continuation(effect=effect, status="rejected", params=params, issuer_ref=issuer_ref)


def frame(
    effect: str,
    kind: str,
    payload: object = None,
    *,
    seq: int = 0,
    params: object = None,
    issuer_ref: str | None = None,
) -> Continuation:
    """A stream frame of an effect."""
    return Continuation(
        effect=effect, status="open", answer=payload, params=params, issuer_ref=issuer_ref,
        kind=kind, seq=seq,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An effect that a step requested, with the workflow's own reference and key."""

    effect: str
    params: Any
    idempotency_key: str | bytes | None
    issuer_ref: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """The result of one step. With a ``fault`` (kind, message) the state is unchanged, nothing was
    emitted or requested, and the status is ``failed``."""

    state: Any
    status: str
    events: tuple[tuple[str, Any], ...] = ()
    effects: tuple[Asked, ...] = ()
    fault: tuple[str, str] | None = None
    annotation: Any = None
    fuel: int = 0


def step(
    source: Source,
    workflow: str,
    *,
    event: Event,
    state: object = None,
    key: object = None,
    now: Time = START,
    entropy: bytes | None = None,
    modules: Mapping[str, bytes] | None = None,
) -> Transition:
    """Run one step of a workflow on a state (None: a new cell).

    Args:
        key: Key of the cell; by default the one that routing reads from the event.
        entropy: 64 bytes, from which the step's entropy is derived.

    Raises:
        BadUsage: An argument does not fit the manifest.
        ManifestProblems: The manifest is invalid.
    """
    stage = _Stage(source, workflow, now_ns=read_time(now), entropy=entropy, modules=modules)
    return stage.play(event, state, key)


class _Stage:
    """A world with one cell and one event for it."""

    def __init__(
        self,
        source: Source,
        workflow: str,
        *,
        now_ns: int,
        entropy: bytes | None,
        modules: Mapping[str, bytes] | None,
    ) -> None:
        self.desk = Desk(
            seed="step",
            now_ns=now_ns,
            core=CoreKind.PYTHON,  # ``play`` decides on the reference's own state
            published=_nothing,
            over=_nothing,
        )
        self.desk.apply(loaded(source, modules))
        self.workflow = self._workflow(workflow)
        stamp = self.desk.stamp()
        if entropy is not None:
            if len(entropy) != ENTROPY_BYTES:
                raise BadUsage(f"entropy: expected {ENTROPY_BYTES} bytes, found {len(entropy)}")
            stamp = replace(stamp, entropy=entropy)
        self.root = Root(seq=self.desk.state.next_seq - 1, stamp=stamp)
        self.blobs: dict[Hash, bytes] = {}

    def _workflow(self, name: str) -> Workflow:
        state = self.desk.state
        return state.effective.workflows[find_workflow(state, name)]

    def play(self, event: Event, state: object, key: object) -> Transition:
        value = self._value(event) if isinstance(event, tuple) else None
        id = self.workflow.name, self._key(event, value, key)
        state_slot = None
        if state is not None:
            data = canonical(self.workflow.state, state, subject=f"state of {self.workflow.name}")
            state_slot = slot(data, self.blobs)
        cell = Cell(
            id=id,
            workflow_hash=self.workflow.hash,
            module_hash=self.workflow.module.hash,
            state=state_slot,
        )
        cell.mailbox.append(self._mail(id, event, value))
        cell.in_ring = True
        world = self.desk.state
        world.cells.add(cell)
        world.ring.append(id)
        decided = SHARED.on_module_thread(lambda: decide_step(world, SHARED, self._read))
        self.blobs.update(decided.blobs)
        state_before = None if state_slot is None else self._state(state_slot)
        return self._transition(decided, state_before)

    def _state(self, state_slot: Slot) -> Any:
        return plain_state(state_slot, self._read, self.desk.effective, self.workflow.name)

    def _read(self, hash: Hash, /) -> bytes:
        blob = self.blobs.get(hash)
        return self.desk.read(hash) if blob is None else blob

    def _key(self, event: Event, value: bytes | None, key: object) -> bytes:
        workflow = self.workflow
        if workflow.key is None:
            if key is not None:
                raise BadUsage(f"{workflow.name} is not keyed", actual=repr(key))
            return b""
        if key is not None:
            return canonical(workflow.key, key, subject=f"the key of {workflow.name}")
        if isinstance(event, tuple) and value is not None:
            for route in self.desk.effective.routes(event[0]):
                if route.workflow == workflow.name:
                    return _routed(route, value)
        raise BadUsage(f"{workflow.name} is keyed, and no route reads its key: pass key=")

    def _value(self, event: tuple[str, object]) -> bytes:
        name, value = event
        schema = self.desk.effective.schemas.get(name)
        if schema is None or not takes(self.workflow, name):
            known_names = ", ".join(sorted(self.workflow.arms)) or self.workflow.event.name
            raise BadUsage(
                f"{self.workflow.name} does not take {name}", expected=f"one of {known_names}"
            )
        return canonical(schema, value, subject=f"event {name}")

    def _mail(self, id: CellId, event: Event, value: bytes | None) -> Mail:
        entry = (self.root.seq, 0)
        if isinstance(event, tuple):
            assert value is not None
            value_slot = slot(value, self.blobs)
            return EventMail(
                entry=entry, root=self.root, depth=0, schema=event[0], value=value_slot
            )
        intent = self._intent(id, event)
        if event.kind is not None:
            self._check_takes(STREAM)
            stream = self._frame(intent, event)
            return StreamMail(entry=entry, root=self.root, depth=0, intent=intent, frame=stream)
        receipt = self._receipt(intent, event)
        return ReceiptMail(entry=entry, root=self.root, depth=0, intent=intent, receipt=receipt)

    def _check_takes(self, schema: str) -> None:
        if not takes(self.workflow, schema):
            name = self.workflow.name
            raise BadUsage(f"{name} does not take {schema}: its event has no such arm")

    def _intent(self, id: CellId, event: Continuation) -> OpenIntent:
        state = self.desk.state
        effect = state.effective.effects[find_effect(state, event.effect, ())]
        params = event.params
        if params is None and effect.name == TIMER:
            params = {"deliver_at_ns": self.desk.now_ns, "key": None}
        if params is None and not takes(self.workflow, ENVELOPE):
            raise BadUsage(
                f"{self.workflow.name} gets the params of {effect.name} with its receipt: "
                "pass params="
            )
        data = b"\xf6" if params is None else canonical(effect.params, params, subject="params")
        params_slot = slot(data, self.blobs)
        hash = digest("aos testing intent", effect.name, data, event.issuer_ref)
        return OpenIntent(
            intent=hash,
            cell=id,
            workflow_hash=self.workflow.hash,
            seq=self.root.seq,
            index=0,
            opened_ns=self.desk.now_ns,
            manifest=state.effective.hash,
            effect=effect,
            executors=state.effective.executors,
            params=params_slot,
            params_hash=slot_hash(params_slot),
            key=None,
            idempotency_key=hash_text(hash),
            issuer_ref=event.issuer_ref,
        )

    def _receipt(self, intent: OpenIntent, event: Continuation) -> Receipt:
        is_rejected = event.status == "rejected"
        status = "ok" if is_rejected else word_of(STATUSES, event.status)
        assert status is not None, f"status {event.status!r}"
        if is_rejected:
            self._check_takes(REJECTED)
        elif settled_arm(self.workflow, intent, status) is None:
            raise BadUsage(
                f"{self.workflow.name} has no arm for a receipt of {intent.effect.name} with "
                f"status {status}"
            )
        reply = self._reply(intent, event)
        schema = intent.effect.receipt.name if status == "ok" else ERROR
        return Receipt(
            seq=self.root.seq,
            stamp=self.root.stamp,
            intent=intent.intent,
            cell=intent.cell,
            effect=intent.effect.name,
            attempt=1,
            status=status,
            payload=slot(reply.payload, self.blobs),
            payload_schema=None if is_rejected else schema,
            started_ns=self.desk.now_ns,
            finished_ns=self.desk.now_ns,
            cost_cents=reply.cost_cents,
            executor=NODE,
            key_id=self.desk.state.world_key,
            signature=bytes(64),
            outcome="rejected" if is_rejected else "delivered",
            problem="the payload does not fit" if is_rejected else None,
            abandoned=(),
        )

    def _reply(self, intent: OpenIntent, event: Continuation) -> Reply:
        if event.status == "rejected":
            return Reply(status="ok", payload=REJECTED_PAYLOAD)
        if event.status == "canceled":
            failure = AttemptFailure(code="canceled", message="", retryable=False)
            return Reply(status="canceled", payload=failure.payload())
        if intent.effect.name == TIMER and event.status == "ok" and event.answer is None:
            key = plain(intent.params, self._read)["key"]
            payload = encode({"delivered_at_ns": self.desk.now_ns, "key": key})
            return Reply(status="ok", payload=payload)
        return reply(intent, event.answer, cost_cents=event.cost_cents)

    def _frame(self, intent: OpenIntent, event: Continuation) -> Stream:
        assert event.kind is not None
        return Stream(
            seq=self.root.seq,
            stamp=self.root.stamp,
            intent=intent.intent,
            cell=intent.cell,
            effect=intent.effect.name,
            attempt=1,
            frame_seq=event.seq,
            frame_kind=event.kind,
            payload=slot(payload_bytes(event.answer), self.blobs),
            payload_ref=None,
            executor=NODE,
            key_id=self.desk.state.world_key,
            signature=bytes(64),
        )

    def _transition(self, decided: Decided, state_before: Any) -> Transition:
        record = decided.record
        if isinstance(record, Faulted):
            fault = (record.fault.kind.value, record.fault.message)
            return Transition(state=state_before, status="failed", fault=fault, fuel=record.fuel)
        assert isinstance(record, Step)
        return Transition(
            state=None if record.state is None else self._state(record.state),
            status=record.status,
            events=tuple((event.schema, plain(event.value, self._read)) for event in record.events),
            effects=tuple(
                Asked(
                    effect=intent.effect,
                    params=plain(intent.params, self._read),
                    idempotency_key=intent.key,
                    issuer_ref=intent.issuer_ref,
                )
                for intent in record.intents
            ),
            annotation=None if record.ann is None else plain(record.ann, self._read),
            fuel=record.fuel,
        )


def _routed(route: Route, value: bytes) -> bytes:
    try:
        return route.key(decode_record(value))
    except ValueProblem as problem:
        raise BadUsage(f"event {route.event}: {problem}") from problem


def _nothing(_: object) -> None:
    """Ignore intents: no executor runs the effects of a single step."""
