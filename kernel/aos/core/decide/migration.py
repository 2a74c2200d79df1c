"""Convert all stored states with the modules of a new manifest (spec/kernel.md, K-76).

    input  = {version: 1, state: bytes, from: {schema, hash}, to: {schema, hash}, key?: bytes}
    output = {state: bytes} or {fault: {kind, message, detail?}}

All or nothing: if one cell cannot be converted, the core refuses the manifest. The results are
stored as the workflow's new index, node by node. They take effect only when the manifest's record
names the index's root.

A migration runs no module itself. It is a generator that yields what it needs from its host: a
``Call``, answered by how it ended, or a ``Keep``, answered by None.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from aos.core.decide.answers import Blocker
from aos.core.decide.envelope import Misfit, read_output
from aos.core.decide.fits import completed, state_problem
from aos.core.decide.left_behind import next_under
from aos.core.decide.quiescence import FAILED_MIGRATION, Change, migrates
from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.ports import BlobReader, Call, Keep, Ran, Runner
from aos.core.journal.records import CellId, Migrated, slot_bytes
from aos.core.state.cell import Cell
from aos.core.state.cell_index import CellIndex
from aos.core.state.entry import Entry, entry_of, pack_keys
from aos.core.state.state import State
from aos.core.state.version import manifest_under, workflow_under
from aos.manifest.effective import Effective, Workflow
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import Hash, content_hash
from aos.values.errors import ValueProblem

T = TypeVar("T")
Asking: TypeAlias = Generator[Call | Keep, Ran | None, T]
"""Yields a ``Call``, which is answered by a ``Ran``, or a ``Keep``, answered by None."""


class Puts:
    """The blobs of a migration. With ``kept_bytes``, a host makes them durable as they come, and
    memory holds little more than that; without, all are committed with the manifest's record."""

    def __init__(self, read: BlobReader, kept_bytes: int | None) -> None:
        self.uncommitted: dict[Hash, bytes] = {}
        self._size = 0
        self._read = read
        self._kept_bytes = kept_bytes
        self._nodes: dict[Hash, bytes] = {}
        self._nodes_before: dict[Hash, bytes] = {}

    def put(self, data: bytes) -> Hash:
        hash = content_hash(data)
        if hash not in self.uncommitted:
            self.uncommitted[hash] = data
            self._size += len(data)
        return hash

    def keeping(self) -> Asking[None]:
        """Let the host make the blobs durable if there are many."""
        if self._kept_bytes is not None and self._size >= self._kept_bytes:
            yield Keep(self.uncommitted)
            self.uncommitted, self._size = {}, 0

    def put_node(self, data: bytes) -> Hash:
        """Store a node of an index; the next slice may read it."""
        hash = self.put(data)
        self._nodes[hash] = data
        return hash

    def turn(self) -> None:
        """End a slice. From now on only nodes of the last two slices are kept for reading."""
        self._nodes_before, self._nodes = self._nodes, {}

    def read(self, hash: Hash, /) -> bytes:
        for blobs in (self._nodes, self._nodes_before, self.uncommitted):
            if hash in blobs:
                return blobs[hash]
        return self._read(hash)


@dataclass(frozen=True, slots=True)
class Failed:
    """The first cells that the new modules cannot convert."""

    blockers: tuple[Blocker, ...]


def migrate(
    state: State, change: Change, runner: Runner, read: BlobReader, puts: Puts
) -> tuple[Migrated, ...] | Failed:
    """As ``migrating``, for callers that have a runner. A ``Keep`` only drops its blobs."""
    return answered(migrating(state, change, read, puts), runner)


def answered(asking: Asking[T], runner: Runner) -> T:
    """Run a generator to its end. Its calls run with ``runner``; its blobs are dropped."""
    answer: Ran | None = None
    while True:
        try:
            request = asking.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = runner.run(request) if isinstance(request, Call) else None


def migrating(
    state: State, change: Change, read: BlobReader, puts: Puts
) -> Asking[tuple[Migrated, ...] | Failed]:
    """Convert every cell of the workflows that migrate in ``change``, at rest or not. The state
    does not change.

    Raises:
        Damage: A stored state cannot be read.
    """
    migrated: list[Migrated] = []
    failed: list[Blocker] = []
    for name, shelf in sorted(state.cells.shelves.items()):
        if not shelf.count or not change.migrates(name):
            continue
        workflow = change.effective.workflows[name]
        run = _Run(state, change, workflow, StateConversion(change.effective, workflow), read, puts)
        index = yield from run.index(failed)
        if index.root is not None:
            migrated.append(Migrated(workflow=name, root=index.root, count=index.count))
    return Failed(tuple(failed[: state.limits.blockers])) if failed else tuple(migrated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A stored state, and the state that the new module makes of it or the fault with which it
    fails. ``source`` is the workflow that the instance runs under now."""

    cell: CellId
    source: Workflow
    old_state: bytes
    result: bytes | Fault


def conversions(
    state: State, change: Change, runner: Runner, read: BlobReader
) -> Iterator[Converted]:
    """Run the migrations of ``change`` one by one, in the order in which ``migrate`` does, and go
    on after a fault. The state does not change.

    Raises:
        Damage: A stored state cannot be read.
    """
    for name in sorted(state.cells.shelves):
        if change.migrates(name):
            workflow = change.effective.workflows[name]
            conversion = StateConversion(change.effective, workflow)
            run = _Run(state, change, workflow, conversion, read, Puts(read, None))
            for cell in state.cells.of(name):
                converted = run.converted(cell, runner)
                if converted is not None:
                    yield converted


class StateConversion:
    """The migration that ``workflow`` of ``effective`` declares, for one state at a time."""

    def __init__(self, effective: Effective, workflow: Workflow) -> None:
        self._workflow = workflow
        self._to = _schema(effective, workflow)
        self._from: dict[Hash, Value] = {}

    def call(self, source: Effective, id: CellId, old_state: bytes) -> Call:
        """Return the call that converts a complete state of the cell, which ran under ``source``
        (K-77)."""
        workflow, limits = self._workflow, self._workflow.limits
        assert workflow.migrate is not None
        return Call(
            module=workflow.module.hash,
            entrypoint=workflow.migrate.entrypoint,
            input=self._input(source, id, old_state),
            fuel=limits.fuel,
            memory_bytes=limits.memory_bytes,
            output_bytes=limits.output_bytes,
        )

    def result(self, ran: Ran) -> bytes | Fault:
        """Return the new state, or the fault with which the conversion ended."""
        if ran.fault is not None:
            return ran.fault
        assert ran.output is not None
        try:
            return self._checked(ran.output)
        except Misfit as misfit:
            return misfit.fault

    def _input(self, source: Effective, id: CellId, old_state: bytes) -> bytes:
        if source.hash not in self._from:
            self._from[source.hash] = _schema(source, source.workflows[id[0]])
        fields: dict[str | int, Value] = {
            "version": 1,
            "state": old_state,
            "from": self._from[source.hash],
            "to": self._to,
        }
        if id[1]:
            fields["key"] = id[1]
        return encode(fields)

    def _checked(self, data: bytes) -> bytes:
        output = read_output(data, max_bytes=self._workflow.limits.output_bytes)
        if output.events or output.effects or output.ann is not None or output.status is not None:
            raise Misfit(FaultKind.OUTPUT_MALFORMED, "a migration returns a state and nothing else")
        if output.state is None:
            raise Misfit(FaultKind.STATE_INVALID, "a migration returns a state, found null")
        max_bytes = self._workflow.limits.state_bytes
        if len(output.state) > max_bytes:
            raise Misfit(
                FaultKind.STATE_INVALID,
                f"state: expected at most {max_bytes} bytes, found {len(output.state)}",
            )
        if self._workflow.has_opaque_state:
            return output.state
        try:
            self._workflow.state.from_record(output.state)
        except ValueProblem as problem:
            raise Misfit(
                FaultKind.STATE_INVALID, f"{self._workflow.state.name}: {problem}"
            ) from problem
        return output.state


@dataclass(slots=True)
class _Run:
    """The migration of one workflow."""

    state: State
    change: Change
    workflow: Workflow
    conversion: StateConversion
    read: BlobReader
    puts: Puts

    def index(self, failed: list[Blocker]) -> Asking[CellIndex]:
        """Build the index of all cells with a state, after the migration."""
        index = CellIndex(None, 0, self.puts.read)
        changes: dict[Hash, bytes | None] = {}
        limits = self.state.limits
        for cell in self.state.cells.of(self.workflow.name):
            if cell.state is None:
                continue
            result = yield from self._migrated_cell(cell)
            if isinstance(result, Fault):
                detail = f"{result.kind.value}: {result.message}"
                failed.append(Blocker(kind=FAILED_MIGRATION, cell=cell.id, detail=detail))
                if len(failed) >= limits.blockers:
                    break
            elif not failed:
                changes[content_hash(cell.id[1])] = self._stored(result)
                if len(changes) >= limits.slice_cells:
                    index = index.updated(changes, self.puts.put_node)
                    self.puts.turn()
                    changes = {}
                yield from self.puts.keeping()
        return index.updated(changes, self.puts.put_node)

    def converted(self, cell: Cell, runner: Runner) -> Converted | None:
        """None for a cell that the migration leaves as it is."""
        if not migrates(self.state, self.change, cell, self.read):
            return None
        assert cell.state is not None
        under = next_under(self.state, cell, self.read)
        source = workflow_under(self.state, cell.id, under)
        assert source is not None
        if cell.fault is not None and self._is_of_another_time(under, cell):
            return None
        old_state = slot_bytes(cell.state, self.read)
        result = answered(self._migrated(under, cell.id, old_state), runner)
        return Converted(cell=cell.id, source=source, old_state=old_state, result=result)

    def _stored(self, cell: Cell) -> bytes:
        if isinstance(cell.state, bytes):
            self.puts.put(cell.state)
        keys = pack_keys(cell.keys)
        if keys is not None:
            self.puts.put(keys)
        return entry_of(cell).data

    def _migrated_cell(self, cell: Cell) -> Asking[Cell | Fault]:
        under = next_under(self.state, cell, self.read)
        # The cell no longer belongs to an earlier manifest.
        plain = replace(cell, version=0, is_kept=False)
        if not migrates(self.state, self.change, cell, self.read):
            return plain
        assert cell.state is not None
        if cell.fault is not None and self._is_of_another_time(under, cell):
            return plain
        old = workflow_under(self.state, cell.id, under)
        old_state = slot_bytes(cell.state, self.read)
        if old is not None and not old.has_opaque_state:
            old_state = completed(old.state, old_state)
        result = yield from self._migrated(under, cell.id, old_state)
        if isinstance(result, Fault):
            return result
        return replace(
            plain,
            state=result,
            workflow_hash=self.workflow.hash,
            module_hash=self.workflow.module.hash,
        )

    def _is_of_another_time(self, under: int, cell: Cell) -> bool:
        """Whether the state does not fit ``under``: a failed cell may have an older one (K-102)."""
        old = workflow_under(self.state, cell.id, under)
        return old is None or state_problem(old, cell.state, self.read) is not None

    def _migrated(self, under: int, id: CellId, old_state: bytes) -> Asking[bytes | Fault]:
        ran = yield self.conversion.call(manifest_under(self.state, under), id, old_state)
        assert ran is not None, "a call is answered by how it ended"
        return self.conversion.result(ran)


def _schema(effective: Effective, workflow: Workflow) -> Value:
    """The state schema of a workflow, in the form of a migration's input."""
    document: Any = decode_record(effective.document)
    hashes = {entry["name"]: entry["hash"] for entry in document["manifest"]["schemas"]}
    return {"schema": workflow.state.name, "hash": hashes[workflow.state.name]}


def migrated_blobs(
    migrated: Migrated, read: BlobReader, skip: Callable[[Hash], bool] = lambda _: False
) -> Iterator[tuple[Hash, str]]:
    """Every blob that the result of a migration needs, with a description.

    Raises:
        Damage: A node cannot be read.
    """
    index = CellIndex(migrated.root, migrated.count, read)
    for node, entries in index.leaves(skip):
        yield node, "a node of an index"
        for data in entries:
            for hash in Entry(data).references():
                yield hash, f"the state of a cell of {migrated.workflow}"
