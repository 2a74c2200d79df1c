"""The demo through a node: events by HTTP, effects by workers, each process killed once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx

from aos.errors import Unavailable
from aos.node.sockets import HTTP_SOCKET
from aos.node.tokens import NODE
from aos_cli.demo.files import Files
from aos_cli.demo.processes import Children, aos, child_of, python
from aos_cli.demo.stages import NO_PROGRESS_S
from aos_cli.demo.story import Story
from aos_cli.output import line

FRONT: Final = "aos.page.node_page"
LEASE_MS: Final = 2_000
"""A killed worker's tasks are given to another after this time."""

BATCH: Final = 256
"""Events of one request."""

PAUSE_S: Final = 0.1
"""Pause before a request is sent again."""

T = TypeVar("T")
_LATER: Final = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)


class NodeStory(Story):
    """As ``Story``, but ``aos node`` runs the world, ``workers`` processes carry out its effects,
    and the events arrive by HTTP: the second half of them while the front restarts."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        children: Children,
        *,
        orders: int,
        seed: int,
        workers: int,
    ) -> None:
        super().__init__(files, folder, children, orders=orders, seed=seed)
        self._folder = folder
        self._count = workers
        self._node_url = ""
        self._node: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._batches: list[Path] = []

    # The stages

    def _send(self) -> None:
        self._title(f"A node, workers, and {self._orders:,} orders by HTTP")
        make = python(
            self._files.make_orders, "--count", self._orders, "--seed", self._seed, into=self._lines
        )
        self._run(make)
        self._start_node("127.0.0.1:0")
        line(f"  the node serves at {self._node_url}")
        for _ in range(self._count):
            self._start_worker()
        self._batches = self._write_batches()
        self._post(self._batches[: len(self._batches) // 2])

    def _run_and_kill(self) -> None:
        self._title("Kill a worker, the front and the kernel process while orders run")
        node = self._running_node()
        self._reach(self._orders // 8)
        self._kill(self._workers[0])
        self._start_worker()
        self._wait_for(lambda: not self._has_tasks("worker-1") or None, "its tasks at others")
        self._reach(self._orders // 4)
        front = self._wait_for(lambda: child_of(node.pid, FRONT), "a front")
        os.kill(front, signal.SIGKILL)
        line(f"$ kill -9 {front}", style="cyan")
        self._post(self._batches[len(self._batches) // 2 :])
        self._reach(self._orders // 2)
        self._kill(node)
        self._tell_the_end()

    def _resume(self) -> None:
        self._title("Start the node again: its workers find it, and keep their tasks")
        self._start_node(self._node_url.removeprefix("http://"))
        node = self._running_node()
        self._reach(self._orders)
        self._wait_for(lambda: self._is_idle() or None, "the end of all effects")
        node.send_signal(signal.SIGTERM)
        line(f"$ kill {node.pid}", style="cyan")
        if self._end_of(node) != 0:
            raise self._ended_early("it should have stopped cleanly", node)
        for text in self._lines_of("stopped at record"):
            line(f"  {text}")

    # The processes

    def _start_node(self, address: str) -> None:
        served = len(self._lines_of("serving "))
        self._node = self._start(aos("node", "--listen", address, "--world", self.world), tail=" &")
        serving_lines = self._wait_for(lambda: self._lines_of("serving ")[served:], "its address")
        self._node_url = serving_lines[0].split()[1]

    def _start_worker(self) -> None:
        """Start one more, under a name that no worker had."""
        worker = aos(
            "worker", "--node", self._node_url, "--name", f"worker-{len(self._workers) + 1}",
            "--lease-ms", str(LEASE_MS), self._files.executors,
            env={"SHOP_URL": self._url},
        )  # fmt: skip
        self._workers.append(self._start(worker, tail=" &"))

    def _running_node(self) -> subprocess.Popen[bytes]:
        assert self._node is not None
        return self._node

    def _reach(self, closed: int) -> None:
        """Wait until so many orders are closed."""
        node = self._running_node()
        self._watch(node, until=closed)
        if node.poll() is not None:
            raise self._ended_early("it should have run on", node)

    def _wait_for(self, look: Callable[[], T | None], expected: str) -> T:
        """Wait until ``look`` finds something. The node must run meanwhile."""
        return self._wait(self._running_node(), look, expected)

    def _has_tasks(self, worker: str) -> bool:
        """Whether this worker holds leases."""
        transport = httpx.HTTPTransport(uds=str(self.world / NODE / HTTP_SOCKET))
        with httpx.Client(base_url="http://node", transport=transport) as client:
            tasks = client.get("/v1/work/tasks").json()["tasks"]
        return any(task.get("worker") == worker for task in tasks)

    def _lines_of(self, start: str) -> list[str]:
        """The lines of the log that begin so."""
        lines = self._log.read_text(errors="replace").splitlines()
        return [text for text in lines if text.startswith(start)]

    # The events

    def _write_batches(self) -> list[Path]:
        """Write the bodies of the requests: each half of the events in batches."""
        events = [json.loads(text) for text in self._lines.read_text().splitlines()]
        size = min(BATCH, (len(events) + 1) // 2)
        folder = self._folder / "batches"
        folder.mkdir()
        paths: list[Path] = []
        for start in range(0, len(events), size):
            path = folder / f"{len(paths) + 1:03}.json"
            path.write_text(json.dumps({"items": events[start : start + size]}))
            paths.append(path)
        return paths

    def _post(self, batches: list[Path]) -> None:
        """Send batches; again if no answer comes, with the same submission ids."""
        with httpx.Client(
            base_url=self._node_url, timeout=NO_PROGRESS_S, trust_env=False
        ) as client:
            for batch in batches:
                line(f"$ curl -d @{batch} {self._node_url}/v1/events", style="cyan")
                items, tries = self._answered(client, batch.read_bytes())
                refused = [item["problem"] for item in items if "problem" in item]
                if refused:
                    raise Unavailable(f"{batch}: an event was refused: {refused[0]['detail']}")
                duplicate_count = sum(item["duplicate"] for item in items)
                remarks = f", after {tries} requests without an answer" if tries else ""
                remarks += f"; {duplicate_count:,} were known" if duplicate_count else ""
                line(f"  {len(items):,} events are durable{remarks}")

    def _answered(self, client: httpx.Client, body: bytes) -> tuple[list[dict[str, Any]], int]:
        """The answers to the events of a request, and how often it was sent in vain."""
        until_s = time.monotonic() + NO_PROGRESS_S
        tries = 0
        while True:
            try:
                answer = client.post("/v1/events", content=body)
            except httpx.TransportError as error:
                problem = str(error)
            else:
                if answer.is_success:
                    return answer.json()["items"], tries
                problem = answer.text
                if answer.status_code not in _LATER:
                    raise Unavailable(f"{self._node_url}: {answer.status_code}: {problem}")
            if time.monotonic() > until_s:
                raise Unavailable(f"{self._node_url}: no answer: {problem}")
            tries += 1
            time.sleep(PAUSE_S)
