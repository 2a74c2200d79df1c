"""The open work of a cell that only waits, in the maps of a snapshot (spec/state.md, SN-15).

    entry of the cell, in ``waiting``  [[intent, last attempt or null], ...], as they were opened
    entry of an intent, in ``open``    [[workflow, key], record, index]
    key of a timer, in ``timers``      due ns (8 bytes, big-endian), the intent's first 24 bytes

``intent`` is that of a page (SN-6). The entry of a timer is the intent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Ref, Slot, slot_bytes
from aos.core.state.cell import OpenIntent
from aos.core.state.item_shapes import CELL, INTENT, list_of, maybe, nat, positive, row
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.manifest.names import TIMER
from aos.values.cbor import Value, decode_record, encode
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem

Work: TypeAlias = list[tuple[OpenIntent, int | None]]
"""The open intents of a cell in the order of opening, each with its last journaled attempt."""

ManifestBy: TypeAlias = Callable[[Hash], Effective]

_ITEM: Final = list_of(row(INTENT, maybe(positive)))
_OPENED: Final = row(CELL, nat, nat)
_DUE_BYTES: Final = 8


def intent_row(intent: OpenIntent) -> Value:
    """The item of an intent in a page."""
    return [
        intent.intent, [*intent.cell], intent.workflow_hash, intent.seq, intent.index,
        intent.opened_ns, intent.manifest, intent.effect.name, slot_value(intent.params),
        intent.params_hash, intent.key, intent.idempotency_key, intent.issuer_ref,
    ]  # fmt: skip


def slot_value(slot: Slot | None) -> Value:
    return [slot.hash, slot.size] if isinstance(slot, Ref) else slot


def read_slot(value: Any) -> Slot:
    return value if isinstance(value, bytes) else Ref(Hash(value[0]), value[1])


def read_intent(item: Any, manifest: ManifestBy) -> OpenIntent:
    """Inverse of ``intent_row``, of a row whose shape was checked.

    Raises:
        Damage: Its manifest cannot be read.
        KeyError: Its manifest has no such effect.
    """
    (
        intent, (workflow, key), workflow_hash, seq, index, opened_ns, manifest_hash, effect,
        params, params_hash, request_key, idempotency_key, issuer_ref,
    ) = item  # fmt: skip
    effective = manifest(Hash(manifest_hash))
    return OpenIntent(
        intent=Hash(intent),
        cell=(workflow, key),
        workflow_hash=Hash(workflow_hash),
        seq=seq,
        index=index,
        opened_ns=opened_ns,
        manifest=Hash(manifest_hash),
        effect=effective.effects[effect],
        executors=effective.executors,
        params=read_slot(params),
        params_hash=Hash(params_hash),
        key=request_key,
        idempotency_key=idempotency_key,
        issuer_ref=issuer_ref,
    )


def work_item(work: Iterable[tuple[OpenIntent, int | None]]) -> bytes:
    """Encode the open work of a cell."""
    return encode([[intent_row(intent), attempt] for intent, attempt in work])


def read_work(data: bytes, manifest: ManifestBy) -> Work:
    """Inverse of ``work_item``.

    Raises:
        Damage: These are not bytes that it writes, or a manifest cannot be read.
    """
    rows = _rows(data)
    try:
        return [(read_intent(intent, manifest), attempt) for intent, attempt in rows]
    except KeyError as problem:
        raise Damage("the open work of a waiting cell is none that is written") from problem


def cell_of_work(data: bytes) -> CellId:
    """The cell of a work item. Raises Damage as ``read_work``."""
    workflow, key = _rows(data)[0][0][1]
    return workflow, key


def _rows(data: bytes) -> list[Any]:
    rows = _value(data)
    if not _ITEM(rows) or not rows or any(row[0][1] != rows[0][0][1] for row in rows):
        raise Damage("the open work of a waiting cell is none that is written")
    checked: list[Any] = rows
    return checked


def opened_entry(intent: OpenIntent) -> bytes:
    """The entry of an intent in the map of its effect."""
    return encode([[*intent.cell], intent.seq, intent.index])


def read_opened(data: bytes) -> tuple[CellId, int, int]:
    """The cell of an intent, and the record and the index that opened it.

    Raises:
        Damage: These are not bytes that ``opened_entry`` writes.
    """
    value = _value(data)
    if not _OPENED(value):
        raise Damage("an open intent of a waiting cell is none that is written")
    (workflow, key), seq, index = value
    return (workflow, key), seq, index


def timer_key(intent: OpenIntent, read: BlobReader) -> Hash | None:
    """The key of a timer; None for an intent of another effect.

    Raises:
        Damage: Its params cannot be read.
    """
    if intent.effect.name != TIMER:
        return None
    params = _value(slot_bytes(intent.params, read))
    due: Any = params.get("deliver_at_ns") if isinstance(params, dict) else None
    if not nat(due):
        raise Damage("the params of a timer have no time")
    return Hash(due.to_bytes(_DUE_BYTES, "big") + intent.intent[: HASH_BYTES - _DUE_BYTES])


def _value(data: bytes) -> Any:
    try:
        return decode_record(data)
    except ValueProblem as problem:
        raise Damage(f"a part of the snapshot is not canonical CBOR: {problem}") from problem
