"""Let a view read its lists, timelines and traces by an index (spec/index.md, IX-60)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from aos.core.journal.records import CellId
from aos.read.index.index_reader import IndexReader
from aos.read.index.opened_index import OpenedIndex
from aos.read.lens.ports import Journal
from aos.read.views.view import View


@contextlib.contextmanager
def indexed(
    view: View, folder: Path | None, journal: Journal, index: OpenedIndex
) -> Iterator[bool]:
    """Use the index in ``folder``, which ``index`` opens, for the documents that the block makes of
    a view of ``journal``; yield whether it helps. None, an index that is damaged, of another
    journal, or too far behind does not (IX-44): then the documents are made without it, and are the
    same.

    Raises:
        Damage: The index is damaged, which is found while it is read.
    """
    if folder is None or view.is_past:
        yield False
        return
    with index.at_head(folder, journal, view.state) as reader:
        if reader is not None:
            use_index(view, reader)
        try:
            yield reader is not None
        finally:
            view.index = view.finder = view.manifests.index = None


def use_index(view: View, reader: IndexReader) -> None:
    """Let the view read by an index that is at its state, within the time that the view has now."""

    def text_of(id: CellId) -> str:
        return view.lens.key_text(id, hash=view.state.cells[id].workflow_hash)

    view.index = view.manifests.index = reader
    view.finder = reader.cell_pages(text_of, view.check_time)
