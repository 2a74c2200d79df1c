"""The documents of ``aos inspect world`` and ``manifest`` (spec/audit.md, A-61, A-62); which
manifest an instance runs under, and how many run under each (A-63a).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from aos.core.decide.left_behind import next_under
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Genesis
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import manifest_under, workflow_under
from aos.errors import BadUsage
from aos.fastcore.core_kind import core_named
from aos.manifest.effective import Effect, Effective, Workflow
from aos.manifest.keys import key_text
from aos.manifest.names import TIMER
from aos.read.views.clock_view import ahead_ns
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.values.cbor import decode_record
from aos.values.digests import hash_text


def world(view: View) -> Document:
    """Summarize the world (A-61)."""
    state, tip = view.state, view.state.tip
    first = view.records.at(1)
    assert isinstance(first, Genesis), "a journal begins with its genesis"
    return {
        "world": hash_text(state.world),
        "world_key": key_text(state.world_key),
        "operators": [
            {"name": operator.name, "public_key": key_text(operator.key)}
            for operator in state.operators
        ],
        "semantics": state.semantics,
        "created_ns": first.stamp.ns,
        "journal": {
            "records": state.next_seq - 1,
            "frames": tip.log.size,
            "frame": hash_text(tip.frame),
            "log_root": hash_text(tip.log.root()),
            "clock_ns": state.clock_ns,
            "clock_ahead_ns": ahead_ns(state.clock_ns, view.now_ns),
        },
        "manifest": _manifest_in_force(view),
        "versions": versions(view.state, view.journal.blob),
        "cells": cell_counts(view.state),
        "intents": intent_counts(view.state),
        "mail": mail_counts(view.state),
        "submissions": len(state.submissions),
        "at": state.next_seq - 1 if view.is_past else None,
        "snapshot": _snapshot(state),
        "ancestors": [
            {"world": hash_text(ancestor.world), "at": ancestor.at} for ancestor in state.ancestors
        ],
        "last_start": _last_start(view),
    }


def _last_start(view: View) -> Document | None:
    start = view.records.last_start(view.state.next_seq - 1)
    return None if start is None else {"record": start.seq, "core": core_named(start.host)}


def _snapshot(state: State) -> Document | None:
    mark = state.snapshot
    if mark is None:
        return None
    return {"at": mark.at, "record": mark.seq, "document": hash_text(mark.document)}


def _manifest_in_force(view: View) -> Document | None:
    state = view.state
    if state.manifest is None:
        return None
    return {
        "hash": hash_text(state.manifest.hash),
        "manifest_hash": hash_text(state.manifest.manifest_hash),
        "shard": None if state.manifest.shard is None else asdict(state.manifest.shard),
        "record": state.manifest_seq,
        "serial": state.serial - 1,
    }


def cell_counts(state: State) -> Document:
    """Count the cells by workflow and status."""
    cells = state.cells
    by_workflow = {
        name: cells.statuses(name) for name, shelf in cells.shelves.items() if shelf.count
    }
    for counts in by_workflow.values():
        counts["idle"] = counts["running"]
    for cell in cells.active.values():
        if cell.status == "running" and not cell.is_idle:
            by_workflow[cell.id[0]]["idle"] -= 1
    total = sum(by_workflow.values(), Counter[str]())
    return {
        "total": len(cells),
        **{status: total[status] for status in (*CELL_STATUSES, "idle")},
        "ready": len(state.ring),
        "by_workflow": {
            name: {status: counts[status] for status in (*CELL_STATUSES, "idle")}
            for name, counts in sorted(by_workflow.items())
        },
    }


def intent_counts(state: State) -> Document:
    """Count the open intents by effect and executor."""
    by_effect = +state.intents.counts
    oldest = [intent for effect in by_effect if (intent := state.intents.oldest(effect))]
    first = min(oldest, key=lambda intent: (intent.seq, intent.index), default=None)
    return {
        "open": by_effect.total(),
        "abandoned": len(state.abandoned),
        "by_effect": dict(sorted(by_effect.items())),
        "by_executor": _by_executor(state),
        "timers": _timers(state),
        "oldest_open_ns": first.opened_ns if first else None,
        "halted": _halted(state),
    }


def _by_executor(state: State) -> Document:
    """Count the open intents of each executor, and those whose attempt is not their first. Timers
    are no work of an executor: ``_timers`` counts them."""
    counts_by_executor: dict[str, Document] = {}
    for intent, last_attempt in state.intents.in_order(but=TIMER):
        counts = counts_by_executor.setdefault(
            intent.effect.executor,
            {
                "open": 0,
                "retried": 0,
                "oldest_open_ns": intent.opened_ns,
                "oldest_retried_ns": None,
            },
        )
        counts["open"] += 1
        if last_attempt is not None and last_attempt > 1:
            counts["retried"] += 1
            if counts["oldest_retried_ns"] is None:
                counts["oldest_retried_ns"] = intent.opened_ns
    return dict(sorted(counts_by_executor.items()))


def _timers(state: State) -> Document:
    """Count the timers that are set."""
    oldest = state.intents.oldest(TIMER)
    return {
        "open": state.intents.counts[TIMER],
        "oldest_open_ns": None if oldest is None else oldest.opened_ns,
    }


def _halted(state: State) -> list[Document]:
    """The held and parked effects, counted by effect, phase and code; the oldest of each."""
    halted_since: dict[tuple[str, str, str, str], list[int]] = {}
    for intent in state.halts:
        opened_intent = state.intents[intent]
        halt = state.halt(opened_intent)
        if halt is not None:
            key = (opened_intent.effect.name, opened_intent.effect.executor, halt.phase, halt.code)
            halted_since.setdefault(key, []).append(halt.since_ns)
    return [
        {
            "effect": effect,
            "executor": executor,
            "phase": phase,
            "code": code,
            "count": len(since),
            "oldest_ns": min(since),
        }
        for (effect, executor, phase, code), since in sorted(halted_since.items())
    ]


def mail_counts(state: State) -> Document:
    """Count the entries of all mailboxes."""
    # Cells at rest have no mail.
    cells = state.cells.active.values()
    return {
        "queued": sum(len(cell.mailbox) for cell in cells if cell.fault is None),
        "behind_faults": sum(len(cell.mailbox) for cell in cells if cell.fault is not None),
        "uncounted": sum(cell.mail_uncounted for cell in cells),
    }


def manifest(view: View, name: str | None = None) -> Document:
    """Return the manifest in force, or the definition called ``name`` in it (A-62)."""
    manifest = view.state.manifest
    if manifest is None:
        raise BadUsage("this world has no manifest yet (apply one: aos apply PATH)")
    parts: Any = decode_record(manifest.document)
    if name is not None:
        return _definition(parts["definitions"], name)
    in_force = _manifest_in_force(view)
    assert in_force is not None
    return {
        **in_force,
        "versions": versions(view.state, view.journal.blob),
        "workflows": [_workflow(manifest.workflows[name]) for name in sorted(manifest.workflows)],
        "effects": [_effect(manifest.effects[name]) for name in sorted(manifest.effects)],
        "modules": [
            {"name": module.name, "hash": hash_text(module.hash), "abi": module.abi}
            for _, module in sorted(manifest.modules.items())
        ],
        "schemas": sorted(manifest.schemas),
        "routes": [
            {
                "event": route.event,
                "workflow": route.workflow,
                "key_field": route.key_field,
                "creates": route.creates,
            }
            for route in manifest.subscriptions
        ],
        "ingress": None if manifest.ingress is None else sorted(manifest.ingress),
        "executors": _executors(manifest),
        "limits": manifest.limits.to_document(),
    }


def _definition(definitions: list[Any], name: str) -> Document:
    for node in definitions:
        if node["name"] == name:
            definition: Document = node
            return definition
    names = [node["name"] for node in definitions if name in node["name"]]
    raise BadUsage(
        f"nothing in the manifest in force is called {name!r}",
        expected="one of " + ", ".join(names) if names else None,
        hint="aos inspect manifest lists everything",
    )


def _workflow(workflow: Workflow) -> Document:
    return {
        "name": workflow.name,
        "hash": hash_text(workflow.hash),
        "module": workflow.module.name,
        "module_hash": hash_text(workflow.module.hash),
        "entrypoint": workflow.entrypoint,
        "state": workflow.state.name,
        "event": workflow.event.name,
        "arms": dict(sorted(workflow.arms.items())),
        "key_schema": workflow.key.name if workflow.key else None,
        "placement": asdict(workflow.placement),
        "annotations": workflow.annotations.name if workflow.annotations else None,
        "context": workflow.context,
        "lifecycle": workflow.lifecycle,
        "upgrade": workflow.upgrade,
        "effects_emitted": sorted(workflow.effects_emitted),
        "limits": workflow.limits.to_document(),
    }


def _effect(effect: Effect) -> Document:
    return {
        "name": effect.name,
        "hash": hash_text(effect.hash),
        "params": effect.params.name,
        "receipt": effect.receipt.name,
        "executor": effect.executor,
        "attempts": effect.attempts,
        "timeout_ms": effect.timeout_ms,
        "idempotency_scope": effect.idempotency_scope,
    }


def _executors(manifest: Effective) -> list[Document] | None:
    if manifest.executors is None:
        return None
    return [
        {
            "name": executor.name,
            "public_key": key_text(executor.public_key),
            "effects": sorted(executor.effects),
            "retired_keys": sorted(map(key_text, executor.retired_keys)),
            "revoked_keys": sorted(map(key_text, executor.revoked_keys)),
        }
        for _, executor in sorted(manifest.executors.items())
    ]


def version(state: State, cell: Cell, read: BlobReader) -> dict[str, Any]:
    """Return the manifest that the next entry of a cell runs under, and its module there. The
    module is null if the workflow is gone and nothing pins the cell."""
    seq = next_under(state, cell, read)
    workflow = workflow_under(state, cell.id, seq)
    return {
        "record": seq,
        "manifest": hash_text(manifest_under(state, seq).hash),
        "is_pinned": seq != state.manifest_seq,
        "module": None if workflow is None else workflow.module.name,
        "module_hash": None if workflow is None else hash_text(workflow.module.hash),
    }


def versions(state: State, read: BlobReader) -> list[dict[str, Any]]:
    """Return the manifests that instances run under, the oldest first and the one in force last,
    with the number of instances of each workflow. With two or more manifests, this reads every
    cell, and the states of those that may not fit the manifest in force."""
    counts: dict[int, Counter[str]] = {era.seq: Counter() for era in state.eras.all}
    if state.eras.is_one:
        for name, shelf in state.cells.shelves.items():
            counts[state.manifest_seq][name] = shelf.count
    else:
        for cell in state.cells.values():
            counts[next_under(state, cell, read)][cell.id[0]] += 1
    return [
        {
            "record": era.seq,
            "manifest": hash_text(era.manifest),
            "in_force": era.seq == state.manifest_seq,
            "cells": counts[era.seq].total(),
            "by_workflow": {
                name: number for name, number in sorted(counts[era.seq].items()) if number
            },
        }
        for era in state.eras.all
        if era.seq == state.manifest_seq or counts[era.seq]
    ]
