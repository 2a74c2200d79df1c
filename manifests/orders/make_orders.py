#!/usr/bin/env python3
"""Write orders as JSON lines for `aos send --jsonl`: the same lines for the same count and seed.

    python manifests/orders/make_orders.py --count 1000 --seed 7 > orders.jsonl

Some orders are sent a second time, and some are canceled by the customer.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from random import Random
from typing import Any, Final

CATALOGUE: Final = {
    "anvil": 7_900,
    "compass": 2_450,
    "kettle": 3_195,
    "lantern": 4_520,
    "map": 1_200,
    "notebook": 650,
    "rope": 1_899,
    "tent": 18_900,
}

PATIENT: Final = "10m"
HASTY: Final = "2s"
"""How long a customer waits. A hasty one may be late even where nothing goes wrong."""

Line = dict[str, Any]


def orders(
    *, count: int, seed: int, customers: int, hasty: float, repeated: float, cancelled: float
) -> Iterator[Line]:
    """Yield ``count`` orders with repetitions and cancellations. Shares are of orders, 0 to 1."""
    random = Random(seed)  # noqa: S311  # the orders are made up, and should be the same every time
    # Lines that follow their order, and after how many further orders.
    behind: list[tuple[int, Line]] = []
    for number in range(1, count + 1):
        order_id = f"ord-{number:05}"
        order = {
            "order_id": order_id,
            "customer_id": f"cus-{random.randint(1, customers):03}",
            "items": [
                {"sku": sku, "quantity": random.randint(1, 3), "price_cents": CATALOGUE[sku]}
                for sku in sorted(random.sample(sorted(CATALOGUE), random.randint(1, 3)))
            ],
            "patience": HASTY if random.random() < hasty else PATIENT,
        }
        yield _line("shop/OrderPlaced@1", order, order_id)
        if random.random() < repeated:
            again = _line("shop/OrderPlaced@1", order, f"{order_id}-again")
            behind.append((number + random.randint(1, 40), again))
        if random.random() < cancelled:
            cancel = _line(
                "shop/OrderCancelRequested@1", {"order_id": order_id}, f"{order_id}-cancel"
            )
            behind.append((number + random.randint(1, 40), cancel))
        yield from (line for due, line in behind if due == number)
    yield from (line for due, line in behind if due > count)


def _line(schema: str, value: Line, submission_id: str) -> Line:
    return {"schema": schema, "value": value, "submission_id": submission_id}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--customers", type=int, default=100)
    parser.add_argument("--hasty", type=float, default=0.04, help="share that waits 2 s only")
    parser.add_argument("--repeated", type=float, default=0.01, help="share sent a second time")
    parser.add_argument("--cancelled", type=float, default=0.01, help="share that is taken back")
    for line in orders(**vars(parser.parse_args())):
        sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
