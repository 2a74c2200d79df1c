"""Read requests to the world of a folder or of a node (spec/cli.md, C-92)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from aos.host.folder.folder import is_group, is_replicated
from aos.host.stamps import now_ns
from aos.read.operations.operation import Query, ReadOperation, names_fields
from aos.read.operations.world_reads import READ_WORLD
from aos.read.views.record_view import Document
from aos.read.views.view import LIMIT_MAX, with_process
from aos_cli.open_view import looking_at, process_of, search_names
from aos_cli.options import client_of


class WorldReading(Protocol):
    """Reads one world."""

    def document(self, operation: ReadOperation, query: Query) -> Document:
        """Return the document of a read request. Parameters that are None or False are left out.

        Raises:
            BadUsage: The query names something that the world does not have.
            AosError: As the folder, or as ``Client``.
        """

    def value_bytes(self, value: str) -> bytes:
        """Return the bytes of a value that is stored outside its records. Raises as
        ``document``."""

    def now_ns(self, at: int | None) -> int:
        """Return the time that waiting is measured against: that of this machine, or for the past
        that of the journal's clock after record ``at``. Raises as ``document``."""


@dataclass(frozen=True, slots=True)
class FolderReading:
    """The world of a folder. ``view_times`` are the times of the views that were opened, in ns, by
    record."""

    world: Path
    view_times: dict[int | None, int] = field(default_factory=dict, compare=False)

    def document(self, operation: ReadOperation, query: Query) -> Document:
        """See ``WorldReading``. Documents of a running node are read through its socket."""
        if operation.document is None:
            return NodeReading(str(self.world)).document(operation, query)
        words = parameters_of(query)
        with ExitStack() as stack:
            view = stack.enter_context(
                looking_at(
                    self.world,
                    words.get("at"),
                    asks=operation.asks_process,
                    by_index=operation.reads_index,
                )
            )
            if operation.reads_neighbours:
                from aos_cli.open_neighbours import OpenNeighbours  # noqa: PLC0415  # few do

                view.neighbours = OpenNeighbours(self.world, stack)
            self.view_times[words.get("at")] = view.now_ns
            if names_fields(words):
                words["aliases"] = search_names(self.world)
            document = operation.read(view, words)
        if operation.has_process:
            from aos.host.transfer.adopting import origin_at  # noqa: PLC0415  # of one document

            process = process_of(self.world) if "at" not in words else None
            origin = origin_at(self.world)
            document = with_process(
                document, process, origin and origin.value, path=str(self.world)
            )
            if is_replicated(self.world):
                # Few worlds are.
                from aos_cli.replica_reading import replica_document  # noqa: PLC0415

                document["replica"] = replica_document(self.world)
        return document

    def value_bytes(self, value: str) -> bytes:
        """See ``WorldReading``."""
        from aos.read.views import journal_view  # noqa: PLC0415  # few commands read bytes

        with looking_at(self.world) as view:
            return journal_view.value_bytes(view, value)

    def now_ns(self, at: int | None) -> int:
        """See ``WorldReading``. A record whose document was read is not restored again."""
        if at not in self.view_times:
            with looking_at(self.world, at) as view:
                self.view_times[at] = view.now_ns
        return self.view_times[at]


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The world of a node."""

    node: str

    def document(self, operation: ReadOperation, query: Query) -> Document:
        """See ``WorldReading``."""
        with client_of(self.node) as client:
            document = client.document(operation.path, **parameters_of(query))
        return {**document, "path": self.node} if operation.has_process else document

    def value_bytes(self, value: str) -> bytes:
        """See ``WorldReading``."""
        with client_of(self.node) as client:
            return client.blob(value)

    def now_ns(self, at: int | None) -> int:
        """See ``WorldReading``."""
        if at is None:
            return now_ns()
        clock_ns: int = self.document(READ_WORLD, {"at": at})["journal"]["clock_ns"]
        return clock_ns


def reading_of(world: Path, node: str | None) -> WorldReading:
    """Return what reads the world of a node, or without one that of a folder, or the shards of a
    group's folder."""
    if node is not None:
        return NodeReading(node)
    if not is_group(world):
        return FolderReading(world)
    # Few worlds are groups.
    from aos.host.folder.group import open_group  # noqa: PLC0415
    from aos_cli.group_reading import GroupReading  # noqa: PLC0415

    return GroupReading(open_group(world))


def rows_of(
    world: WorldReading, operation: ReadOperation, name: str, query: Query
) -> Iterator[Document]:
    """Yield the rows of a list, page by page; ``name`` is the field of the document that has them.
    Raises as ``WorldReading.document``."""
    offset = 0
    while True:
        page = world.document(operation, {**query, "limit": LIMIT_MAX, "offset": offset})
        yield from page[name]
        offset += LIMIT_MAX
        if offset >= page["total"]:
            return


def parameters_of(query: Query) -> dict[str, Any]:
    return {
        name: value for name, value in query.items() if value is not None and value is not False
    }
