"""(root, path, change) -> a new root, and the blobs to store with it (AG-52).

The folders on the way to the path are written again, all others are shared with the old tree.

The annotations of a path, text -> hash, are in a blob of their own (AG-52a): tag 55799 and the
canonical map. The node of a folder names that of the folder; for a file, its entry does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, cast

from aos.effects.named_blob import name_and_document
from aos.effects.workspace.tree_node import (
    DIR_MODE,
    EMPTY,
    NO_NAME,
    NODE_INVALID,
    Names,
    TreeEntry,
    TreeNode,
    described,
    node_bytes,
    not_a_directory,
    not_found,
    path_of,
    too_large,
)
from aos.effects.workspace.tree_reader import TreeReader
from aos.values.cbor import SELF_DESCRIBED, Value, encode
from aos.values.errors import ValueProblem
from aos.values.spelling import normal_hash
from aos.worker import EffectFailed

ChangeNode = Callable[[TreeNode], TreeNode]

ANNOTATIONS_BYTES_MAX: Final = 256 << 10

Annotations = Mapping[str, str]


@dataclass(slots=True)
class NamedBlobs:
    """Blobs that a result refers to by their SHA-256, and the documents of these names (AG-30)."""

    _blobs: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)

    def add(self, data: bytes) -> str:
        """Add a blob and return its name.

        Raises:
            EffectFailed: ``no_name``: the blob is one of those without a true name.
        """
        name_pair = name_and_document(data)
        if name_pair is None:
            raise EffectFailed(
                NO_NAME, "these bytes have no SHA-256 name in AOS: they define one of another blob"
            )
        name, document = name_pair
        self._blobs[name] = data, document
        return name

    def all(self) -> tuple[bytes, ...]:
        """Return the blobs, each with its name document."""
        return tuple(blob for pair in self._blobs.values() for blob in pair)


class TreeChange:
    """One change of a tree: ``blobs`` are the new ones."""

    def __init__(self, reader: TreeReader, root: str) -> None:
        self._reader = reader
        self._root = root
        self.blobs = NamedBlobs()

    async def in_folder(self, names: Names, change: ChangeNode, *, makes: bool) -> str:
        """Change the folder at ``names`` and return the new root. With ``makes``, folders that are
        missing are made; ``change`` gets an empty one.

        Raises:
            EffectFailed: ``not_a_directory``: a file is on the way; without ``makes``,
                ``not_found``. Nothing has changed.
        """
        nodes, entries = await self._on_the_way(names, makes=makes)
        hash = self._put(change(nodes[-1]))
        for parent, entry in zip(reversed(nodes[:-1]), reversed(entries), strict=True):
            hash = self._put(parent.with_entry(replace(entry, hash=hash)))
        return hash

    async def _on_the_way(
        self, names: Names, *, makes: bool
    ) -> tuple[list[TreeNode], list[TreeEntry]]:
        """The folders from the root to ``names``, and the entry of each in the one before."""
        nodes, entries = [await self._reader.node(self._root)], []
        for at, name in enumerate(names):
            entry = nodes[-1].entry(name)
            if entry is None:
                if not makes:
                    raise not_found(path_of(names[: at + 1]))
                entry = TreeEntry(name=name, kind="dir", hash="", size=0, mode=DIR_MODE)
                nodes.append(EMPTY)
            elif entry.is_file:
                raise not_a_directory(path_of(names[: at + 1]))
            else:
                nodes.append(await self._reader.node(entry.hash))
            entries.append(entry)
        return nodes, entries

    def _put(self, node: TreeNode) -> str:
        return self.blobs.add(node_bytes(node))


def patched(annotations: Annotations, patch: Mapping[str, str | None]) -> Annotations:
    """Set the hashes of a patch, and remove the keys for which it has null."""
    merged = {**annotations, **patch}
    return {key: hash for key, hash in merged.items() if hash is not None}


def annotations_bytes(annotations: Annotations) -> bytes:
    """The bytes of the blob. Raises ``too_large``."""
    data = SELF_DESCRIBED + encode(cast("Value", dict(annotations)))
    if len(data) > ANNOTATIONS_BYTES_MAX:
        raise too_large("bytes of the annotations", limit=ANNOTATIONS_BYTES_MAX, actual=len(data))
    return data


def read_annotations(data: bytes, name: str) -> Annotations:
    """Read the blob called ``name``. Raises ``node_invalid`` or ``too_large``."""
    if len(data) > ANNOTATIONS_BYTES_MAX:
        raise too_large(f"bytes of {name}", limit=ANNOTATIONS_BYTES_MAX, actual=len(data))
    try:
        return {_key(key): _hash(hash) for key, hash in described(data).items()}
    except ValueProblem as problem:
        raise EffectFailed(
            NODE_INVALID, f"{name} has no annotations: {problem!s:.300}"
        ) from problem


def _key(key: str | int) -> str:
    if not isinstance(key, str):
        raise ValueProblem("expected keys that are text")
    return key


def _hash(hash: Value) -> str:
    if not isinstance(hash, str) or normal_hash(hash) is None:
        raise ValueProblem(f"expected hashes, found {hash!r:.80}")
    return hash
