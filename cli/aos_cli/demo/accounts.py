"""The outcomes of the orders, read from the world's cells and journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.audit.views.view import View
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Step
from aos.host.folder.reader import open_reader
from aos.store.store import Store

ORDER: Final = "shop/order@1"
LEDGER: Final = "shop/ledger@1"
CLOSED: Final = "shop/OrderClosed@1"
RETRY: Final = "sys/timer.set@1"

OPEN: Final = "not closed"
"""The outcome of an order that is still in progress."""

State = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Amounts of one order, or sums over several, in cents."""

    charged: int = 0
    refunded: int = 0
    shipped: int = 0

    def __add__(self, money: Money) -> Money:
        return Money(
            charged=self.charged + money.charged,
            refunded=self.refunded + money.refunded,
            shipped=self.shipped + money.shipped,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    order_id: str
    outcome: str
    retries: int
    money: Money


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """``total`` is the sum over the ledger cells; ``duplicates`` are events that they did not count
    a second time; ``faults`` are instances that the kernel failed."""

    orders: tuple[Order, ...]
    total: Money
    duplicates: int
    faults: int

    def of(self, outcome: str) -> list[Order]:
        return [order for order in self.orders if order.outcome == outcome]

    def outcomes(self) -> list[str]:
        """The outcomes, the most frequent first."""
        return [name for name, _ in Counter(order.outcome for order in self.orders).most_common()]

    def most_interesting(self) -> Order:
        """An order that was charged, refunded and retried, or the closest to that."""
        return max(
            self.orders,
            key=lambda order: (order.money.refunded > 0, min(order.retries, 1), -order.retries),
        )


def closed_after(store: Store, seq: int) -> tuple[int, int]:
    """The number of orders that closed after record ``seq``, and the last record counted.

    An order closes in the step that emits ``OrderClosed``: its record holds that name once, and no
    other record does. Searching for it is far cheaper than decoding.
    """
    head = store.head()
    if head is None or head.seq <= seq:
        return 0, seq
    name = CLOSED.encode()
    frames = store.frames(seq + 1, head.seq)
    return sum(name in data for frame in frames for data in frame.records), head.seq


def read_accounts(world: Path) -> Accounts:
    """Read the outcome of every order, and the totals of the ledgers."""
    with open_reader(world) as reader:
        view = View(reader.state, reader.store)
        ledgers = [state for _, state in _states(view, LEDGER)]
        lines = (line for state in ledgers for line in state["orders"].items())
        money = {order_id: _money(line) for order_id, line in lines}
        retries = _retries(view)
        orders = tuple(
            Order(
                order_id=key,
                outcome=_outcome(state),
                retries=retries[key],
                money=money.get(key, Money()),
            )
            for key, state in _states(view, ORDER)
        )
        return Accounts(
            orders=orders,
            total=sum(map(_money, ledgers), Money()),
            duplicates=sum(state["duplicates"] for state in ledgers),
            faults=sum(cell.fault is not None for cell in reader.state.cells.values()),
        )


def _states(view: View, workflow: str) -> Iterator[tuple[str, State]]:
    """(key, state) of each cell of a workflow whose keys are texts, ordered by key."""
    definition = view.state.effective.workflows[workflow]
    cells = [cell for cell in view.state.cells.values() if cell.id[0] == workflow]
    for cell in sorted(cells, key=lambda cell: cell.id):
        if cell.state is None:
            continue
        key, state = view.lens.key(cell.id), view.full_lens.value(definition.state, cell.state)
        assert isinstance(key, str)
        assert isinstance(state, dict)
        yield key, state


def _outcome(order: State) -> str:
    name: str = order["outcome"]["$tag"] if order["phase"]["$tag"] == "Closed" else OPEN
    return name


def _money(state: State) -> Money:
    return Money(
        charged=state["charged_cents"],
        refunded=state["refunded_cents"],
        shipped=state["shipped_cents"],
    )


def _retries(view: View) -> Counter[str]:
    """How often each order waited before a retry."""
    needles = (ORDER.encode(), RETRY.encode())
    waits_by_order: Counter[str] = Counter()
    for frame in view.journal.frames():
        for data in frame.records:
            record = from_bytes(data) if all(needle in data for needle in needles) else None
            if isinstance(record, Step) and record.cell[0] == ORDER:
                waits = sum(intent.effect == RETRY for intent in record.intents)
                waits_by_order[str(view.lens.key(record.cell, seq=record.seq))] += waits
    return waits_by_order
