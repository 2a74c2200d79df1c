"""A table of PostgreSQL with the cells of the search benchmark, and the same index.

python cell_table.py '{"url": …, "cells": …, "pages": …, "out": FILE}'

With the interpreter that has psycopg. A page has all columns of the first rows of a customer by
key, and how many rows there are.
"""

# mypy: disable-error-code="import-not-found"
# psycopg is installed separately from the product.

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import psycopg
from benchmarks.figures import Spread
from benchmarks.linear.customers import PAGE, customer_name, customers, row

TABLE = """
CREATE TABLE cell (
    key text PRIMARY KEY, customer text NOT NULL, city text NOT NULL, total bigint NOT NULL,
    note text NOT NULL, status text NOT NULL DEFAULT 'running',
    last_active timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
INDEXES = (
    "CREATE INDEX by_customer ON cell (customer, key)",
    "CREATE INDEX by_city ON cell (city, key)",
    "CREATE INDEX by_total ON cell (total, key)",
    "VACUUM ANALYZE cell",
)
LIST = "SELECT * FROM cell WHERE customer = %s ORDER BY key LIMIT %s"
COUNT = "SELECT count(*) FROM cell WHERE customer = %s"
SEED = 3

Json = dict[str, Any]


def fill(connection: Any, cells: int) -> None:
    connection.execute(TABLE)
    copy = "COPY cell (key, customer, city, total, note) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(copy) as rows:
        for item in range(cells):
            rows.write_row(astuple(row(item, cells)))
    for each in INDEXES:
        connection.execute(each)


def measure(connection: Any, cells: int, pages: int) -> Json:
    """Raises RuntimeError if a page does not have the rows of its customer."""
    chance, took, found = random.Random(SEED), [], []
    for _ in range(pages):
        name = customer_name(chance.randrange(customers(cells)))
        at_ns = time.perf_counter_ns()
        found = connection.execute(LIST, (name, PAGE)).fetchall()
        [(total,)] = connection.execute(COUNT, (name,)).fetchall()
        took.append(time.perf_counter_ns() - at_ns)
        if len(found) != min(PAGE, total) or {each[1] for each in found} != {name}:
            raise RuntimeError(f"{name}: {len(found)} of {total} rows")
    spread = Spread.of_ns(took)
    assert spread is not None
    return {"pages": pages, "rows": len(found), "ms": asdict(spread)}


def main() -> None:
    given = json.loads(sys.argv[1])
    with psycopg.connect(given["url"], autocommit=True) as connection:
        fill(connection, given["cells"])
        found = measure(connection, given["cells"], given["pages"])
    Path(given["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
