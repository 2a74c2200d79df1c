"""One page of the paths in a tree (AG-53).

The order is that of a walk: entries by name, and a folder before the paths in it. A page ends at
its limit, when the answer is full, or when the call has read as many folders as it may; the next
page continues after the last path of this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, TypeAlias

from aos.executors.workspace.tree_errors import TOO_LARGE, too_large
from aos.executors.workspace.tree_node import TreeEntry, TreeNode
from aos.executors.workspace.tree_paths import Names, path_of
from aos.executors.workspace.tree_reader import TreeReader, check_depth
from aos.values.cbor import Value, encode
from aos.worker import EffectFailed

AROUND_BYTES: Final = 256
"""Upper bound of the bytes of a page without its entries and the text of its cursor."""

_Map: TypeAlias = dict[str | int, Value]


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
) -> _Map:
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


def _entry_document(path: str, entry: TreeEntry) -> _Map:
    return {
        "path": path,
        "kind": entry.kind,
        "hash": entry.hash,
        "size": entry.size,
        "mode": entry.mode,
    }
