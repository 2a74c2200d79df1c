"""The two tables of the Linear Workflow specification on PostgreSQL, and their workers.

python plan_tables.py '{"url": …, "loads": [{"instances": …, "workers": …, "most": …, "pace": …}],
    "out": FILE}'

With the interpreter that has psycopg. Workers are threads with a connection each. They claim READY
rows with ``FOR UPDATE SKIP LOCKED``, run the handler, and write each result in one transaction,
with the guard of the specification. One more thread releases expired leases each second.
"""

# mypy: disable-error-code="import-not-found"
# psycopg is installed separately from the product.

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
from benchmarks.figures import NS_PER_S, Spread
from benchmarks.linear.plan_handlers import IDLE_S, LEASE_S, PLAN, STEPS, first_context, handle
from psycopg.types.json import Jsonb

TABLES = """
DROP TABLE IF EXISTS workflow_step, workflow_instance;
CREATE TABLE workflow_instance (
    instance_id text PRIMARY KEY, workflow_type text NOT NULL, workflow_version int NOT NULL,
    status text NOT NULL, current_step_seq int NOT NULL, current_step_type text NOT NULL,
    context jsonb NOT NULL, completed_at timestamptz, failed_at timestamptz
);
CREATE TABLE workflow_step (
    instance_id text NOT NULL REFERENCES workflow_instance, step_seq int NOT NULL,
    step_type text NOT NULL, status text NOT NULL, attempts int NOT NULL DEFAULT 0,
    max_attempts int NOT NULL DEFAULT 10, next_run_at timestamptz, locked_by text,
    locked_until timestamptz, waiting_event_type text, deadline_at timestamptz, last_error text,
    PRIMARY KEY (instance_id, step_seq)
);
CREATE INDEX ready_step ON workflow_step (next_run_at) WHERE status = 'READY';
CREATE INDEX leased_step ON workflow_step (locked_until) WHERE status = 'RUNNING';
CREATE INDEX waiting_step ON workflow_step (deadline_at) WHERE status = 'WAITING';
"""
START = """
INSERT INTO workflow_instance VALUES (%s, %s, 1, 'RUNNING', 0, %s, %s)
"""
PLAN_STEPS = """
INSERT INTO workflow_step (instance_id, step_seq, step_type, status, next_run_at)
SELECT %s, number - 1, type, CASE number WHEN 1 THEN 'READY' ELSE 'PENDING' END,
       CASE number WHEN 1 THEN clock_timestamp() END
FROM unnest(%s::text[]) WITH ORDINALITY AS plan (type, number)
"""
PICK = """
SELECT instance_id, step_seq FROM workflow_step
WHERE status = 'READY' AND next_run_at <= clock_timestamp()
ORDER BY next_run_at LIMIT %s FOR UPDATE SKIP LOCKED
"""
LEASE = """
UPDATE workflow_step AS step
SET status = 'RUNNING', locked_by = %s, locked_until = clock_timestamp() + make_interval(secs => %s)
FROM unnest(%s::text[], %s::int[]) AS picked (id, seq), workflow_instance AS instance
WHERE step.instance_id = picked.id AND step.step_seq = picked.seq
      AND instance.instance_id = picked.id
RETURNING step.instance_id, step.step_seq, step.step_type, instance.context,
          (extract(epoch FROM step.next_run_at) * 1000000)::bigint
"""
DONE = """
UPDATE workflow_step SET status = 'DONE', locked_by = NULL, locked_until = NULL, last_error = NULL
WHERE instance_id = %s AND step_seq = %s AND status = 'RUNNING' AND locked_by = %s
      AND locked_until >= clock_timestamp()
"""
NEXT = """
UPDATE workflow_step SET status = 'READY', next_run_at = clock_timestamp()
WHERE instance_id = %s AND step_seq = %s AND status = 'PENDING' RETURNING step_type
"""
MOVE = """
UPDATE workflow_instance
SET context = context || %s, current_step_seq = %s, current_step_type = %s WHERE instance_id = %s
"""
END = """
UPDATE workflow_instance
SET context = context || %s, status = 'COMPLETED', completed_at = clock_timestamp()
WHERE instance_id = %s
"""
EXPIRE = """
UPDATE workflow_step
SET status = 'READY', attempts = attempts + 1, next_run_at = clock_timestamp(),
    last_error = 'LEASE_EXPIRED', locked_by = NULL, locked_until = NULL
WHERE status = 'RUNNING' AND locked_until < clock_timestamp()
"""
EXPIRE_S = 1.0

Json = dict[str, Any]


class Tables:
    """One load, on tables of its own."""

    def __init__(self, url: str, load: Json) -> None:
        self._url = url
        self._load = load
        self._total = load["instances"] * len(STEPS)
        self._lock = threading.Lock()
        self._waited_ns: list[int] = []
        self._settled = 0
        self._ended_ns = 0
        self._is_over = threading.Event()

    def run(self) -> Json:
        """Run the load; raise RuntimeError if a plan step was not carried out once."""
        pace = self._load["pace"]
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(TABLES)
        if pace is None:
            self._start(None)
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute("ANALYZE workflow_step, workflow_instance")
        connections = [psycopg.connect(self._url) for _ in range(self._load["workers"])]
        threads = [
            threading.Thread(target=self._work, args=(f"w{number}", each))
            for number, each in enumerate(connections)
        ]
        threads.append(threading.Thread(target=self._expire))
        if pace is not None:
            threads.append(threading.Thread(target=self._start, args=(pace,)))
        began_ns = time.time_ns()
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for connection in connections:
            connection.close()
        self._check()
        spread = Spread.of_ns(self._waited_ns)
        assert spread is not None
        return {
            **self._load,
            "rate": self._total * NS_PER_S / (self._ended_ns - began_ns),
            "ready_to_claimed_ms": asdict(spread),
        }

    def _check(self) -> None:
        with psycopg.connect(self._url) as connection:
            [(ended,)] = connection.execute(
                "SELECT count(*) FROM workflow_instance WHERE status = 'COMPLETED'"
            ).fetchall()
        if ended != self._load["instances"] or len(self._waited_ns) != self._total:
            raise RuntimeError(f"{ended} instances ended, {len(self._waited_ns)} claims")

    def _start(self, pace: float | None) -> None:
        began_s = time.monotonic()
        with psycopg.connect(self._url) as connection:
            for item in range(self._load["instances"]):
                if pace is not None:
                    time.sleep(max(0.0, began_s + item / pace - time.monotonic()))
                with connection.transaction():
                    id, context = f"i-{item}", Jsonb(first_context(item))
                    connection.execute(START, (id, PLAN, STEPS[0], context))
                    connection.execute(PLAN_STEPS, (id, list(STEPS)))

    def _work(self, worker: str, connection: Any) -> None:
        while not self._is_over.is_set():
            with connection.transaction():
                picked = connection.execute(PICK, (self._load["most"],)).fetchall()
                claimed = []
                if picked:
                    places = [each[0] for each in picked], [each[1] for each in picked]
                    claimed = connection.execute(LEASE, (worker, LEASE_S, *places)).fetchall()
            now_ns = time.time_ns()
            if not claimed:
                self._is_over.wait(IDLE_S)
            for id, seq, step, context, ready_us in claimed:
                self._settle(connection, worker, id, seq, handle(step, context))
                self._count(now_ns - ready_us * 1000)

    @staticmethod
    def _settle(connection: Any, worker: str, id: str, seq: int, patch: Json) -> None:
        with connection.transaction():
            if connection.execute(DONE, (id, seq, worker)).rowcount != 1:
                raise RuntimeError(f"the lease of {id} {seq} was lost")
            following = connection.execute(NEXT, (id, seq + 1)).fetchone()
            if following is None:
                connection.execute(END, (Jsonb(patch), id))
            else:
                connection.execute(MOVE, (Jsonb(patch), seq + 1, following[0], id))

    def _count(self, waited_ns: int) -> None:
        with self._lock:
            self._waited_ns.append(waited_ns)
            self._settled += 1
            self._ended_ns = time.time_ns()
            if self._settled == self._total:
                self._is_over.set()

    def _expire(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._is_over.wait(EXPIRE_S):
                connection.execute(EXPIRE)


def main() -> None:
    given = json.loads(sys.argv[1])
    found = [Tables(given["url"], load).run() for load in given["loads"]]
    Path(given["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
