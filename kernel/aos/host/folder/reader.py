"""Read a world while another process may run it (spec/host.md, H-45 and H-46)."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from aos.core.state.state import State
from aos.errors import Damage
from aos.host.folder.folder import WorldFolder, open_folder
from aos.host.folder.restore import Progress, catch_up, restore
from aos.manifest.effective import Effective
from aos.store.store import Store


class WorldReader:
    """The durable state of a world at one record. Takes no lock and writes nothing.

    ``state`` belongs to the reader and must not be changed; ``refresh`` advances it.
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
        before = self.seq
        head = self.store.head()
        if head is None or head.seq < before:
            raise Damage(f"the journal ends before record {before}, which was read already")
        catch_up(self.state, self.store, head, progress=progress)
        return self.seq - before

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_reader(
    path: Path, *, at: int | None = None, progress: Progress | None = None
) -> WorldReader:
    """Open the world at ``path`` as it is, or as it was after record ``at``.

    Raises:
        BadUsage: There is no world here, or no such record.
        Refused: A newer release created it.
        Damage: Its journal is not complete and valid.
        Unavailable: Its files cannot be read now.
    """
    folder = open_folder(path)
    store = folder.open_store(readonly=True)
    try:
        return WorldReader(folder, store, restore(store, folder.world, at=at, progress=progress))
    except BaseException:
        store.close()
        raise
