"""The workloads: their worlds, their events, who answers their effects, when an item ends."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cbor2

from aos.core.journal.inputs import EventInput
from aos.core.journal.ports import BlobReader, Call
from aos.host.executors.python import PythonExecutor
from aos.host.executors.task import TaskExecutor
from aos.host.executors.timer import TimerExecutor
from aos.values.digests import Hash
from benchmarks.noop import NoopExecutor
from benchmarks.plan import Cells, Workload

HERE: Final = Path(__file__).resolve().parent
WORLDS: Final = HERE / "worlds"
ORDERS: Final = HERE.parent / "manifests" / "orders"
SHOP: Final = WORLDS / "orders_shop.py"

STEPS: Final = 3
CUSTOMERS: Final = 1_000
PATIENCE_NS: Final = 600_000_000_000
NOTE_BYTES: Final = 280
DAYS: Final = 30

_SCATTER: Final = 7_919
"""A prime: cells are visited in an order that is not that of their making."""

MakeEvent = Callable[[int, str, Cells], EventInput]
Executors = Callable[[BlobReader, Hash], Sequence[TaskExecutor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One workload.

    ``event(item, cell, cells)`` makes an item's event. ``first(item, cell)`` makes the event that
    puts a cell into a world before it is measured, with as few steps as can be. ``finished(call,
    output)`` is the item that this step was the last of.
    """

    manifest: Path
    event: MakeEvent
    first: Callable[[int, str], EventInput]
    finished: Callable[[Call, bytes], int | None]
    executors: Executors


def load_of(name: Workload) -> Load:
    return _LOADS[name]


def cell_name(number: int) -> str:
    return f"cell-{number:07}"


def scattered(item: int, size: int) -> int:
    """A cell for an item: each of ``size`` once in so many items that follow one another."""
    return item * _SCATTER % size


def _event(schema: str, value: dict[str, Any]) -> EventInput:
    # Text keys alone, so that the C encoder's order is the canonical one.
    return EventInput(schema=schema, value=cbor2.dumps(value, canonical=True))


# A keyed counter: every step is an item.


def _add(item: int, cell: str, _: Cells = "many") -> EventInput:
    return _event("bench/Add@1", {"key": cell, "by": 1, "item": item})


def _added(call: Call, _: bytes) -> int:
    event = cbor2.loads(call.input)["event"]
    item: int = cbor2.loads(event["value"])["item"]
    return item


# A keeper: as the counter, with a state of some 300 bytes that no other cell has.


def _keep(item: int, cell: str, _: Cells = "many") -> EventInput:
    note = hashlib.shake_128(f"{cell}/{item}".encode()).hexdigest(NOTE_BYTES // 2)
    return _event("bench/Keep@1", {"key": cell, "item": item, "note": note})


# Three effects in a row: the last step's annotation is the run.


def _begin(item: int, cell: str, cells: Cells) -> EventInput:
    schema = "bench/Queue@1" if cells == "line" else "bench/Begin@1"
    return _event(schema, {"key": cell, "run": item, "steps": STEPS})


def _begin_without_steps(item: int, cell: str) -> EventInput:
    return _event("bench/Begin@1", {"key": cell, "run": item, "steps": 0})


def _ran(_: Call, output: bytes) -> int | None:
    if b"cann" not in output:  # the text "ann", as CBOR spells it
        return None
    run: int = cbor2.loads(cbor2.loads(output)["ann"])
    return run


# A flow that sleeps for a month: its first step is an item.


def _rest(item: int, cell: str, _: Cells = "many") -> EventInput:
    return _event("bench/Rest@1", {"key": cell, "item": item, "days": DAYS})


def _rests(call: Call, _: bytes) -> int | None:
    event = cbor2.loads(cbor2.loads(call.input)["event"]["value"])
    if event["$tag"] != "Start":
        return None
    item: int = event["$value"]["item"]
    return item


# Orders: an item is done when its parcel is in the customer's ledger, or when nothing was sold.


def _place(item: int, cell: str, cells: Cells) -> EventInput:
    customer = cell if cells == "hot" else f"cus-{item % CUSTOMERS:04}"
    return _order(item, customer, [{"sku": "tea", "quantity": 2, "price_cents": 500}])


def _place_nothing(item: int, _: str) -> EventInput:
    """There is nothing to pay for: the order is closed at once, without an effect."""
    return _order(item, f"cus-{item % CUSTOMERS:04}", [])


def _order(item: int, customer: str, items: list[dict[str, Any]]) -> EventInput:
    value = {
        "order_id": f"o{item:010}",
        "customer_id": customer,
        "items": items,
        "patience": PATIENCE_NS,
    }
    return _event("shop/OrderPlaced@1", value)


def _posted(call: Call, output: bytes) -> int | None:
    is_posting = call.entrypoint == "ledger" and b"Shipped" in call.input
    is_refusal = call.entrypoint == "order" and b"Invalid" in output
    if not is_posting and not is_refusal:
        return None
    event = cbor2.loads(cbor2.loads(call.input)["event"]["value"])
    return int(event["$value"]["order_id"][1:])


_LOADS: Final[dict[Workload, Load]] = {
    "counter": Load(
        manifest=WORLDS / "counter.air.json",
        event=_add,
        first=_add,
        finished=_added,
        executors=lambda _read, _world: (),
    ),
    "keeper": Load(
        manifest=WORLDS / "keeper.air.json",
        event=_keep,
        first=_keep,
        finished=_added,
        executors=lambda _read, _world: (),
    ),
    "steps": Load(
        manifest=WORLDS / "steps.air.json",
        event=_begin,
        first=_begin_without_steps,
        finished=_ran,
        executors=lambda _read, _world: (NoopExecutor(),),
    ),
    "flow": Load(
        manifest=WORLDS / "flow.air.json",
        event=_begin,
        first=_begin_without_steps,
        finished=_ran,
        executors=lambda _read, _world: (NoopExecutor(),),
    ),
    "sleepers": Load(
        manifest=WORLDS / "flow.air.json",
        event=_rest,
        first=_rest,
        finished=_rests,
        executors=lambda _read, _world: (NoopExecutor(), TimerExecutor()),
    ),
    "orders": Load(
        manifest=ORDERS,
        event=_place,
        first=_place_nothing,
        finished=_posted,
        executors=lambda _read, world: (
            TimerExecutor(),
            PythonExecutor(f"{SHOP}:shop", world=world),
        ),
    ),
}
