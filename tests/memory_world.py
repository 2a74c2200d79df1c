"""A world in memory whose modules are Python functions: the kernel without disk, clock or WASM.

    world = MemoryWorld(air(...), {"t/counter@1": count})
    world.send("t/Add@1", {"key": "a", "by": 2})
    world.run()

A module is a function from the decoded input envelope to the output envelope. Every ``run`` makes
one frame, as a drain of a host would.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer, Decided, admission
from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.fork import message_of
from aos.core.journal.frame import Frame
from aos.core.journal.inputs import (
    CANCEL_OPEN,
    STRICT,
    AttemptInput,
    ControlInput,
    EventInput,
    GenesisInput,
    ManifestInput,
    ReceiptInput,
    StreamInput,
)
from aos.core.journal.merkle import proof
from aos.core.journal.merkle import root as merkle_root
from aos.core.journal.ports import Call, Ran, Runner
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    Batch,
    CellId,
    Faulted,
    Fork,
    Principal,
    Record,
    Stamp,
    Step,
    slot_bytes,
)
from aos.core.journal.statements import batch_message, receipt_leaf
from aos.core.kernel import genesis, open_kernel, world_state
from aos.core.kernel_protocol import decided, step
from aos.core.limits import LIMITS, Limits
from aos.core.pending import Sealed
from aos.core.state.cell import Cell, OpenIntent
from aos.core.state.state import State
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded, load
from aos.values.cbor import Value, decode_ingress, decode_record, encode
from aos.values.digests import Hash, content_hash, derive

Envelope = dict[Any, Any]
Module = Callable[[Envelope], Any]

WORLD_KEY = SigningKey(bytes([1]) * 32)
OPERATOR_KEY = SigningKey(bytes([2]) * 32)
OPERATOR = Principal("operator", bytes(OPERATOR_KEY.verify_key))
START_NS = 1_700_000_000_000_000_000


class Trap(Exception):
    """A module raises this to end with a fault, as a trap would."""

    def __init__(self, kind: FaultKind = FaultKind.TRAP, message: str = "unreachable") -> None:
        super().__init__(message)
        self.fault = Fault(kind=kind, message=message)


@dataclass
class PythonRunner:
    """Runs Python functions as modules. Fuel is one unit a byte of input, so that it is stable."""

    modules: Mapping[Hash, Module]
    calls: int = 0

    def run(self, call: Call) -> Ran:
        self.calls += 1
        envelope = decode_record(call.input)
        try:
            result = self.modules[call.module](envelope)  # type: ignore[arg-type]  # a map by construction
        except Trap as trap:
            return Ran(output=None, fault=trap.fault, fuel=len(call.input), pages=1)
        output = result if isinstance(result, bytes) else encode(result)
        if len(output) > call.output_bytes:
            fault = Fault(kind=FaultKind.OUTPUT_TOO_LARGE, message="too much")
            return Ran(output=None, fault=fault, fuel=len(call.input), pages=1)
        return Ran(output=output, fault=None, fuel=len(call.input), pages=1)


def schema(name: str, type: object) -> dict[str, object]:
    return {"$kind": "defschema", "name": name, "type": type}


def workflow(
    name: str, *, state: str, event: str, effects: Sequence[str] = (), **more: object
) -> dict[str, object]:
    """A workflow and, under ``<name>``'s own name with ``-module``, the module that it needs."""
    return {
        "$kind": "defworkflow",
        "name": name,
        "state": state,
        "event": event,
        "effects_emitted": list(effects),
        "impl": {"module": module_name(name), "entrypoint": "step"},
        **more,
    }


def module_name(workflow: str) -> str:
    base, version = workflow.split("@")
    return f"{base}-module@{version}"


def effect(name: str, params: str, receipt: str, **more: object) -> dict[str, object]:
    return {
        "$kind": "defeffect",
        "name": name,
        "params": params,
        "receipt": receipt,
        "impl": {"executor": "test"},
        **more,
    }


def route(
    event: str, workflow: str, key_field: str | None = None, *, creates: bool = True
) -> dict[str, object]:
    found: dict[str, object] = {"event": event, "workflow": workflow}
    if key_field is not None:
        found["key_field"] = key_field
    if not creates:
        found["creates"] = False
    return found


def wasm(workflow: str, version: int = 1) -> bytes:
    """Return bytes in place of a module: a ``PythonRunner`` uses only their hash."""
    return f"module of {workflow}, version {version}".encode()


def air(
    nodes: Sequence[Mapping[str, object]],
    routes: Sequence[Mapping[str, object]],
    *,
    version: int = 1,
    abi: str | None = None,
    **manifest: Any,
) -> Loaded:
    """Load a manifest that lists all of ``nodes`` and a module for each workflow among them."""
    workflows = [str(node["name"]) for node in nodes if node["$kind"] == "defworkflow"]
    modules = [
        {
            "$kind": "defmodule",
            "name": module_name(name),
            "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": f"{i}.wasm"}},
        }
        for i, name in enumerate(workflows)
    ]

    def named(kind: str) -> list[dict[str, object]]:
        return [{"name": node["name"]} for node in [*nodes, *modules] if node["$kind"] == kind]

    document = {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": named("defschema"),
        "modules": named("defmodule"),
        "workflows": named("defworkflow"),
        "effects": named("defeffect")
        + [
            {"name": name}
            for name in sorted(
                {
                    str(each)
                    for node in nodes
                    for each in _listed(node)
                    if str(each).startswith("sys/")
                }
            )
        ],
        "routing": {"subscriptions": list(routes)},
        **manifest,
    }
    files = {"air/all.air.json": json.dumps([*nodes, *modules, document]).encode()}
    files |= {f"air/{i}.wasm": wasm(name, version) for i, name in enumerate(workflows)}
    return load(files, abi=abi)


def _listed(node: Mapping[str, object]) -> Sequence[object]:
    found = node.get("effects_emitted", ())
    assert isinstance(found, list | tuple)
    return found


@dataclass
class MemoryWorld:
    """One world. ``sealed`` are its frames so far; ``now_ns`` is its wall clock."""

    loaded: Loaded
    modules: Mapping[str, Module]
    now_ns: int = START_NS
    seed: str = "seed"
    blobs: dict[Hash, bytes] = field(default_factory=dict)
    sealed: list[Sealed] = field(default_factory=list)
    draws: int = 0
    places: dict[str, int] = field(default_factory=dict)
    """Submission id -> its newest record, as a store's derived rows have it."""
    limits: Limits = LIMITS
    keep: Callable[[Mapping[Hash, bytes]], None] | None = None
    """Makes blobs of a migration durable; for the kernels that begin after it is set."""
    sandbox: Runner | None = None
    """Runs the modules, instead of the Python functions."""

    def __post_init__(self) -> None:
        message = GenesisInput.message(b"n" * 32, bytes(WORLD_KEY.verify_key), (OPERATOR,))
        given = GenesisInput(
            nonce=b"n" * 32,
            world_key=bytes(WORLD_KEY.verify_key),
            operators=(OPERATOR,),
            signature=WORLD_KEY.sign(message).signature,
        )
        self._keep(genesis(given, self.stamp(), self.draw(32)))
        self.runner = PythonRunner(self.by_hash(self.loaded, self.modules))
        self.restart()
        answer = self.apply(self.loaded)
        assert isinstance(answer, Admitted), answer

    @staticmethod
    def by_hash(loaded: Loaded, modules: Mapping[str, Module]) -> dict[Hash, Module]:
        effective = loaded.effective
        return {
            effective.workflows[name].module.hash: function for name, function in modules.items()
        }

    def restart(self, snapshot: Hash | None = None) -> None:
        """Continue with another kernel, which follows the frames so far: from the genesis on, or
        from a snapshot."""
        self.kernel = open_kernel(
            world=None if snapshot else self.sealed[0].frame.header.world,
            snapshot=snapshot,
            read=self.read,
            find=self.places.get,
            limits=self.limits,
            keeps=self.keep is not None,
        )
        for frame in self.frames:
            if frame.header.first >= self.kernel.next_seq:
                self.kernel.follow(frame)

    @property
    def state(self) -> State:
        return world_state(self.kernel)

    @property
    def effective(self) -> Effective:
        return self.state.effective

    def draw(self, size: int) -> bytes:
        """Chance from a seed: the same world draws the same bytes."""
        self.draws += 1
        return derive("aos test", f"{self.seed} {self.draws}".encode(), size)

    def stamp(self) -> Stamp:
        self.now_ns += 1_000
        return Stamp(self.now_ns, self.draw(64))

    def read(self, hash: Hash) -> bytes:
        try:
            return self.blobs[hash]
        except KeyError:
            raise Damage(f"blob blake3:{hash.hex()} is missing") from None

    def apply(
        self,
        loaded: Loaded,
        modules: Mapping[str, Module] | None = None,
        *,
        mode: str = STRICT,
        leaves: tuple[str, ...] = (),
    ) -> Answer:
        """Sign and admit a manifest; ``modules`` adds functions for its modules."""
        if modules is not None:
            self.runner.modules = {**self.runner.modules, **self.by_hash(loaded, modules)}
        given = self.manifest_input(loaded, mode=mode, leaves=leaves)
        keep = self.keep or self.blobs.update
        decision = decided(self.kernel, given, self.stamp(), self.sandbox or self.runner, keep)
        if not isinstance(decision, Decided):
            return decision
        self.kernel.enter(decision)
        return admission(decision.record)

    def manifest_input(
        self, loaded: Loaded, *, mode: str = STRICT, leaves: tuple[str, ...] = ()
    ) -> ManifestInput:
        """The operator's manifest for this world as it is now."""
        document = loaded.effective.document
        serial = self.state.serial
        message = ManifestInput.message(
            self.state.world, serial, content_hash(document), mode=mode, leaves=leaves
        )
        return ManifestInput(
            document=document,
            principal=OPERATOR.name,
            serial=serial,
            signature=OPERATOR_KEY.sign(message).signature,
            mode=mode,
            leaves=leaves,
        )

    def send(self, schema: str, value: Value, submission_id: str | None = None) -> Answer:
        given = EventInput(schema=schema, value=encode(value), submission_id=submission_id)
        return self.kernel.admit(given, self.stamp())

    def receipt(
        self,
        intent: OpenIntent,
        payload: Value = None,
        *,
        raw: bytes | None = None,
        status: str = "ok",
        forge: Mapping[str, Any] | None = None,
    ) -> ReceiptInput:
        """The world key's receipt for an intent, with ``payload`` or the bytes ``raw``; ``forge``
        replaces fields after signing."""
        unsigned = ReceiptInput(
            intent=intent.intent,
            effect=intent.effect.name,
            attempt=1,
            status=status,
            payload=encode(payload) if raw is None else raw,
            started_ns=self.now_ns,
            finished_ns=self.now_ns,
            executor="node",
            key_id=bytes(WORLD_KEY.verify_key),
            signature=b"",
        )
        signature = WORLD_KEY.sign(unsigned.message(self.state.world)).signature
        return replace(unsigned, **{"signature": signature, **(forge or {})})

    def settle(
        self,
        intent: OpenIntent,
        payload: Value = None,
        *,
        status: str = "ok",
        forge: Mapping[str, Any] | None = None,
    ) -> Answer:
        given = self.receipt(intent, payload, status=status, forge=forge)
        return self.kernel.admit(given, self.stamp())

    def fail(self, intent: OpenIntent, code: str, *, status: str = "error") -> Answer:
        error: Value = {"code": code, "message": "on purpose", "retryable": False}
        return self.settle(intent, error, status=status)

    def batch(self, receipts: Sequence[ReceiptInput]) -> list[ReceiptInput]:
        """The same receipts of the world's key, signed together."""
        leaves = [receipt_leaf(each.message(self.state.world)) for each in receipts]
        message = batch_message(
            world=self.state.world,
            executor="node",
            key_id=bytes(WORLD_KEY.verify_key),
            root=merkle_root(leaves),
            size=len(leaves),
        )
        signature = WORLD_KEY.sign(message).signature
        return [
            replace(
                each,
                signature=signature,
                batch=Batch(index=i, size=len(leaves), path=tuple(proof(leaves, i))),
            )
            for i, each in enumerate(receipts)
        ]

    def frame_of(self, intent: OpenIntent, number: int, **fields: Any) -> StreamInput:
        """A stream frame that the world's key signs."""
        given = StreamInput(
            **{
                "intent": intent.intent,
                "effect": intent.effect.name,
                "attempt": 1,
                "frame_seq": number,
                "frame_kind": "progress",
                "payload": encode(number),
                "executor": "node",
                "key_id": bytes(WORLD_KEY.verify_key),
                "signature": b"",
                **fields,
            }
        )
        return replace(
            given, signature=WORLD_KEY.sign(given.signed_message(self.state.world)).signature
        )

    def stream(self, intent: OpenIntent, number: int, **fields: Any) -> Answer:
        return self.kernel.admit(self.frame_of(intent, number, **fields), self.stamp())

    def attempt(
        self, intent: OpenIntent, number: int, phase: str = "begun", *, code: str | None = None
    ) -> Answer:
        given = AttemptInput(intent=intent.intent, attempt=number, phase=phase, code=code)
        return self.kernel.admit(given, self.stamp())

    def control(
        self,
        action: str,
        *,
        cell: CellId | None = None,
        intent: Hash | None = None,
        value: Hash | None = None,
        status: str | None = None,
        payload: bytes | None = None,
        why: str | None = None,
        restamp: Literal[True] | None = None,
        forge: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The operator's command; ``forge`` replaces fields after signing."""
        unsigned = ControlInput(
            action=action,
            principal=OPERATOR.name,
            serial=self.state.controls,
            signature=b"",
            cell=cell,
            intent=intent,
            value=value,
            status=status,
            payload=payload,
            why=why,
            restamp=restamp,
        )
        signature = OPERATOR_KEY.sign(unsigned.message(self.state.world)).signature
        given = replace(unsigned, **{"signature": signature, **(forge or {})})
        return self.kernel.admit(given, self.stamp())

    def snapshot(self) -> Answer:
        """End the frame in hand, write the world down as it is then, and journal that."""
        self.seal()
        return self.kernel.admit(self.kernel.snapshot(self.put), self.stamp())

    def fork(self, open_work: str = CANCEL_OPEN, *, name: str = "fork", **fields: Any) -> Fork:
        """Seal the current frame and continue as another world, under the same keys.

        ``fields`` are replaced in the fork record before it is signed. The core settles the
        receipts that it owes together with it."""
        self.seal()
        tip = self.state.tip
        unsigned = Fork(
            **{
                "seq": self.state.next_seq,
                "stamp": self.stamp(),
                "parent": tip.world,
                "at": tip.seq,
                "frame": tip.frame,
                "nonce": name.encode(),
                "world_key": bytes(WORLD_KEY.verify_key),
                "operators": (OPERATOR,),
                "open_work": open_work,
                "erased": (),
                "cut": None,
                "signature": b"",
                **fields,
            }
        )
        record = replace(unsigned, signature=WORLD_KEY.sign(message_of(unsigned)).signature)
        self.kernel.append(record, {})
        while step(self.kernel, None) is not None:
            pass
        self.seal()
        return record

    def step(self) -> Record | None:
        """One receipt that the core owes, or one run of the ring's head; None if there is none."""
        entered = step(self.kernel, self.sandbox or self.runner)
        return None if entered is None else entered.record

    def put(self, data: bytes) -> Hash:
        """Keep a blob outside the journal."""
        hash = content_hash(data)
        self.blobs[hash] = data
        return hash

    def run(self, most: int = 100_000) -> list[Record]:
        """Step until no cell is ready, then seal; return the records of the frame."""
        for _ in range(most):
            if self.step() is None:
                break
        return self.seal()

    def seal(self) -> list[Record]:
        sealed = self.kernel.seal(self.draw(32))
        if sealed is None:
            return []
        self._keep(sealed)
        return [from_bytes(data) for data in sealed.frame.records]

    def _keep(self, sealed: Sealed) -> None:
        self.sealed.append(sealed)
        self.blobs.update(sealed.blobs)
        self.places.update((each.submission_id, each.seq) for each in sealed.submissions)

    @property
    def frames(self) -> list[Frame]:
        return [each.frame for each in self.sealed]

    def records(self) -> list[Record]:
        return [from_bytes(data) for frame in self.frames for data in frame.records]

    def steps(self) -> list[Step | Faulted]:
        return [each for each in self.records() if isinstance(each, Step | Faulted)]

    def cell(self, workflow: str, key: Value = None) -> Cell:
        """A cell by the value of its key; None for an unkeyed workflow."""
        return self.state.cells[workflow, b"" if key is None else encode(key)]

    def state_of(self, workflow: str, key: Value = None) -> Value:
        found = self.cell(workflow, key).state
        return None if found is None else decode_record(slot_bytes(found, self.read))

    def open(self) -> list[OpenIntent]:
        return list(self.state.intents.values())


def cbor(value: Any) -> bytes:
    """Canonical CBOR of what a module has computed with."""
    return encode(value)


def event_of(envelope: Envelope) -> Any:
    """The decoded event of an input envelope."""
    return decode_ingress(envelope["event"]["value"])


def state_of(envelope: Envelope) -> Any:
    """The decoded state of an input envelope; None when the cell is new."""
    return None if envelope["state"] is None else decode_ingress(envelope["state"])


def emit(schema: str, value: Any) -> Envelope:
    return {"schema": schema, "value": cbor(value)}


def ask(name: str, params: Any, **more: Any) -> Envelope:
    return {"effect": name, "params": cbor(params), **more}
