"""The ten effects on trees of files (AG-51 to AG-53a). They read blobs of the world and nothing
else, and store new ones with their receipts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from aos.effects.workspace.tree_changes import (
    Annotations,
    NamedBlobs,
    TreeChange,
    annotations_bytes,
    patched,
    read_annotations,
)
from aos.effects.workspace.tree_node import (
    EMPTY,
    FILE_MODE,
    NOT_EMPTY,
    RANGE_INVALID,
    SCOPE_INVALID,
    Names,
    TreeEntry,
    TreeNode,
    is_a_directory,
    names_of,
    node_bytes,
    not_found,
    path_of,
    too_large,
)
from aos.effects.workspace.tree_reader import AROUND_BYTES, PageWalk, TreeDiff, TreeReader, page_of
from aos.values.cbor import Value
from aos.worker import EffectContext, EffectFailed, Executors, effect
from aos.worker.results import WithBlobs

Params = dict[str, Any]

SCOPES: Final = ("dir", "subtree")
_HEAD_BYTES: Final = 9
"""Maximum number of bytes that CBOR puts before a byte string."""


@effect("sys/workspace.empty_root@1")
async def empty_root(params: Params, ctx: EffectContext) -> WithBlobs:  # noqa: ARG001  # one root for all
    """The root of a tree without files: the same for every workspace."""
    blobs = NamedBlobs()
    return WithBlobs(value={"root_hash": blobs.add(node_bytes(EMPTY))}, blobs=blobs.all())


@effect("sys/workspace.list@1")
async def list_paths(params: Params, ctx: EffectContext) -> Value:
    """A page of the paths in a folder, or in all folders below it."""
    names = names_of(params["path"])
    scope = "dir" if params["scope"] is None else params["scope"]
    if scope not in SCOPES:
        raise EffectFailed(
            SCOPE_INVALID, f"scope: expected {' or '.join(SCOPES)}, found {scope!r:.80}"
        )
    reader = TreeReader(ctx)
    node = await reader.folder(params["root_hash"], names)
    walk = PageWalk(reader, cursor=names_of(params["cursor"]), is_deep=scope == "subtree")
    return await page_of(
        walk.entries(node, names),
        reader,
        limit=params["limit"],
        bytes_max=ctx.result_bytes_max,
    )


@effect("sys/workspace.read_ref@1")
async def read_ref(params: Params, ctx: EffectContext) -> Params | None:
    """Kind, hash, size and mode of a path; null if nothing is there."""
    names = names_of(params["path"])
    entry = await TreeReader(ctx).entry(params["root_hash"], names)
    if entry is None:
        return None
    return {"kind": entry.kind, "hash": entry.hash, "size": entry.size, "mode": entry.mode}


@effect("sys/workspace.read_bytes@1")
async def read_bytes(params: Params, ctx: EffectContext) -> bytes:
    """The bytes of a file, or of a range of it."""
    names = names_of(params["path"])
    data = await TreeReader(ctx).file(params["root_hash"], names)
    if params["range"] is not None:
        start, end = params["range"]["start"], params["range"]["end"]
        if not start <= end <= len(data):
            raise EffectFailed(
                RANGE_INVALID,
                f"range: expected 0 <= start <= end <= {len(data):,}, the size of the file, found "
                f"{start:,} to {end:,}",
            )
        data = data[start:end]
    if len(data) + _HEAD_BYTES > ctx.result_bytes_max:
        raise too_large(
            "bytes of an answer",
            limit=ctx.result_bytes_max - _HEAD_BYTES,
            actual=len(data),
            hint="read it in parts, with range",
        )
    return data


@effect("sys/workspace.write_bytes@1")
async def write_bytes(params: Params, ctx: EffectContext) -> WithBlobs:
    """Write a file with these bytes."""
    return await _write(params, TreeReader(ctx), params["bytes"])


@effect("sys/workspace.write_ref@1")
async def write_ref(params: Params, ctx: EffectContext) -> WithBlobs:
    """Write a file with the bytes of a blob."""
    reader = TreeReader(ctx)
    return await _write(params, reader, await reader.blob(params["blob_hash"]))


@effect("sys/workspace.remove@1")
async def remove(params: Params, ctx: EffectContext) -> WithBlobs:
    """Remove a file, or a folder without entries."""
    *parents, last = names = names_of(params["path"])
    reader = TreeReader(ctx)
    entry = await reader.entry(params["root_hash"], names)
    if entry is None:
        raise not_found(params["path"])
    if not entry.is_file:
        folder = await reader.node(entry.hash)
        if folder.entries:
            raise EffectFailed(
                NOT_EMPTY,
                f"{params['path']:.200}: expected a file or an empty folder, found a folder with "
                f"{len(folder.entries):,} entries (remove these first)",
            )
    change = TreeChange(reader, params["root_hash"])
    root = await change.in_folder(
        tuple(parents), lambda node: node.without_entry(last), makes=False
    )
    return WithBlobs(value={"new_root_hash": root}, blobs=change.blobs.all())


@effect("sys/workspace.diff@1")
async def diff(params: Params, ctx: EffectContext) -> Params:
    """The paths in which two trees differ."""
    names = names_of(params["prefix"])
    tree_diff = TreeDiff(TreeReader(ctx), bytes_max=ctx.result_bytes_max)
    if names:
        await tree_diff.at(names, params["root_a"], params["root_b"])
    else:
        await tree_diff.roots(params["root_a"], params["root_b"])
    return {"changes": tree_diff.changes}


@effect("sys/workspace.annotations_get@1")
async def annotations_get(params: Params, ctx: EffectContext) -> Params:
    """The annotations of a path, or of the root; null if it has none."""
    names = names_of(params["path"])
    reader = TreeReader(ctx)
    name = await _annotations_name(reader, params["root_hash"], names)
    if name is None:
        return {"annotations": None}
    annotations = await _annotations(reader, name)
    size = len(annotations_bytes(annotations)) + AROUND_BYTES
    if size > ctx.result_bytes_max:
        raise too_large("bytes of an answer", limit=ctx.result_bytes_max, actual=size)
    return {"annotations": annotations}


@effect("sys/workspace.annotations_set@1")
async def annotations_set(params: Params, ctx: EffectContext) -> WithBlobs:
    """Set annotations of a path, or of the root, and remove those for which the patch has null."""
    names = names_of(params["path"])
    reader = TreeReader(ctx)
    old_name = await _annotations_name(reader, params["root_hash"], names)
    annotations = patched(
        {} if old_name is None else await _annotations(reader, old_name),
        params["annotations_patch"],
    )
    change = TreeChange(reader, params["root_hash"])
    # Also the name of no annotations, which the tree leaves out, is a blob that can be read.
    name = change.blobs.add(annotations_bytes(annotations))
    folder, annotate = await _annotating(reader, params, names, name if annotations else None)
    root = await change.in_folder(folder, annotate, makes=False)
    return WithBlobs(
        value={"new_root_hash": root, "annotations_hash": name}, blobs=change.blobs.all()
    )


async def _write(params: Params, reader: TreeReader, data: bytes) -> WithBlobs:
    """Write a file. An existing one keeps its mode, unless the params have one, and its
    annotations."""
    *parents, last = names_of(params["path"])
    change = TreeChange(reader, params["root_hash"])
    blob = change.blobs.add(data)

    def write(node: TreeNode) -> TreeNode:
        old_entry = node.entry(last)
        if old_entry is not None and not old_entry.is_file:
            raise is_a_directory(params["path"])
        mode = params["mode"]
        if mode is None:
            mode = FILE_MODE if old_entry is None else old_entry.mode
        entry = TreeEntry(
            name=last,
            kind="file",
            hash=blob,
            size=len(data),
            mode=mode,
            annotations=None if old_entry is None else old_entry.annotations,
        )
        return node.with_entry(entry)

    root = await change.in_folder(tuple(parents), write, makes=True)
    return WithBlobs(value={"new_root_hash": root, "blob_hash": blob}, blobs=change.blobs.all())


async def _annotations_name(reader: TreeReader, root: str, names: Names) -> str | None:
    if not names:
        return (await reader.node(root)).annotations
    entry = await reader.entry(root, names)
    if entry is None:
        raise not_found(path_of(names))
    return entry.annotations if entry.is_file else (await reader.node(entry.hash)).annotations


async def _annotations(reader: TreeReader, name: str) -> Annotations:
    return read_annotations(await reader.blob(name), name)


async def _annotating(
    reader: TreeReader, params: Params, names: Names, name: str | None
) -> tuple[Names, Callable[[TreeNode], TreeNode]]:
    """The folder to change, and its change: itself, or the entry of one of its files."""
    entry = await reader.entry(params["root_hash"], names) if names else None
    if entry is None or not entry.is_file:
        return names, lambda node: replace(node, annotations=name)
    return names[:-1], lambda node: node.with_entry(replace(entry, annotations=name))


workspace = Executors(
    "workspace",
    (
        empty_root, list_paths, read_ref, read_bytes, write_bytes, write_ref, remove, diff,
        annotations_get, annotations_set,
    ),
)  # fmt: skip
