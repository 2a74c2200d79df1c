#!/usr/bin/env python3
"""The shop's own books: one line for each real reservation, charge, refund and shipment.

    python manifests/orders/books.py FILE      print the totals; exit 1 if they do not add up

The books do not depend on the workflow kernel, so the kernel's claims are checked against them:
charged - refunded = value shipped, and no order is charged twice.

Rule 1: a JSON line is appended, made durable, and never changed. A torn last line was never
acknowledged.

Rule 2: an idempotency key identifies one request, which is booked once and always gets the same
answer.

Rule 3: refund and release are by order. They undo earlier entries and prevent later ones.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

RESERVED: Final = "reserved"
RELEASED: Final = "released"
CHARGED: Final = "charged"
REFUNDED: Final = "refunded"
SHIPPED: Final = "shipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that the shop did. ``cents`` is the money or the value that it moved."""

    kind: str
    order_id: str
    key: str
    request: str  # digest of the request, to tell a repeated key from a reused one
    cents: int
    answer: dict[str, object]

    def line(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of the books. The last four must never exceed zero."""

    reservations: int
    releases: int
    charges: int
    refunds: int
    shipments: int
    charged_cents: int
    refunded_cents: int
    shipped_cents: int
    orders_charged_twice: int
    keys_booked_twice: int
    shipped_unpaid: int
    shipped_and_refunded: int

    def wrong(self) -> list[str]:
        """The totals that do not add up once every order is closed; empty if all are correct."""
        kept = self.charged_cents - self.refunded_cents
        sentences = []
        if kept != self.shipped_cents:
            sentences.append(
                f"charged - refunded is {kept} cents, the value shipped {self.shipped_cents}"
            )
        for name in (
            "orders_charged_twice",
            "keys_booked_twice",
            "shipped_unpaid",
            "shipped_and_refunded",
        ):
            count = getattr(self, name)
            if count:
                sentences.append(f"{name.replace('_', ' ')}: {count}")
        return sentences


@dataclass(slots=True)
class Books:
    """All entries, and what the shop has to look up in them."""

    entries: list[Entry] = field(default_factory=list)
    by_key: dict[str, Entry] = field(default_factory=dict)
    by_order: dict[str, list[Entry]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.by_key[entry.key] = entry
        self.by_order.setdefault(entry.order_id, []).append(entry)

    def of(self, order_id: str, kind: str) -> list[Entry]:
        return [entry for entry in self.by_order.get(order_id, ()) if entry.kind == kind]

    def cents(self, order_id: str, kind: str) -> int:
        return sum(entry.cents for entry in self.of(order_id, kind))


class BooksFile:
    """The file under the books. Opening it reads what is there and cuts off a torn last line."""

    def __init__(self, path: Path) -> None:
        self.books = Books()
        whole = 0
        for line, entry in _lines(path):
            self.books.add(entry)
            whole += len(line)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.ftruncate(self._file, whole)
        os.lseek(self._file, whole, os.SEEK_SET)
        os.fsync(self._file)

    def append(self, lines: bytes) -> None:
        """Return once ``lines`` are on the disk."""
        left = memoryview(lines)
        while left:
            left = left[os.write(self._file, left) :]
        os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)


def read_entries(path: Path) -> list[Entry]:
    """Read the books while the shop may be writing: a torn last line is left out."""
    return [entry for _, entry in _lines(path)]


def _lines(path: Path) -> Iterator[tuple[bytes, Entry]]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            return
        yield line, Entry(**json.loads(line))


def total(entries: Iterable[Entry]) -> Totals:
    entries = list(entries)
    counts = Counter(entry.kind for entry in entries)
    cents: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        cents[entry.kind, entry.order_id] += entry.cents
    charges = Counter(entry.order_id for entry in entries if entry.kind == CHARGED)
    shipped = {entry.order_id for entry in entries if entry.kind == SHIPPED}
    return Totals(
        reservations=counts[RESERVED],
        releases=counts[RELEASED],
        charges=counts[CHARGED],
        refunds=counts[REFUNDED],
        shipments=counts[SHIPPED],
        charged_cents=_sum(cents, CHARGED),
        refunded_cents=_sum(cents, REFUNDED),
        shipped_cents=_sum(cents, SHIPPED),
        orders_charged_twice=sum(count > 1 for count in charges.values()),
        keys_booked_twice=sum(
            count > 1 for count in Counter(entry.key for entry in entries).values()
        ),
        shipped_unpaid=sum(cents[CHARGED, order] < cents[SHIPPED, order] for order in shipped),
        shipped_and_refunded=sum(cents[REFUNDED, order] > 0 for order in shipped),
    )


def _sum(cents: Counter[tuple[str, str]], kind: str) -> int:
    return sum(amount for (entry_kind, _), amount in cents.items() if entry_kind == kind)


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: books.py FILE\n")
        return 2
    totals = total(read_entries(Path(sys.argv[1])))
    sys.stdout.write(json.dumps(asdict(totals) | {"wrong": totals.wrong()}, indent=2) + "\n")
    return 1 if totals.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
