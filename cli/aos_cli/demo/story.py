"""The demo, stage by stage. Each stage prints the command that does the same by hand."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Intent, Step
from aos.flow.declaration import declared_flows
from aos.host.door.remote import ask_running
from aos.host.folder.reader import open_reader
from aos.read.lens.words import count
from aos.read.views.flow_reading import SeenFlow, read_flow
from aos.read.views.view import View
from aos.store.store import Store
from aos_cli.demo.files import Files
from aos_cli.demo.processes import Children, aos, ask, python
from aos_cli.demo.stages import FIRST, LAST_TWO, Stages
from aos_cli.open_view import looking_at
from aos_cli.output import line, table

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


class Story(Stages):
    UNIT: ClassVar = "orders closed"

    def __init__(
        self, files: Files, folder: Path, children: Children, *, orders: int, seed: int
    ) -> None:
        super().__init__(folder, children, goal=orders)
        self._files = files
        self._orders = orders
        self._seed = seed
        self._lines = folder / "orders.jsonl"
        self._books = folder / "books.jsonl"
        self._url = ""
        self._manifest = files.manifest

    def tell(self) -> None:
        self._time("set up", self._set_up)
        self._time("send", self._send)
        self._time("run", self._run_and_kill)
        self._time("resume", self._resume)
        accounts = self._time("read", lambda: read_accounts(self.world))
        self._time("trace", lambda: self._show_outcomes(accounts))
        self._time("books", lambda: self._check_books(accounts))
        self._time("replay and verify", self._prove)

    def _count_after(self, store: Store, seq: int) -> tuple[int, int]:
        return closed_after(store, seq)

    # The stages

    def _set_up(self) -> None:
        self._title("A world, its manifest, and a shop that fails and stalls on purpose")
        self._must(aos("init", self.world), lines_shown=FIRST)
        self._must(aos("apply", self._manifest, "--world", self.world), lines_shown=LAST_TWO)
        self._url = self._start_shop()
        line(f"  the shop serves at {self._url}")

    def _send(self) -> None:
        self._title(f"{self._orders:,} orders")
        make = python(
            self._files.make_orders, "--count", self._orders, "--seed", self._seed, into=self._lines
        )
        self._run(make)
        self._must(aos("send", "--jsonl", self._lines, "--world", self.world))

    def _run_and_kill(self) -> None:
        self._title("Run them, and kill the kernel half way")
        process = self._drive(until=self._orders // 2)
        if process.poll() is not None:
            raise self._ended_early("it should have been killed half way", process)
        self._kill(process)
        self._tell_the_end()

    def _tell_the_end(self) -> None:
        """Print how far the world came."""
        with looking_at(self.world) as view:
            line(
                f"  killed at record {view.state.tip.seq:,}: {self._progress:,} of "
                f"{self._orders:,} "
                f"orders were closed, {count(len(view.state.intents), 'effect')} on the way"
            )

    def _resume(self) -> None:
        self._title("Resume: open effects are asked for again, under the same identity")
        process = self._drive(until=None)
        if process.returncode != 0:
            raise self._ended_early("it should have run until it was idle", process)
        for text in self._last_lines(1):
            line(f"  {text}")

    def _show_outcomes(self, accounts: Accounts) -> None:
        self._title("Outcomes")
        table(
            ["outcome", "orders", "retried", "charged", "refunded", "shipped"],
            [_outcome_row(accounts, name) for name in accounts.outcomes()],
            right_aligned=("orders", "retried", "charged", "refunded", "shipped"),
        )
        self._check("every order is closed", not accounts.of(OPEN) and self._all_there(accounts))
        self._check("no instance has failed", accounts.faults == 0)
        order = accounts.most_interesting()
        line()
        self._run(aos("trace", "order", order.order_id, "--world", self.world))

    def _all_there(self, accounts: Accounts) -> bool:
        return len(accounts.orders) == self._orders

    def _check_books(self, accounts: Accounts) -> None:
        self._title("The books: the shop's own, and the ledger cells of the world")
        _, answer, _ = ask(python(self._files.books, self._books))
        books = json.loads(answer)
        money = Money(
            charged=books["charged_cents"],
            refunded=books["refunded_cents"],
            shipped=books["shipped_cents"],
        )
        table(
            ["", "charged", "refunded", "charged - refunded", "value shipped"],
            [_money_row("the shop's books", money), _money_row("the ledger cells", accounts.total)],
            right_aligned=("charged", "refunded", "charged - refunded", "value shipped"),
        )
        self._check("in the shop's books, charged - refunded = value shipped", _balances(money))
        self._check("in the ledger cells, too", _balances(accounts.total))
        self._check("both say the same", money == accounts.total)
        for name in (
            "orders_charged_twice", "keys_booked_twice", "shipped_unpaid", "shipped_and_refunded",
        ):  # fmt: skip
            self._check(f"{name.replace('_', ' ')}: {books[name]:,}", books[name] == 0)

    # The processes

    def _is_idle(self) -> bool:
        """Whether the process of the world has nothing left to do."""
        figures = ask_running(self.world, "status")
        return not figures["open_intents"] and not figures["ready_cells"]

    def _start_shop(self) -> str:
        command = python(self._files.service, "--books", self._books, "--seed", self._seed)
        return self._start_service(command, "its URL")

    def _drive(self, *, until: int | None) -> subprocess.Popen[bytes]:
        """Run the world in a separate process until it is idle, or ``until`` orders are closed. A
        run that the demo kills then does not end by itself: on a slow machine it could end before.
        """
        ends = ("--until-idle",) if until is None else ()
        command = aos(
            "run", *ends, "--executors", self._files.executors, "--world", self.world,
            env={"SHOP_URL": self._url},
        )  # fmt: skip
        process = self._start(command)
        self._watch(process, until=until)
        return process


def _outcome_row(accounts: Accounts, outcome: str) -> list[str]:
    orders = accounts.of(outcome)
    money = sum((order.money for order in orders), Money())
    return [
        outcome,
        f"{len(orders):,}",
        f"{sum(order.retries > 0 for order in orders):,}",
        *map(_amount, (money.charged, money.refunded, money.shipped)),
    ]


def _money_row(label: str, money: Money) -> list[str]:
    net = money.charged - money.refunded
    return [label, *map(_amount, (money.charged, money.refunded, net, money.shipped))]


def _balances(money: Money) -> bool:
    return money.charged - money.refunded == money.shipped


def _amount(cents: int) -> str:
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02}"


def closed_after(store: Store, seq: int) -> tuple[int, int]:
    """The number of orders that closed after record ``seq``, and the last record counted.

    An order closes in the step that emits ``OrderClosed``: its record holds that name once, and no
    other record does. (So it is not the output of the flow, whose name is in each of its states.)
    Searching for it is far cheaper than decoding.
    """
    head = store.head()
    if head is None or head.seq <= seq:
        return 0, seq
    name = CLOSED.encode()
    frames = store.frames(seq + 1, head.seq)
    return sum(name in data for frame in frames for data in frame.records), head.seq


def read_accounts(world: Path) -> Accounts:
    """Read the outcome of every order, and the totals of the ledgers, from the world's cells and
    journal."""
    with open_reader(world) as reader:
        view = View(reader.state, reader.store)
        ledgers = [state for _, state in _states_by_key(view, LEDGER)]
        lines = (line for state in ledgers for line in state["orders"].items())
        money = {order_id: _money_of(line) for order_id, line in lines}
        retries = _retries_by_order(view)
        orders = tuple(
            Order(
                order_id=key,
                outcome=outcome,
                retries=retries[key],
                money=money.get(key, Money()),
            )
            for key, outcome in _outcomes_by_key(view)
        )
        return Accounts(
            orders=orders,
            total=sum(map(_money_of, ledgers), Money()),
            duplicates=sum(state["duplicates"] for state in ledgers),
            faults=sum(cell.fault is not None for cell in reader.state.cells.values()),
        )


def _states_by_key(view: View, workflow: str) -> Iterator[tuple[str, State]]:
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


def _outcomes_by_key(view: View) -> Iterator[tuple[str, str]]:
    """(key, outcome) of each order, whether its workflow is a flow or a reducer."""
    if ORDER not in declared_flows(view.state.effective):
        for key, order in _states_by_key(view, ORDER):
            yield key, order["outcome"]["$tag"] if order["phase"]["$tag"] == "Closed" else OPEN
        return
    for cell in view.state.cells.values():
        instance = read_flow(view.state, cell, view.journal.blob) if cell.id[0] == ORDER else None
        if instance is not None:
            flow_key = view.lens.key(cell.id)
            assert isinstance(flow_key, str)
            yield flow_key, _flow_outcome(view, instance)


def _flow_outcome(view: View, instance: SeenFlow) -> str:
    """The outcome in the output of a flow."""
    if instance.state is None or instance.state.output is None:
        return OPEN
    document = view.full_lens.flow_lens(instance.manifest).document(instance.state)
    return str(document["output"])


def _money_of(state: State) -> Money:
    return Money(
        charged=state["charged_cents"],
        refunded=state["refunded_cents"],
        shipped=state["shipped_cents"],
    )


def _retries_by_order(view: View) -> Counter[str]:
    """How often each order waited before a retry."""
    needles = (ORDER.encode(), RETRY.encode())
    waits_by_order: Counter[str] = Counter()
    for frame in view.journal.frames():
        for data in frame.records:
            record = from_bytes(data) if all(needle in data for needle in needles) else None
            if isinstance(record, Step) and record.cell[0] == ORDER:
                waits = sum(_is_retry(intent) for intent in record.intents)
                waits_by_order[str(view.lens.key(record.cell, seq=record.seq))] += waits
    return waits_by_order


def _is_retry(intent: Intent) -> bool:
    """Whether it is the timer before a retry. A flow has timers for other reasons, too."""
    return intent.effect == RETRY and (intent.issuer_ref or "").endswith("retry")
