"""Load the state of a world from a snapshot, which ``take`` wrote (spec/state.md, SN-1 to SN-23).

Loading reads only the open work. Cells at rest and the dedup window are read when they are needed,
so that a world of a million cells opens as quickly as one of a hundred.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.frame import Tip
from aos.core.journal.merkle import Tree
from aos.core.journal.ports import BlobReader
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    CellId,
    KernelReceipt,
    Principal,
    Receipt,
    Ref,
    Slot,
    Stamp,
    Stream,
)
from aos.core.journal.vocabulary import TERMINAL
from aos.core.limits import LIMITS, Limits
from aos.core.snapshot.shape import check_agrees, check_document, check_item
from aos.core.snapshot.take import FORMATS, SnapshotLayers
from aos.core.state.cell import (
    Cell,
    EventMail,
    Halt,
    Mail,
    OpenIntent,
    ReceiptMail,
    Root,
    StreamMail,
    StreamState,
)
from aos.core.state.cell_index import CellIndex
from aos.core.state.cells import WAITING_FORMAT, Cells, Packed, Shelf, WorkIndexes
from aos.core.state.entry import Entry, read_keys
from aos.core.state.eras import Era, Eras, ManifestOf, era_of
from aos.core.state.proposals import Cast, Proposal, Proposals, Reported, proposal_blobs
from aos.core.state.state import Ancestor, Debt, Mark, Owed, Settlement, State
from aos.core.state.submissions import (
    Chunk,
    ExportedSubmissions,
    Find,
    Submissions,
    Window,
)
from aos.core.state.work_item import read_intent, read_slot
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.values.cbor import Value, decode_record
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem
from aos.values.show import describe

T = TypeVar("T")

_FORGED = (ValueError, TypeError, KeyError, AttributeError, IndexError)
"""Exceptions that reading a forged document can raise."""

_NONE_WRITTEN: Final = "the snapshot is none that is written"


def load(
    document: Hash,
    read: BlobReader,
    *,
    find: Find | None = None,
    limits: Limits = LIMITS,
    manifest_of: ManifestOf = Effective.from_document,
) -> State:
    """Return the state that ``take`` wrote; ``find`` looks submission ids up in the store.

    Raises:
        Damage: The document or a page is missing or altered, or ``take`` does not write such bytes.
    """
    return _or_damage(lambda: _Loader(document, read, manifest_of).state(find, limits))


def in_format_of(document: Hash, read: BlobReader, take: Callable[[int], Hash]) -> Hash:
    """Take a snapshot in the format of one that a journal records, and return its document.

    If the recorded one cannot be read, each format is tried until its hash is that of the record
    (A-12a). Raises what ``take`` raises.
    """
    taken = document
    for format in _formats_of(document, read):
        taken = take(format)
        if taken == document:
            break
    return taken


def _formats_of(document: Hash, read: BlobReader) -> tuple[int, ...]:
    try:
        value = decode_record(read(document))
    except (Damage, ValueProblem):
        return FORMATS
    number = value.get("format") if isinstance(value, dict) else None
    return (number,) if type(number) is int and number in FORMATS else FORMATS


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedShelf:
    """The cells at rest of one workflow: ``count`` of them, of which as many have each status in
    ``declared``. The index of ``base_count`` entries under ``root``, which record ``since`` made if
    it is not 0, has those that ``changed`` does not have. The other fields are as those of
    ``Shelf``, and ``places`` has the cells in ``changed`` by their open intents."""

    since: int
    root: Hash | None
    base_count: int
    count: int
    declared: Counter[str]
    resting_waiting: int
    undeclared_waiting: int
    ended: set[Hash]
    changed: MutableMapping[CellId, Packed]
    places: Mapping[Hash, CellId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedState:
    """A state at the end of a frame, as a kernel that is not the reference exports it.

    ``document`` and its pages, in ``blobs``, are those of a snapshot, without cells at rest and
    without a dedup window; its maps of open work are those of the base. ``at`` is the record of the
    snapshot that cells at rest are read from. ``open_intents`` counts these by effect. ``active``
    has the active cells that changed since: the last record that changed each, and the bytes of its
    state, unless only the store has them.
    """

    document: Hash
    blobs: Mapping[Hash, bytes]
    at: int
    shelves: Mapping[str, ExportedShelf]
    active: Mapping[CellId, tuple[int, bytes | None]]
    window: Window
    open_intents: Counter[str]


def load_exported(
    exported: ExportedState,
    read: BlobReader,
    *,
    find: Find | None = None,
    limits: Limits = LIMITS,
) -> State:
    """Return the state that a kernel exported. It is not checked: it is no one else's. The other
    arguments are as for ``load``.

    Raises:
        Damage: A manifest cannot be read.
    """

    parts = dict(exported.blobs)

    def read_part(hash: Hash) -> bytes:
        part = parts.get(hash)
        return read(hash) if part is None else part

    loader = _Loader(exported.document, read_part, is_own=True)
    state, work = loader.state(find, limits), loader.work()
    # The state keeps this reader.
    parts.clear()
    waiting = {} if work is None else work.waiting
    cells = state.cells
    cells.at = exported.at
    cells.intents.counts = exported.open_intents
    cells.shelves = {
        name: Shelf(
            CellIndex(shelf.root, shelf.base_count, read),
            delta=shelf.changed,
            count=shelf.count,
            declared=shelf.declared,
            since=shelf.since,
            waiting=waiting.get(name) or CellIndex(None, 0, read),
            ended=shelf.ended,
            resting_waiting=shelf.resting_waiting,
            undeclared_waiting=shelf.undeclared_waiting,
        )
        for name, shelf in exported.shelves.items()
    }
    for shelf in exported.shelves.values():
        cells.intents.packed.update(shelf.places)
    for id, (changed, data) in exported.active.items():
        cell = cells.active[id]
        cell.changed = changed
        if data is not None:
            cell.state = data
    state.submissions = ExportedSubmissions(exported.window, read=read, find=find, limits=limits)
    return state


def layers(document: Hash, read: BlobReader) -> SnapshotLayers:
    """Read the parts of a snapshot that ``rebase`` needs. Raises as ``load``."""
    return _or_damage(lambda: _Loader(document, read).layers())


def parts(
    document: Hash, read: BlobReader, skip: Callable[[Hash], bool] = lambda _: False
) -> Iterator[Hash]:
    """The blobs of a snapshot itself: its document, chunks, pages and nodes, but no values.

    A node of an index for which ``skip`` returns true is left out, with everything below it.

    Raises:
        Damage: The document or a node above the leaves cannot be read.
    """
    try:
        loader = _Loader(document, read)
        yield document
        for chunk in loader.chunks():
            yield chunk.hash
        for pages in loader.fields["work"].values():
            yield from map(_hash, pages)
        for index in loader.all_indexes():
            yield from index.nodes(skip)
    except _FORGED as problem:
        raise Damage(_NONE_WRITTEN) from problem


def references(
    document: Hash, read: BlobReader, skip: Callable[[Hash], bool] = lambda _: False
) -> Iterator[tuple[Hash, str]]:
    """Every blob that a snapshot needs, with a description, the document first.

    A node of an index for which ``skip`` returns true is left out, with everything below it. Values
    that states name are not followed. A blob may occur more than once.

    Raises:
        Damage: The document, a page or a node cannot be read.
    """
    try:
        yield from _references(document, read, skip)
    except _FORGED as problem:
        raise Damage(_NONE_WRITTEN) from problem


def _references(
    document: Hash, read: BlobReader, skip: Callable[[Hash], bool]
) -> Iterator[tuple[Hash, str]]:
    loader = _Loader(document, read)
    yield document, "the document of a snapshot"
    for hash in loader.fields["pinned"]:
        yield Hash(hash), "a manifest or a module"
    for chunk in loader.chunks():
        yield chunk.hash, "a chunk of the dedup window"
    for pages in loader.fields["work"].values():
        for page in pages:
            yield Hash(page), "a page of open work"
    state = loader.state(None)
    for proposal in state.proposals.open.values():
        yield from proposal_blobs(proposal, read)
    yield from _of_open_work(state)
    for index in islice(loader.all_indexes(), len(loader.indexes()), None):
        for node in index.nodes(skip):
            yield node, "a node of a map of open work"
    for workflow, index in loader.indexes().items():
        for node, entries in index.leaves(skip):
            yield node, "a node of an index"
            for data in entries:
                for hash in Entry(data).references():
                    yield hash, f"the state of a cell of {workflow}"


def _of_open_work(state: State) -> Iterator[tuple[Hash, str]]:
    for intent in (*state.intents.values(), *state.abandoned.values()):
        yield intent.manifest, "a manifest that open work came under"
        yield from _ref(intent.params, f"the params of an intent of {intent.cell[0]}")
    for owed in state.owed:
        if owed.settlement is not None:
            yield from _ref(owed.settlement.payload, "the payload of an owed receipt")
    for cell in state.cells.active.values():
        yield from _ref(cell.state, f"the state of a cell of {cell.id[0]}")
        for mail in cell.mailbox:
            description = f"mail of a cell of {cell.id[0]}"
            if isinstance(mail, EventMail):
                yield from _ref(mail.value, description)
                continue
            record = mail.receipt if isinstance(mail, ReceiptMail) else mail.frame
            yield from _ref(record.payload, description)
            yield from _ref(mail.intent.params, description)
            yield mail.intent.manifest, "a manifest that open work came under"


def _ref(slot: Slot | None, description: str) -> Iterator[tuple[Hash, str]]:
    if isinstance(slot, Ref):
        yield slot.hash, description


def _or_damage(build: Callable[[], T]) -> T:
    """Run ``build``; turn errors into Damage, since ``take`` writes nothing that causes one."""
    try:
        return build()
    except _FORGED as problem:
        raise Damage(_NONE_WRITTEN) from problem


def _value(hash: Hash, read: BlobReader) -> Value:
    try:
        return decode_record(read(hash))
    except ValueProblem as problem:
        raise Damage(f"a part of the snapshot is not canonical CBOR: {problem}") from problem


@dataclass(slots=True)
class _Loader:
    """Reads one document."""

    document: Hash
    read: BlobReader
    manifest_of: ManifestOf = Effective.from_document
    format: int = field(init=False)
    is_own: bool = False
    """Whether a kernel of this process made it just now, so that it needs no check."""
    fields: dict[str, Any] = field(init=False)
    _manifests: dict[Hash, Effective] = field(default_factory=dict)
    _roots: dict[int, Root] = field(default_factory=dict)

    def __post_init__(self) -> None:
        match _value(self.document, self.read):
            case {"format": number, **rest} if type(number) is int:
                if number not in FORMATS:
                    raise Damage(
                        f"the snapshot is of format {number}: expected 1 or 2 (a newer release "
                        "wrote it)"
                    )
                self.format = number
                self.fields = {str(name): value for name, value in rest.items()}
                if not self.is_own:
                    check_document({"format": number, **self.fields})
            case _:
                raise Damage("the snapshot's document is none that is written")

    def layers(self) -> SnapshotLayers:
        return SnapshotLayers(
            document=self.document,
            size=len(self.read(self.document)),
            at=self.fields["seq"],
            frame=_hash(self.fields["frame"]),
            cells=self.indexes(),
            chunks=self.chunks(),
            work=self.work(),
        )

    def indexes(self) -> dict[str, CellIndex]:
        return {
            name: CellIndex(None if root is None else _hash(root), count, self.read)
            for name, (root, count, *_) in self.fields["cells"].items()
        }

    def work(self) -> WorkIndexes | None:
        if self.format != WAITING_FORMAT:
            return None
        return WorkIndexes(
            waiting={name: self._map(*row[:2]) for name, row in self.fields["waiting"].items()},
            opened={effect: self._map(*row) for effect, row in self.fields["open"].items()},
            timers=self._map(*self.fields["timers"]),
        )

    def _map(self, root: bytes | None, count: int) -> CellIndex:
        return CellIndex(None if root is None else _hash(root), count, self.read)

    def all_indexes(self) -> Iterator[CellIndex]:
        """The indexes of cells, and the maps of open work."""
        yield from self.indexes().values()
        work = self.work()
        if work is not None:
            yield from work.all()

    def chunks(self) -> tuple[Chunk, ...]:
        return tuple(Chunk(n, _hash(hash), count) for n, hash, count in self.fields["submissions"])

    def state(self, find: Find | None, limits: Limits = LIMITS) -> State:
        fields = self.fields
        seq, (size, peaks) = fields["seq"], fields["log"]
        log = Tree(size, tuple(map(_hash, peaks)))
        for root, ns, entropy, steps in self._items("roots"):
            self._roots[root] = Root(root, Stamp(ns, entropy), steps)
        mark, manifest = fields["snapshot"], fields["manifest"]
        state = State(
            tip=Tip(world=_hash(fields["world"]), seq=seq, frame=_hash(fields["frame"]), log=log),
            clock_ns=fields["clock_ns"],
            window_ns=fields.get("window_ns", fields["clock_ns"]),
            next_seq=seq + 1,
            world_key=fields["world_key"],
            operators=tuple(Principal(name, key) for name, key in fields["operators"]),
            semantics=fields["semantics"],
            serial=fields["serial"],
            controls=fields["controls"],
            revoked=frozenset(fields["revoked"]),
            pinned=set(map(_hash, fields["pinned"])),
            manifest=None if manifest is None else self._manifest(_hash(manifest)),
            manifest_seq=fields["manifest_seq"],
            eras=self._eras(),
            snapshot=None if mark is None else Mark(mark[0], mark[1], _hash(mark[2])),
            proposals=self._proposals(),
            ancestors=tuple(Ancestor(_hash(w), at) for w, at in fields.get("ancestors", ())),
            limits=limits,
            cells=Cells(self.read, at=seq, limits=limits, manifest_of=self.manifest_of),
            submissions=Submissions(self.chunks(), read=self.read, find=find, limits=limits),
        )
        self._load_cells(state.cells)
        self._load_work(state)
        if not self.is_own:
            check_agrees(state)
        return state

    def _eras(self) -> Eras:
        era_rows, manifest = self.fields.get("eras"), self.fields["manifest"]
        if era_rows is not None:
            eras = tuple(Era(seq, _hash(hash), frozenset(names)) for seq, hash, names in era_rows)
            return Eras(eras, self.read, manifest_of=self.manifest_of)
        if manifest is None:
            return Eras(manifest_of=self.manifest_of)
        effective = self._manifest(_hash(manifest))
        era = era_of(self.fields["manifest_seq"], effective)
        return Eras((era,), self.read, manifest_of=self.manifest_of)

    def _proposals(self) -> Proposals:
        proposals = Proposals(count=self.fields.get("proposed", 0))
        for seq, *columns in self.fields.get("proposals", ()):
            if seq in proposals.open or seq in proposals.closed:
                raise Damage(f"the snapshot has proposal {seq} twice")
            if len(columns) == 1:
                proposals.closed[seq] = columns[0]
                continue
            principal, base, document, patch, mode, leaves, votes, reports = columns
            proposals.open[seq] = Proposal(
                seq=seq,
                principal=principal,
                base=_hash(base),
                document=Ref(_hash(document[0]), document[1]),
                patch=Ref(_hash(patch[0]), patch[1]),
                mode=mode,
                leaves=tuple(leaves),
                votes={name: Cast(vote, at) for name, vote, at in votes},
                reports={_hash(hash): Reported(at, size) for hash, at, size in reports},
            )
        return proposals

    def _load_cells(self, cells: Cells) -> None:
        for name, (_, _, count, *declared) in self.fields["cells"].items():
            shelf = cells.shelf(name)
            shelf.count = count
            shelf.declared = Counter(dict(zip(TERMINAL, declared, strict=True)))
        for name, index in self.indexes().items():
            cells.shelf(name).base = index
        cells.rebase_work(self.work())
        for name, (_, count, undeclared) in self.fields.get("waiting", {}).items():
            cells.shelf(name).resting_waiting = count
            cells.shelf(name).undeclared_waiting = undeclared
        for hash, effective in self._manifests.items():
            cells.intents.keep(hash, effective)
        for item in self._items("cells"):
            cell = self._cell(item)
            cells.shelf(cell.id[0])
            cells.active[cell.id] = cell

    def _load_work(self, state: State) -> None:
        state.ring = deque([(name, key) for name, key in self._items("ring")])
        state.owed = deque([self._owed(item) for item in self._items("owed")])
        for opened in map(self._intent, self._items("intents")):
            state.intents[opened.intent] = opened
        at_rest = {effect: count for effect, (_, count) in self.fields.get("open", {}).items()}
        state.intents.counts.update(at_rest)
        abandoned = map(self._intent, self._items("abandoned"))
        state.abandoned = OrderedDict((intent.intent, intent) for intent in abandoned)
        intents = state.intents
        intents.attempts = {_hash(intent): last for intent, last in self._items("attempts")}
        intents.streams = {
            _hash(intent): StreamState(*columns) for intent, *columns in self._items("streams")
        }
        intents.halts = {
            _hash(intent): Halt(
                phase=phase, attempt=attempt, seq=seq, since_ns=ns, code=code, problem=problem
            )
            for intent, phase, attempt, seq, ns, code, problem in self._items("halts")
        }
        state.world_keys = OrderedDict(
            (key, _hash(params)) for key, params in self._items("world_keys")
        )

    def _items(self, name: str) -> Iterator[Any]:
        for page in self.fields["work"].get(name, ()):
            items = _value(_hash(page), self.read)
            if not isinstance(items, list):
                raise Damage(f"a page of {name} is no list")
            for item in items:
                if not self.is_own:
                    check_item(name, item)
                yield item

    def _manifest(self, hash: Hash) -> Effective:
        effective = self._manifests.get(hash)
        if effective is None:
            effective = self._manifests[hash] = self.manifest_of(self.read(hash))
        return effective

    def _intent(self, item: Any) -> OpenIntent:
        return read_intent(item, self._manifest)

    def _owed(self, item: Any) -> Owed:
        intent, debt, root, depth, problem, canceled, *settlement = item
        return Owed(
            intent=_hash(intent),
            debt=Debt(debt),
            root=self._roots[root],
            depth=depth,
            problem=problem,
            canceled=canceled,
            settlement=Settlement(settlement[0], read_slot(settlement[1])) if settlement else None,
        )

    def _cell(self, item: Any) -> Cell:
        (
            (workflow, key), workflow_hash, module_hash, state, declared, fault, fault_seq,
            last_seq, last_active_ns, uncounted, in_ring, inflight, keys, mailbox, *option_maps,
        ) = item  # fmt: skip
        options = option_maps[0] if option_maps else {}
        return Cell(
            version=options.get("version", 0),
            is_kept=options.get("kept", False),
            id=(workflow, key),
            workflow_hash=_hash(workflow_hash),
            module_hash=_hash(module_hash),
            state=None if state is None else read_slot(state),
            declared=declared,
            fault=None if fault is None else _fault(*fault),
            fault_seq=fault_seq,
            last_seq=last_seq,
            last_active_ns=last_active_ns,
            mail_uncounted=uncounted,
            in_ring=in_ring,
            inflight=dict.fromkeys(map(_hash, inflight)),
            keys=OrderedDict() if keys is None else read_keys(keys),
            mailbox=deque(map(self._mail, mailbox)),
        )

    def _mail(self, item: Any) -> Mail:
        kind, (seq, index), root, depth, subject, content = item
        entry, cause = (seq, index), self._roots[root]
        if kind == "event":
            return EventMail(
                entry=entry, root=cause, depth=depth, schema=subject, value=read_slot(content)
            )
        intent, record = self._intent(subject), from_bytes(content)
        if isinstance(record, Stream):
            return StreamMail(entry=entry, root=cause, depth=depth, intent=intent, frame=record)
        if isinstance(record, Receipt | KernelReceipt):
            return ReceiptMail(entry=entry, root=cause, depth=depth, intent=intent, receipt=record)
        raise Damage(f"mail of a cell is a record of kind {record.KIND}")


def _hash(data: object) -> Hash:
    if not isinstance(data, bytes) or len(data) != HASH_BYTES:
        raise Damage(f"the snapshot holds {describe(data)} where a hash belongs")
    return Hash(data)


def _fault(kind: str, message: str, detail: bytes | None) -> Fault:
    return Fault(kind=FaultKind(kind), message=message, detail=detail)
