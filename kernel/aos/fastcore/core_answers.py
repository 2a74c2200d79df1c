"""The answers of a core to the operations of ``reading.rs``, as values of ``KernelProtocol``."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.frame import Tip
from aos.core.journal.governing import ProposedChange
from aos.core.journal.merkle import Tree
from aos.core.journal.records import CellId, Principal, Slot
from aos.core.journal.vocabulary import CellStatus, TerminalStatus
from aos.core.kernel_protocol import KernelFigures, RingHead
from aos.core.state.cell import Halt, OpenIntent
from aos.core.state.intent_progress import IntentProgress
from aos.core.state.proposals import OpenProposal
from aos.core.state.state import Mark
from aos.fastcore.fold_core import CoreAnswer, IntentBytes, intent_of
from aos.manifest.effective import Effective
from aos.values.digests import HASH_BYTES, Hash


class CoreStatus(NamedTuple):
    """The figures that a host needs after every record. ``era_rows`` are the bytes of ``eras``."""

    next_seq: int
    ready_cells: int
    owed: int
    manifest_seq: int
    pending_records: int
    pending_bytes: int
    pending_blob_bytes: int
    era_rows: bytes

    @property
    def manifest(self) -> Hash | None:
        """The manifest in force: that of the last era."""
        return Hash(self.era_rows[-HASH_BYTES:]) if self.era_rows else None

    def eras(self) -> list[tuple[int, Hash]]:
        """(record, manifest) of each era."""
        return [(seq, Hash(manifest)) for seq, manifest in _ERA.iter_unpack(self.era_rows)]


_ERA: Final = struct.Struct("<Q32s")
_STATUS: Final = struct.Struct("<7QI")
"""The numbers of a status, and how many eras follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCopy:
    """A cell as it was when the core was asked; ``key_hash`` is the hash of its key."""

    key_hash: Hash
    id: CellId
    state: Slot | None
    declared: TerminalStatus | None
    fault: Fault | None
    fault_seq: int | None
    last_seq: int
    status: CellStatus


def status_of(answer: CoreAnswer) -> CoreStatus:
    seq, ready, owed, manifest, records, size, blob_size, eras = answer.unpack(_STATUS)
    rows = answer.take(eras * _ERA.size)
    return CoreStatus(seq, ready, owed, manifest, records, size, blob_size, rows)


def tip_of(answer: CoreAnswer) -> Tip:
    return Tip(
        world=answer.hash(),
        seq=answer.u64(),
        frame=answer.hash(),
        log=Tree(answer.u64(), answer.list(CoreAnswer.hash)),
    )


def figures_of(
    answer: CoreAnswer, *, manifest: Effective | None, manifest_seq: int, ready_cells: int
) -> KernelFigures:
    return KernelFigures(
        clock_ns=answer.u64(),
        world_key=answer.data(),
        operators=answer.list(lambda row: Principal(row.text(), row.data())),
        manifest=manifest,
        manifest_seq=manifest_seq,
        serial=answer.u64(),
        controls=answer.u64(),
        cells=answer.u64(),
        ready_cells=ready_cells,
        open_intents=answer.u64(),
        open_timers=answer.u64(),
        snapshot=answer.option(lambda mark: Mark(mark.u64(), mark.u64(), mark.hash())),
        proposed=answer.u64(),
        proposals=answer.list(_proposal),
    )


def _proposal(answer: CoreAnswer) -> OpenProposal:
    return OpenProposal(
        seq=answer.u64(),
        principal=answer.text(),
        change=ProposedChange(
            base=answer.hash(),
            document=answer.hash(),
            patch=answer.hash(),
            mode=answer.option(CoreAnswer.text),
            leaves=answer.list(CoreAnswer.text),
        ),
        approving=answer.list(CoreAnswer.text),
        rejecting=answer.list(CoreAnswer.text),
        reports=answer.list(CoreAnswer.hash),
    )


def ring_head_of(answer: CoreAnswer) -> RingHead:
    return RingHead(
        cell=answer.cell_id(),
        entry=(answer.u64(), answer.u64()),
        root=answer.u64(),
        depth=answer.u64(),
    )


def cell_of(answer: CoreAnswer) -> CellCopy:
    words: Any = CoreAnswer.text  # one of a type of words
    return CellCopy(
        key_hash=answer.hash(),
        id=answer.cell_id(),
        state=answer.option(CoreAnswer.slot),
        declared=answer.option(words),
        fault=answer.option(_fault),
        fault_seq=answer.option(CoreAnswer.u64),
        last_seq=answer.u64(),
        status=words(answer),
    )


def _fault(answer: CoreAnswer) -> Fault:
    return Fault(
        kind=FaultKind(answer.text()),
        message=answer.text(),
        detail=answer.option(CoreAnswer.data),
    )


def progress_of(answer: CoreAnswer, intent: Callable[[IntentBytes], OpenIntent]) -> IntentProgress:
    """Read an intent's progress; ``intent`` finds the parts of its manifest."""
    return IntentProgress(
        intent=intent(intent_of(answer)),
        attempt=answer.u64(),
        halt=answer.option(_halt),
        halted=answer.u64(),
        next_frame=answer.u64(),
        is_owed=answer.u32() == 1,
        is_inherited=answer.u32() == 1,
        is_abandoned=answer.u32() == 1,
    )


def _halt(answer: CoreAnswer) -> Halt:
    phase: Any = answer.text()  # one of a type of words
    return Halt(
        phase=phase,
        attempt=answer.u64(),
        seq=answer.u64(),
        since_ns=answer.u64(),
        code=answer.text(),
        problem=answer.option(CoreAnswer.text),
    )
