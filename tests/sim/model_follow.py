"""The model as one: inputs and steps in, whole records out; or a journal, record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.sim import model_governance, model_inputs, model_settle, model_step
from tests.sim.failure import SimFailure
from tests.sim.model import Given, Marks, Model, Record, Refused, Run, Told

_DECIDE: dict[str, Callable[[Model, Given, Record], Record | int]] = {
    "start": model_inputs.start,
    "manifest": model_inputs.manifest,
    "event": model_inputs.event,
    "control": model_inputs.control,
    "governance": model_governance.governance,
    "snapshot": model_inputs.snapshot,
    "receipt": model_settle.receipt,
    "stream": model_settle.stream,
    "attempt": model_settle.attempt,
}
"""Kind of an input -> its record, or the sequence of the record that it was already."""

_FIELDS: dict[str, tuple[str, ...]] = {
    "start": ("host",),
    "manifest": ("principal", "serial", "signature", "mode", "leaves", "proposal"),
    "event": ("schema", "submission_id"),
    "control": (
        "action", "cell", "intent", "value", "principal", "serial", "signature", "status", "why",
        "restamp",
    ),
    "receipt": (
        "intent", "effect", "attempt", "status", "started_ns", "finished_ns", "executor", "key_id",
        "signature", "cost_cents",
    ),
    "stream": (
        "intent", "effect", "attempt", "frame_seq", "frame_kind", "payload_ref", "executor",
        "key_id", "signature",
    ),
    "attempt": ("intent", "attempt", "phase", "problem", "code"),
    "governance": (
        "action", "principal", "signature", "proposal", "serial", "base", "mode", "leaves", "seen",
        "note",
    ),
    "snapshot": ("at", "frame"),
}  # fmt: skip
"""For each kind of input: the fields that its record repeats."""


def admit(
    model: Model, kind: str, given: Given, stamp: Record, words: Record
) -> tuple[Told, Record | None]:
    """Decide an input that came with ``stamp``: the answer, and the record if there is one."""
    model.words = words
    try:
        record = _DECIDE[kind](model, given, stamp)
    except Refused as refusal:
        return refusal.told, None
    if isinstance(record, int):
        return ("duplicate", record), None
    more = (record["outcome"],) if kind == "receipt" else ()
    return ("admitted", record["seq"], *more), record


def step(model: Model, words: Record) -> Record | None:
    """Answer the first owed item, else run the head of the ring; None if there is neither."""
    model.words = words
    if model.owed:
        return model_settle.answer_owed(model)
    return model_step.step(model) if model.ring else None


def sealed(model: Model) -> Marks:
    """Return the changes to intents and values in the frame that ends here, and reset them."""
    marks, model.marks = model.marks, Marks()
    return marks


def take(model: Model, record: Record, blob: Callable[[bytes], bytes]) -> None:
    """Decide a journaled record again from what came in.

    Raises:
        SimFailure: It had to be another.
    """
    kind = record["kind"]
    if kind == "genesis":
        model.genesis(record)
        return
    if kind in _DECIDE:
        told, found = admit(model, kind, given_of(record, blob), record["stamp"], record)
        if found is None:
            raise SimFailure("model: admission", f"record {record['seq']} had to be {told}")
    else:
        found = step(model, record)
    compare(f"record {record['seq']}", found, record)


def given_of(record: Record, blob: Callable[[bytes], bytes]) -> Given:
    """The input that a record was."""
    kind = record["kind"]
    given = {name: record.get(name) for name in _FIELDS[kind]}
    if kind == "manifest":
        given["document"] = blob(record["document"]["hash"])
    if kind == "snapshot":
        given |= {"document": record["document"]["hash"], "size": record["document"]["size"]}
    if kind == "event":
        given["value"] = _bytes(record["value"], blob)
    if kind in ("receipt", "stream"):
        given["payload"] = _bytes(record["payload"], blob)
    if kind == "receipt" and "batch" in record:
        given["batch"] = {"path": [], **record["batch"]}
    if kind == "governance":
        given |= {"mode": given["mode"] or "strict", "leaves": tuple(given["leaves"] or ())}
        for name in ("document", "patch", "report"):
            given[name] = blob(record[name]["hash"]) if name in record else None
    if kind == "control":
        given["payload"] = _bytes(record["payload"], blob) if "payload" in record else None
        given["cell"] = tuple(record["cell"]) if "cell" in record else None
    return given


def _bytes(slot: Any, blob: Callable[[bytes], bytes]) -> bytes:
    return slot if isinstance(slot, bytes) else blob(slot["hash"])


def follow(records: Iterable[Record], run: Run, blobs: dict[bytes, bytes]) -> Model:
    """Decide a whole journal again. ``blobs`` has every value that it names.

    Raises:
        SimFailure: At the first record that had to be another.
    """
    model = Model(run, blobs)
    for record in records:
        take(model, record, blobs.__getitem__)
    sealed(model)
    return model


def compare(where: str, expected: Any, found: Any) -> None:
    """Raises: SimFailure: They differ; the text names each place."""
    if expected == found:
        return
    lines = [
        f"{path}: the model says {one!r:.300}, found {two!r:.300}"
        for path, one, two in _differ(expected, found, "")
    ]
    raise SimFailure("model", f"{where}: " + "\n    ".join(lines or ["equal values, other types"]))


def _differ(one: Any, two: Any, path: str) -> list[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(two, dict):
        names = [*one, *(name for name in two if name not in one)]
        missing = "(nothing)"
        return [
            each for name in names
            for each in _differ(one.get(name, missing), two.get(name, missing), f"{path}.{name}")
        ]  # fmt: skip
    if isinstance(one, list | tuple) and isinstance(two, list | tuple) and len(one) == len(two):
        return [
            each for i, (a, b) in enumerate(zip(one, two, strict=True))
            for each in _differ(a, b, f"{path}[{i}]")
        ]  # fmt: skip
    return [] if one == two else [(path, one, two)]


def view(model: Model) -> Record:
    """The state in plain values; ``view.py`` has the same of the kernel's."""
    return {
        "clock": (model.clock, model.window),
        "seq": model.seq,
        "serials": (model.serial, model.controls),
        "manifest": (model.manifest and model.manifest.hash, model.manifest_seq),
        "revoked": sorted(model.revoked),
        "pinned": sorted(model.pinned),
        "snapshot": model.snapshot,
        "ring": list(model.ring),
        "owed": [
            (o.intent, o.why, o.root.seq, o.depth, o.canceled, o.settled) for o in model.owed
        ],
        "open": [
            (
                i.hash, i.cell, i.workflow_hash, i.seq, i.index, i.effect, i.params, i.key,
                i.idempotency_key, i.issuer_ref,
            )
            for i in model.open.values()
        ],
        "abandoned": list(model.abandoned),
        "attempts": dict(model.attempts),
        "halts": dict(model.halts),
        "streams": {
            hash: (s.last, s.frames, s.since_ns, s.recent) for hash, s in model.streams.items()
        },
        "submissions": [(name, seq, at) for name, (seq, _, at) in model.submissions.items()],
        "world_keys": list(model.world_keys),
        "counts": _counts(model),
        "proposals": model_governance.view(model),
        "cells": [
            {
                "id": c.id, "state": c.state, "declared": c.declared, "status": c.status,
                "fault": (c.fault, c.fault_seq), "last": (c.last_seq, c.last_active_ns),
                "uncounted": c.uncounted, "inflight": list(c.inflight), "keys": list(c.keys),
                "mail": [(m.entry, m.root.seq, m.root.ns, m.root.steps, m.depth) for m in c.mail],
            }
            for c in sorted(model.cells.values(), key=lambda cell: cell.id)
        ],
    }  # fmt: skip


def _counts(model: Model) -> Record:
    """Of each workflow: its cells, and those whose module declared no terminal status."""
    found: Record = {}
    for (workflow, _), cell in model.cells.items():
        count, undeclared = found.get(workflow, (0, 0))
        found[workflow] = (count + 1, undeclared + (cell.declared is None))
    return found
