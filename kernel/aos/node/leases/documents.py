"""An open intent -> the task that decisions need, and the document that a worker gets (N-51)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aos.core.journal.records import slot_bytes
from aos.core.state.cell import OpenIntent
from aos.core.state.continuation import takes
from aos.core.state.state import State
from aos.host.executors.lanes import group_of, has_lanes, lane_of
from aos.host.executors.limiter import Limit
from aos.host.executors.task_bank import Signers
from aos.manifest.names import KERNEL, NODE, STREAM, is_run_by_node
from aos.manifest.sealed_places import sealed_parts
from aos.node.leases.leases import OpenTask
from aos.node.leases.row import Row
from aos.store.store import Store
from aos.values.digests import hash_text

CBOR = "cbor"


def is_task(state: State, intent: OpenIntent, world_effects: frozenset[str]) -> bool:
    """Whether workers elsewhere carry out an open intent; ``world_effects`` are the effects that
    the process of the world runs itself."""
    effect = intent.effect
    return not (
        effect.executor == KERNEL
        or is_run_by_node(effect.name)
        or effect.name in world_effects
        or state.is_inherited(intent)
    )


def open_task(
    state: State, intent: OpenIntent, limits: Mapping[str, Limit], store: Store
) -> OpenTask:
    """The open task of an intent. Reads the params only where a lane or a limit needs them.

    Raises:
        Damage: The params are missing or altered.
    """
    effect = intent.effect
    limit = limits.get(effect.name)
    reads_params = has_lanes(effect) or (limit is not None and bool(limit.by))
    params = slot_bytes(intent.params, store.blob) if reads_params else b""
    return OpenTask(
        intent=intent.intent,
        effect=effect.name,
        order=(intent.seq, intent.index),
        is_once=effect.delivery == "at_most_once",
        signers=_signers(state, intent),
        lane=lane_of(effect, params, *intent.cell),
        group=None if limit is None else group_of(effect, params, limit),
    )


def _signers(state: State, intent: OpenIntent) -> Signers:
    """The names and keys that may sign its receipt (M-37)."""
    if intent.executors is None:
        return frozenset({(NODE, state.world_key)})
    return frozenset(
        (name, state.world_key if name == NODE else executor.public_key)
        for name, executor in intent.executors.items()
        if intent.effect.name in executor.effects
    )


def task_document(
    state: State, intent: OpenIntent, row: Row, store: Store, *, form: str
) -> dict[str, Any]:
    """The document of a leased task, as ``schemas.CLAIMED`` describes it.

    Raises:
        Damage: The params are missing or altered.
    """
    effect = intent.effect
    params = slot_bytes(intent.params, store.blob)
    workflow = state.effective.workflows.get(intent.cell[0])
    stream = state.streams.get(intent.intent)
    document: dict[str, Any] = {
        "task": hash_text(intent.intent),
        "kind": "effect",
        "effect": effect.name,
        "attempt": row.epoch,
        "epoch": row.epoch,
        "idempotency_key": intent.idempotency_key,
        "workflow": intent.cell[0],
        "issuer_ref": intent.issuer_ref,
        "world": hash_text(state.world),
        "lease_until_ns": row.until_ns,
        "lease_ms": row.lease_ns // 10**6,
        "timeout_ms": effect.timeout_ms,
        "next_frame": 0 if stream is None else stream.last + 1,
        "takes_progress": workflow is not None and takes(workflow, STREAM),
    }
    manifest = state.effective
    if effect.params.name in manifest.sealing:
        value = effect.params.from_record(params)
        parts = sealed_parts(effect.params, value, manifest.schemas)
        document["sealed"] = [path for path, _ in parts]
    if form == CBOR:
        document |= {"params_cbor": params, "key_cbor": intent.cell[1]}
    else:
        document["params"] = effect.params.to_json(effect.params.from_record(params))
        document["key"] = _key_json(state, intent)
    return document


def _key_json(state: State, intent: OpenIntent) -> object:
    workflow = state.effective.workflows.get(intent.cell[0])
    if not intent.cell[1] or workflow is None or workflow.key is None:
        return None
    return workflow.key.to_json(workflow.key.from_record(intent.cell[1]))
