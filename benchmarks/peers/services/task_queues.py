"""Tasks of a queue in PostgreSQL: in a bare table, and in one of DBOS.

python task_queues.py '{"url": …, "count": …, "workers": …, "most": …, "out": FILE}'

With the interpreter of DBOS. Workers of the table are threads with a connection each: they take up
to ``most`` rows that no other has, mark them as done, and commit. Those of DBOS are its own.
"""

# mypy: disable-error-code="import-not-found"
# DBOS and psycopg are installed separately from the product.

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
from dbos import DBOS

QUEUE = "tasks"
QUEUE_POLL_S = 0.005
TABLE = "CREATE TABLE task (id bigserial PRIMARY KEY, params text NOT NULL, receipt text)"
FILL = "INSERT INTO task (params) SELECT 'step ' || number FROM generate_series(1, %s) number"
TAKE = "SELECT id FROM task WHERE receipt IS NULL ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED"
SETTLE = "UPDATE task SET receipt = 'done' WHERE id = ANY(%s)"

Json = dict[str, Any]


def bare_table(url: str, count: int, workers: int, most: int) -> float:
    """The rows of a second that the workers take and mark."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
        connection.execute(FILL, (count,))
        connection.execute("CREATE INDEX open_task ON task (id) WHERE receipt IS NULL")
        connection.execute("ANALYZE task")
    connections = [psycopg.connect(url) for _ in range(workers)]

    def work(connection: Any) -> None:
        while True:
            with connection.transaction():
                rows = connection.execute(TAKE, (most,)).fetchall()
                if rows:
                    connection.execute(SETTLE, ([row[0] for row in rows],))
            if not rows:
                return

    threads = [threading.Thread(target=work, args=(each,)) for each in connections]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return count / seconds


def task(number: int) -> int:
    return number


workflow = DBOS.workflow()(task)


def dbos_queue(url: str, count: int, workers: int) -> float:
    """The workflows of a second that are queued before, and run by this process."""
    DBOS(
        config={
            "name": "benchmark",
            "system_database_url": url.replace("postgresql://", "postgresql+psycopg://"),
            "log_level": "ERROR",
            "enable_otlp": False,
        }
    )
    DBOS.launch()
    try:
        DBOS.register_queue(QUEUE, worker_concurrency=workers, polling_interval_sec=QUEUE_POLL_S)
        queue = DBOS.retrieve_queue(QUEUE)
        workflow(0)
        began = time.perf_counter()
        handles = [queue.enqueue(workflow, number) for number in range(count)]
        for handle in handles:
            handle.get_result(polling_interval_sec=0.05)
        return count / (time.perf_counter() - began)
    finally:
        DBOS.destroy()


def main() -> None:
    given = json.loads(sys.argv[1])
    url, count, workers = given["url"], given["count"], given["workers"]
    found: Json = {"table": [], "dbos": dbos_queue(url, count // 4, workers)}
    for most in given["most"]:
        rate = bare_table(url, count, workers, most)
        found["table"].append({"most": most, "rate": rate})
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP TABLE task")
    Path(given["out"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
