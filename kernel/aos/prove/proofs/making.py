"""Make proofs (spec/proofs.md, PF-30 to PF-39).

A proof shows whole records and nothing of their neighbours but a leaf (J-26). Its values are those
that the claim is about; the bytes of others are left out, and the records have their hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.core.journal.frame import Frame, leaf, record_salt
from aos.core.journal.merkle import proof as record_path
from aos.core.journal.records import KernelReceipt, Manifest, Receipt, Ref, Slot, Snapshot, Step
from aos.core.state.cell_index import CellIndex
from aos.errors import BadUsage, Erased, Refused
from aos.prove.headerlog.checkpoint import Checkpoint
from aos.prove.headerlog.header_tree import consistency
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.proofs.anchoring import Anchoring
from aos.prove.proofs.checking import check
from aos.prove.proofs.proof_file import (
    PROOF_BYTES_MAX,
    CheckpointAnchor,
    Kind,
    Proof,
    ShownFrame,
    ShownRecord,
    WorldKey,
    read_proof,
    write_proof,
)
from aos.prove.proofs.sources import IntentRecords, Source, record_at
from aos.values.cbor import decode_record
from aos.values.digests import Hash, content_hash

VALUES_BYTES_MAX: Final = 32 * 1024 * 1024
"""Values of a proof in all; beyond that, the longest are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeProof:
    """A proof and its file. ``checkpoint`` is the number of frames of the checkpoint that it rests
    on, None for the head; ``left_out`` are values that are erased or too long."""

    proof: Proof
    data: bytes
    checkpoint: int | None = None
    left_out: tuple[Hash, ...] = ()


class Maker:
    """Makes proofs from one journal, anchored in one place."""

    def __init__(self, source: Source, world: Hash, anchoring: Anchoring) -> None:
        self._source = source
        self._world = world
        self._anchoring = anchoring

    def record(self, seq: int) -> MadeProof:
        """Prove one record. Raises as ``Source.frame_at``, and ``Damage`` as ``Anchoring``."""
        return self._make_proof("record", {"record": seq})

    def intent(self, intent: Hash, records: IntentRecords, *, bare: bool = False) -> MadeProof:
        """Prove what was asked for, how it ended, and whose key says so. With ``bare`` no value
        and no manifest is shown. Raises as ``record``."""
        seq_by_role = {
            "asked": records.request,
            "settled": records.settled,
            "manifest": records.manifest,
        }
        seqs = {role: seq for role, seq in seq_by_role.items() if seq is not None}
        shown_records = [] if bare else [record_at(self._source, seq) for seq in seqs.values()]
        slots = [slot for record in shown_records for slot in _values_of(record, intent)]
        needed_hashes = [
            record.document.hash for record in shown_records if isinstance(record, Manifest)
        ]
        return self._make_proof("intent", seqs, slots, needed_hashes=needed_hashes, intent=intent)

    def cell(
        self,
        workflow: str,
        key: bytes,
        last: int | None,
        snapshot: CellSnapshot | None = None,
    ) -> MadeProof:
        """Prove the last record of a cell, and with ``snapshot`` that it is the last one up to
        there. Raises as ``record``."""
        seqs: dict[str, int] = {}
        slots: list[Slot] = []
        if last is not None:
            seqs["last"] = last
            record = record_at(self._source, last)
            if isinstance(record, Step) and record.state is not None:
                slots.append(record.state)
        if snapshot is not None:
            seqs["snapshot"] = snapshot.seq
            slots.append(snapshot.document)
        return self._make_proof(
            "cell", seqs, slots, workflow=workflow, key=key,
            needed_hashes=[] if snapshot is None else [snapshot.document.hash],
            nodes=None if snapshot is None else snapshot.nodes,
        )  # fmt: skip

    def _make_proof(
        self,
        kind: Kind,
        seqs: Mapping[str, int],
        slots: Sequence[Slot] = (),
        *,
        needed_hashes: Sequence[Hash] = (),
        **fields: Any,
    ) -> MadeProof:
        frames = [self._source.frame_at(seq) for seq in seqs.values()]
        shown_frames = self._anchoring.frames(frames)
        values, left_out = self._values(slots, needed_hashes)
        proof = Proof(
            kind=kind,
            worlds=self._worlds(frames),
            anchor=self._anchoring.anchor,
            records={
                role: shown_record(frame, seq, shown_frame)
                for (role, seq), frame, shown_frame in zip(
                    seqs.items(), frames, shown_frames, strict=True
                )
            },
            values=values,
            **fields,
        )
        return finished(proof, left_out)

    def _worlds(self, frames: Sequence[Frame]) -> tuple[WorldKey, ...]:
        """The world itself, and the ancestors whose frames are shown."""
        worlds = dict.fromkeys([self._world])
        if isinstance(self._anchoring.anchor, CheckpointAnchor):
            worlds |= dict.fromkeys(frame.header.world for frame in frames)
        elif any(frame.header.world != self._world for frame in frames):
            raise Refused(
                "this record is from before the fork, and the head alone does not prove the world "
                "that it is of (make a checkpoint first: aos checkpoint)"
            )
        return tuple(map(self._source.key_of, worlds))

    def _values(
        self, slots: Sequence[Slot], needed_hashes: Sequence[Hash]
    ) -> tuple[tuple[bytes, ...], tuple[Hash, ...]]:
        """The values that records refer to, the short ones first; and those that are left out."""
        refs = {slot.hash: slot for slot in slots if isinstance(slot, Ref)}
        values: list[bytes] = []
        left_out: list[Hash] = []
        total = 0
        for ref in sorted(
            refs.values(),
            key=lambda reference: (reference.hash not in needed_hashes, reference.size),
        ):
            try:
                data = None if total + ref.size > VALUES_BYTES_MAX else self._source.blob(ref.hash)
            except Erased:
                if ref.hash in needed_hashes:
                    raise
                data = None
            if data is None:
                left_out.append(ref.hash)
                continue
            total += len(data)
            values.append(data)
        return tuple(values), tuple(left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSnapshot:
    """A snapshot record, its document, and the path of a cell in the index of its workflow.

    ``last`` is the last record of the cell up to there; None: the cell has no state in it.
    """

    seq: int
    at: int
    document: Ref
    nodes: tuple[bytes, ...]
    last: int | None


def cell_snapshot(source: Source, seq: int, workflow: str, key: bytes) -> CellSnapshot:
    """Read the place of a cell in the snapshot that record ``seq`` announces.

    Raises:
        Damage: The snapshot cannot be read.
    """
    record = record_at(source, seq)
    assert isinstance(record, Snapshot), "the caller found a snapshot"
    fields: Any = decode_record(source.blob(record.document.hash))
    root, count = fields["cells"].get(workflow, [None, 0])[:2]
    index = CellIndex(None if root is None else Hash(root), count, source.blob)
    entry_bytes = index.get(content_hash(key))
    entry: Any = None if entry_bytes is None else decode_record(entry_bytes)
    return CellSnapshot(
        seq=seq,
        at=record.at,
        document=record.document,
        nodes=index.prove(content_hash(key)),
        last=None if entry is None else entry[4],
    )


def prove_consistency(
    world: WorldKey,
    log: TiledLog,
    old: tuple[Checkpoint, str],
    new: tuple[Checkpoint, CheckpointAnchor],
) -> MadeProof:
    """Prove that an old checkpoint is the beginning of a new one of the same log.

    Raises:
        Refused: The old one is larger.
        Damage: It is not the beginning: one of the two journals was rewritten.
    """
    if old[0].size > new[0].size:
        raise Refused(
            "the checkpoint is newer than the header log",
            expected=f"at most {new[0].size} frames",
            actual=f"{old[0].size}",
            hint="extend the log first (aos checkpoint); if it cannot be, the journal was "
            "rolled back: aos verify --checkpoint FILE",
        )
    path = consistency(old[0].size, new[0].size, log.node)
    proof = Proof(
        kind="consistency", worlds=(world,), anchor=new[1], old=old[1], path=tuple(path)
    )  # fmt: skip
    return finished(proof)


def finished(proof: Proof, left_out: tuple[Hash, ...] = ()) -> MadeProof:
    """The file of a proof, read and checked again as its reader will.

    Raises:
        Refused: It would be too large for a reader.
        Damage: It does not hold, so the journal is damaged.
    """
    data = write_proof(proof)
    if len(data) > PROOF_BYTES_MAX:
        raise Refused(
            "the proof would be too large for its readers",
            expected=f"at most {PROOF_BYTES_MAX} bytes",
            actual=f"{len(data)}",
            hint="export the world instead: aos export FILE",
        )
    checkpoint = check(read_proof(data)).checkpoint
    size = None if checkpoint is None else checkpoint.size
    return MadeProof(proof=proof, data=data, checkpoint=size, left_out=left_out)


def shown_record(frame: Frame, seq: int, shown_frame: ShownFrame) -> ShownRecord:
    """One record of a frame, with the path to the frame's root."""
    header = frame.header
    leaves = [leaf(frame.salt, header.first + i, data) for i, data in enumerate(frame.records)]
    index = seq - header.first
    return ShownRecord(
        seq=seq,
        data=frame.records[index],
        salt=record_salt(frame.salt, seq),
        index=index,
        count=len(frame.records),
        path=tuple(record_path(leaves, index)),
        frame=shown_frame,
    )


def _values_of(record: object, intent: Hash) -> list[Slot]:
    """The values of one record that a proof of an intent shows."""
    match record:
        case Step():
            return [request.params for request in record.intents if request.intent == intent]
        case Receipt() | KernelReceipt():
            return [record.payload]
        case Manifest():
            return [record.document]
    raise BadUsage(f"{record!r} is no record of an intent")
