"""Schemas of the effects ``sys/vault.*`` and ``sys/portal.send@1``, and of documents of AIR 2."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aos.manifest.builtin_types.type_notation import (
    BYTES,
    HASH,
    NAT,
    TEXT,
    UUID,
    Type,
    list_of,
    map_of,
    option,
    record,
)

VAULT_TYPES: Final[Mapping[str, Type]] = MappingProxyType(
    {
        "PortalSendParams": record(
            dest_universe=option(UUID),
            dest_world=UUID,
            mode=TEXT,
            schema=option(TEXT),
            value_cbor=option(BYTES),
            inbox=option(TEXT),
            payload_cbor=option(BYTES),
            headers=option(map_of(TEXT)),
            correlation_id=option(TEXT),
        ),
        "PortalSendReceipt": record(
            status=TEXT,
            message_id=HASH,
            dest_world=UUID,
            enqueued_seq=option(BYTES),
        ),
        "BlobEdge": record(blob_ref=HASH, refs=list_of(HASH)),
        "VaultPutParams": record(
            alias=TEXT,
            binding_id=TEXT,
            value_ref=HASH,
            expected_digest=HASH,
        ),
        "VaultPutReceipt": record(
            alias=TEXT,
            version=NAT,
            binding_id=TEXT,
            digest=HASH,
        ),
        "VaultRotateParams": record(
            alias=TEXT,
            version=NAT,
            binding_id=TEXT,
            expected_digest=HASH,
        ),
        "VaultRotateReceipt": record(
            alias=TEXT,
            version=NAT,
            binding_id=TEXT,
            digest=HASH,
        ),
        "PureContext": record(
            logical_now_ns=NAT,
            journal_height=NAT,
            manifest_hash=HASH,
            module=TEXT,
        ),
    }
)
