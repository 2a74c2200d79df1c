"""Write the state of a world as a snapshot: a document and blobs (spec/state.md, SN-1 to SN-23).

    document = {format, world, seq, frame, log, clock_ns, world_key, operators, semantics, serial,
                controls, revoked, pinned, manifest, manifest_seq, snapshot, cells, submissions,
                work, window_ns?, eras?, ancestors?, proposed?, proposals?}

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
from aos.core.journal.records import Ref, Slot
from aos.core.journal.vocabulary import TERMINAL
from aos.core.limits import Limits
from aos.core.state.cell import Cell, EventMail, Mail, OpenIntent, ReceiptMail
from aos.core.state.cell_index import CellIndex
from aos.core.state.entry import pack_keys
from aos.core.state.proposals import Proposal, Proposals
from aos.core.state.state import Halt, Owed, State, StreamState
from aos.core.state.submissions import Chunk
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash

FORMAT: Final = 1

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


def take(state: State, put: Put) -> SnapshotLayers:
    """Write ``state``, which must be at the end of a frame. The state does not change.

    ``put`` receives every blob that the base of ``state`` does not have, some that it has, and the
    document last. Spilled states are stored already and are not put.

    Raises:
        Damage: A part of the index cannot be read.
    """
    assert state.next_seq == state.tip.seq + 1, "a snapshot in the middle of a frame"
    indexes = state.cells.indexed(put)
    chunks = state.submissions.chunks(put)
    document = encode(_document(state, indexes, chunks, put))
    return SnapshotLayers(
        document=put(document),
        size=len(document),
        at=state.tip.seq,
        frame=state.tip.frame,
        cells=indexes,
        chunks=chunks,
    )


def rebase(state: State, layers: SnapshotLayers) -> None:
    """Continue from a durable snapshot of this or an earlier state, so that cells that did not
    change since may leave memory. No read returns another result than before."""
    state.cells.rebase(layers.cells, layers.at)
    state.submissions.rebase(layers.chunks, layers.at)


def _document(
    state: State, indexes: dict[str, CellIndex], chunks: tuple[Chunk, ...], put: Put
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
        "format": FORMAT,
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
            name: list(_paged(items, put, state.limits)) for name, items in _work(state).items()
        },
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
        proposal.seq, proposal.principal, proposal.base, _slot(proposal.document),
        _slot(proposal.patch), proposal.mode,
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


def _work(state: State) -> dict[str, _Items]:
    cells = sorted(state.cells.active.values(), key=lambda cell: cell.id)
    halts = {"halts": map(_halt, sorted(state.halts.items()))} if state.halts else {}
    return {
        **halts,
        "roots": _roots(state, cells),
        "ring": map(_row, state.ring),
        "owed": map(_owed, state.owed),
        "intents": map(_intent, state.intents.values()),
        "abandoned": map(_intent, state.abandoned.values()),
        "attempts": map(_row, sorted(state.attempts.items())),
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
        row += [owed.settlement.status, _slot(owed.settlement.payload)]
    return row


def _stream(item: tuple[Hash, StreamState]) -> Value:
    intent, stream = item
    return [intent, stream.last, stream.frames, stream.since_ns, stream.recent]


def _halt(item: tuple[Hash, Halt]) -> Value:
    intent, halt = item
    return [
        intent, halt.phase, halt.attempt, halt.seq, halt.since_ns, halt.code, halt.problem,
    ]  # fmt: skip


def _intent(intent: OpenIntent) -> Value:
    return [
        intent.intent, [*intent.cell], intent.workflow_hash, intent.seq, intent.index,
        intent.opened_ns, intent.manifest, intent.effect.name, _slot(intent.params),
        intent.params_hash, intent.key, intent.idempotency_key, intent.issuer_ref,
    ]  # fmt: skip


def _slot(value: Slot | None) -> Value:
    return [value.hash, value.size] if isinstance(value, Ref) else value


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
        return _slot(cell.state)
    return [content_hash(cell.state), len(cell.state)]


def _fault(fault: Fault | None) -> Value:
    return None if fault is None else [fault.kind.value, fault.message, fault.detail]


def _mail(mail: Mail) -> Value:
    common: list[Value] = [[*mail.entry], mail.root.seq, mail.depth]
    if isinstance(mail, EventMail):
        return ["event", *common, mail.schema, _slot(mail.value)]
    record = mail.receipt if isinstance(mail, ReceiptMail) else mail.frame
    return [record.KIND, *common, _intent(mail.intent), to_bytes(record)]
