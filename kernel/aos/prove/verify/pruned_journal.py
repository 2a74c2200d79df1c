"""Find where a journal whose first records were pruned begins, without its archives or with them
(spec/audit.md, A-27b, A-27c).

The cut names the frame that the first kept frame follows; the snapshot of the world at that place
holds the result of the pruned records. A later record of the same chain names that snapshot, and
the signed head vouches for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aos.core.journal.frame import Tip
from aos.core.journal.identity import world_id
from aos.core.journal.ports import BlobReader, Verify
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Fork, Genesis, Principal
from aos.core.kernel import open_kernel
from aos.core.kernel_protocol import KernelProtocol, OpenKernel
from aos.core.snapshot.load import load
from aos.core.state.state import State
from aos.errors import BadUsage, Damage
from aos.manifest.judging import judge
from aos.store.bundle.reader import Bundle
from aos.store.cut import Cut
from aos.store.store import Store
from aos.values.digests import Hash, hash_text


class _Blobs(Protocol):
    def blob(self, hash: Hash, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The journal continues after ``tip``, with the world in the snapshot ``document``.

    ``genesis`` is the record that this world began with. ``erased`` maps each value that a pruned
    record erased to that record, as the store's rows report.
    """

    tip: Tip
    document: Hash
    genesis: Genesis | Fork
    erased: Mapping[Hash, int] = field(default_factory=dict)

    def state(self, read: BlobReader) -> State:
        """Load the state of the snapshot.

        Raises:
            Damage: The snapshot cannot be read, or is not of this place and world.
        """
        state = load(self.document, read, manifest_of=judge)
        self._check(state.tip, state.world_key, state.operators)
        return state

    def open(
        self, *, read: BlobReader, verify: Verify, opens: OpenKernel = open_kernel
    ) -> KernelProtocol:
        """Open a kernel with the world of the snapshot. Raises as ``state``."""
        kernel = opens(snapshot=self.document, read=read, verify=verify, manifest_of=judge)
        world = kernel.figures()
        self._check(kernel.tip, world.world_key, world.operators)
        return kernel

    def _check(self, tip: Tip, world_key: bytes, operators: tuple[Principal, ...]) -> None:
        odd = [
            name
            for name, actual, expected in (
                ("its place in the chain", tip, self.tip),
                ("the world's key", world_key, self.genesis.world_key),
                ("the operators", operators, self.genesis.operators),
            )
            if actual != expected
        ]
        if odd:
            raise Damage(
                f"the snapshot {hash_text(self.document)} is not the one that the journal "
                f"continues from: {', '.join(odd)}",
                expected=f"the world after record {self.tip.seq}",
                actual=f"one after record {tip.seq}",
            )


def beginning(store: Store, cut: Cut) -> Beginning:
    """Return where ``store`` begins after ``cut``.

    Raises:
        Damage: The genesis in it, or a row of an erased value, cannot be read.
    """
    genesis = as_genesis(cut.genesis)
    return Beginning(
        tip=cut.tip(world_id(genesis.nonce, genesis.world_key)),
        document=cut.document,
        genesis=genesis,
        erased={value: row.seq for value, row in store.erasures() if row.seq <= cut.seq},
    )


def as_genesis(data: bytes) -> Genesis | Fork:
    """Read the record that a world begins with.

    Raises:
        Damage: The bytes are not a genesis or a fork.
    """
    record = from_bytes(data)
    if isinstance(record, Genesis | Fork):
        return record
    raise Damage(
        "the record that the journal begins with does not name a world",
        expected=f"{Genesis.KIND} or {Fork.KIND}",
        actual=record.KIND,
    )


def archives_to(cut: Cut | None, archives: Sequence[Bundle]) -> list[Bundle]:
    """Return the archives of pruned records in their order, so that a world can be verified
    together with them (A-27c).

    Raises:
        BadUsage: They do not lead to ``cut`` without a gap.
        Damage: The head of an archive cannot be read.
    """
    ordered = sorted(archives, key=_last_before)
    expected: int | None = None
    for archive in ordered:
        if expected is not None and _last_before(archive) != expected:
            raise _archive_gap(archive, expected)
        expected = archive.head().seq
    if ordered and (cut is None or expected != cut.seq):
        raise BadUsage(
            "the archives do not lead to where the world begins",
            location=str(ordered[-1].path),
            expected="a world that was pruned" if cut is None else f"records to {cut.seq}",
            actual=f"records to {expected}",
            hint="name the archives between too: --archive FILE, once for each",
        )
    return ordered


def beginning_of(archive: Bundle) -> Beginning | None:
    """Return the place and snapshot that an archive continues from; None if it begins at the
    genesis.

    Raises:
        Damage: Its genesis cannot be read.
    """
    start = archive.header.after
    if start is None:
        return None
    genesis = as_genesis(start.genesis)
    world = world_id(genesis.nonce, genesis.world_key)
    return Beginning(
        tip=Tip(world=world, seq=start.seq, frame=start.frame, log=start.log),
        document=start.document,
        genesis=genesis,
    )


def reading(sources: Sequence[_Blobs]) -> BlobReader:
    """Return a reader that takes a blob from the first of ``sources`` that has it unaltered. If
    none has it, the reader raises the ``Damage`` of the first place."""
    if len(sources) == 1:
        return sources[0].blob

    def read(hash: Hash, /) -> bytes:
        first: Damage | None = None
        for source in sources:
            try:
                return source.blob(hash)
            except Damage as problem:
                first = first or problem
        assert first is not None, "nowhere to read from"
        raise first

    return read


def _last_before(archive: Bundle) -> int:
    """Return the last record before an archive."""
    start = archive.header.after
    return 0 if start is None else start.seq


def _archive_gap(archive: Bundle, expected: int) -> BadUsage:
    return BadUsage(
        "the archives do not follow one another",
        location=str(archive.path),
        expected=f"records from {expected + 1} on",
        actual=f"from {_last_before(archive) + 1} on",
        hint="name the archives between too, and none twice",
    )
