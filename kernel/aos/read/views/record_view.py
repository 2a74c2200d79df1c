"""Show a record as a JSON-able document, and as one line of text (spec/audit.md, A-30 to A-39)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from aos.core.journal.faults import Fault
from aos.core.journal.fork import forked_world_id
from aos.core.journal.governing import PROPOSE
from aos.core.journal.identity import world_id
from aos.core.journal.inputs import CLOCK, STRICT
from aos.core.journal.records import (
    Attempt,
    CellId,
    Control,
    Emitted,
    Event,
    Faulted,
    Fork,
    Genesis,
    Governance,
    Intent,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Snapshot,
    Start,
    Step,
    Stream,
)
from aos.manifest.keys import key_text
from aos.manifest.names import KERNEL_EFFECTS
from aos.read.lens.lens import Lens, ran_under
from aos.read.lens.words import as_json, compact, count, name_cell, one_line, short, time_text
from aos.values.digests import Hash, hash_text
from aos.values.schema import untyped_to_json

Document: TypeAlias = dict[str, Any]


def document(record: Record, lens: Lens) -> Document:
    """Return all fields of a record. The keys of each kind are in spec/audit.md, A-31 to A-37d."""
    fields: Document = {"seq": record.seq, "kind": record.KIND}
    write: Callable[[Any, Lens], Document] = _DOCUMENTS[type(record)]
    return fields | write(record, lens)


def cell_document(cell: CellId, lens: Lens, *, seq: int) -> Document:
    return {"workflow": cell[0], "key": lens.key(cell, seq=seq)}


def fault_document(fault: Fault) -> Document:
    return {
        "kind": fault.kind.value,
        "message": fault.message,
        "detail": None if fault.detail is None else as_json(None, fault.detail),
        "environmental": fault.environmental,
    }


def _genesis(record: Genesis, _lens: Lens) -> Document:
    return {
        "at_ns": record.stamp.ns,
        "world": hash_text(world_id(record.nonce, record.world_key)),
        "world_key": key_text(record.world_key),
        "operators": [
            {"name": operator.name, "public_key": key_text(operator.key)}
            for operator in record.operators
        ],
        "semantics": record.semantics,
    }


def _start(record: Start, _lens: Lens) -> Document:
    return {"at_ns": record.stamp.ns, "host": dict(record.host)}


def _manifest(record: Manifest, _lens: Lens) -> Document:
    return {
        "at_ns": record.stamp.ns,
        "hash": hash_text(record.document.hash),
        "size": record.document.size,
        "principal": record.principal,
        "serial": record.serial,
        "mode": record.mode or STRICT,
        "leaves": list(record.leaves),
        "migrated": [
            {
                "workflow": migration.workflow,
                "root": hash_text(migration.root),
                "cells": migration.count,
            }
            for migration in record.migrated
        ],
        **({} if record.proposal is None else {"proposal": record.proposal}),
    }


def _event(record: Event, lens: Lens) -> Document:
    return {
        "at_ns": record.stamp.ns,
        "schema": record.schema,
        "value": lens.event(record.schema, record.value, seq=record.seq),
        "submission_id": record.submission_id,
        **_targets(record, lens, record.seq),
    }


def _targets(event: Event | Emitted, lens: Lens, seq: int) -> Document:
    return {
        "to": [cell_document(cell, lens, seq=seq) for cell in event.to],
        "overloaded": [cell_document(cell, lens, seq=seq) for cell in event.overloaded],
        **(
            {"kept": [cell_document(cell, lens, seq=seq) for cell in event.kept]}
            if event.kept
            else {}
        ),
    }


def _run(record: Step | Faulted, lens: Lens) -> Document:
    return {
        "cell": cell_document(record.cell, lens, seq=ran_under(record)),
        "under": record.under,
        "entry": list(record.entry),
        "root": record.root,
        "depth": record.depth,
        "fuel": record.fuel,
        "pages": record.pages,
        "output": None if record.output is None else hash_text(record.output),
    }


def _step(record: Step, lens: Lens) -> Document:
    seq = record.seq
    return _run(record, lens) | {
        "status": record.status,
        "state": None if record.state is None else lens.state(record, record.state),
        "events": [_emitted(event, lens, seq) for event in record.events],
        "intents": [_intent(intent, lens, seq) for intent in record.intents],
        "abandoned": [hash_text(intent) for intent in record.abandoned],
        "annotations": None if record.ann is None else lens.annotations(record, record.ann),
    }


def _emitted(event: Emitted, lens: Lens, seq: int) -> Document:
    value = lens.event(event.schema, event.value, seq=seq)
    return {
        "schema": event.schema,
        "value": value,
        **_targets(event, lens, seq),
        "unknown": [cell_document(cell, lens, seq=seq) for cell in event.unknown],
    }


def _intent(intent: Intent, lens: Lens, seq: int) -> Document:
    return {
        "intent": hash_text(intent.intent),
        "effect": intent.effect,
        "params": lens.params(intent.effect, intent.params, seq=seq),
        "requested_key": untyped_to_json(intent.key),
        "issuer_ref": intent.issuer_ref,
        "flow": issuer_document(intent.issuer_ref),
    }


def issuer_document(issuer_ref: str | None) -> Document | None:
    """Return the operation of a flow that requested an effect: ``{path, attempt, role}``; None for
    an effect that no flow requested."""
    if issuer_ref is None:
        return None
    # A small command need not import this.
    from aos.flow.operation import IssuerRef  # noqa: PLC0415

    ref = IssuerRef.read(issuer_ref)
    return None if ref is None else ref.to_document()


def _faulted(record: Faulted, lens: Lens) -> Document:
    return _run(record, lens) | {"fault": fault_document(record.fault)}


def _receipt(record: Receipt, lens: Lens) -> Document:
    return {
        "at_ns": record.stamp.ns,
        "intent": hash_text(record.intent),
        "cell": cell_document(record.cell, lens, seq=record.seq),
        "effect": record.effect,
        "attempt": record.attempt,
        "status": record.status,
        "payload": lens.payload(record),
        "payload_schema": record.payload_schema,
        "started_ns": record.started_ns,
        "finished_ns": record.finished_ns,
        "cost_cents": record.cost_cents,
        "executor": record.executor,
        "key_id": key_text(record.key_id),
        "outcome": record.outcome,
        "problem": record.problem,
        "abandoned": [hash_text(intent) for intent in record.abandoned],
        "batch": _batch(record),
    }


def _batch(record: Receipt) -> Document | None:
    if record.batch is None:
        return None
    return {"index": record.batch.index, "size": record.batch.size}


def _kernel_receipt(record: KernelReceipt, lens: Lens) -> Document:
    return {
        "intent": hash_text(record.intent),
        "cell": cell_document(record.cell, lens, seq=record.seq),
        "effect": record.effect,
        "status": record.status,
        "payload": lens.payload(record),
        "payload_schema": record.payload_schema,
        "root": record.root,
        "depth": record.depth,
        "by": _optional_hash(record.by),
        "outcome": record.outcome,
        "problem": record.problem,
        "abandoned": [hash_text(intent) for intent in record.abandoned],
    }


def _stream(record: Stream, lens: Lens) -> Document:
    return {
        "at_ns": record.stamp.ns,
        "intent": hash_text(record.intent),
        "cell": cell_document(record.cell, lens, seq=record.seq),
        "effect": record.effect,
        "attempt": record.attempt,
        "frame_seq": record.frame_seq,
        "frame_kind": record.frame_kind,
        "payload": lens.payload(record),
        "payload_ref": _optional_hash(record.payload_ref),
        "executor": record.executor,
        "key_id": key_text(record.key_id),
    }


def _attempt(record: Attempt, lens: Lens) -> Document:
    return {
        "at_ns": record.stamp.ns,
        "intent": hash_text(record.intent),
        "cell": cell_document(record.cell, lens, seq=record.seq),
        "attempt": record.attempt,
        "phase": record.phase,
        "problem": record.problem,
        "code": record.code,
    }


def _fork(record: Fork, _: Lens) -> Document:
    return {
        "at_ns": record.stamp.ns,
        "world": hash_text(forked_world_id(record)),
        "world_key": key_text(record.world_key),
        "operators": [
            {"name": operator.name, "public_key": key_text(operator.key)}
            for operator in record.operators
        ],
        "parent": hash_text(record.parent),
        "at": record.at,
        "frame": hash_text(record.frame),
        "cut": _optional_hash(record.cut),
        "open_work": record.open_work,
        "erased": [hash_text(value) for value in record.erased],
    }


def _snapshot(record: Snapshot, _: Lens) -> Document:
    return {
        "at_ns": record.stamp.ns,
        "at": record.at,
        "frame": hash_text(record.frame),
        "document": hash_text(record.document.hash),
        "size": record.document.size,
    }


def _control(record: Control, lens: Lens) -> Document:
    cell = record.cell
    return {
        "at_ns": record.stamp.ns,
        "action": record.action,
        "cell": None if cell is None else cell_document(cell, lens, seq=record.seq),
        "intent": _optional_hash(record.intent),
        "value": _optional_hash(record.value),
        "status": record.status,
        "payload": None if record.payload is None else lens.value(None, record.payload),
        "why": record.why,
        "restamp": record.restamp is not None,
        "dropped": record.dropped or 0,
        "abandoned": [hash_text(intent) for intent in record.abandoned],
        "principal": record.principal,
        "serial": record.serial,
    }


def _governance(record: Governance, _: Lens) -> Document:
    refs = {"document": record.document, "patch": record.patch, "report": record.report}
    return {
        "at_ns": record.stamp.ns,
        "action": record.action,
        "principal": record.principal,
        "proposal": record.seq if record.proposal is None else record.proposal,
        "serial": record.serial,
        "base": _optional_hash(record.base),
        **{name: None if ref is None else hash_text(ref.hash) for name, ref in refs.items()},
        "mode": (record.mode or STRICT) if record.action == PROPOSE else None,
        "leaves": list(record.leaves),
        "seen": _optional_hash(record.seen),
        "note": record.note,
    }


def _optional_hash(hash: Hash | None) -> str | None:
    return None if hash is None else hash_text(hash)


_DOCUMENTS: Final[Mapping[type, Callable[[Any, Lens], Document]]] = {
    Genesis: _genesis,
    Start: _start,
    Manifest: _manifest,
    Event: _event,
    Step: _step,
    Faulted: _faulted,
    Receipt: _receipt,
    KernelReceipt: _kernel_receipt,
    Stream: _stream,
    Attempt: _attempt,
    Snapshot: _snapshot,
    Fork: _fork,
    Control: _control,
    Governance: _governance,
}


def summary(record: Document) -> str:
    """Return one line of text about a record's document, without its sequence and kind."""
    return _SUMMARIES[record["kind"]](record)


def cell_text(cell: Document) -> str:
    """Return the cell of a document as text: ``acme/order@1 ord-1``."""
    return name_cell(cell["workflow"], cell["key"])


def _event_text(record: Document) -> str:
    text = f"{record['schema']} {short(record['value'])} → {_reached(record)}"
    return text + (f" (submission {record['submission_id']})" if record["submission_id"] else "")


def _reached(event: Document) -> str:
    reached = [cell_text(cell) for cell in event["to"]]
    reached += [f"{cell_text(cell)} (overloaded)" for cell in event["overloaded"]]
    return _some(reached) or "no cell (no subscription takes it)"


def _some(names: Iterable[str], limit: int = 3) -> str:
    names = list(names)
    tail = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + tail


def _step_text(record: Document) -> str:
    parts = [f"{cell_text(record['cell'])} ← {record['entry'][0]} · {record['status']}"]
    if record["under"] is not None:
        parts.append(f"under the manifest of {record['under']}")
    if record["events"]:
        parts.append("emits " + _some(event["schema"] for event in record["events"]))
    unknown = [cell_text(cell) for event in record["events"] for cell in event["unknown"]]
    if unknown:
        parts.append(f"no such instance: {_some(unknown)}")
    if record["intents"]:
        parts.append("asks " + _some(intent["effect"] for intent in record["intents"]))
    if record["state"] is None:
        parts.append("deleted")
    if record["abandoned"]:
        parts.append(f"{count(len(record['abandoned']), 'intent')} abandoned")
    return " · ".join(parts)


def _fault_text(record: Document) -> str:
    fault = record["fault"]
    step_text = f"{cell_text(record['cell'])} ← {record['entry'][0]}"
    return f"{step_text} · failed: {fault['kind']}: {fault['message']}"


def _receipt_text(record: Document) -> str:
    text = (
        f"{record['effect']} {record['status']} for {cell_text(record['cell'])} · "
        f"{record['outcome']} · {record['intent'][:15]}…"
    )
    return text + (f" · {record['problem']}" if record["problem"] else "")


def _kernel_receipt_text(record: Document) -> str:
    return f"{_receipt_text(record)} · {kernel_cause(record)}"


def kernel_cause(record: Document) -> str:
    """Return why the core itself settled an intent, from the receipt's document."""
    if record["by"]:
        return f"by {_intent_text(record['by'])}"
    if record["effect"] in KERNEL_EFFECTS:
        return "answered by the core"
    return f"by record {record['root']}"


def _intent_text(hash: str) -> str:
    return f"{hash[:15]}…"


def _stream_text(record: Document) -> str:
    frame = f"{record['frame_kind']} {record['frame_seq']} {short(record['payload'])}"
    of = f"{record['effect']} for {cell_text(record['cell'])}"
    return f"{of} · {frame} · {_intent_text(record['intent'])}"


def _attempt_text(record: Document) -> str:
    text = f"attempt {record['attempt']} {record['phase']} for {cell_text(record['cell'])}"
    text += f" · {_intent_text(record['intent'])}"
    details = [detail for detail in (record["code"], record["problem"]) if detail]
    return " · ".join([text, ": ".join(details)]) if details else text


def control_text(record: Document) -> str:
    """Return an operator's command as text: ``retry acme/order@1 ord-1 by operator``."""
    if record["action"] == CLOCK:
        return f"clock is set to {time_text(record['at_ns'])} by {record['principal']}"
    target = cell_text(record["cell"]) if record["cell"] else record["intent"] or record["value"]
    if record["cell"] is None:
        target = _intent_text(target)
    if record["status"] is not None:
        target += f" as {record['status']}"
    parts = [f"{record['action']} {target} by {record['principal']}"]
    if record["payload"] is not None:
        parts.append(short(record["payload"]))
    if record["dropped"]:
        parts.append(f"{count(record['dropped'], 'event')} dropped")
    if record["abandoned"]:
        parts.append(f"{count(len(record['abandoned']), 'intent')} abandoned")
    if record["why"] is not None:
        parts.append(short(one_line(record["why"])))
    return " · ".join(parts)


def governance_text(record: Document) -> str:
    """Return a governance record as text: ``approve 12 by ann``."""
    parts = [f"{record['action']} {record['proposal']} by {record['principal']}"]
    if record["document"] is not None:
        mode = "" if record["mode"] == STRICT else f", mode {record['mode']}"
        parts.append(f"{record['document'][:15]}… in the place of {record['base'][:15]}…{mode}")
    if record["report"] is not None:
        parts.append(f"report {record['report'][:15]}…")
    if record["seen"] is not None:
        parts.append(f"has seen {record['seen'][:15]}…")
    if record["note"] is not None:
        parts.append(short(one_line(record["note"])))
    return " · ".join(parts)


def _manifest_text(record: Document) -> str:
    text = f"{record['hash'][:15]}… by {record['principal']}"
    return f"{text} · proposal {record['proposal']}" if "proposal" in record else text


def _fork_text(record: Document) -> str:
    text = f"world {record['world'][:15]}…, forked of {record['parent'][:15]}… after record "
    return f"{text}{record['at']} · open effects: {record['open_work']}"


_SUMMARIES: Final[Mapping[str, Callable[[Document], str]]] = {
    "fork": _fork_text,
    "genesis": lambda record: (
        f"world {record['world'][:15]}…, operators "
        + _some(operator["name"] for operator in record["operators"])
    ),
    "start": lambda record: compact(record["host"]),
    "manifest": _manifest_text,
    "event": _event_text,
    "step": _step_text,
    "fault": _fault_text,
    "receipt": _receipt_text,
    "kernel_receipt": _kernel_receipt_text,
    "stream": _stream_text,
    "attempt": _attempt_text,
    "snapshot": lambda record: f"after record {record['at']}: {record['document'][:15]}…",
    "control": control_text,
    "governance": governance_text,
}
