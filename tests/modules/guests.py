"""The built modules, one step at a time, with the core's own reading of what they return.

    case = Case(loaded, sandbox, "shop/order@1", "ord-1")
    asked = case.send("shop/OrderPlaced@1", {...})
    asked.effects[0].ref                   "reserve/1"
    case.ok("reserve/1", {"reservation": "r"})

AOS_MODULES_DIR names another folder with ``<name>/<name>.wasm`` in it than ``modules/``.
"""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aos.core.decide.envelope import Misfit, input_envelope, read_output
from aos.core.journal.faults import Fault
from aos.core.journal.ports import Call
from aos.manifest.effective import Effective, Workflow
from aos.manifest.load import Loaded, load
from aos.sandbox.engine import Sandbox
from aos.sandbox.inspect import check_module
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import content_hash, hash_text
from tests.memory_world import MemoryWorld

ROOT: Final = Path(__file__).resolve().parents[2]
MODULES: Final = Path(os.environ.get("AOS_MODULES_DIR", ROOT / "modules"))
NAMES: Final = ("bench", "ledger", "orders", "puppet")
CRATES_WITH_TESTS: Final = ("aos-abi", "aos-sdk")
"""The short form runs the tests in Rust of another one each day."""

START_NS: Final = 1_700_000_000_000_000_000
MS: Final = 1_000_000
HASH: Final = hash_text(content_hash(b""))


def wasm(name: str) -> bytes:
    return (MODULES / name / f"{name}.wasm").read_bytes()


def load_orders() -> Loaded:
    """The manifest of the demo, as `aos apply manifests/orders` loads it."""
    files = {
        f"manifests/orders/air/{path.name}": path.read_bytes()
        for path in (ROOT / "manifests/orders/air").glob("*.air.json")
    }
    files |= {f"modules/{name}/{name}.wasm": wasm(name) for name in NAMES}
    return load(files, check=check_module)


def load_puppet() -> Loaded:
    """The puppet's manifest, a working example of how a test uses it."""
    air = (ROOT / "tests/modules/puppet.air.json").read_bytes()
    return load({"puppet.air.json": air, "puppet.wasm": wasm("puppet")}, check=check_module)


@dataclass(frozen=True, slots=True)
class Asked:
    """An effect that a step asked for; ``ref`` is the issuer reference."""

    effect: str
    params: Any
    key: str | bytes | None
    ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """The result of one step, decoded and checked against its schemas."""

    state: Any
    events: list[tuple[str, Any]]
    effects: list[Asked]
    note: Any
    status: str | None
    fault: Fault | None
    fuel: int

    @property
    def refs(self) -> list[str]:
        return [asked.ref for asked in self.effects]

    @property
    def emitted(self) -> list[str]:
        return [schema.removeprefix("shop/").removesuffix("@1") for schema, _ in self.events]


@dataclass
class Case:
    """One cell. It keeps its state and what it asked for; time passes only as the test says."""

    loaded: Loaded
    sandbox: Sandbox
    workflow: str
    key: Value
    now_ns: int = START_NS
    state: bytes | None = None
    asked: dict[str, Asked] = field(default_factory=dict)

    @property
    def effective(self) -> Effective:
        return self.loaded.effective

    @property
    def definition(self) -> Workflow:
        return self.effective.workflows[self.workflow]

    def send(self, schema: str, value: object) -> Stepped:
        """Deliver an event given in its JSON form."""
        return self._deliver(schema, self.effective.schemas[schema].from_json_object(value))

    def ok(self, ref: str, payload: Value) -> Stepped:
        """Answer what was asked for under ``ref``."""
        effect = self.effective.effects[self.asked[ref].effect]
        return self._receipt(ref, "ok", effect.receipt.name, effect.receipt.normalise(payload))

    def error(self, ref: str, code: str, *, retryable: bool, status: str = "error") -> Stepped:
        error: Value = {"code": code, "message": "on purpose", "retryable": retryable}
        return self._receipt(ref, status, "sys/EffectError@1", error)

    def timeout(self, ref: str) -> Stepped:
        return self.error(ref, "timeout", retryable=True, status="timeout")

    def fire(self, ref: str) -> Stepped:
        """Let the time pass until a timer is due, and deliver it."""
        due = self.asked[ref].params["deliver_at_ns"]
        self.now_ns = max(self.now_ns, due)
        return self.ok(ref, {"delivered_at_ns": due, "key": None})

    def rejected(self, ref: str) -> Stepped:
        """Deliver that the receipt for ``ref`` did not fit its schema."""
        value: dict[str | int, Value] = {
            **self._block(ref),
            "status": "ok",
            "error_code": "receipt_payload_invalid",
            "error_message": "on purpose",
            "payload_hash": HASH,
            "payload_size": 3,
            "emitted_at_seq": 1,
        }
        return self._deliver("sys/EffectReceiptRejected@1", value)

    def _receipt(self, ref: str, status: str, schema: str, payload: Value) -> Stepped:
        value: dict[str | int, Value] = {
            **self._block(ref),
            "receipt_payload": encode(payload),
            "status": status,
            "emitted_at_seq": 1,
            "cost_cents": None,
            "signature": b"",
            "payload_schema": schema,
        }
        return self._deliver("sys/EffectReceiptEnvelope@1", value)

    def _block(self, ref: str) -> dict[str | int, Value]:
        return {
            "origin_module_id": self.workflow,
            "origin_workflow_hash": None,
            "origin_instance_key": encode(self.key),
            "intent_id": HASH,
            "effect": self.asked[ref].effect,
            "effect_hash": None,
            "executor_module": None,
            "executor_module_hash": None,
            "executor_entrypoint": None,
            "params_hash": None,
            "issuer_ref": ref,
        }

    def _deliver(self, schema: str, value: Value) -> Stepped:
        definition = self.definition
        wrapped = definition.wrap(schema, value)
        assert wrapped is not None, f"{self.workflow} takes no {schema}"
        limits = definition.limits
        ran = self.sandbox.run(
            Call(
                module=definition.module.hash,
                entrypoint=definition.entrypoint,
                input=input_envelope(
                    state=self.state,
                    schema=definition.event.name,
                    value=definition.event.encode(wrapped),
                    key=encode(self.key),
                    ctx=self._context() if definition.context else None,
                ),
                fuel=limits.fuel,
                memory_bytes=limits.memory_bytes,
                output_bytes=limits.output_bytes,
            )
        )
        if ran.output is None:
            return self._faulted(ran.fault, ran.fuel)
        try:
            output = read_output(ran.output, max_bytes=limits.output_bytes)
        except Misfit as misfit:
            return self._faulted(misfit.fault, ran.fuel)
        schemas, effects = self.effective.schemas, self.effective.effects
        stepped = Stepped(
            state=None if output.state is None else definition.state.from_record(output.state),
            events=[
                (event.schema, schemas[event.schema].normalise(_decoded(event.value)))
                for event in output.events
            ],
            effects=[
                Asked(
                    request.effect,
                    effects[request.effect].params.normalise(_decoded(request.params)),
                    request.key,
                    request.issuer_ref or "",
                )
                for request in output.effects
            ],
            note=None if output.ann is None else _decoded(output.ann),
            status=output.status,
            fault=None,
            fuel=ran.fuel,
        )
        assert {asked.effect for asked in stepped.effects} <= definition.effects_emitted
        self.state = output.state
        self.asked |= {asked.ref: asked for asked in stepped.effects}
        return stepped

    def _faulted(self, fault: Fault | None, fuel: int) -> Stepped:
        """The state is kept, everything else dropped, as the core does."""
        return Stepped(
            state=None if self.state is None else _decoded(self.state),
            events=[],
            effects=[],
            note=None,
            status=None,
            fault=fault,
            fuel=fuel,
        )

    def _context(self) -> bytes:
        return encode(
            {
                "now_ns": self.now_ns,
                "logical_now_ns": self.now_ns,
                "journal_height": 1,
                "entropy": bytes(64),
                "event_hash": HASH,
                "manifest_hash": HASH,
                "workflow": self.workflow,
                "workflow_hash": None,
                "key": encode(self.key),
                "cell_mode": True,
            }
        )


def _decoded(data: bytes) -> Any:
    return decode_record(data)


class WasmWorld(MemoryWorld):
    """The whole kernel in memory, with the real modules."""

    def __init__(self, loaded: Loaded, sandbox: Sandbox, *, seed: str = "seed") -> None:
        super().__init__(loaded, {}, seed=seed)
        self.seal()
        self.sandbox = sandbox


def shop_module(name: str) -> Any:
    """A module of the demo's shop: ``books``, ``mishaps``, ``operations`` or ``make_orders``."""
    folder = str(ROOT / "manifests/orders")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)
