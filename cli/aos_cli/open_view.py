"""Open a world for reading; every reading command begins with this."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aos.errors import AosError
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.host.stamps import now_ns
from aos.read.views.record_view import Document
from aos.read.views.view import Running, View, process_document
from aos_cli.options import address_of
from aos_cli.output import note, progress


@contextmanager
def looking_at(
    world: Path,
    at: int | None = None,
    *,
    asks: bool = False,
    spells: bool = False,
    by_index: bool = False,
) -> Iterator[View]:
    """A view of the world's durable state now, whether or not a process runs it; or as it was
    after record ``at``, with the journal's clock at that record. With ``asks``, a view of now also
    has what the process that runs the world does with its effects. With ``spells``, values are for
    people (A-48). With ``by_index``, a view of now is read by an index that a page or a node keeps,
    if there is one; it is not written. Of an address (C-8c), the view has the manifest in force and
    nothing else."""
    if address_of(world) is not None:
        # Few worlds are named by an address.
        from aos_cli.addressed_world import manifest_view  # noqa: PLC0415

        yield manifest_view(world)
        return
    with progress("reading the journal") as advance:
        reader = open_reader(world, at=at, progress=advance, note=note)
    with reader:
        view = View(
            reader.state,
            reader.store,
            now_ns=now_ns() if at is None else None,
            is_past=at is not None,
        )
        if spells:
            view.spell()
        if asks and at is None:
            work = work_of(world)
            view.running = None if work is None else Running.of_answer(work)
        if not by_index or at is not None:
            yield view
            return
        # Commands that read a single thing need not import what reads an index.
        from aos.read.index.cached_index import index_of  # noqa: PLC0415
        from aos.read.index.opened_index import OpenedIndex  # noqa: PLC0415
        from aos.read.index.world_index import indexed  # noqa: PLC0415

        folder = index_of(world, reader.store)
        with OpenedIndex() as index, indexed(view, folder, reader.store, index):
            yield view


def work_of(world: Path) -> Document | None:
    """Return the current work of the process that runs the world (H-53); None if there is no such
    process, or if it does not answer."""
    return _answer(world, "work")


def process_of(world: Path) -> Document | None:
    """Return the process that runs the world, as the document of the world has it; None as
    ``work_of``."""
    status = _answer(world, "status")
    return None if status is None else process_document(status, work_of(world))


def _answer(world: Path, request: str) -> Document | None:
    if not os.path.lexists(open_folder(world).socket):
        return None
    # The client imports the writing half of the kernel, which only this answer needs.
    from aos.host.door.remote import ask_running  # noqa: PLC0415

    try:
        return ask_running(world, request)
    except AosError:
        return None


def search_names(world: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the names that ``node.toml`` gives to paths of states, by workflow, for conditions
    (spec/search.md, SE-21).

    Raises:
        BadUsage: ``node.toml`` is invalid.
    """
    # Most lists have no condition, and need none of the node.
    from aos.node.node_settings import read_settings  # noqa: PLC0415

    return read_settings(world).search
