"""Decide the receipts that the core itself owes (spec/kernel.md, K-80 to K-86).

The core answers its own effects (cancel, introspect) and ends intents that an operator canceled or
settled, or that may not run again. Each answer is a record of its own, made before the ring
continues. It has no signature: replay computes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aos.core.decide.answers import Decided, Rule
from aos.core.decide.fits import completed, key_problem
from aos.core.decide.routing import shard_problem
from aos.core.decide.settle import outcome
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, KernelReceipt, Slot, slot, slot_bytes, slot_hash
from aos.core.journal.vocabulary import ReceiptStatus
from aos.core.state.cell import Cell, OpenIntent
from aos.core.state.state import Debt, Owed, State
from aos.core.state.version import workflow_of
from aos.manifest import names
from aos.manifest.names import EFFECT_CANCEL, KERNEL_EFFECTS, TIMER, TIMER_CANCEL, WORKSPACE
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash, hash_text, parse_hash
from aos.values.errors import quoted

CANCELED: Final = "canceled"
ALREADY_SETTLED: Final = "already_settled"
UNKNOWN_OUTCOME: Final = "unknown_outcome"

CELLS_LISTED_MAX: Final = 1000
_CELL_BYTES: Final = 160
"""Upper bound of the bytes of one listed cell, without its key."""

_Params = Mapping[str | int, Value]


@dataclass(frozen=True, slots=True)
class _Error:
    """The fields of a ``sys/EffectError@1``."""

    code: str
    message: str

    def payload(self) -> bytes:
        return encode({"code": self.code, "message": self.message, "retryable": False})


@dataclass(slots=True, kw_only=True)
class _Answering:
    """The decision of one receipt, in progress."""

    state: State
    owed: Owed
    read: BlobReader
    blobs: dict[Hash, bytes] = field(default_factory=dict)


def decide_owed(state: State, read: BlobReader) -> Decided:
    """Decide the first receipt that the core owes: a ``KernelReceipt``.

    Raises:
        Damage: A blob that the answer needs is missing or altered. Nothing has changed.
    """
    owed = state.owed[0]
    run = _Answering(state=state, owed=owed, read=read)
    return Decided(record=_answer(run, state.intents[owed.intent]), blobs=run.blobs)


def _answer(run: _Answering, intent: OpenIntent) -> KernelReceipt:
    state, owed, read = run.state, run.owed, run.read
    if owed.settlement is not None:
        payload = slot_bytes(owed.settlement.payload, read)
        return _receipt(run, intent, owed.settlement.status, payload)
    if owed.debt is Debt.CANCEL:
        error = _Error(CANCELED, owed.problem or "it was canceled")
        return _receipt(run, intent, CANCELED, error.payload())
    if owed.debt is Debt.LOSS:
        text = owed.problem or "the process that ran it ended before it told"
        error = _Error(UNKNOWN_OUTCOME, f"it may have run, and may not run again: {text}")
        return _receipt(run, intent, "error", error.payload())
    params = intent.effect.params.from_record(slot_bytes(intent.params, read))
    assert isinstance(params, dict)
    if intent.effect.name in (TIMER_CANCEL, EFFECT_CANCEL):
        return _cancel(run, intent, params)
    answer = _ANSWERS[intent.effect.name](run, params)
    if isinstance(answer, _Error):
        return _receipt(run, intent, "error", answer.payload())
    payload = intent.effect.receipt.encode(answer)
    max_bytes = state.effective.limits.event_bytes
    if len(payload) > max_bytes:
        error = _Error(
            "too_large", f"the answer has {len(payload)} bytes: expected at most {max_bytes}"
        )
        return _receipt(run, intent, "error", error.payload())
    return _receipt(run, intent, "ok", payload)


def _receipt(
    run: _Answering,
    intent: OpenIntent,
    status: ReceiptStatus,
    payload: bytes,
    *,
    by: Hash | None = None,
) -> KernelReceipt:
    receipt_outcome, schema, problem = outcome(run.state, intent, status, payload)
    inflight = run.state.cells[intent.cell].inflight
    other_intents = tuple(intent_hash for intent_hash in inflight if intent_hash != intent.intent)
    return KernelReceipt(
        seq=run.state.next_seq,
        intent=intent.intent,
        cell=intent.cell,
        effect=intent.effect.name,
        status=status,
        payload=slot(payload, run.blobs),
        payload_schema=schema,
        root=run.owed.root.seq,
        depth=run.owed.depth,
        by=by,
        outcome=receipt_outcome,
        problem=problem,
        abandoned=other_intents if receipt_outcome == "faulted" else (),
    )


# Cancel: first a receipt for each intent that it ends, then its own.


def _cancel(run: _Answering, intent: OpenIntent, params: _Params) -> KernelReceipt:
    target = _targets(run.state, intent, params)
    if isinstance(target, _Error):
        return _receipt(run, intent, "error", target.payload())
    if target is not None:
        error = _Error(CANCELED, f"{intent.cell[0]} canceled it")
        return _receipt(run, target, CANCELED, error.payload(), by=intent.intent)
    if run.owed.canceled:
        return _receipt(run, intent, "ok", encode({"cancelled": True}))
    already_settled = _Error(
        ALREADY_SETTLED,
        f"nothing is open under {_target_text(params)}: it is settled, or never was",
    )
    return _receipt(run, intent, "error", already_settled.payload())


def _targets(state: State, intent: OpenIntent, params: _Params) -> OpenIntent | _Error | None:
    """The first intent of this cell that the cancel has still to end; None if none is left."""
    intent_text, ref = params["intent"], params["issuer_ref"]
    if (intent_text is None) == (ref is None):
        return _Error("params_invalid", "expected either intent or issuer_ref")
    only_timers = intent.effect.name == TIMER_CANCEL
    if ref is None:
        assert isinstance(intent_text, str)
        if not intent_text.startswith("blake3:"):
            return _Error("params_invalid", f"{quoted(intent_text)} is no intent of this world")
        target = state.intents.get(parse_hash(intent_text))
        if target is None or target.cell != intent.cell:
            return None
        if target.effect.name in KERNEL_EFFECTS:
            return _Error(
                "not_cancelable", f"{target.effect.name} is answered by the kernel itself"
            )
        if only_timers and target.effect.name != TIMER:
            return _Error("not_a_timer", f"the intent is of {target.effect.name}")
        return target
    for intent_hash in state.cells[intent.cell].inflight:
        target = state.intents[intent_hash]
        if target.issuer_ref != ref or target.effect.name in KERNEL_EFFECTS:
            continue
        if not only_timers or target.effect.name == TIMER:
            return target
    return None


def _target_text(params: _Params) -> str:
    intent_text, ref = params["intent"], params["issuer_ref"]
    return f"intent {intent_text!s}" if ref is None else f"issuer_ref {quoted(str(ref))}"


# Introspect: the state of the world at this record.


def _meta(state: State) -> _Params:
    return {
        "journal_height": state.next_seq,
        "snapshot_hash": _snapshot_hash(state),
        "manifest_hash": hash_text(state.effective.manifest_hash),
    }


def _snapshot_hash(state: State) -> str | None:
    return None if state.snapshot is None else hash_text(state.snapshot.document)


def _consistency(params: _Params) -> _Error | None:
    consistency = params["consistency"]
    if consistency is None or consistency == "head":
        return None
    return _Error(
        "consistency_unsupported", f'consistency: expected "head", found {quoted(str(consistency))}'
    )


def _manifest(run: _Answering, params: _Params) -> Value | _Error:
    document = run.state.effective.document
    return _consistency(params) or {"manifest": document, "meta": dict(_meta(run.state))}


def _workflow_state(run: _Answering, params: _Params) -> Value | _Error:
    cell = _known_cell(run.state, params)
    if isinstance(cell, _Error):
        return cell
    return {"state": _state_of(run, cell), "meta": dict(_meta(run.state))}


def _state_of(run: _Answering, cell: Cell | None) -> bytes | None:
    """A cell's state as its module would get it (K-71d)."""
    if cell is None or cell.state is None:
        return None
    data = slot_bytes(cell.state, run.read)
    workflow = workflow_of(run.state, cell)
    if workflow is None or workflow.has_opaque_state:
        return data
    return completed(workflow.state, data)


def _known_cell(state: State, params: _Params) -> Cell | _Error | None:
    problem = _consistency(params) or _workflow(state, params)
    if problem is not None:
        return problem
    workflow, key = params["workflow"], params["key"]
    assert isinstance(workflow, str)
    assert key is None or isinstance(key, bytes)
    return _cell_here(state, (workflow, key or b""))


def _cell_here(state: State, id: CellId) -> Cell | _Error | None:
    """The cell with this id; an error if another shard has it (K-85a). A key that does not fit the
    workflow has no cell in any shard."""
    workflow = state.effective.workflows.get(id[0])
    if workflow is not None and key_problem(workflow, id[1]) is None:
        problem = shard_problem(state.effective, (id,))
        if problem is not None:
            return _Error(Rule.KEY_OF_ANOTHER_SHARD.value, problem)
    return state.cells.get(id)


def _workflow(state: State, params: _Params) -> _Error | None:
    name = params["workflow"]
    if name in state.effective.workflows:
        return None
    return _Error("workflow_unknown", f"{quoted(str(name))} is no workflow of this world")


def _journal_head(run: _Answering, _: _Params) -> Value | _Error:
    return {"meta": dict(_meta(run.state))}


def _list_cells(run: _Answering, params: _Params) -> Value | _Error:
    """A page of cells with a state, in the order of their key hashes, from behind ``after_key``."""
    problem = _consistency(params) or _workflow(run.state, params)
    if problem is not None:
        return problem
    after_key, limit = params["after"], params["limit"]
    assert after_key is None or isinstance(after_key, bytes)
    assert limit is None or isinstance(limit, int)
    cells_max = CELLS_LISTED_MAX if limit is None else min(max(limit, 1), CELLS_LISTED_MAX)
    above = None if after_key is None else content_hash(after_key)
    listing = run.state.cells.of(str(params["workflow"]), above)
    first: list[Cell] = []
    for cell in listing:
        if cell.state is not None:
            first.append(cell)
            if len(first) > cells_max:
                break
    room = run.state.effective.limits.event_bytes - 1024
    cell_infos: list[Value] = []
    last: bytes | None = None
    for cell in first[:cells_max]:
        key = cell.id[1]
        room -= _CELL_BYTES + len(key)
        if room < 0:
            break
        assert cell.state is not None
        cell_infos.append(_info(key, cell, cell.state))
        last = key
    is_cut = len(cell_infos) < len(first)
    return {"cells": cell_infos, "next": last if is_cut else None, "meta": dict(_meta(run.state))}


def _info(key: bytes, cell: Cell, state: Slot) -> Value:
    return {
        "key": key,
        "state_hash": hash_text(slot_hash(state)),
        "size": len(state) if isinstance(state, bytes) else state.size,
        "last_active_ns": cell.last_active_ns,
    }


def _resolve_workspace(run: _Answering, params: _Params) -> Value | _Error:
    """The head and one version of a workspace, as its cell has them (AG-57)."""
    cell = _cell_here(run.state, (WORKSPACE, encode(params["workspace"])))
    if isinstance(cell, _Error):
        return cell
    data = _state_of(run, cell)
    workflow = None if cell is None else workflow_of(run.state, cell)
    if workflow is None or data is None:
        return {"exists": False, "resolved_version": None, "head": None, "root_hash": None}
    history: Any = workflow.state.from_record(data)
    version = history["latest"] if params["version"] is None else params["version"]
    commit = history["versions"].get(version)
    return {
        "exists": commit is not None,
        "resolved_version": None if commit is None else version,
        "head": history["latest"],
        "root_hash": None if commit is None else commit["root_hash"],
    }


_ANSWERS: Final[Mapping[str, Callable[[_Answering, _Params], Value | _Error]]] = {
    names.INTROSPECT_MANIFEST: _manifest,
    names.INTROSPECT_STATE: _workflow_state,
    names.INTROSPECT_HEAD: _journal_head,
    names.INTROSPECT_CELLS: _list_cells,
    names.WORKSPACE_RESOLVE: _resolve_workspace,
}
