"""Schemas of workspaces: trees of files as blobs, the effects ``sys/workspace.*`` on them, and
``sys/Workspace@1``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aos.manifest.builtin_types import (
    BOOL,
    BYTES,
    HASH,
    NAT,
    TEXT,
    TIME,
    Type,
    list_of,
    map_of,
    option,
    record,
    ref,
)

WORKSPACE_TYPES: Final[Mapping[str, Type]] = {
    "WorkspaceName": TEXT,
    "WorkspaceCommitMeta": record(root_hash=HASH, owner=TEXT, created_at=TIME),
    "WorkspaceHistory": record(latest=NAT, versions=map_of(ref("WorkspaceCommitMeta"), key=NAT)),
    "WorkspaceCommit": record(
        workspace=TEXT, expected_head=option(NAT), meta=ref("WorkspaceCommitMeta"),
    ),
    "WorkspaceEntry": record(name=TEXT, kind=TEXT, hash=HASH, size=NAT, mode=NAT),
    "WorkspaceTree": record(entries=list_of(ref("WorkspaceEntry"))),
    "WorkspaceEntry@2": record(
        name=TEXT, kind=TEXT, hash=HASH, size=NAT, mode=NAT, annotations_hash=option(HASH),
    ),
    "WorkspaceTree@2": record(
        entries=list_of(ref("WorkspaceEntry@2")), annotations_hash=option(HASH),
    ),
    "WorkspaceAnnotations": map_of(HASH),
    "WorkspaceAnnotationsPatch": map_of(option(HASH)),
    "WorkspaceResolveParams": record(workspace=TEXT, version=option(NAT)),
    "WorkspaceResolveReceipt": record(
        exists=BOOL, resolved_version=option(NAT), head=option(NAT), root_hash=option(HASH),
    ),
    "WorkspaceListParams": record(
        root_hash=HASH, path=option(TEXT), scope=option(TEXT), cursor=option(TEXT), limit=NAT,
    ),
    "WorkspaceListEntry": record(
        path=TEXT, kind=TEXT, hash=option(HASH), size=option(NAT), mode=option(NAT),
    ),
    "WorkspaceListReceipt": record(
        entries=list_of(ref("WorkspaceListEntry")), next_cursor=option(TEXT),
    ),
    "WorkspaceReadRefParams": record(root_hash=HASH, path=TEXT),
    "WorkspaceRefEntry": record(kind=TEXT, hash=HASH, size=NAT, mode=NAT),
    "WorkspaceReadRefReceipt": option(ref("WorkspaceRefEntry")),
    "WorkspaceReadBytesParams": record(
        root_hash=HASH, path=TEXT, range=option(record(start=NAT, end=NAT)),
    ),
    "WorkspaceReadBytesReceipt": BYTES,
    "WorkspaceWriteBytesParams": record(root_hash=HASH, path=TEXT, bytes=BYTES, mode=option(NAT)),
    "WorkspaceWriteBytesReceipt": record(new_root_hash=HASH, blob_hash=HASH),
    "WorkspaceWriteRefParams": record(root_hash=HASH, path=TEXT, blob_hash=HASH, mode=option(NAT)),
    "WorkspaceWriteRefReceipt": record(new_root_hash=HASH, blob_hash=HASH),
    "WorkspaceRemoveParams": record(root_hash=HASH, path=TEXT),
    "WorkspaceRemoveReceipt": record(new_root_hash=HASH),
    "WorkspaceDiffParams": record(root_a=HASH, root_b=HASH, prefix=option(TEXT)),
    "WorkspaceDiffChange": record(
        path=TEXT, kind=TEXT, old_hash=option(HASH), new_hash=option(HASH),
    ),
    "WorkspaceDiffReceipt": record(changes=list_of(ref("WorkspaceDiffChange"))),
    "WorkspaceAnnotationsGetParams": record(root_hash=HASH, path=option(TEXT)),
    "WorkspaceAnnotationsGetReceipt": record(annotations=option(ref("WorkspaceAnnotations"))),
    "WorkspaceAnnotationsSetParams": record(
        root_hash=HASH, path=option(TEXT), annotations_patch=ref("WorkspaceAnnotationsPatch"),
    ),
    "WorkspaceAnnotationsSetReceipt": record(new_root_hash=HASH, annotations_hash=HASH),
    "WorkspaceEmptyRootParams": record(workspace=TEXT),
    "WorkspaceEmptyRootReceipt": record(root_hash=HASH),
}  # fmt: skip
