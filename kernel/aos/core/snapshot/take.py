"""Write the state of a world as a snapshot: a document and blobs (spec/state.md, SN-1 to SN-23).

    document = {format, world, seq, frame, log, clock_ns, world_key, operators, semantics, serial,
                controls, revoked, pinned, manifest, manifest_seq, snapshot, cells, submissions,
                work, window_ns?, eras?, ancestors?, proposed?, proposals?}
                format 2: waiting, open, timers

``cells`` has the root of each workflow's index, ``submissions`` the chunks of the dedup window,
``work`` the pages of all open work. The document's content hash is the root of the world at that
record: the same records give the same bytes, whatever snapshots were taken before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.core.journal.faults import Fault
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import Ref
from aos.core.journal.vocabulary import TERMINAL
from aos.core.limits import Limits
from aos.core.state.cell import Cell, EventMail, Halt, Mail, ReceiptMail, StreamState
from aos.core.state.cell_index import CellIndex
from aos.core.state.cells import WAITING_FORMAT, WorkIndexes
from aos.core.state.entry import pack_keys
from aos.core.state.proposals import Proposal, Proposals
from aos.core.state.state import Owed, State
from aos.core.state.submissions import Chunk
from aos.core.state.work_item import intent_row, slot_value
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash

FORMATS: Final = (1, WAITING_FORMAT)
"""The formats that are read and written. In the first, open work is in pages alone."""

Put: TypeAlias = Callable[[bytes], Hash]
"""Takes a blob that a snapshot needs and returns its content hash."""

_Items: TypeAlias = Iterator[Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLayers:
    """A snapshot: its document's hash and size, and the layers for ``rebase``."""

    document: Hash
    size: int
    at: int
    frame: Hash
    cells: dict[str, CellIndex]
    chunks: tuple[Chunk, ...]
    work: WorkIndexes | None
    """The maps of open work; None for a snapshot of format 1."""


def take(state: State, put: Put, *, format: int | None = None) -> SnapshotLayers:
    """Write ``state``, which must be at the end of a frame. The state does not change. ``format``
    is one of ``FORMATS`` (default: that of the state's limits).

    ``put`` receives every blob that the base of ``state`` does not have, some that it has, and the
    document last. Spilled states are stored already and are not put.

    Raises:
        Damage: A part of the index cannot be read.
    """
    assert state.next_seq == state.tip.seq + 1, "a snapshot in the middle of a frame"
    is_paged = (format or state.limits.snapshot_format) != WAITING_FORMAT
    indexes = state.cells.indexed(put)
    work = None if is_paged else state.cells.indexed_work(put)
    chunks = state.submissions.chunks(put)
    document = encode(_document(state, indexes, work, chunks, put))
    return SnapshotLayers(
        document=put(document),
        size=len(document),
        at=state.tip.seq,
        frame=state.tip.frame,
        cells=indexes,
        chunks=chunks,
        work=work,
    )


def rebase(state: State, layers: SnapshotLayers) -> None:
    """Continue from a durable snapshot of this or an earlier state, so that cells that did not
    change since may leave memory. No read returns another result than before."""
    if layers.work is None:
        state.cells.wake_waiting()
    state.cells.rebase(layers.cells, layers.at)
    state.cells.rebase_work(layers.work)
    state.submissions.rebase(layers.chunks, layers.at)


def _document(
    state: State,
    indexes: dict[str, CellIndex],
    work: WorkIndexes | None,
    chunks: tuple[Chunk, ...],
    put: Put,
) -> Value:
    shelves = state.cells.shelves
    mark, manifest = state.snapshot, state.manifest
    ancestors: list[Value] = [[ancestor.world, ancestor.at] for ancestor in state.ancestors]
    eras: list[Value] = [
        [era.seq, era.manifest, list[Value](sorted(era.in_place))] for era in state.eras.all
    ]
    return {
        **({} if state.eras.is_one else {"eras": eras}),
        **({"ancestors": ancestors} if ancestors else {}),
        **_proposals(state.proposals),
        **({} if state.window_ns == state.clock_ns else {"window_ns": state.window_ns}),
        "format": 1 if work is None else WAITING_FORMAT,
        **({} if work is None else _maps(state, work)),
        "world": state.world,
        "seq": state.tip.seq,
        "frame": state.tip.frame,
        "log": [state.tip.log.size, list(state.tip.log.peaks)],
        "clock_ns": state.clock_ns,
        "world_key": state.world_key,
        "operators": [[operator.name, operator.key] for operator in state.operators],
        "semantics": state.semantics,
        "serial": state.serial,
        "controls": state.controls,
        "revoked": [*sorted(state.revoked)],
        "pinned": [*sorted(state.pinned)],
        "manifest": None if manifest is None else manifest.hash,
        "manifest_seq": state.manifest_seq,
        "snapshot": None if mark is None else [mark.seq, mark.at, mark.document],
        "cells": {
            name: [
                index.root,
                index.count,
                shelves[name].count,
                *[shelves[name].declared[status] for status in TERMINAL],
            ]
            for name, index in indexes.items()
            if shelves[name].count
        },
        "submissions": [[chunk.number, chunk.hash, chunk.count] for chunk in chunks],
        "work": {
            name: list(_paged(items, put, state.limits))
            for name, items in _work(state, is_paged=work is None).items()
        },
    }


def _maps(state: State, work: WorkIndexes) -> dict[str | int, Value]:
    """The maps of open work, which pages do not have (SN-15)."""
    undeclared = state.cells.undeclared_waiting()
    return {
        "waiting": {
            name: [index.root, index.count, undeclared[name]]
            for name, index in work.waiting.items()
        },
        "open": {effect: [index.root, index.count] for effect, index in work.opened.items()},
        "timers": [work.timers.root, work.timers.count],
    }


def _proposals(proposals: Proposals) -> dict[str | int, Value]:
    """The open proposals, then the closed ones, both in the order of the journal."""
    rows: list[Value] = [_proposal(proposal) for proposal in proposals.open.values()]
    rows += [[seq, status] for seq, status in proposals.closed.items()]
    return {
        **({"proposed": proposals.count} if proposals.count else {}),
        **({"proposals": rows} if rows else {}),
    }


def _proposal(proposal: Proposal) -> Value:
    return [
        proposal.seq, proposal.principal, proposal.base, slot_value(proposal.document),
        slot_value(proposal.patch), proposal.mode,
        list(proposal.leaves),
        [[name, cast.vote, cast.seq] for name, cast in proposal.votes.items()],
        [[hash, report.seq, report.size] for hash, report in proposal.reports.items()],
    ]  # fmt: skip


def _paged(items: _Items, put: Put, limits: Limits) -> Iterator[Hash]:
    """Write items as pages; a page ends with the item that fills it."""
    most_bytes, most_items = limits.page_bytes, limits.page_items
    page: list[bytes] = []
    size = 0
    for item in items:
        page.append(encode(item))
        size += len(page[-1])
        if size >= most_bytes or len(page) >= most_items:
            yield put(_array(page))
            page, size = [], 0
    if page:
        yield put(_array(page))


def _array(items: list[bytes]) -> bytes:
    return encode([None] * len(items))[: -len(items)] + b"".join(items)


def _work(state: State, *, is_paged: bool) -> dict[str, _Items]:
    """The items of all pages: of all open work, or of that which the maps do not have."""
    if is_paged:
        cells = sorted(state.cells.unrested(), key=lambda cell: cell.id)
        works = list(state.intents.in_order())
    else:
        active = state.cells.active.values()
        cells = [cell for cell in active if not state.cells.may_wait(cell)]
        cells.sort(key=lambda cell: cell.id)
        paged = [state.intents[intent] for cell in cells for intent in cell.inflight]
        paged.sort(key=lambda intent: (intent.seq, intent.index))
        works = [(intent, state.attempts.get(intent.intent)) for intent in paged]
    attempts = {intent.intent: attempt for intent, attempt in works if attempt is not None}
    abandoned = state.abandoned.keys() & state.attempts.keys()
    attempts |= {intent: state.attempts[intent] for intent in abandoned}
    halts = {"halts": map(_halt, sorted(state.halts.items()))} if state.halts else {}
    return {
        **halts,
        "roots": _roots(state, cells),
        "ring": map(_row, state.ring),
        "owed": map(_owed, state.owed),
        "intents": (intent_row(intent) for intent, _ in works),
        "abandoned": map(intent_row, state.abandoned.values()),
        "attempts": map(_row, sorted(attempts.items())),
        "streams": map(_stream, sorted(state.streams.items())),
        "cells": map(_active, cells),
        "world_keys": map(_row, state.world_keys.items()),
    }


def _roots(state: State, cells: Iterable[Cell]) -> _Items:
    roots = {mail.root.seq: mail.root for cell in cells for mail in cell.mailbox}
    roots.update((owed.root.seq, owed.root) for owed in state.owed)
    for _, root in sorted(roots.items()):
        yield [root.seq, root.stamp.ns, root.stamp.entropy, root.steps]


def _row(pair: tuple[Value, Value]) -> Value:
    return [*pair]


def _owed(owed: Owed) -> Value:
    root = owed.root.seq
    row: list[Value] = [
        owed.intent, owed.debt.value, root, owed.depth, owed.problem, owed.canceled
    ]  # fmt: skip
    if owed.settlement is not None:
        row += [owed.settlement.status, slot_value(owed.settlement.payload)]
    return row


def _stream(item: tuple[Hash, StreamState]) -> Value:
    intent, stream = item
    return [intent, stream.last, stream.frames, stream.since_ns, stream.recent]


def _halt(item: tuple[Hash, Halt]) -> Value:
    intent, halt = item
    return [
        intent, halt.phase, halt.attempt, halt.seq, halt.since_ns, halt.code, halt.problem,
    ]  # fmt: skip


def _active(cell: Cell) -> Value:
    return [
        [*cell.id], cell.workflow_hash, cell.module_hash, _state_ref(cell), cell.declared,
        _fault(cell.fault), cell.fault_seq, cell.last_seq, cell.last_active_ns,
        cell.mail_uncounted, cell.in_ring, list(cell.inflight), pack_keys(cell.keys),
        [_mail(mail) for mail in cell.mailbox], *_options(cell),
    ]  # fmt: skip


def _options(cell: Cell) -> list[Value]:
    """The optional facts that few cells have."""
    options: dict[str | int, Value] = {}
    if cell.version:
        options["version"] = cell.version
    if cell.is_kept:
        options["kept"] = True
    return [options] if options else []


def _state_ref(cell: Cell) -> Value:
    """The state's hash and size, as in its entry, whether or not it is in memory."""
    if cell.state is None or isinstance(cell.state, Ref):
        return slot_value(cell.state)
    return [content_hash(cell.state), len(cell.state)]


def _fault(fault: Fault | None) -> Value:
    return None if fault is None else [fault.kind.value, fault.message, fault.detail]


def _mail(mail: Mail) -> Value:
    common: list[Value] = [[*mail.entry], mail.root.seq, mail.depth]
    if isinstance(mail, EventMail):
        return ["event", *common, mail.schema, slot_value(mail.value)]
    record = mail.receipt if isinstance(mail, ReceiptMail) else mail.frame
    return [record.KIND, *common, intent_row(mail.intent), to_bytes(record)]
