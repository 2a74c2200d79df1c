"""Read a world while another process may run it (spec/host.md, H-45 and H-46)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aos.closable import Closable
from aos.core.journal.frame import Head
from aos.core.journal.records import Record
from aos.core.snapshot.load import layers
from aos.core.snapshot.take import rebase
from aos.core.state.fold import folding
from aos.core.state.state import Mark, State
from aos.errors import Damage
from aos.host.folder.folder import WorldFolder, open_folder
from aos.host.folder.restore import Progress, catch_up, check_end, restore
from aos.host.folder.second_fold import SecondFold
from aos.manifest.effective import Effective
from aos.store.store import Store


class WorldReader(Closable):
    """The durable state of a world at one record. Takes no lock and writes nothing.

    ``state`` belongs to the reader and must not be changed; ``refresh`` and ``advance`` fold more
    records into it, and continue from each new snapshot, so its memory does not grow with the
    journal.
    """

    def __init__(self, folder: WorldFolder, store: Store, state: State) -> None:
        self.folder = folder
        self.store = store
        self.state = state

    @property
    def manifest(self) -> Effective | None:
        """The manifest in force; None before the first."""
        return self.state.manifest

    @property
    def seq(self) -> int:
        """The last record that ``state`` has taken."""
        return self.state.next_seq - 1

    def refresh(self, *, progress: Progress | None = None) -> int:
        """Fold the records that have become durable since; return their number.

        Raises:
            Damage: The journal does not continue from the last record read. The reader cannot be
                used again.
        """
        old_seq, mark = self.seq, self.state.snapshot
        catch_up(self.state, self.store, self.head(), progress=progress)
        self._continue_from_newest(mark)
        return self.seq - old_seq

    def advance(self, on_record: Callable[[Record], None], is_late: Callable[[], bool]) -> None:
        """Fold records that have become durable since, and call ``on_record`` after each. After a
        frame at whose end ``is_late``, leave the rest for the next call.

        Raises:
            Damage, Pruned: As ``refresh``.
        """
        head, mark = self.head(), self.state.snapshot
        for frame in self.store.frames(self.seq + 1, head.seq) if self.seq < head.seq else ():
            for record in folding(self.state, frame, self.store.blob):
                on_record(record)
            if is_late():
                break
        if self.seq >= head.seq:
            check_end(self.state.tip, self.state.world_key, head)
        self._continue_from_newest(mark)

    def head(self) -> Head:
        """Return the head. Its signature is not checked.

        Raises:
            Damage: The journal ends before a record that was read already.
        """
        head = self.store.head()
        if head is None or head.seq < self.seq:
            raise Damage(f"the journal ends before record {self.seq}, which was read already")
        return head

    def _continue_from_newest(self, previous: Mark | None) -> None:
        """After a new snapshot, let cells that did not change since leave memory. The blobs of the
        snapshot ``previous`` are not needed any more, so ``aos gc`` may remove them."""
        newest = self.state.snapshot
        if newest is None or newest == previous or newest.at <= self.state.cells.at:
            return
        if self.store.has_blob(newest.document):  # a reader that is behind may come too late
            rebase(self.state, layers(newest.document, self.store.blob))
            self.state.cells.tidy()

    def close(self) -> None:
        """Close the store. ``state`` must not be used afterwards: it reads cells at rest from
        the store."""
        self.store.close()


def open_reader(
    path: Path,
    *,
    at: int | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> WorldReader:
    """Open the world at ``path`` as it is, or as it was after record ``at``. ``progress`` and
    ``note`` are as for ``restore`` and ``SecondFold``.

    Raises:
        BadUsage: There is no world here, or no such record.
        Refused: A newer release created it.
        Damage: Its journal is not complete and valid.
        Unavailable: Its files cannot be read now.
    """
    folder = open_folder(path)
    store = folder.open_store(readonly=True)
    try:
        second = SecondFold(outside=path, note=note)
        state = restore(store, folder.world, at=at, progress=progress, second=second)
        return WorldReader(folder, store, state)
    except BaseException:
        store.close()
        raise
