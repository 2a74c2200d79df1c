"""The ``sys/*`` definitions: ambient in every manifest, never defined by a user (M-11, M-50).

Their hashes are part of every effective manifest that uses them, so a definition is never edited:
a change is a new version with a new name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from aos.manifest.builtin_types.host_types import HOST_TYPES
from aos.manifest.builtin_types.service_types import GOVERNANCE_TYPES, LLM_TYPES, VAULT_TYPES
from aos.manifest.builtin_types.type_notation import (
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
from aos.manifest.builtin_types.workspace_types import WORKSPACE_TYPES
from aos.manifest.names import KERNEL, NODE, SYSTEM, is_system

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
        **_BLOCK,
        receipt_payload=BYTES,
        status=TEXT,
        emitted_at_seq=NAT,
        cost_cents=option(NAT),
        signature=BYTES,
        payload_schema=option(TEXT),
    ),
    "EffectStreamFrame": record(
        **_BLOCK,
        emitted_at_seq=NAT,
        seq=NAT,
        kind=TEXT,
        payload=BYTES,
        payload_ref=option(HASH),
        signature=BYTES,
    ),
    "EffectReceiptRejected": record(
        **_BLOCK,
        status=TEXT,
        error_code=TEXT,
        error_message=TEXT,
        payload_hash=HASH,
        payload_size=NAT,
        emitted_at_seq=NAT,
    ),
    "TimerFired": _legacy("TimerSetParams", "TimerSetReceipt"),
    "BlobPutResult": _legacy("BlobPutParams", "BlobPutReceipt"),
    "BlobGetResult": _legacy("BlobGetParams", "BlobGetReceipt"),
    # Types of AIR 2 for states of the AgentOS SDK; our own definitions do not use them.
    "PendingEffect": record(
        effect=TEXT,
        params_hash=HASH,
        intent_id=option(HASH),
        issuer_ref=option(TEXT),
        emitted_at_ns=TIME,
        last_stream_seq=NAT,
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
        method=TEXT,
        url=TEXT,
        headers=map_of(ref("TextOrSecretRef")),
        body_ref=option(HASH),
        body=option(BYTES),
    ),
    "HttpRequestReceipt": record(
        status=INT,
        headers=map_of(TEXT),
        body_ref=option(HASH),
        body=option(BYTES),
        timings=record(start_ns=NAT, end_ns=NAT),
    ),
    "BlobPutParams": record(bytes=BYTES, blob_ref=option(HASH), refs=option(list_of(HASH))),
    "BlobPutReceipt": record(blob_ref=HASH, edge_ref=HASH, size=NAT),
    "BlobGetParams": record(blob_ref=HASH),
    "BlobGetReceipt": record(blob_ref=HASH, size=NAT, bytes=BYTES),
    "CronNextParams": record(cron=TEXT, tz=TEXT, after_ns=NAT, count=NAT),
    "CronNextReceipt": record(times=list_of(NAT), tzdata=TEXT),
    # Answered by the core itself. One of the two fields names what to cancel.
    "TimerCancelParams": record(intent=option(HASH), issuer_ref=option(TEXT)),
    "TimerCancelReceipt": record(cancelled=BOOL),
    "EffectCancelParams": record(intent=option(HASH), issuer_ref=option(TEXT)),
    "EffectCancelReceipt": record(cancelled=BOOL),
    "ReadMeta": record(journal_height=NAT, snapshot_hash=option(HASH), manifest_hash=HASH),
    "IntrospectManifestParams": record(consistency=option(TEXT)),
    "IntrospectManifestReceipt": record(manifest=BYTES, meta=ref("ReadMeta")),
    "IntrospectWorkflowStateParams": record(
        workflow=TEXT, key=option(BYTES), consistency=option(TEXT)
    ),
    "IntrospectWorkflowStateReceipt": record(state=option(BYTES), meta=ref("ReadMeta")),
    "IntrospectJournalHeadParams": record(),
    "IntrospectJournalHeadReceipt": record(meta=ref("ReadMeta")),
    "IntrospectListCellsParams": record(
        workflow=TEXT, after=option(BYTES), limit=option(NAT), consistency=option(TEXT)
    ),
    "IntrospectCellInfo": record(key=BYTES, state_hash=HASH, size=NAT, last_active_ns=NAT),
    "IntrospectListCellsReceipt": record(
        cells=list_of(ref("IntrospectCellInfo")), next=option(BYTES), meta=ref("ReadMeta")
    ),
}


# Effects that an executor of a process runs, in the order of AIR 2 (M-51).
_PROVIDED: Final = (
    "workspace.empty_root",
    "workspace.list",
    "workspace.read_ref",
    "workspace.read_bytes",
    "workspace.write_bytes",
    "workspace.write_ref",
    "workspace.remove",
    "workspace.diff",
    "workspace.annotations_get",
    "workspace.annotations_set",
    "host.session.open",
    "host.session.signal",
    "host.exec",
    "host.fs.read_file",
    "host.fs.write_file",
    "host.fs.edit_file",
    "host.fs.apply_patch",
    "host.fs.grep",
    "host.fs.glob",
    "host.fs.stat",
    "host.fs.exists",
    "host.fs.list_dir",
    "llm.generate",
    "llm.count_tokens",
    "llm.compact",
    "vault.put",
    "vault.rotate",
    "portal.send",
)


def _effect(short: str, executor: str = NODE) -> Node:
    stem = "".join(word.capitalize() for word in re.split("[._]", short))
    return {
        "$kind": "defeffect",
        "name": full_name(short),
        "params": full_name(f"{stem}Params"),
        "receipt": full_name(f"{stem}Receipt"),
        "impl": {"executor": executor},
    }


SCHEMAS: Final[Mapping[str, Node]] = MappingProxyType(
    {
        full_name(short): {"$kind": "defschema", "name": full_name(short), "type": expression}
        for types in (
            _TYPES,
            WORKSPACE_TYPES,
            HOST_TYPES,
            LLM_TYPES,
            VAULT_TYPES,
            GOVERNANCE_TYPES,
        )
        for short, expression in types.items()
    }
)

EFFECTS: Final[Mapping[str, Node]] = MappingProxyType(
    {
        str(node["name"]): node
        for node in (
            _effect("timer.set"),
            _effect("http.request"),
            _effect("blob.put"),
            _effect("blob.get"),
            _effect("cron.next"),
            _effect("timer.cancel", KERNEL),
            _effect("effect.cancel", KERNEL),
            _effect("introspect.manifest", KERNEL),
            _effect("introspect.workflow_state", KERNEL),
            _effect("introspect.journal_head", KERNEL),
            _effect("introspect.list_cells", KERNEL),
            _effect("workspace.resolve", KERNEL),
            *map(_effect, _PROVIDED),
        )
    }
)

PROVIDED_EFFECTS: Final = frozenset(map(full_name, _PROVIDED))
"""Built-in effects that the node does not run by itself: an ``Executors`` may provide them."""


def is_run_by_node(effect: str) -> bool:
    """Whether the node runs an effect by itself, so that no ``Executors`` may: a ``sys/`` effect
    that is not among ``PROVIDED_EFFECTS``."""
    return is_system(effect) and effect not in PROVIDED_EFFECTS


def is_built_in(kind: str, name: str) -> bool:
    """Whether a definition is built in: known in every manifest, and never a part of an author's
    own. All names ``sys/`` are, except the workflow ``WORKSPACE``, which has a module."""
    return is_system(name) and (kind, name) != ("defworkflow", WORKSPACE)


UNSUPPORTED_EFFECTS: Final = frozenset({f"{SYSTEM}task.run@1"})
"""Known names of AIR 2, refused as not supported by this version."""

TIMER: Final = "sys/timer.set@1"
HTTP: Final = "sys/http.request@1"
CRON: Final = "sys/cron.next@1"
BLOB_PUT: Final = "sys/blob.put@1"
TIMER_CANCEL: Final = "sys/timer.cancel@1"
EFFECT_CANCEL: Final = "sys/effect.cancel@1"
INTROSPECT_MANIFEST: Final = "sys/introspect.manifest@1"
INTROSPECT_STATE: Final = "sys/introspect.workflow_state@1"
INTROSPECT_HEAD: Final = "sys/introspect.journal_head@1"
INTROSPECT_CELLS: Final = "sys/introspect.list_cells@1"
WORKSPACE: Final = "sys/Workspace@1"
"""The one workflow of this namespace. It ships with AOS, and a manifest that has it contains its
definition (AG-54)."""

WORKSPACE_RESOLVE: Final = "sys/workspace.resolve@1"
KERNEL_EFFECTS: Final = frozenset(
    str(name) for name, node in EFFECTS.items() if node["impl"]["executor"] == KERNEL
)
"""Effects that the core answers itself: no executor runs them, and none may sign for them."""

CONTEXT: Final = "sys/WorkflowContext@1"
ERROR: Final = "sys/EffectError@1"
ENVELOPE: Final = "sys/EffectReceiptEnvelope@1"
REJECTED: Final = "sys/EffectReceiptRejected@1"
STREAM: Final = "sys/EffectStreamFrame@1"
HTTP_PARAMS: Final = "sys/HttpRequestParams@1"

LEGACY_ARMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        TIMER: "sys/TimerFired@1",
        "sys/blob.put@1": "sys/BlobPutResult@1",
        "sys/blob.get@1": "sys/BlobGetResult@1",
    }
)
"""Effect -> the older schema that carries its receipt, for a workflow without an envelope arm."""

CONTINUATIONS: Final = frozenset({ENVELOPE, REJECTED, STREAM, *LEGACY_ARMS.values()})
"""Schemas of values that only the kernel makes: neither a subscription nor a sender may deliver
one (M-35)."""

ONLY_DELIVERED: Final = "is a continuation, which only the kernel delivers"
