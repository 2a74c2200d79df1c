"""Open the neighbours of a world for reading (spec/audit.md, A-49)."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from aos.errors import AosError
from aos.host.folder.folder import open_folder
from aos.host.folder.neighbours import Neighbours
from aos.read.views.view import NeighbourView
from aos.values.digests import Hash
from aos_cli.open_view import looking_at
from aos_cli.output import note


class OpenNeighbours:
    """The views of the neighbours of a world, opened when they are asked for. They are open
    as long as ``stack``."""

    def __init__(self, world: Path, stack: ExitStack) -> None:
        self._neighbours = Neighbours(open_folder(world))
        self._stack = stack
        self._views: dict[Hash, NeighbourView | None] = {}

    def find(self, world: Hash) -> NeighbourView | None:
        """See ``NeighbourViews``. One that cannot be read is reported."""
        if world not in self._views:
            self._views[world] = self._opened(world)
        return self._views[world]

    def _opened(self, world: Hash) -> NeighbourView | None:
        try:
            name = self._neighbours.name_of(world)
            if name is None:
                return None
            path = self._neighbours.path / name
            view = self._stack.enter_context(looking_at(path, by_index=True))
        except AosError as problem:
            note(f"the trace does not go on into a neighbour: {problem}")
            return None
        return NeighbourView(name, view)
