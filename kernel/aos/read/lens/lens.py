"""Turn recorded bytes into JSON-able values, with the schemas that were in force (spec/audit.md,
A-3).

A value that cannot be read never raises: a view must not fail on the world that it shows. A map
whose first key begins with ``$`` takes its place:

    {"$unreadable": hash, "why": text}   the blob is missing or altered
    {"$erased": hash, "why": text}       it was erased, and by which record
    {"$large": hash, "size": n}          longer than this lens shows
    {"$bytes": base64}                   no schema, and not CBOR

``Manifests`` finds the manifest that was in force at a record: its schemas read the record's
values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    CellId,
    Faulted,
    KernelReceipt,
    Manifest,
    Receipt,
    Ref,
    Slot,
    Step,
    Stream,
)
from aos.core.snapshot.load import load
from aos.core.state.state import State
from aos.errors import Damage, Erased
from aos.manifest.effective import Effective, Workflow
from aos.manifest.named import is_document
from aos.read.lens.ports import Journal, RecordIndex, first_kept
from aos.read.lens.words import as_json, key_text, opaque_as_json
from aos.values.cbor import encode
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.schema import Schema
from aos.values.spelling import duration_text, time_text

if TYPE_CHECKING:
    from aos.read.lens.flow_lens import FlowLens


IS_MANIFEST: Final = encode("kind") + encode("manifest")
"""Bytes that every manifest record contains, and other records seldom do."""

LISTED_BYTES: Final = 4096
"""The longest referenced value that a list shows, in bytes."""

ALL_BYTES: Final = 64 * 1024 * 1024

_A_TIME_NS: Final = 10**17
"""From this number on, a number of nanoseconds is shown as a time; it is a day of 1973."""


class Manifests:
    """The manifests that a journal put in force, in order.

    If an older record asks for a manifest that is not known yet, the journal is read once, up to
    the first known manifest; with an ``index``, only its manifests are read (IX-71). Of the
    manifests that pruned records put in force, only the last has a known place in the order.
    """

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._manifests: list[Effective] = []
        self._journal: Journal | None = None
        self._pruned: list[Effective] = []
        self.index: RecordIndex | None = None

    @classmethod
    def of(cls, state: State, journal: Journal) -> Manifests:
        """Return the manifests of the world whose ``state`` was folded from ``journal``."""
        manifests = cls()
        if state.manifest is not None:
            manifests.add(state.manifest_seq, state.manifest)
            manifests._journal = journal if state.serial > 1 else None
        return manifests

    def add(self, seq: int, manifest: Effective) -> None:
        """Add the next manifest, put in force by record ``seq``. A record that is not newer than
        the last one is ignored."""
        if not self._seqs or seq > self._seqs[-1]:
            self._seqs.append(seq)
            self._manifests.append(manifest)

    def at(self, seq: int) -> Effective | None:
        """Return the manifest in force when record ``seq`` was decided; None before the first."""
        if self._journal is not None and seq <= self._seqs[0]:
            self._read_older(self._journal)
        position = bisect_left(self._seqs, seq)
        return self._manifests[position - 1] if position else None

    def seq_at(self, seq: int) -> int | None:
        """Return the record that put the manifest of ``at`` in force; None before the first."""
        self.at(seq)
        position = bisect_left(self._seqs, seq)
        return self._seqs[position - 1] if position else None

    def with_workflow(self, name: str, hash: Hash) -> Effective | None:
        """Return the newest manifest that has this version of a workflow."""
        manifest = self._newest(name, hash)
        if manifest is None and self._journal is not None:
            self._read_older(self._journal)
            manifest = self._newest(name, hash)
        return manifest

    def _newest(self, name: str, hash: Hash) -> Effective | None:
        for manifest in reversed(self._manifests):
            workflow = manifest.workflows.get(name)
            if workflow is not None and workflow.hash == hash:
                return manifest
        for manifest in self._pruned:
            workflow = manifest.workflows.get(name)
            if workflow is not None and workflow.hash == hash:
                return manifest
        return None

    def _read_older(self, journal: Journal) -> None:
        self._journal = None
        older = Manifests()
        cut = journal.cut()
        if cut is not None:
            cut_state = load(cut.document, journal.blob)
            if cut_state.manifest is not None:
                older.add(cut_state.manifest_seq, cut_state.manifest)
            self._pruned = [
                Effective.from_document(data)
                for data in map(journal.blob, sorted(cut_state.pinned))
                if is_document(data)
            ]
        first, last = first_kept(journal), self._seqs[0] - 1
        for seq, hash in manifest_records(journal, first, last, self.index):
            older.add(seq, Effective.from_document(journal.blob(hash)))
        for seq, manifest in zip(self._seqs, self._manifests, strict=True):
            older.add(seq, manifest)
        self._seqs, self._manifests = older._seqs, older._manifests


def manifest_records(
    journal: Journal, first: int, last: int, index: RecordIndex | None = None
) -> Iterator[tuple[int, Hash]]:
    """Yield the records from ``first`` to ``last`` that put a manifest in force, with the hash of
    its document, the oldest first."""
    if index is not None:
        yield from ((seq, hash) for seq, hash in index.versions() if first <= seq <= last)
        return
    for frame in journal.frames(first, last):
        for data in frame.records:
            record = from_bytes(data) if IS_MANIFEST in data else None
            if isinstance(record, Manifest) and first <= record.seq <= last:
                yield record.seq, record.document.hash


class Lens:
    """Reads the values of one world. A referenced value longer than ``value_bytes_max`` bytes is
    not shown.

    ``for_people`` shows values for people instead of programs (A-48).
    """

    def __init__(
        self,
        manifests: Manifests,
        read: BlobReader,
        *,
        value_bytes_max: int = LISTED_BYTES,
        for_people: bool = False,
    ) -> None:
        self.manifests = manifests
        self._read = read
        self._value_bytes_max = value_bytes_max
        self._for_people = for_people

    @property
    def is_spelled(self) -> bool:
        """Whether values are shown for people."""
        return self._for_people

    def event(self, schema: str, value: Slot, *, seq: int) -> object:
        """Return the value of a domain event of record ``seq``."""
        manifest = self.manifests.at(seq)
        return self.value(manifest.schemas.get(schema) if manifest else None, value)

    def params(self, effect: str, value: Slot, *, seq: int) -> object:
        manifest = self.manifests.at(seq)
        definition = manifest.effects.get(effect) if manifest else None
        return self.value(definition.params if definition else None, value)

    def payload(self, record: Receipt | KernelReceipt | Stream) -> object:
        """Return the signed payload, read with the schema that it was admitted with. The payload
        of a stream frame has no schema: it is decoded as plain CBOR where that is possible."""
        schema = None
        if not isinstance(record, Stream) and record.payload_schema is not None:
            manifest = self.manifests.at(record.seq)
            schema = manifest.schemas.get(record.payload_schema) if manifest else None
        return self.value(schema, record.payload, is_ingress=True)

    def state(self, step: Step, value: Slot) -> object:
        """Return the state that a step left its cell with."""
        return self.state_of(step.cell[0], self.manifests.at(ran_under(step)), value)

    def state_of(self, workflow: str, manifest: Effective | None, value: Slot) -> object:
        """Return a state, read with the workflow's schema in ``manifest``; that of a flow with its
        operations as a tree (A-3a). An opaque state (AG-10) is read as other CBOR libraries write
        it: by the schema if it fits, else as plain CBOR."""
        definition = self._workflow(workflow, manifest)
        if definition is not None and definition.is_flow:
            return self._show(value, partial(self._flow, manifest, definition.state))
        if definition is None or manifest is None or not definition.has_opaque_state:
            return self.value(definition.state if definition else None, value)
        return self._show(value, partial(opaque_as_json, definition.state, manifest.schemas))

    def _flow(self, manifest: Effective | None, schema: Schema, data: bytes) -> object:
        """Return the state of a flow (A-3a); one that is no ``aos/Flow@1`` as any other state."""
        # Few states are those of flows, and a small command need not import what reads them.
        from aos.flow.flow_state import FlowState  # noqa: PLC0415

        try:
            state = FlowState.read(schema.completed(data))
        except ValueProblem:
            return self.value(schema, data)
        document = self.flow_lens(manifest).document(state)
        return _spelled_ns(document) if self._for_people else document

    def flow_lens(self, manifest: Effective | None) -> FlowLens:
        """Return a lens for flows by the schemas of ``manifest``."""
        from aos.read.lens.flow_lens import FlowLens  # noqa: PLC0415  # as above

        return FlowLens(manifest, self.value, as_json)

    def annotations(self, step: Step, value: Slot) -> object:
        workflow = self._workflow(step.cell[0], self.manifests.at(ran_under(step)))
        return self.value(workflow.annotations if workflow else None, value)

    def key(self, cell: CellId, *, seq: int | None = None, hash: Hash | None = None) -> object:
        """Return a cell's key, as commands read it (never spelled for people); null for an unkeyed
        workflow.

        The schema is taken from the manifest at ``seq``, or from the workflow's version ``hash``.
        """
        if not cell[1]:
            return None
        manifest = None
        if hash is not None:
            manifest = self.manifests.with_workflow(cell[0], hash)
        elif seq is not None:
            manifest = self.manifests.at(seq)
        workflow = self._workflow(cell[0], manifest)
        return as_json(workflow.key if workflow else None, cell[1])

    def key_text(self, cell: CellId, *, seq: int | None = None, hash: Hash | None = None) -> str:
        """Return a cell's key as the text that ``--key-prefix`` compares."""
        return key_text(self.key(cell, seq=seq, hash=hash))

    def value(self, schema: Schema | None, value: Slot, *, is_ingress: bool = False) -> object:
        """Return any value. ``is_ingress`` says that the value was stored as it was received, so
        it need not be in normal form."""
        json_value = self._show(
            value, partial(as_json, schema, is_ingress=is_ingress, for_people=self._for_people)
        )
        return _spelled_ns(json_value) if self._for_people else json_value

    def _show(self, value: Slot, show: Callable[[bytes], object]) -> object:
        if isinstance(value, Ref) and value.size > self._value_bytes_max:
            return {"$large": hash_text(value.hash), "size": value.size}
        try:
            data = value if isinstance(value, bytes) else self._read(value.hash)
        except Damage as problem:
            assert isinstance(value, Ref)
            if isinstance(problem, Erased):
                return {"$erased": hash_text(value.hash), "why": str(problem)}
            return {"$unreadable": hash_text(value.hash), "why": str(problem)}
        return show(data)

    @staticmethod
    def _workflow(name: str, manifest: Effective | None) -> Workflow | None:
        return manifest.workflows.get(name) if manifest else None


def ran_under(record: Step | Faulted) -> int:
    """Return a record at which the manifest that ``record`` ran under was in force (K-72)."""
    return record.seq if record.under is None else record.under + 1


def _spelled_ns(value: object) -> object:
    """Return JSON with the numbers of nanoseconds in it, which have names that end in ``_ns``, as
    times and durations. No schema says which they are; the built-in effects have some."""
    if isinstance(value, list):
        return [_spelled_ns(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _ns_text(field_value)
        if type(field_value) is int and name.endswith("_ns")
        else _spelled_ns(field_value)
        for name, field_value in value.items()
    }


def _ns_text(ns: int) -> str:
    return time_text(ns) if ns >= _A_TIME_NS else duration_text(ns)
