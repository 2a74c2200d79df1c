"""Records -> what is wrong with what each says, by itself (spec/audit.md, A-24 to A-26).

Signatures and who may make them, identities, values against their schemas, blobs. What a record
means for the state is the fold's; whether it had to come out so is replay's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aos.audit.findings import Kind
from aos.core.authority import is_misnamed, may_sign
from aos.core.frame import is_signed
from aos.core.identity import intent_hash
from aos.core.inputs import SEMANTICS, GenesisInput, ManifestInput, receipt_message, world_id
from aos.core.ports import BlobReader
from aos.core.records import (
    CellId,
    Emitted,
    Event,
    Faulted,
    Genesis,
    Intent,
    Manifest,
    Receipt,
    Record,
    Slot,
    Start,
    Step,
    slot_bytes,
    slot_hash,
)
from aos.errors import Damage, sentence
from aos.manifest.builtins import TIMER
from aos.manifest.effective import Effective, Executor, Workflow
from aos.manifest.names import NODE
from aos.values.cbor import INGRESS_BYTES_MAX
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.schema import Schema

Add = Callable[[Kind, str], None]
"""Notes what is wrong with the record at hand."""


@dataclass(slots=True)
class Counts:
    records: int = 0
    events: int = 0
    receipts: int = 0
    manifests: int = 0
    steps: int = 0
    faults: int = 0
    intents: int = 0
    signatures: int = 0
    blob_bytes: int = 0
    modules: int = 0
    values: int = 0
    stamps_behind: int = 0


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a receipt is held against."""

    cell: CellId
    effect: str
    params: Slot
    executors: Mapping[str, Executor] | None


@dataclass(slots=True)
class Contents:
    """One pass over the records of one world, in order.

    ``blobs`` has each blob that was read: None for a whole one, else what is wrong with it.
    """

    world: Hash
    read: BlobReader
    add: Add
    counts: Counts = field(default_factory=Counts)
    blobs: dict[Hash, str | None] = field(default_factory=dict)
    genesis: Genesis | None = None
    _effective: Effective | None = None
    _clock_ns: int = 0
    _opened: dict[Hash, _Opened] = field(default_factory=dict)

    def check(self, record: Record) -> None:
        counts = self.counts
        if isinstance(record, Genesis) != (record.seq == 1):
            self.add(Kind.IDENTITY_WRONG, "record 1, and no other, is a genesis")
        if not isinstance(record, Step | Faulted):
            counts.stamps_behind += record.stamp.ns < self._clock_ns
            self._clock_ns = max(self._clock_ns, record.stamp.ns)
        match record:
            case Step():
                counts.steps += 1
                counts.intents += len(record.intents)
                self._step(record)
            case Receipt():
                counts.receipts += 1
                self._receipt(record)
            case Event():
                counts.events += 1
                self._event(record, "value")
            case Faulted():
                counts.steps += 1
                counts.faults += 1
                self._workflow(record.cell)
            case Manifest():
                counts.manifests += 1
                self._manifest(record)
            case Genesis() if self.genesis is None:
                self._genesis(record)
            case Genesis() | Start():
                pass

    def _genesis(self, record: Genesis) -> None:
        self.genesis = record
        message = GenesisInput.message(record.nonce, record.world_key, record.operators)
        self._signature(message, record.signature, record.world_key, "the world key's")
        found = world_id(record.nonce, record.world_key)
        if found != self.world:
            self.add(
                Kind.IDENTITY_WRONG,
                sentence(
                    "the world's id is not that of its genesis",
                    expected=hash_text(found),
                    found=hash_text(self.world),
                ),
            )
        if record.semantics != SEMANTICS:
            self.add(
                Kind.RECORD_UNREADABLE,
                sentence(
                    "this release computes by other rules",
                    expected=f"semantics {SEMANTICS}",
                    found=f"{record.semantics}",
                ),
            )

    def _manifest(self, record: Manifest) -> None:
        if self.genesis is not None:
            self._operator(record, self.genesis)
        self._effective = None
        document = self._slot(record.document)
        if document is None:
            return
        try:
            self._effective = Effective.from_document(document)
        except Damage as problem:
            self.add(Kind.MANIFEST_INVALID, str(problem))
            return
        self._node(self._effective)
        for module in self._effective.modules.values():
            self.counts.modules += 1
            if self._blob(module.hash) is None:
                self.add(Kind.BLOB_DAMAGED, f"module {module.name}: {self.blobs[module.hash]}")

    def _node(self, effective: Effective) -> None:
        """The world's own key and the name ``node`` stand together, or not at all."""
        if self.genesis is None:
            return
        for each in (effective.executors or {}).values():
            if is_misnamed(each, self.genesis.world_key):
                self.add(
                    Kind.MANIFEST_INVALID,
                    sentence(
                        f"executor {each.name}: {NODE} alone has the world's own key",
                        expected=_key(self.genesis.world_key) if each.name == NODE else "another",
                        found=_key(each.public_key),
                    ),
                )

    def _operator(self, record: Manifest, genesis: Genesis) -> None:
        key = next((each.key for each in genesis.operators if each.name == record.principal), None)
        if key is None:
            self.add(Kind.AUTHORITY_MISSING, f"{record.principal!r} is no operator of the genesis")
            return
        message = ManifestInput.message(self.world, record.serial, record.document.hash)
        self._signature(message, record.signature, key, f"{record.principal}'s")

    def _event(self, event: Event | Emitted, where: str) -> None:
        schema = None
        if self._effective is not None:
            schema = self._effective.schemas.get(event.schema)
            if schema is None:
                self.add(Kind.VALUE_INVALID, f"{where}: schema {event.schema} is not in force")
        self._value(schema, event.value, where)

    def _step(self, record: Step) -> None:
        workflow = self._workflow(record.cell)
        if record.state is not None:
            self._value(workflow.state if workflow else None, record.state, "state")
        if record.ann is not None:
            self._value(workflow.annotations if workflow else None, record.ann, "ann")
        for index, event in enumerate(record.events):
            self._event(event, f"events[{index}].value")
        for index, intent in enumerate(record.intents):
            self._opened[intent.intent] = _Opened(
                record.cell, intent.effect, intent.params, self._executors()
            )
            self._intent(record, index, intent, workflow)

    def _intent(self, record: Step, index: int, intent: Intent, workflow: Workflow | None) -> None:
        where = f"intents[{index}]"
        effect = self._effective.effects.get(intent.effect) if self._effective else None
        self._value(effect.params if effect else None, intent.params, f"{where}.params")
        if workflow is None:
            return
        if effect is None or intent.effect not in workflow.effects_emitted:
            self.add(
                Kind.AUTHORITY_MISSING,
                f"{where}: {intent.effect} is not in effects_emitted of {workflow.name}",
            )
            return
        expected = intent_hash(
            world=self.world,
            cell=record.cell,
            workflow_hash=workflow.hash,
            seq=record.seq,
            index=index,
            effect=intent.effect,
            effect_hash=effect.hash,
            params_hash=slot_hash(intent.params),
            key=intent.key,
        )
        if (intent.intent, intent.effect_hash) != (expected, effect.hash):
            self.add(
                Kind.IDENTITY_WRONG,
                sentence(
                    f"{where}: its hash is not over what it asks for",
                    expected=hash_text(expected),
                    found=hash_text(intent.intent),
                ),
            )

    def _receipt(self, record: Receipt) -> None:
        opened = self._opened.pop(record.intent, None)
        if opened is not None and (opened.cell, opened.effect) != (record.cell, record.effect):
            self.add(
                Kind.IDENTITY_WRONG,
                sentence(
                    "it settles another intent than it says",
                    expected=f"{opened.effect} of {opened.cell[0]}",
                    found=f"{record.effect} of {record.cell[0]}",
                ),
            )
        self._signer(record, opened)
        message = receipt_message(
            world=self.world,
            intent=record.intent,
            effect=record.effect,
            executor=record.executor,
            key_id=record.key_id,
            attempt=record.attempt,
            status=record.status,
            payload=slot_hash(record.payload),
            started_ns=record.started_ns,
            finished_ns=record.finished_ns,
            cost_cents=record.cost_cents,
        )
        self._signature(message, record.signature, record.key_id, f"{record.executor}'s")
        payload = self._slot(record.payload)
        if payload is not None and record.outcome == "delivered":
            self._payload(record, payload)
        if opened is not None and record.effect == TIMER and record.status == "ok":
            self._due(opened)

    def _executors(self) -> Mapping[str, Executor] | None:
        return self._effective.executors if self._effective else None

    def _signer(self, record: Receipt, opened: _Opened | None) -> None:
        """Whether this key could sign for this effect when it was asked for, and is not revoked."""
        if self._effective is None or self.genesis is None or opened is None:
            return
        if not may_sign(
            opened.executors,
            self._executors(),
            executor=record.executor,
            effect=record.effect,
            key_id=record.key_id,
            world_key=self.genesis.world_key,
        ):
            self.add(
                Kind.AUTHORITY_MISSING,
                f"executor {record.executor} with key {_key(record.key_id)} may not sign for "
                f"{record.effect}: it could not when the effect was asked for, or is revoked",
            )

    def _payload(self, record: Receipt, payload: bytes) -> None:
        """A delivered payload was kept as it came in: it fits, but need not be canonical."""
        schema = None
        if self._effective is not None and record.payload_schema is not None:
            schema = self._effective.schemas.get(record.payload_schema)
        if schema is None:
            return
        try:
            schema.from_ingress(payload, max_bytes=max(len(payload), INGRESS_BYTES_MAX))
            self.counts.values += 1
        except ValueProblem as problem:
            self.add(Kind.VALUE_INVALID, f"payload: {schema.name}: {problem}")

    def _due(self, opened: _Opened) -> None:
        effect = self._effective.effects.get(opened.effect) if self._effective else None
        if effect is None:
            return
        try:
            params = effect.params.from_record(slot_bytes(opened.params, self.read))
        except (ValueProblem, Damage):
            return  # said where the intent was opened
        due = params.get("deliver_at_ns") if isinstance(params, dict) else None
        if isinstance(due, int) and due > self._clock_ns:
            self.add(
                Kind.TIMER_EARLY,
                sentence(
                    "a timer fired before its time by the journal's clock",
                    expected=f"{due} ns",
                    found=f"{self._clock_ns} ns",
                ),
            )

    def _signature(self, message: bytes, signature: bytes, key: bytes, whose: str) -> None:
        self.counts.signatures += 1
        if not is_signed(message, signature, key):
            self.add(Kind.SIGNATURE_WRONG, f"the signature is not {whose}")

    def _workflow(self, cell: CellId) -> Workflow | None:
        """The workflow of a cell; None, and a finding, when the manifest in force has none."""
        if self._effective is None:
            return None
        workflow = self._effective.workflows.get(cell[0])
        if workflow is None:
            self.add(Kind.VALUE_INVALID, f"workflow {cell[0]} is not in force")
        return workflow

    def _value(self, schema: Schema | None, value: Slot, where: str) -> None:
        """A value that was journaled in normal form."""
        data = self._slot(value)
        if data is None or schema is None:
            return
        try:
            schema.from_record(data)
            self.counts.values += 1
        except ValueProblem as problem:
            self.add(Kind.VALUE_INVALID, f"{where}: {schema.name}: {problem}")

    def _slot(self, value: Slot) -> bytes | None:
        """The bytes of a slot; None, and a finding, when they cannot be had."""
        if isinstance(value, bytes):
            return value
        data = self._blob(value.hash)
        if data is None:
            self.add(Kind.BLOB_DAMAGED, str(self.blobs[value.hash]))
        elif len(data) != value.size:
            self.add(
                Kind.BLOB_DAMAGED,
                sentence(
                    f"blob {hash_text(value.hash)} has another size than its reference",
                    expected=f"{value.size} bytes",
                    found=f"{len(data)}",
                ),
            )
        return data

    def _blob(self, hash: Hash) -> bytes | None:
        """A blob that is whole."""
        if self.blobs.get(hash) is not None:
            return None
        try:
            data = self.read(hash)
        except Damage as problem:
            self.blobs[hash] = str(problem)
            return None
        if hash not in self.blobs:
            self.blobs[hash] = None
            self.counts.blob_bytes += len(data)
        return data


def _key(key: bytes) -> str:
    return f"ed25519:{key.hex()}"
