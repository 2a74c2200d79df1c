"""Check the shape of a snapshot's document and page items (spec/state.md, SN-5 and SN-6).

A valid hash does not make a document valid, because anyone can compute a hash. A document with
another shape, or one that contradicts itself, is damage.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import lt
from typing import Any, Final

from aos.core.journal.faults import FaultKind
from aos.core.journal.records import KernelReceipt, Receipt, Stream
from aos.core.journal.vocabulary import (
    CLOSED_STATUSES,
    HALTS,
    MODES,
    SETTLED_STATUSES,
    TERMINAL,
    VOTES,
)
from aos.core.state.cells import WAITING_FORMAT
from aos.core.state.item_shapes import (
    CELL,
    ENTRY,
    INTENT,
    REF,
    SEQ_MAX,
    SLOT,
    Shape,
    data,
    digest,
    either,
    entropy,
    fields,
    flag,
    list_of,
    map_of,
    maybe,
    nat,
    one_of,
    positive,
    row,
    text,
)
from aos.core.state.proposals import CLOSED_KEPT, PROPOSALS_MAX
from aos.core.state.state import Debt, State
from aos.errors import Damage
from aos.manifest.names import TIMER
from aos.values.cbor import Value
from aos.values.errors import quoted

_FAULT: Final = row(one_of(*[kind.value for kind in FaultKind]), text, maybe(data))
_RECORDS: Final = one_of(Receipt.KIND, KernelReceipt.KIND, Stream.KIND)
_MAIL: Final = either(
    row(one_of("event"), ENTRY, nat, nat, text, SLOT),
    row(_RECORDS, ENTRY, nat, nat, INTENT, data),
)
_ACTIVE: Final = (
    CELL, digest, digest, maybe(REF), maybe(one_of(*TERMINAL)), maybe(_FAULT), maybe(nat), nat, nat,
    nat, flag, list_of(digest), maybe(data), list_of(_MAIL),
)  # fmt: skip
_OWED: Final = (
    digest, one_of(*[debt.value for debt in Debt]), nat, nat, maybe(text), nat,
)  # fmt: skip
_MORE: Final = fields({}, {"version": nat, "kept": lambda value: value is True})

ITEMS: Final[Mapping[str, Shape]] = {
    "roots": row(nat, nat, entropy, nat),
    "ring": CELL,
    "owed": either(row(*_OWED), row(*_OWED, one_of(*SETTLED_STATUSES), SLOT)),
    "intents": INTENT,
    "abandoned": INTENT,
    "attempts": row(digest, nat),
    "streams": row(digest, nat, nat, nat, nat),
    "cells": either(row(*_ACTIVE), row(*_ACTIVE, _MORE)),
    "world_keys": row(text, digest),
    "halts": row(digest, one_of(*HALTS), nat, nat, nat, text, maybe(text)),
}
"""The shape of the items of open work, by page name (SN-6)."""

_RARE: Final = frozenset({"halts"})
"""Pages that a document has only if there is an item in them."""

_DOCUMENT: Final[Mapping[str, Shape]] = {
    "format": nat,
    "world": digest,
    "seq": nat,
    "frame": digest,
    "log": row(nat, list_of(digest)),
    "clock_ns": nat,
    "world_key": data,
    "operators": list_of(row(text, data)),
    "semantics": nat,
    "serial": nat,
    "controls": nat,
    "revoked": list_of(data),
    "pinned": list_of(digest),
    "manifest": maybe(digest),
    "manifest_seq": nat,
    "snapshot": maybe(row(nat, nat, digest)),
    "cells": map_of(row(maybe(digest), nat, nat, nat, nat)),
    "submissions": list_of(row(nat, digest, positive)),
    "work": fields(
        dict.fromkeys(ITEMS.keys() - _RARE, list_of(digest)),
        dict.fromkeys(_RARE, lambda pages: list_of(digest)(pages) and len(pages) > 0),
    ),
}
_PROPOSAL: Final = row(
    nat, text, digest, REF, REF, maybe(one_of(*MODES)), list_of(text),
    list_of(row(text, one_of(*VOTES), nat)), list_of(row(digest, nat, nat)),
)  # fmt: skip
_CLOSED: Final = row(nat, one_of(*CLOSED_STATUSES))

_OPTIONS: Final[Mapping[str, Shape]] = {
    "window_ns": nat,
    "proposed": positive,
    "proposals": lambda value: list_of(either(_PROPOSAL, _CLOSED))(value) and len(value) > 0,
    "eras": list_of(row(nat, digest, list_of(text))),
    "ancestors": list_of(row(digest, nat)),
}


_MAPS: Final[Mapping[str, Shape]] = {
    "waiting": map_of(row(digest, positive, nat)),
    "open": map_of(row(digest, positive)),
    "timers": row(maybe(digest), nat),
}
"""The fields that only a document of format 2 has."""


def check_document(value: Mapping[str, Value]) -> None:
    """Check the fields of a document.

    Raises:
        Damage: A field is missing, unknown, or of another type.
    """
    required = {**_DOCUMENT, **_MAPS} if value["format"] == WAITING_FORMAT else _DOCUMENT
    for name in required:
        if name not in value:
            raise Damage(f"the snapshot has no {name}")
    shapes = {**required, **_OPTIONS}
    for name, field_value in value.items():
        if name not in shapes:
            raise Damage(f"the snapshot has {quoted(name)}, which is no field of it")
        if not shapes[name](field_value):
            raise Damage(f"the snapshot's {name} is none that is written")
    if value.get("window_ns") == value["clock_ns"]:
        raise Damage("the snapshot's window_ns is its clock_ns, and then it is left out")
    seq: Any = value["seq"]
    if seq > SEQ_MAX:
        raise Damage("the snapshot's seq is none that is written")
    log: Any = value["log"]
    size, peaks = log
    # A frame has a record.
    if size > seq or len(peaks) != size.bit_count():
        raise Damage("the snapshot's log is none that is written")
    chunks: Any = value["submissions"]
    numbers = [number for number, _, _ in chunks]
    # An id belongs to a record.
    if sum(count for _, _, count in chunks) > seq or not all(map(lt, numbers, numbers[1:])):
        raise Damage("the snapshot's submissions is none that is written")


def check_item(name: str, item: Value) -> None:
    """Check an item of a page of ``name``.

    Raises:
        Damage: It has another shape.
    """
    if not ITEMS[name](item):
        raise Damage(f"a page of {name} of the snapshot holds what is none of them")


def check_agrees(state: State) -> None:
    """Check the facts about open work that a snapshot states in more than one place.

    Raises:
        Damage: Two places contradict each other.
    """
    agreed = {
        "ring": _ring_agrees(state),
        "intents": _intents_agree(state),
        "owed": all(
            owed.intent in state.intents
            and (owed.debt is Debt.SETTLE) == (owed.settlement is not None)
            for owed in state.owed
        ),
        "streams": state.streams.keys() <= state.intents.loaded.keys(),
        "halts": all(
            intent_hash in state.intents.loaded
            and 0 < halt.attempt <= state.attempt(state.intents.loaded[intent_hash])
            for intent_hash, halt in state.halts.items()
        ),
        "attempts": state.attempts.keys() <= state.intents.loaded.keys() | state.abandoned.keys(),
        "cells": _cells_agree(state),
        "waiting": _waiting_agrees(state),
        "manifest": (state.manifest is None) == (state.manifest_seq == 0),
        "proposals": _proposals_agree(state),
    }
    for name, is_so in agreed.items():
        if not is_so:
            raise Damage(f"the snapshot's {name} does not agree with the rest of it")


def _ring_agrees(state: State) -> bool:
    active = state.cells.active
    ready = {id for id, cell in active.items() if cell.in_ring}
    return (
        len(ready) == len(state.ring)
        and ready == set(state.ring)
        and all(active[id].mailbox and active[id].fault is None for id in ready)
    )


def _intents_agree(state: State) -> bool:
    loaded = state.intents.loaded
    waiting = [
        (intent_hash, id)
        for id, cell in state.cells.active.items()
        for intent_hash in cell.inflight
    ]
    return len(waiting) == len(loaded) and all(
        intent_hash in loaded and loaded[intent_hash].cell == id for intent_hash, id in waiting
    )


def _waiting_agrees(state: State) -> bool:
    """Check the numbers of the maps of open work, and that no cell is in the pages instead."""
    cells, opened, timers = state.cells, state.intents.base, state.intents.timers
    waiting = [shelf for shelf in cells.shelves.values() if shelf.waiting.count]
    return (
        all(
            shelf.undeclared_waiting <= min(shelf.waiting.count, shelf.undeclared)
            and shelf.waiting.count <= shelf.base.count
            for shelf in waiting
        )
        and sum(shelf.waiting.count for shelf in waiting)
        <= sum(index.count for index in opened.values())
        and timers.count == (opened[TIMER].count if TIMER in opened else 0)
        and not (cells.rests_waiting and any(map(cells.may_wait, cells.active.values())))
    )


def _cells_agree(state: State) -> bool:
    active = state.cells.active
    stored: dict[str, int] = dict.fromkeys(state.cells.shelves, 0)
    for id, cell in active.items():
        stored[id[0]] += cell.state is None
    return not any(cell.is_at_rest for cell in active.values()) and all(
        shelf.count == shelf.base.count + stored[name] and shelf.undeclared >= 0
        for name, shelf in state.cells.shelves.items()
    )


def _proposals_agree(state: State) -> bool:
    proposals = state.proposals
    seqs = [*proposals.open, *proposals.closed]
    is_known = (
        len(set(seqs)) == len(seqs) <= proposals.count and len(proposals.closed) <= CLOSED_KEPT
    )
    if not is_known or any(seq >= state.next_seq for seq in seqs):
        return False
    block = None if state.manifest is None else state.manifest.governance
    if block is None:
        return not proposals.open
    return len(proposals.open) <= PROPOSALS_MAX and all(
        proposal.base == state.effective.hash
        and proposal.seq > state.manifest_seq
        and proposal.status(block) != "rejected"
        for proposal in proposals.open.values()
    )
