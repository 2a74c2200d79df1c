"""Mark the data of a store that may still be needed (spec/state.md, RT-10 to RT-16).

The roots are the newest snapshots, the stored records, and the blobs that pruned records delivered
to instances that are not over. From these, marking follows references, fields of type ``hash``,
nodes of indexes, edges, and nodes of trees. All other data is not needed.

``find_still_needed`` marks for a running world (RT-20a). A client names the blobs and rows to
remove. The process that runs the world does not trust it: before the first removal its own child
process, which is this module, marks the store, and all data that the child finds stays. The child
takes no lock, writes nothing, and runs with a lower priority.

    output = number of snapshot rows that stay, number of put rows that go (8 bytes each),
             the snapshot rows (8 bytes each), the first 8 bytes of the hash of each put's key,
             the first 8 bytes of each blob's hash that stays, in order

Eight bytes are enough: a blob that shares them with another one that is needed stays until the next
collection, and none goes that is needed.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    Event,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Ref,
    Slot,
    Snapshot,
    Step,
    Stream,
    slot_bytes,
)
from aos.core.snapshot.load import layers, load
from aos.core.snapshot.load import references as snapshot_references
from aos.core.state.cell import EventMail, Mail, ReceiptMail
from aos.core.state.cell_index import CellIndex
from aos.core.state.entry import Entry
from aos.core.state.proposals import proposal_blobs
from aos.core.state.state import State
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import AosError, Erased, Unavailable
from aos.host.executors.blob import EDGE
from aos.host.folder.folder import check_world, open_folder
from aos.host.folder.restore import restore
from aos.host.folder.second_fold import SecondFold
from aos.host.retention.pruning import is_terminal, named_of
from aos.host.world.collecting import WORD_BYTES, StillNeeded, word
from aos.manifest.named import BlobReferences
from aos.manifest.names import ERROR
from aos.private_memory import keep_memory_private
from aos.read.lens.record_finding import references
from aos.store.cut import Cut
from aos.store.rows import PutRow, SnapshotRow
from aos.store.store import Store, first_kept, head_of
from aos.values.cbor import SELF_DESCRIBED, decode_record
from aos.values.digests import HASH_BYTES, Hash, content_hash
from aos.values.errors import ValueProblem
from aos.values.hash_fields import blobs_of, spelled_in

MANIFEST: Final = "manifest"
SNAPSHOT: Final = "snapshot"
RECORD: Final = "record"
NAMED: Final = "named"
PUT: Final = "put"
BASE: Final = "base"
REASONS: Final = (MANIFEST, SNAPSHOT, RECORD, NAMED, PUT, BASE)
"""Why a blob stays; the first reason that holds counts: a manifest or module that was ever in
force; part of a snapshot; a value that a record refers to; named by a field of type ``hash``;
delivered by a pruned record to an instance that is not over; base of a delta that stays."""

EDGE_BYTES: Final = 32
"""Number of bytes of a blob that show whether it may name others."""

Beat = Callable[[int, int], None]
"""Called at intervals with (records marked, records in all)."""

_NICE: Final = 5
_FAILED: Final = "nothing was removed: the running world could not find out what it still needs"
_HEAD: Final = struct.Struct(">QQ")


@dataclass(slots=True)
class Marks:
    """The data that is needed, and why. ``snapshots_kept`` and ``snapshots_gone`` are the snapshots
    that stay and go, ``over`` the rows of puts of instances that are over."""

    live: dict[Hash, str] = field(default_factory=dict)
    snapshots_kept: tuple[SnapshotRow, ...] = ()
    snapshots_gone: tuple[SnapshotRow, ...] = ()
    over: list[PutRow] = field(default_factory=list)
    seq: int = 0


def mark(
    store: Store,
    *,
    keep: int,
    base: int,
    beat: Beat = lambda _seq, _last: None,
    second: SecondFold | None = None,
) -> Marks:
    """Mark the data that is needed at the store's present head.

    ``keep`` is how many of the newest snapshots stay; the one of record ``base`` stays too.
    ``second`` is as for ``restore``.

    Raises:
        Damage: Data that is needed cannot be read: then nothing may be removed.
    """
    head = head_of(store)
    state = restore(store, head.world, second=second)
    cut = store.cut()
    marks = Marks(seq=head.seq)
    marks.snapshots_kept, marks.snapshots_gone = _snapshots(
        list(store.snapshots()), keep, base, cut
    )
    marking = _Marking(store, named_of(state, store), marks)
    for hash in state.pinned:
        marks.live[hash] = MANIFEST
    for document in {row.document: None for row in marks.snapshots_kept} | _document(cut):
        marking.snapshot(document)
    for record in _records(store, head.seq, beat):
        marking.record(record)
    marking.open_work(state)
    for row in store.puts():
        if is_terminal(state.cells.get(row.cell)):
            marks.over.append(row)
        else:
            marking.name(row.blob, PUT)
    marking.names()
    marking.bases()
    return marks


def _document(cut: Cut | None) -> dict[Hash, None]:
    return {} if cut is None else {cut.document: None}


def _snapshots(
    rows: Sequence[SnapshotRow], keep: int, base: int, cut: Cut | None
) -> tuple[tuple[SnapshotRow, ...], tuple[SnapshotRow, ...]]:
    """(snapshots that stay, snapshots that go). The one at which a pruned journal begins stays."""
    kept_records = {row.at for row in rows[-max(keep, 1) :]}
    kept_records |= {base} | (set() if cut is None else {cut.seq})
    snapshots_kept = tuple(row for row in rows if row.at in kept_records)
    return snapshots_kept, tuple(row for row in rows if row.at not in kept_records)


def _records(store: Store, last: int, beat: Beat) -> Iterator[Record]:
    for frame in store.frames(first_kept(store), last):
        for data in frame.records:
            yield from_bytes(data)
        beat(frame.header.last, last)


class _Marking:
    def __init__(self, store: Store, name_rules: BlobReferences, marks: Marks) -> None:
        self._store = store
        self._name_rules = name_rules
        self._live = marks.live
        self._nodes: set[Hash] = set()
        self._edges: set[Hash] = set()
        """Named hashes that have been followed."""

    # Roots

    def snapshot(self, document: Hash) -> None:
        """Mark all parts of a snapshot, and the blobs that its values name."""
        read = self._store.blob
        # Indexes are walked from their root, because a value may have the bytes of a node.
        for hash, _ in snapshot_references(document, read, skip=lambda _: True):
            self._needs(hash, SNAPSHOT)
        parts = layers(document, read)
        for workflow, index in parts.cells.items():
            self._index(workflow, index, SNAPSHOT)
        if parts.work is not None:
            # ``open_work`` marks what their entries name.
            for index in parts.work.all():
                for node in index.nodes(self._nodes.__contains__):
                    self._nodes.add(node)
                    self._needs(node, SNAPSHOT)
        self.open_work(load(document, read))

    def open_work(self, state: State) -> None:
        """Mark the values that open work and open proposals refer to, and the blobs that they
        name."""
        for proposal in state.proposals.open.values():
            for hash, _ in proposal_blobs(proposal, self._store.blob):
                self._needs(hash, RECORD)
        for intent in (*state.intents.values(), *state.abandoned.values()):
            self._params(intent.effect.name, intent.params)
        for owed in state.owed:
            if owed.settlement is not None:
                effect = state.intents[owed.intent].effect
                schema = effect.receipt.name if owed.settlement.status == "ok" else ERROR
                self._slot(owed.settlement.payload)
                self._value(schema, owed.settlement.payload)
        for cell in state.cells.active.values():
            if cell.state is not None:
                self._state(cell.id[0], cell.state)
            self._key(cell.id)
            for mail in cell.mailbox:
                self._mail(mail)

    def record(self, record: Record) -> None:
        if isinstance(record, Snapshot):
            return  # it stays as long as its row
        for _, ref in references(record):
            self._needs(ref.hash, RECORD)
        match record:
            case Event():
                self._value(record.schema, record.value)
            case Step():
                self._step(record)
            case Receipt() | KernelReceipt():
                self._value(record.payload_schema, record.payload)
            case Stream(payload_ref=bytes(hash)):
                self.name(Hash(hash), NAMED)
            case Manifest():
                for migrated in record.migrated:
                    index = CellIndex(migrated.root, migrated.count, self._store.blob)
                    self._index(migrated.workflow, index, RECORD)
            case _:
                pass

    def _step(self, record: Step) -> None:
        workflow = record.cell[0]
        if record.state is not None:
            self._state(workflow, record.state)
        self._key(record.cell)
        if record.ann is not None and self._name_rules.has_annotations(workflow):
            self._all(
                self._name_rules.annotations(workflow, data) for data in self._read(record.ann)
            )
        for event in record.events:
            self._value(event.schema, event.value)
        for intent in record.intents:
            self._params(intent.effect, intent.params)

    def _mail(self, mail: Mail) -> None:
        if isinstance(mail, EventMail):
            self._slot(mail.value)
            self._value(mail.schema, mail.value)
            return
        self._slot(mail.intent.params)
        self._params(mail.intent.effect.name, mail.intent.params)
        if isinstance(mail, ReceiptMail):
            self.record(mail.receipt)
        else:
            self.record(mail.frame)

    def _index(self, workflow: str, index: CellIndex, reason: str) -> None:
        is_read = self._name_rules.has_states(workflow) or self._name_rules.has_keys(workflow)
        for node, entries in index.leaves(self._nodes.__contains__):
            self._nodes.add(node)
            self._needs(node, reason)
            for data in entries:
                entry = Entry(data)
                for hash in entry.references():
                    self._needs(hash, reason)
                if is_read:
                    cell = entry.to_cell(workflow, self._store.blob)
                    assert cell.state is not None, "an entry has a state"
                    self._state(workflow, cell.state)
                    self._key(cell.id)

    # Values

    def _slot(self, value: Slot) -> None:
        if isinstance(value, Ref):
            self._needs(value.hash, RECORD)

    def _value(self, schema: str | None, value: Slot) -> None:
        if schema is not None and self._name_rules.has_values(schema):
            self._all(self._name_rules.value(schema, data) for data in self._read(value))

    def _state(self, workflow: str, value: Slot) -> None:
        self._slot(value)
        if self._name_rules.has_states(workflow):
            self._all(self._name_rules.state(workflow, data) for data in self._read(value))

    def _key(self, cell: tuple[str, bytes]) -> None:
        if self._name_rules.has_keys(cell[0]):
            self._all([self._name_rules.key(*cell)])

    def _params(self, effect: str, value: Slot) -> None:
        self._slot(value)
        if self._name_rules.has_params(effect):
            self._all(self._name_rules.params(effect, data) for data in self._read(value))

    def _read(self, value: Slot) -> Iterator[bytes]:
        """The bytes of a slot; nothing if they were erased."""
        try:
            yield slot_bytes(value, self._store.blob)
        except Erased:
            return

    # Marks

    def _needs(self, hash: Hash, reason: str) -> None:
        self._live.setdefault(hash, reason)

    def _all(self, hash_groups: Iterable[Iterator[Hash]]) -> None:
        for hashes in hash_groups:
            for hash in hashes:
                self.name(hash, NAMED)

    def name(self, hash: Hash, reason: str) -> None:
        """Mark a named hash: a blob, which may name others itself, or unknown here."""
        waiting = [hash]
        while waiting:
            named_hash = waiting.pop()
            if named_hash not in self._edges:
                self._edges.add(named_hash)
                self._needs(named_hash, reason)
                waiting.extend(self._behind(named_hash))

    def names(self) -> None:
        """Mark the name documents of marked blobs (AG-34)."""
        for name in self._store.names():
            reason = self._live.get(name.blob)
            if reason is not None:
                self._needs(name.hash, reason)

    def bases(self) -> None:
        """Mark the blobs on which the deltas of marked blobs depend (ST-92)."""
        for hash in list(self._live):
            delta = self._store.delta(hash)
            while delta is not None and delta.base not in self._live:
                self._needs(delta.base, BASE)
                delta = self._store.delta(delta.base)

    def _behind(self, hash: Hash) -> Iterator[Hash]:
        """The targets of an edge (RT-13), and the blobs that self-described CBOR names, such as the
        node of a tree (RT-13a); nothing for other blobs."""
        first = self._store.first_bytes(hash, EDGE_BYTES) or b""
        try:
            if first.startswith(SELF_DESCRIBED):
                yield from blobs_of(spelled_in(self._store.blob(hash)), self._store.hash_by_sha256)
            elif EDGE in first:
                yield from self._targets(self._store.blob(hash))
        except Erased:
            return

    def _targets(self, data: bytes) -> Iterator[Hash]:
        try:
            document = decode_record(data)
        except ValueProblem:
            return
        if isinstance(document, list) and document[:1] == [EDGE.decode()]:
            for target in document[1:]:
                if isinstance(target, bytes) and len(target) == HASH_BYTES:
                    yield Hash(target)


def find_still_needed(path: Path, base: int) -> StillNeeded:
    """Mark the world at ``path``, whose core reads from the snapshot after record ``base``.

    Raises:
        Unavailable: The store cannot be marked.
    """
    paths = os.pathsep.join(folder for folder in sys.path if folder)
    try:
        completed = subprocess.run(  # noqa: S603  # this interpreter, a module of ours, a folder, a number
            [sys.executable, *QUICK_PROGRAM, __name__, str(path), str(base), str(_NICE)],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            check=False,
        )
    except OSError as problem:
        raise Unavailable(f"{_FAILED}: {problem} (try again)") from problem
    if completed.returncode != 0:
        reason = completed.stderr.decode(errors="replace")[-500:].strip()
        raise Unavailable(f"{_FAILED}: {reason} (run aos verify, and try again)")
    return _read(completed.stdout)


def _read(data: bytes) -> StillNeeded:
    snapshots, puts = _HEAD.unpack_from(data)
    words = array("Q", data[_HEAD.size :])
    if sys.byteorder == "little":
        words.byteswap()
    return StillNeeded(
        blobs=words[snapshots + puts :],
        snapshots=frozenset(words[:snapshots]),
        puts=frozenset(words[snapshots : snapshots + puts]),
    )


def _packed(words: Iterable[int]) -> bytes:
    return b"".join(number.to_bytes(WORD_BYTES, "big") for number in words)


def _child(path: Path, base: int) -> bytes:
    folder = open_folder(path)
    with folder.open_store(readonly=True) as store:
        check_world(head_of(store), folder.world)
        marks = mark(store, keep=1, base=base, second=SecondFold(outside=path))
    return b"".join(
        (
            _HEAD.pack(len(marks.snapshots_kept), len(marks.over)),
            _packed(row.at for row in marks.snapshots_kept),
            _packed(word(content_hash(row.key)) for row in marks.over),
            _packed(sorted(map(word, marks.live))),
        )
    )


if __name__ == "__main__":
    keep_memory_private()
    os.nice(int(sys.argv[3]))
    try:
        output = _child(Path(sys.argv[1]), int(sys.argv[2]))
    except AosError as problem:
        sys.exit(str(problem))
    sys.stdout.buffer.write(output)
