"""Two trees -> the paths that differ (AG-53). Folders with one hash are equal, and are not read."""

from __future__ import annotations

from aos.executors.workspace.tree_errors import too_large
from aos.executors.workspace.tree_listing import AROUND_BYTES
from aos.executors.workspace.tree_node import DIR_MODE, EMPTY, TreeEntry
from aos.executors.workspace.tree_paths import Names, path_of
from aos.executors.workspace.tree_reader import TreeReader, check_depth
from aos.values.cbor import Value, encode


class TreeDiff:
    """The changes from one tree to another, in the order of a walk."""

    def __init__(self, reader: TreeReader, *, bytes_max: int) -> None:
        self._reader = reader
        self._bytes_left = bytes_max - AROUND_BYTES
        self._bytes_max = bytes_max
        self.changes: list[Value] = []

    async def roots(self, old: str, new: str) -> None:
        await self._entries((), _root_entry(old), _root_entry(new))

    async def at(self, names: Names, old: str, new: str) -> None:
        """Compare only the path ``names`` of the two trees and what is below it."""
        await self._entries(
            names, await self._reader.entry(old, names), await self._reader.entry(new, names)
        )

    async def _entries(self, names: Names, old: TreeEntry | None, new: TreeEntry | None) -> None:
        if old == new:
            return
        if old is not None and new is not None and old.kind == new.kind:
            await self._same_kind(names, old, new)
            return
        for old_entry, new_entry in ((old, None), (None, new)):
            entry = old_entry or new_entry
            if entry is None:
                continue
            self._add(names, old_entry, new_entry)
            if not entry.is_file:
                await self._folders(names, old_entry, new_entry)

    async def _same_kind(self, names: Names, old: TreeEntry, new: TreeEntry) -> None:
        if old.is_file:
            self._add(names, old, new)
        elif old.hash == new.hash:
            self._add(names, old, new)  # another mode
        else:
            await self._folders(names, old, new)

    async def _folders(self, names: Names, old: TreeEntry | None, new: TreeEntry | None) -> None:
        """Compare what is in two folders, of which one may be missing."""
        old_node = EMPTY if old is None else await self._reader.node(old.hash)
        new_node = EMPTY if new is None else await self._reader.node(new.hash)
        if old and new and (old_node.annotations, old.mode) != (new_node.annotations, new.mode):
            self._add(names, old, new)
        olds = {entry.name: entry for entry in old_node.entries}
        news = {entry.name: entry for entry in new_node.entries}
        for name in sorted(olds.keys() | news.keys()):
            path = (*names, name)
            check_depth(path)
            await self._entries(path, olds.get(name), news.get(name))

    def _add(self, names: Names, old: TreeEntry | None, new: TreeEntry | None) -> None:
        entry = old or new
        assert entry is not None, "a change has a side"
        change: Value = {
            "path": path_of(names),
            "kind": entry.kind,
            "old_hash": None if old is None else old.hash,
            "new_hash": None if new is None else new.hash,
        }
        self._bytes_left -= len(encode(change))
        if self._bytes_left < 0:
            raise too_large(
                "bytes of the changes",
                limit=self._bytes_max,
                actual=self._bytes_max - self._bytes_left,
                hint="compare a part of the trees, with prefix",
            )
        self.changes.append(change)


def _root_entry(hash: str) -> TreeEntry:
    return TreeEntry(name="", kind="dir", hash=hash, size=0, mode=DIR_MODE)
