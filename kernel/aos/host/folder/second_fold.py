"""Fold a world's records by the second kernel, for code that reads the state or takes a snapshot of
it (spec/core.md, CR-38 to CR-40)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from aos.core.journal.frame import Tip
from aos.core.journal.merkle import Tree
from aos.core.limits import LIMITS, Limits
from aos.core.state.cells import RESTING_MAX
from aos.core.state.state import State
from aos.errors import Damage, Pruned
from aos.fastcore.core_choice import reading_code
from aos.fastcore.errors import CoreDefect
from aos.store.rows import SnapshotRow
from aos.store.store import Store
from aos.store.stored_world import finding, first_world
from aos.values.cbor import decode_record
from aos.values.digests import Hash, content_hash

if TYPE_CHECKING:
    from typing import Any

    from aos.fastcore.buffer import CoreCode
    from aos.fastcore.fold_core import FoldCore
    from aos.sandbox.cache import ModuleCache

T = TypeVar("T")


class _Abandoned(Exception):
    """No one waits for the fold any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondSnapshot:
    """A snapshot that the second kernel took: its document and the document's bytes; where the
    journal ends, by whose key, and how many cells there are."""

    document: Hash
    size: int
    tip: Tip
    world_key: bytes
    cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondFold:
    """Folds worlds of the folder ``outside``, in which no compiled code is kept. ``note`` gets one
    line if the core is compiled now, or if the reference has to fold in its place."""

    outside: Path
    note: Callable[[str], None] = lambda _: None
    limits: Limits = field(default=LIMITS, repr=False)

    def state(
        self, store: Store, row: SnapshotRow | None, last: int, on_frame: Callable[[int], None]
    ) -> State | None:
        """Return the state after the last frame that ends up to record ``last``, from the snapshot
        ``row`` or from the first frame. ``on_frame`` is called on another thread after each frame
        with its last record.

        None: the reference has to fold. It is faster for few records, or the second kernel cannot:
        its code is missing, it has a defect, or found damage, of which the reference says more.

        Raises:
            BadUsage: ``AOS_CORE`` names no kernel, or ``AOS_CORE_MEMORY_MIB`` is invalid.
            Damage: The second kernel of this installation was altered.
        """
        code = self._code(row, last)
        if code is None:
            return None
        # The engine is slow to import.
        from aos.core.snapshot.load import load_exported  # noqa: PLC0415
        from aos.fastcore.exported_state import exported_state  # noqa: PLC0415

        def read_state(core: FoldCore) -> State:
            answer = core.export()
            core.close()
            return load_exported(
                exported_state(answer), store.blob, find=finding(store), limits=self.limits
            )

        return self._folded(code, store, row, last, on_frame=on_frame, end=read_state)

    def snapshot(
        self,
        store: Store,
        row: SnapshotRow | None,
        last: int,
        put: Callable[[bytes], Hash],
        *,
        format: int | None = None,
    ) -> SecondSnapshot | None:
        """Take a snapshot after record ``last``, which ends a frame; ``put`` and ``format`` are as
        for ``take`` of the reference. ``put`` is called on another thread, and may get blobs of a
        snapshot that then cannot be taken; what it raises passes through. Otherwise as ``state``.
        """
        code = self._code(row, last)
        if code is None:
            return None
        return self._folded(
            code,
            store,
            row,
            last,
            on_frame=_no_one,
            end=lambda core: _snapshot(core, put, format),
        )

    def _code(self, row: SnapshotRow | None, last: int) -> CoreCode | None:
        records = last - (0 if row is None else row.at)
        return reading_code(records, cache=self._cache, note=self.note)

    def _cache(self) -> ModuleCache | None:
        from aos.sandbox.cache import standard_cache  # noqa: PLC0415  # few commands fold much

        return standard_cache(self.note, outside=self.outside)

    def _folded(
        self,
        code: CoreCode,
        store: Store,
        row: SnapshotRow | None,
        last: int,
        *,
        on_frame: Callable[[int], None],
        end: Callable[[FoldCore], T],
    ) -> T | None:
        from aos.fastcore.buffer import memory_bytes_of  # noqa: PLC0415  # as in ``state``
        from aos.fastcore.fold_core import FoldCore  # noqa: PLC0415
        from aos.sandbox.stack import run_on_big_stack  # noqa: PLC0415

        memory_bytes = memory_bytes_of()
        is_abandoned = threading.Event()

        def fold() -> T:
            core = FoldCore(
                code,
                read=store.blob,
                find=finding(store),
                limits=self.limits,
                memory_bytes=memory_bytes,
            )
            try:
                for seq in _frames_folded(core, store, row, last):
                    if is_abandoned.is_set():
                        raise _Abandoned
                    on_frame(seq)
                return end(core)
            finally:
                core.close()

        try:
            return run_on_big_stack(fold)
        except (Damage, Pruned):
            return None
        except CoreDefect as defect:
            self.note(defect.reads())
            return None
        finally:
            is_abandoned.set()


def _no_one(_: int) -> None:
    pass


def _frames_folded(
    core: FoldCore, store: Store, row: SnapshotRow | None, last: int
) -> Iterator[int]:
    """Open the world and fold its frames; yield the last record of each."""
    if row is None:
        core.open(first_world(store))
    else:
        core.load(row.document)
    # As a reader's state, which may continue from a snapshot that is recorded later.
    core.keep(RESTING_MAX, spills=True)
    core.keep_leaves(keeps=True)
    first = 1 if row is None else row.at + 1
    for stored in store.stored_frames(first, last) if first <= last else ():
        if stored.last > last:
            return
        core.fold_frame(stored.data)
        yield stored.last


def _snapshot(core: FoldCore, put: Callable[[bytes], Hash], format: int | None) -> SecondSnapshot:
    taken = core.take(put, format)
    # The core has just written it.
    fields: Any = decode_record(taken.document)
    size, peaks = fields["log"]
    log = Tree(size, tuple(map(Hash, peaks)))
    return SecondSnapshot(
        document=content_hash(taken.document),
        size=len(taken.document),
        tip=Tip(world=Hash(fields["world"]), seq=taken.at, frame=taken.frame, log=log),
        world_key=fields["world_key"],
        cells=sum(count for _, _, count, *_ in fields["cells"].values()),
    )
