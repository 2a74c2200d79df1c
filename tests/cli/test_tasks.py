"""``aos tasks`` and ``aos worker`` on the command line (C-90 to C-92)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import here

LEASED = "blake3:" + "11" * 32
PARKED = "blake3:" + "22" * 32
LIST = {
    "tasks": [
        {
            "task": LEASED, "effect": "shop/pay@1", "phase": "leased", "attempt": 2, "lost": 1,
            "worker": "w1", "token": "shop", "until_ns": 0,
        },
        {
            "task": PARKED, "effect": "shop/ship@1", "phase": "parked", "attempt": 5, "lost": 5,
            "problem": "worker w1 lost its lease",
        },
    ],
    "leased": 1, "offered": 3, "parked": 1,
}  # fmt: skip


class Node:
    """A node that lists two tasks, and does what is asked."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any, str | None]] = []
        self.status = 200


@contextmanager
def node() -> Iterator[tuple[str, Node]]:
    found = Node()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(None, LIST)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(body, {"tasks": body.get("tasks", [PARKED])})

        def answer(self, body: Any, document: Any) -> None:
            found.heard.append((self.path, body, self.headers["Authorization"]))
            if found.status != 200:
                document = {"detail": "a token is needed"}
            data = json.dumps(document).encode()
            self.send_response(found.status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_tasks_are_listed_with_their_worker_and_their_reason() -> None:
    """C-91, C-92."""
    with node() as (url, found):
        text = here("tasks", "list", "--node", url, env={"AOS_TOKEN": "aos_x"})
        assert here("tasks", "list", "--node", url, "--json").json == LIST
    assert text.code == 0
    assert "111111111111  shop/pay@1  leased  attempt 2  w1 (shop)" in text.out
    assert "parked  attempt 5  5 lost leases  worker w1 lost its lease" in text.out
    assert "1 task at workers, 3 offered, 1 held or parked" in text.err
    assert found.heard[0] == ("/v1/work/tasks", None, "Bearer aos_x")


def test_tasks_are_named_by_their_first_digits() -> None:
    """C-91."""
    with node() as (url, found):
        released = here("tasks", "release", "11111111", "--node", url)
        assert here("tasks", "retry", "22222222", "--node", url).code == 0
        assert here("tasks", "retry", "--all-parked", "--node", url).code == 0
        assert here("tasks", "retry", "33333333", "--node", url).code == 2
        assert here("tasks", "retry", "222", "--node", url).code == 2
        assert here("tasks", "retry", "--node", url).code == 2
    assert f"{LEASED} is given to another worker" in released.out
    assert [each[:2] for each in found.heard if each[1] is not None] == [
        ("/v1/work/reclaim", {"tasks": [LEASED]}),
        ("/v1/work/retry", {"tasks": [PARKED]}),
        ("/v1/work/retry", {"all_parked": True}),
    ]


def test_a_node_that_refuses_or_is_away_has_its_exit_code(tmp_path: Path) -> None:
    """C-92."""
    with node() as (url, found):
        found.status = 401
        refused = here("tasks", "list", "--node", url)
        file = tmp_path / "effects.py"
        file.write_text(
            "from aos.worker import effect\n\n\n"
            '@effect("shop/pay@1")\n'
            "async def pay(params, ctx):\n    return params\n"
        )
        worker = here("worker", f"{file}:pay", "--node", url)
    assert (refused.code, worker.code) == (1, 1)
    assert "set AOS_TOKEN to a token" in refused.err
    assert "a token is needed" in worker.err
    away = here("tasks", "list", "--node", url)
    assert away.code == 4
    assert here("tasks", "list", "--world", tmp_path).code == 4


def test_a_worker_needs_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """C-90."""
    monkeypatch.delenv("AOS_NODE", raising=False)
    result = here("worker", "nothing:here")
    assert result.code == 2
    assert "expected --node URL, or AOS_NODE" in result.err
