"""Read nodes and files of trees from the blobs of the world, with limits for each call (AG-53a)."""

from __future__ import annotations

from typing import Final

from aos.effects.workspace.tree_errors import (
    NODE_INVALID,
    TOO_LARGE,
    is_a_directory,
    not_a_directory,
    not_found,
    too_large,
)
from aos.effects.workspace.tree_node import TreeEntry, TreeNode, read_node
from aos.effects.workspace.tree_paths import DEPTH_MAX, Names, path_of
from aos.worker import EffectContext, EffectFailed

NODES_MAX: Final = 4_096
NODES_BYTES_MAX: Final = 64 << 20
BLOB_TOO_LARGE: Final = "blob_too_large"


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
