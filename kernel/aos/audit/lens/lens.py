"""Recorded bytes -> JSON-able values, through the schemas that were in force (spec/audit.md, A-3).

What cannot be read is shown as what it is, never as an error: a view must not fail on the world
that it is asked about. Such a place is a map whose first key begins with ``$``:

    {"$unreadable": hash, "why": text}   the blob is missing or altered
    {"$erased": hash, "why": text}       it was erased, and by which record
    {"$large": hash, "size": n}          longer than this lens shows
    {"$bytes": base64}                   no schema, and not CBOR
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from aos.audit.lens.manifests import Manifests
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import (
    CellId,
    Faulted,
    KernelReceipt,
    Receipt,
    Ref,
    Slot,
    Step,
    Stream,
)
from aos.errors import Damage, Erased
from aos.manifest.effective import Effective, Workflow
from aos.values.cbor import INGRESS_BYTES_MAX, decode_record
from aos.values.digests import Hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.foreign import decode_foreign, from_foreign
from aos.values.schema import Schema, untyped_to_json

LISTED_BYTES: Final = 4096
"""How much of one value a list shows."""

ALL_BYTES: Final = 64 * 1024 * 1024


class Lens:
    """Reads values of one world. ``most`` is how long a value may be to be shown, in bytes."""

    def __init__(self, manifests: Manifests, read: BlobReader, *, most: int = LISTED_BYTES) -> None:
        self.manifests = manifests
        self._read = read
        self._most = most

    def event(self, schema: str, value: Slot, *, seq: int) -> object:
        """A domain event of record ``seq``."""
        manifest = self.manifests.at(seq)
        return self.value(manifest.schemas.get(schema) if manifest else None, value)

    def params(self, effect: str, value: Slot, *, seq: int) -> object:
        manifest = self.manifests.at(seq)
        known = manifest.effects.get(effect) if manifest else None
        return self.value(known.params if known else None, value)

    def payload(self, record: Receipt | KernelReceipt | Stream) -> object:
        """What was signed, read as the schema that it was admitted with. A stream frame's has no
        schema: it is shown by its own shape where it has one."""
        schema = None
        if not isinstance(record, Stream) and record.payload_schema is not None:
            manifest = self.manifests.at(record.seq)
            schema = manifest.schemas.get(record.payload_schema) if manifest else None
        return self.value(schema, record.payload, is_ingress=True)

    def state(self, step: Step, value: Slot) -> object:
        """The state that a step left its cell with."""
        return self.state_of(step.cell[0], self.manifests.at(ran_under(step)), value)

    def state_of(self, workflow: str, manifest: Effective | None, value: Slot) -> object:
        """A state of the workflow as ``manifest`` has it. An opaque one (AG-10) is read as other
        CBOR libraries write it: by the schema where that fits, else by its own shape."""
        known = self._workflow(workflow, manifest)
        if known is None or manifest is None or not known.has_opaque_state:
            return self.value(known.state if known else None, value)
        return self._shown(value, partial(shown_opaque, known.state, manifest.schemas))

    def annotations(self, step: Step, value: Slot) -> object:
        workflow = self._workflow(step.cell[0], self.manifests.at(ran_under(step)))
        return self.value(workflow.annotations if workflow else None, value)

    def key(self, cell: CellId, *, seq: int | None = None, hash: Hash | None = None) -> object:
        """A cell's key; null for an unkeyed workflow.

        Its schema is that of the manifest at ``seq``, or of the workflow's version ``hash``.
        """
        if not cell[1]:
            return None
        manifest = None
        if hash is not None:
            manifest = self.manifests.with_workflow(cell[0], hash)
        elif seq is not None:
            manifest = self.manifests.at(seq)
        workflow = self._workflow(cell[0], manifest)
        return self.value(workflow.key if workflow else None, cell[1])

    def value(self, schema: Schema | None, value: Slot, *, is_ingress: bool = False) -> object:
        """Any value. ``is_ingress``: it was kept as it came in, and need not be in normal form."""
        return self._shown(value, partial(shown, schema, is_ingress=is_ingress))

    def _shown(self, value: Slot, show: Callable[[bytes], object]) -> object:
        if isinstance(value, Ref) and value.size > self._most:
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
    """A record at which the manifest was in force that this one ran under (K-72)."""
    return record.seq if record.under is None else record.under + 1


def shown(schema: Schema | None, data: bytes, *, is_ingress: bool = False) -> object:
    """Bytes as JSON: by the schema where they fit it, else by their own shape, else as bytes."""
    try:
        if schema is not None:
            if is_ingress:
                data = schema.from_ingress(data, max_bytes=max(len(data), INGRESS_BYTES_MAX))
            return schema.to_json(schema.from_record(data))
        return untyped_to_json(decode_record(data))
    except ValueProblem:
        if schema is not None:
            return shown(None, data)
        return untyped_to_json(data)


def shown_opaque(schema: Schema, schemas: Mapping[str, Schema], data: bytes) -> object:
    """A state that nothing was checked of, as JSON: by the schema as far as it can be meant, else
    by its own shape, else as bytes."""
    most = max(len(data), INGRESS_BYTES_MAX)
    try:
        return schema.to_json(from_foreign(schema, schemas, data, max_bytes=most)[1])
    except ValueProblem:
        pass
    try:
        return untyped_to_json(decode_foreign(data, max_bytes=most, shows_floats=True))
    except ValueProblem:
        return untyped_to_json(data)
