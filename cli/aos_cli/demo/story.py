"""The demo, stage by stage. Each stage prints the command that does the same by hand."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeVar

from aos.audit.lens.words import count
from aos.errors import AosError, Unavailable
from aos.host.folder.folder import open_folder
from aos.store.store import Store
from aos_cli.demo.accounts import OPEN, Accounts, Money, closed_after, read_accounts
from aos_cli.demo.files import Files
from aos_cli.demo.processes import Children, Command, aos, ask, python, run, show
from aos_cli.open_view import looking_at
from aos_cli.output import line, table
from aos_cli.progress import progress

POLL_S: Final = 0.02
NO_PROGRESS_S: Final = 60.0
READY_S: Final = 10.0
LOG_LINES: Final = 20

T = TypeVar("T")
_LAST: Final = slice(-1, None)
_LAST_TWO: Final = slice(-2, None)


class Story:
    """``failed`` names the checks that failed, of ``checks``; ``exit_code`` follows from them."""

    def __init__(
        self, files: Files, folder: Path, children: Children, *, orders: int, seed: int
    ) -> None:
        self.world = folder / "world"
        self.failed: list[str] = []
        self.checks = 0
        self.exit_code = 0
        self._files = files
        self._children = children
        self._orders = orders
        self._seed = seed
        self._lines = folder / "orders.jsonl"
        self._books = folder / "books.jsonl"
        self._log = folder / "log.txt"
        self._url = ""
        self._seconds: dict[str, float] = {}
        self._stage = 0
        self._seq = 0
        self._closed = 0

    def tell(self) -> None:
        """Run every stage. Raises ``AosError`` if one cannot be completed."""
        self._time("set up", self._set_up)
        self._time("send", self._send)
        self._time("run", self._run_and_kill)
        self._time("resume", self._resume)
        accounts = self._time("read", lambda: read_accounts(self.world))
        self._time("trace", lambda: self._show_outcomes(accounts))
        self._time("books", lambda: self._check_books(accounts))
        self._time("replay and verify", self._prove)

    def times(self) -> str:
        """The seconds of each stage as text: ``12 s: set up 2.1, send 0.9 …``"""
        parts = [f"{name} {seconds:.1f}" for name, seconds in self._seconds.items()]
        return f"{sum(self._seconds.values()):.0f} s: {', '.join(parts)}"

    def _time(self, name: str, stage: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return stage()
        finally:
            self._seconds[name] = time.monotonic() - began

    # The stages

    def _set_up(self) -> None:
        self._title("A world, its manifest, and a shop that fails and stalls on purpose")
        self._must(aos("init", self.world), shown=slice(0, 1))
        self._must(aos("apply", self._files.manifest, "--world", self.world), shown=_LAST_TWO)
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

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        line(f"$ kill -9 {process.pid}", style="cyan")

    def _tell_the_end(self) -> None:
        """Print how far the world came."""
        with looking_at(self.world) as view:
            line(
                f"  killed at record {view.state.tip.seq:,}: {self._closed:,} of {self._orders:,} "
                f"orders were closed, {count(len(view.state.intents), 'effect')} on the way"
            )

    def _resume(self) -> None:
        self._title("Resume: open effects are asked for again, under the same identity")
        process = self._drive(until=None)
        if process.returncode != 0:
            raise self._ended_early("it should have run until it was idle", process)
        for each in self._last_lines(1):
            line(f"  {each}")

    def _show_outcomes(self, accounts: Accounts) -> None:
        self._title("Outcomes")
        table(
            ["outcome", "orders", "retried", "charged", "refunded", "shipped"],
            [_outcome_row(accounts, name) for name in accounts.outcomes()],
            right=("orders", "retried", "charged", "refunded", "shipped"),
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
            right=("charged", "refunded", "charged - refunded", "value shipped"),
        )
        self._check("in the shop's books, charged - refunded = value shipped", _balances(money))
        self._check("in the ledger cells, too", _balances(accounts.total))
        self._check("both say the same", money == accounts.total)
        for name in (
            "orders_charged_twice", "keys_booked_twice", "shipped_unpaid", "shipped_and_refunded",
        ):  # fmt: skip
            self._check(f"{name.replace('_', ' ')}: {books[name]:,}", books[name] == 0)

    def _prove(self) -> None:
        self._title("Replay every step, byte for byte; verify every signature and hash")
        for name in ("replay", "verify"):
            code = run(aos(name, "--world", self.world))
            self._check(f"aos {name} ends with 0", code == 0, exit_code=code)

    # The processes

    def _start_shop(self) -> str:
        command = python(self._files.service, "--books", self._books, "--seed", self._seed)
        show(command, tail=" &")
        with self._log.open("ab") as log:
            shop = self._children.start(command, stdout=subprocess.PIPE, stderr=log)
        assert shop.stdout is not None
        ready, _, _ = select.select([shop.stdout], [], [], READY_S)
        url = shop.stdout.readline().decode().strip() if ready else ""
        if not url:
            raise self._ended_early("it should have told its URL", shop)
        return url

    def _drive(self, *, until: int | None) -> subprocess.Popen[bytes]:
        """Run the world in a separate process until it ends, or ``until`` orders are closed."""
        command = aos(
            "run", "--until-idle", "--executors", self._files.executors, "--world", self.world,
            env={"SHOP_URL": self._url},
        )  # fmt: skip
        process = self._start(command)
        self._watch(process, until=until)
        return process

    def _start(self, command: Command, *, tail: str = "") -> subprocess.Popen[bytes]:
        """Show a command and start it in the background; it writes to the log."""
        show(command, tail=tail)
        with self._log.open("ab") as log:
            return self._children.start(command, stdout=log, stderr=log)

    def _watch(self, process: subprocess.Popen[bytes], *, until: int | None) -> None:
        """Wait until the process ends, or ``until`` orders are closed."""
        with ExitStack() as stack:
            store = stack.enter_context(open_folder(self.world).open_store(readonly=True))
            advance = stack.enter_context(progress("orders closed"))
            moved = time.monotonic()
            while process.poll() is None and (until is None or self._closed < until):
                time.sleep(POLL_S)
                if self._look(store):
                    moved = time.monotonic()
                advance(self._closed, self._orders)
                if time.monotonic() - moved > NO_PROGRESS_S:
                    raise self._ended_early(f"nothing happened for {NO_PROGRESS_S:.0f} s", process)
            self._look(store)

    def _look(self, store: Store) -> bool:
        """Count the orders that closed since the last call; True if there are new records."""
        before = self._seq
        closed, self._seq = closed_after(store, before)
        self._closed += closed
        return self._seq > before

    def _run(self, command: Command) -> None:
        """Run a command that must succeed; its output is shown as it is."""
        code = run(command)
        if code != 0:
            raise Unavailable(f"`{command}` ended with {code}")

    def _must(self, command: Command, *, shown: slice = _LAST) -> None:
        """Run a command that must succeed, and show the selected lines of its output."""
        code, out, problem = ask(command)
        if code != 0:
            raise Unavailable(f"`{command}` ended with {code}: {problem.strip()}")
        for each in out.splitlines()[shown]:
            line(f"  {each}")

    def _ended_early(self, what: str, process: subprocess.Popen[bytes]) -> AosError:
        code = process.poll()
        ended = "it still runs" if code is None else f"it ended with {code}"
        said = "".join(f"\n  {each}" for each in self._last_lines(LOG_LINES))
        return Unavailable(f"{what}: {ended} (its last words, from {self._log}):{said}")

    def _last_lines(self, most: int) -> list[str]:
        return self._log.read_text(errors="replace").splitlines()[-most:]

    # Words

    def _title(self, text: str) -> None:
        self._stage += 1
        line()
        line(f"{self._stage}  {text}", style="bold")

    def _check(self, what: str, holds: bool, *, exit_code: int = 1) -> None:
        self.checks += 1
        line(f"  {'✓' if holds else '✗'} {what}", style="green" if holds else "red")
        if not holds:
            self.failed.append(f"does not hold: {what}")
            self.exit_code = max(self.exit_code, exit_code)


def _outcome_row(accounts: Accounts, outcome: str) -> list[str]:
    orders = accounts.of(outcome)
    money = sum((order.money for order in orders), Money())
    return [
        outcome,
        f"{len(orders):,}",
        f"{sum(order.retries > 0 for order in orders):,}",
        *map(_amount, (money.charged, money.refunded, money.shipped)),
    ]


def _money_row(whose: str, money: Money) -> list[str]:
    kept = money.charged - money.refunded
    return [whose, *map(_amount, (money.charged, money.refunded, kept, money.shipped))]


def _balances(money: Money) -> bool:
    return money.charged - money.refunded == money.shipped


def _amount(cents: int) -> str:
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02}"
