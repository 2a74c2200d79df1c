"""The ``sys/*`` definitions: ambient in every manifest, never defined by a user (M-11, M-50).

Their hashes are part of every effective manifest that uses them, so a definition is never edited:
a change is a new version with a new name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from aos.manifest.names import KERNEL, NODE, SYSTEM

Node = Mapping[str, Any]
Type = Mapping[str, Any]

BOOL: Final[Type] = {"bool": {}}
INT: Final[Type] = {"int": {}}
NAT: Final[Type] = {"nat": {}}
BYTES: Final[Type] = {"bytes": {}}
TEXT: Final[Type] = {"text": {}}
HASH: Final[Type] = {"hash": {}}


def _option(inside: Type) -> Type:
    return {"option": inside}


def _record(**fields: Type) -> Type:
    return {"record": fields}


def _ref(short: str) -> Type:
    return {"ref": f"{SYSTEM}{short}@1"}


def _map(value: Type) -> Type:
    return {"map": {"key": TEXT, "value": value}}


# The identity block at the head of every continuation.
_BLOCK: Final[Mapping[str, Type]] = {
    "origin_module_id": TEXT,  # the workflow's name
    "origin_workflow_hash": _option(HASH),
    "origin_instance_key": _option(BYTES),
    "intent_id": HASH,
    "effect": TEXT,
    "effect_hash": _option(HASH),
    "executor_module": _option(TEXT),
    "executor_module_hash": _option(HASH),
    "executor_entrypoint": _option(TEXT),
    "params_hash": _option(HASH),
    "issuer_ref": _option(TEXT),
}


def _legacy(params: str, receipt: str) -> Type:
    return _record(
        intent_hash=HASH,
        workflow=TEXT,
        effect=TEXT,
        status=TEXT,
        requested=_ref(params),
        receipt=_ref(receipt),
        cost_cents=_option(NAT),
        signature=BYTES,
    )


_TYPES: Final[Mapping[str, Type]] = {
    "WorkflowContext": _record(
        now_ns=NAT,
        logical_now_ns=NAT,
        journal_height=NAT,
        entropy=BYTES,  # 64 bytes
        event_hash=HASH,
        manifest_hash=HASH,
        workflow=TEXT,
        workflow_hash=_option(HASH),
        key=_option(BYTES),
        cell_mode=BOOL,
    ),
    # Continuations.
    "EffectReceiptEnvelope": _record(
        **_BLOCK,
        receipt_payload=BYTES,
        status=TEXT,
        emitted_at_seq=NAT,
        cost_cents=_option(NAT),
        signature=BYTES,
        payload_schema=_option(TEXT),
    ),
    "EffectStreamFrame": _record(
        **_BLOCK,
        emitted_at_seq=NAT,
        seq=NAT,
        kind=TEXT,
        payload=BYTES,
        payload_ref=_option(HASH),
        signature=BYTES,
    ),
    "EffectReceiptRejected": _record(
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
    "PendingEffect": _record(
        effect=TEXT,
        params_hash=HASH,
        intent_id=_option(HASH),
        issuer_ref=_option(TEXT),
        emitted_at_ns={"time": {}},
        last_stream_seq=NAT,
    ),
    "PendingEffectSetText": _map(_ref("PendingEffect")),
    "PendingBatchGroupText": _record(keys={"list": TEXT}, terminal_keys={"list": TEXT}),
    "PendingBatchText": _record(
        groups={"list": _ref("PendingBatchGroupText")}, next_group_index=NAT
    ),
    "BytesOrSecretRef": {"variant": {"literal": BYTES, "secret": _ref("SecretRef")}},
    # Effects.
    "EffectError": _record(code=TEXT, message=TEXT, retryable=BOOL),
    "SecretRef": _record(alias=TEXT, version=NAT),
    "TextOrSecretRef": {"variant": {"literal": TEXT, "secret": _ref("SecretRef")}},
    "TimerSetParams": _record(deliver_at_ns=NAT, key=_option(TEXT)),
    "TimerSetReceipt": _record(delivered_at_ns=NAT, key=_option(TEXT)),
    "HttpRequestParams": _record(
        method=TEXT,
        url=TEXT,
        headers=_map(_ref("TextOrSecretRef")),
        body_ref=_option(HASH),
        body=_option(BYTES),
    ),
    "HttpRequestReceipt": _record(
        status=INT,
        headers=_map(TEXT),
        body_ref=_option(HASH),
        body=_option(BYTES),
        timings=_record(start_ns=NAT, end_ns=NAT),
    ),
    "BlobPutParams": _record(bytes=BYTES, blob_ref=_option(HASH), refs=_option({"list": HASH})),
    "BlobPutReceipt": _record(blob_ref=HASH, edge_ref=HASH, size=NAT),
    "BlobGetParams": _record(blob_ref=HASH),
    "BlobGetReceipt": _record(blob_ref=HASH, size=NAT, bytes=BYTES),
    "CronNextParams": _record(cron=TEXT, tz=TEXT, after_ns=NAT, count=NAT),
    "CronNextReceipt": _record(times={"list": NAT}, tzdata=TEXT),
    # Answered by the core itself. One of the two fields names what to cancel.
    "TimerCancelParams": _record(intent=_option(HASH), issuer_ref=_option(TEXT)),
    "TimerCancelReceipt": _record(cancelled=BOOL),
    "EffectCancelParams": _record(intent=_option(HASH), issuer_ref=_option(TEXT)),
    "EffectCancelReceipt": _record(cancelled=BOOL),
    "ReadMeta": _record(journal_height=NAT, snapshot_hash=_option(HASH), manifest_hash=HASH),
    "IntrospectManifestParams": _record(consistency=_option(TEXT)),
    "IntrospectManifestReceipt": _record(manifest=BYTES, meta=_ref("ReadMeta")),
    "IntrospectWorkflowStateParams": _record(
        workflow=TEXT, key=_option(BYTES), consistency=_option(TEXT)
    ),
    "IntrospectWorkflowStateReceipt": _record(state=_option(BYTES), meta=_ref("ReadMeta")),
    "IntrospectJournalHeadParams": _record(),
    "IntrospectJournalHeadReceipt": _record(meta=_ref("ReadMeta")),
    "IntrospectListCellsParams": _record(
        workflow=TEXT, after=_option(BYTES), limit=_option(NAT), consistency=_option(TEXT)
    ),
    "IntrospectCellInfo": _record(key=BYTES, state_hash=HASH, size=NAT, last_active_ns=NAT),
    "IntrospectListCellsReceipt": _record(
        cells={"list": _ref("IntrospectCellInfo")}, next=_option(BYTES), meta=_ref("ReadMeta")
    ),
}


def _effect(short: str, stem: str, executor: str = NODE) -> Node:
    return {
        "$kind": "defeffect",
        "name": f"{SYSTEM}{short}@1",
        "params": f"{SYSTEM}{stem}Params@1",
        "receipt": f"{SYSTEM}{stem}Receipt@1",
        "impl": {"executor": executor},
    }


SCHEMAS: Final[Mapping[str, Node]] = MappingProxyType(
    {
        f"{SYSTEM}{short}@1": {
            "$kind": "defschema",
            "name": f"{SYSTEM}{short}@1",
            "type": expression,
        }
        for short, expression in _TYPES.items()
    }
)

EFFECTS: Final[Mapping[str, Node]] = MappingProxyType(
    {
        str(node["name"]): node
        for node in (
            _effect("timer.set", "TimerSet"),
            _effect("http.request", "HttpRequest"),
            _effect("blob.put", "BlobPut"),
            _effect("blob.get", "BlobGet"),
            _effect("cron.next", "CronNext"),
            _effect("timer.cancel", "TimerCancel", KERNEL),
            _effect("effect.cancel", "EffectCancel", KERNEL),
            _effect("introspect.manifest", "IntrospectManifest", KERNEL),
            _effect("introspect.workflow_state", "IntrospectWorkflowState", KERNEL),
            _effect("introspect.journal_head", "IntrospectJournalHead", KERNEL),
            _effect("introspect.list_cells", "IntrospectListCells", KERNEL),
        )
    }
)

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
