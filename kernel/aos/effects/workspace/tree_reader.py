"""Read nodes and files of trees from the blobs of the world, with limits for each call (AG-53a),
and walk trees: one page of the paths in a tree, or the paths in which two trees differ (AG-53).

The order is that of a walk: entries by name, and a folder before the paths in it. A page ends at
its limit, when the answer is full, or when the call has read as many folders as it may; the next
page continues after the last path of this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, TypeAlias

from aos.effects.workspace.tree_node import (
    DEPTH_MAX,
    DIR_MODE,
    EMPTY,
    NODE_INVALID,
    TOO_LARGE,
    Names,
    TreeEntry,
    TreeNode,
    is_a_directory,
    not_a_directory,
    not_found,
    path_of,
    read_node,
    too_large,
)
from aos.values.cbor import Value, encode
from aos.worker import EffectContext, EffectFailed

NODES_MAX: Final = 4_096
NODES_BYTES_MAX: Final = 64 << 20
BLOB_TOO_LARGE: Final = "blob_too_large"

AROUND_BYTES: Final = 256
"""Upper bound of the bytes of a page without its entries and the text of its cursor."""

_Document: TypeAlias = dict[str | int, Value]


class TreeReader:
    """The nodes that one call of an effect reads. A node that it reads twice counts twice: a few
    small nodes can describe a tree with more paths than anyone can walk."""

    def __init__(self, ctx: EffectContext) -> None:
        self._ctx = ctx
        self._nodes_left = NODES_MAX
        self._bytes_left = NODES_BYTES_MAX

    async def blob(self, hash: str) -> bytes:
        """Read a blob of any kind.

        Raises:
            EffectFailed: ``blob_missing``; ``too_large``: more than 16 MiB.
        """
        try:
            return await self._ctx.read_blob(hash)
        except EffectFailed as failed:
            if failed.code == BLOB_TOO_LARGE:
                raise EffectFailed(TOO_LARGE, failed.message) from failed
            raise

    @property
    def is_used_up(self) -> bool:
        """Whether this call can read no more nodes."""
        return self._nodes_left <= 0 or self._bytes_left <= 0

    async def node(self, hash: str) -> TreeNode:
        """Read a folder.

        Raises:
            EffectFailed: ``node_invalid``, ``blob_missing``; ``too_large``: this call has read as
                many nodes as it may.
        """
        if self.is_used_up:
            raise EffectFailed(
                TOO_LARGE,
                f"one call reads at most {NODES_MAX:,} folders, with at most "
                f"{NODES_BYTES_MAX:,} bytes together: ask for a smaller part of the tree",
            )
        data = await self.blob(hash)
        self._nodes_left -= 1
        self._bytes_left -= len(data)
        return read_node(data, hash)

    async def entry(self, root: str, names: Names) -> TreeEntry | None:
        """Find the entry at a path other than the root's; None if there is none."""
        *parents, last = names
        node = await self.node(root)
        for name in parents:
            entry = node.entry(name)
            if entry is None or entry.is_file:
                return None
            node = await self.node(entry.hash)
        return node.entry(last)

    async def folder(self, root: str, names: Names) -> TreeNode:
        """Read the folder at a path, or the root.

        Raises:
            EffectFailed: ``not_found``, ``not_a_directory``, and as ``node``.
        """
        if not names:
            return await self.node(root)
        entry = await self.entry(root, names)
        if entry is None:
            raise not_found(path_of(names))
        if entry.is_file:
            raise not_a_directory(path_of(names))
        return await self.node(entry.hash)

    async def file(self, root: str, names: Names) -> bytes:
        """Read a file.

        Raises:
            EffectFailed: ``not_found``, ``is_a_directory``, as ``blob`` and ``node``;
                ``node_invalid`` if the file has another size than its entry.
        """
        path = path_of(names)
        entry = await self.entry(root, names)
        if entry is None:
            raise not_found(path)
        if not entry.is_file:
            raise is_a_directory(path)
        data = await self.blob(entry.hash)
        if len(data) != entry.size:
            raise EffectFailed(
                NODE_INVALID,
                f"{path:.200}: its entry has the size {entry.size:,}, its blob {len(data):,} bytes",
            )
        return data


def check_depth(names: Names) -> None:
    """Raise ``too_large`` for an entry so deep in a tree that no path leads to it."""
    if len(names) > DEPTH_MAX:
        raise too_large(
            f"names in the path {path_of(names[:4])}/…", limit=DEPTH_MAX, actual=len(names)
        )


class PageWalk:
    """The walk of one page, over the paths that come after a cursor."""

    def __init__(self, reader: TreeReader, *, cursor: Names, is_deep: bool) -> None:
        self._reader = reader
        self._cursor = cursor
        self._is_deep = is_deep

    async def entries(self, node: TreeNode, at: Names) -> AsyncIterator[tuple[Names, TreeEntry]]:
        """The entries of a folder, whose path is ``at``, and with ``is_deep`` all that are in
        them."""
        for entry in node.entries:
            names = (*at, entry.name)
            check_depth(names)
            if names > self._cursor:
                yield names, entry
            elif self._cursor[: len(names)] != names:
                continue  # it and all that is in it come before the cursor
            if self._is_deep and not entry.is_file:
                folder = await self._reader.node(entry.hash)
                async for names_and_entry in self.entries(folder, names):
                    yield names_and_entry


async def page_of(
    walk: AsyncIterator[tuple[Names, TreeEntry]],
    reader: TreeReader,
    *,
    limit: int,
    bytes_max: int,
) -> _Document:
    """The receipt of ``list``: at most ``limit`` entries, 0 for as many as fit into ``bytes_max``.

    Raises:
        EffectFailed: ``too_large``: not even one entry fits; or no folder can be read any more, and
            there was no entry until then.
    """
    entries: list[Value] = []
    last = ""
    size = AROUND_BYTES
    is_cut = False
    try:
        async for names, entry in walk:
            path = path_of(names)
            document = _entry_document(path, entry)
            entry_bytes = len(encode(document))
            # The cursor repeats the last path.
            if size + entry_bytes + len(encode(path)) > bytes_max or len(entries) == limit > 0:
                if not entries:
                    raise too_large(
                        "bytes of one entry", limit=bytes_max, actual=size + entry_bytes
                    )
                is_cut = True
                break
            entries.append(document)
            size += entry_bytes
            last = path
    except EffectFailed as failed:
        if failed.code != TOO_LARGE or not (entries and reader.is_used_up):
            raise
        is_cut = True
    return {"entries": entries, "next_cursor": last if is_cut else None}


def _entry_document(path: str, entry: TreeEntry) -> _Document:
    return {
        "path": path,
        "kind": entry.kind,
        "hash": entry.hash,
        "size": entry.size,
        "mode": entry.mode,
    }


class TreeDiff:
    """The changes from one tree to another, in the order of a walk (AG-53). Folders with one hash
    are equal, and are not read."""

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
