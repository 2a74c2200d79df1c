"""The ``sys/*`` definitions: ambient in every manifest, never defined by a user (M-11, M-50).

Their hashes are part of every effective manifest that uses them, so a definition is never edited:
a change is a new version with a new name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from aos.manifest.builtin_types import (
    BOOL,
    BYTES,
    HASH,
    INT,
    NAT,
    TEXT,
    TIME,
    Type,
    full_name,
    list_of,
    map_of,
    option,
    record,
    ref,
    variant,
)
from aos.manifest.builtin_types.host_types import HOST_TYPES
from aos.manifest.builtin_types.service_types import GOVERNANCE_TYPES, LLM_TYPES, VAULT_TYPES
from aos.manifest.builtin_types.workspace_types import WORKSPACE_TYPES
from aos.manifest.names import (
    ANSWERED_EFFECTS,
    BLOB_GET,
    BLOB_PUT,
    CRON,
    HTTP,
    KERNEL,
    KERNEL_EFFECTS,
    NODE,
    PROVIDED_EFFECTS,
    SYSTEM,
    TIMER,
    WORLD_SEND,
)

Node = Mapping[str, Any]

# The identity block at the head of every continuation.
_BLOCK: Final[Mapping[str, Type]] = {
    "origin_module_id": TEXT,  # the workflow's name
    "origin_workflow_hash": option(HASH),
    "origin_instance_key": option(BYTES),
    "intent_id": HASH,
    "effect": TEXT,
    "effect_hash": option(HASH),
    "executor_module": option(TEXT),
    "executor_module_hash": option(HASH),
    "executor_entrypoint": option(TEXT),
    "params_hash": option(HASH),
    "issuer_ref": option(TEXT),
}


def _legacy(params: str, receipt: str) -> Type:
    return record(
        intent_hash=HASH,
        workflow=TEXT,
        effect=TEXT,
        status=TEXT,
        requested=ref(params),
        receipt=ref(receipt),
        cost_cents=option(NAT),
        signature=BYTES,
    )


_TYPES: Final[Mapping[str, Type]] = {
    "WorkflowContext": record(
        now_ns=NAT,
        logical_now_ns=NAT,
        journal_height=NAT,
        entropy=BYTES,  # 64 bytes
        event_hash=HASH,
        manifest_hash=HASH,
        workflow=TEXT,
        workflow_hash=option(HASH),
        key=option(BYTES),
        cell_mode=BOOL,
    ),
    # Continuations.
    "EffectReceiptEnvelope": record(
        **_BLOCK, receipt_payload=BYTES, status=TEXT, emitted_at_seq=NAT, cost_cents=option(NAT),
        signature=BYTES, payload_schema=option(TEXT),
    ),
    "EffectStreamFrame": record(
        **_BLOCK, emitted_at_seq=NAT, seq=NAT, kind=TEXT, payload=BYTES, payload_ref=option(HASH),
        signature=BYTES,
    ),
    "EffectReceiptRejected": record(
        **_BLOCK, status=TEXT, error_code=TEXT, error_message=TEXT, payload_hash=HASH,
        payload_size=NAT, emitted_at_seq=NAT,
    ),
    "TimerFired": _legacy("TimerSetParams", "TimerSetReceipt"),
    "BlobPutResult": _legacy("BlobPutParams", "BlobPutReceipt"),
    "BlobGetResult": _legacy("BlobGetParams", "BlobGetReceipt"),
    # Types of AIR 2 for states of the AgentOS SDK; our own definitions do not use them.
    "PendingEffect": record(
        effect=TEXT, params_hash=HASH, intent_id=option(HASH), issuer_ref=option(TEXT),
        emitted_at_ns=TIME, last_stream_seq=NAT,
    ),
    "PendingEffectSetText": map_of(ref("PendingEffect")),
    "PendingBatchGroupText": record(keys=list_of(TEXT), terminal_keys=list_of(TEXT)),
    "PendingBatchText": record(groups=list_of(ref("PendingBatchGroupText")), next_group_index=NAT),
    "BytesOrSecretRef": variant({"literal": BYTES, "secret": ref("SecretRef")}),
    # Effects.
    "EffectError": record(code=TEXT, message=TEXT, retryable=BOOL),
    "SecretRef": record(alias=TEXT, version=NAT),
    "TextOrSecretRef": variant({"literal": TEXT, "secret": ref("SecretRef")}),
    "TimerSetParams": record(deliver_at_ns=NAT, key=option(TEXT)),
    "TimerSetReceipt": record(delivered_at_ns=NAT, key=option(TEXT)),
    "HttpRequestParams": record(
        method=TEXT, url=TEXT, headers=map_of(ref("TextOrSecretRef")), body_ref=option(HASH),
        body=option(BYTES),
    ),
    "HttpRequestReceipt": record(
        status=INT, headers=map_of(TEXT), body_ref=option(HASH), body=option(BYTES),
        timings=record(start_ns=NAT, end_ns=NAT),
    ),
    "BlobPutParams": record(bytes=BYTES, blob_ref=option(HASH), refs=option(list_of(HASH))),
    "BlobPutReceipt": record(blob_ref=HASH, edge_ref=HASH, size=NAT),
    "BlobGetParams": record(blob_ref=HASH),
    "BlobGetReceipt": record(blob_ref=HASH, size=NAT, bytes=BYTES),
    "CronNextParams": record(cron=TEXT, tz=TEXT, after_ns=NAT, count=NAT),
    "CronNextReceipt": record(times=list_of(NAT), tzdata=TEXT),
    # ``value`` is an event of the schema, as canonical CBOR; ``world`` is the one that admitted it.
    "WorldSendParams": record(to=TEXT, schema=TEXT, value=BYTES),
    "WorldSendReceipt": record(world=HASH, seq=NAT, duplicate=BOOL),
    # Answered by the core itself. One of the two fields names what to cancel.
    "TimerCancelParams": record(intent=option(HASH), issuer_ref=option(TEXT)),
    "TimerCancelReceipt": record(cancelled=BOOL),
    "EffectCancelParams": record(intent=option(HASH), issuer_ref=option(TEXT)),
    "EffectCancelReceipt": record(cancelled=BOOL),
    "ReadMeta": record(journal_height=NAT, snapshot_hash=option(HASH), manifest_hash=HASH),
    "IntrospectManifestParams": record(consistency=option(TEXT)),
    "IntrospectManifestReceipt": record(manifest=BYTES, meta=ref("ReadMeta")),
    "IntrospectWorkflowStateParams": record(
        workflow=TEXT, key=option(BYTES), consistency=option(TEXT),
    ),
    "IntrospectWorkflowStateReceipt": record(state=option(BYTES), meta=ref("ReadMeta")),
    "IntrospectJournalHeadParams": record(),
    "IntrospectJournalHeadReceipt": record(meta=ref("ReadMeta")),
    "IntrospectListCellsParams": record(
        workflow=TEXT, after=option(BYTES), limit=option(NAT), consistency=option(TEXT),
    ),
    "IntrospectCellInfo": record(key=BYTES, state_hash=HASH, size=NAT, last_active_ns=NAT),
    "IntrospectListCellsReceipt": record(
        cells=list_of(ref("IntrospectCellInfo")), next=option(BYTES), meta=ref("ReadMeta"),
    ),
}  # fmt: skip


def _effect(name: str) -> Node:
    stem = "".join(word.capitalize() for word in re.split("[._]", name[len(SYSTEM) : -len("@1")]))
    return {
        "$kind": "defeffect",
        "name": name,
        "params": full_name(f"{stem}Params"),
        "receipt": full_name(f"{stem}Receipt"),
        "impl": {"executor": KERNEL if name in KERNEL_EFFECTS else NODE},
    }


SCHEMAS: Final[Mapping[str, Node]] = {
    full_name(short): {"$kind": "defschema", "name": full_name(short), "type": expression}
    for types in (_TYPES, WORKSPACE_TYPES, HOST_TYPES, LLM_TYPES, VAULT_TYPES, GOVERNANCE_TYPES)
    for short, expression in types.items()
}

EFFECTS: Final[Mapping[str, Node]] = {
    name: _effect(name)
    for name in (
        TIMER,
        HTTP,
        BLOB_PUT,
        BLOB_GET,
        CRON,
        WORLD_SEND,
        *ANSWERED_EFFECTS,
        *PROVIDED_EFFECTS,
    )
}
