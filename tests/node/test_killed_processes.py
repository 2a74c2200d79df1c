"""Workers, the front and the kernel process are killed while effects run (N-7, N-23, N-53, N-61).

The checker reads only the exported journal and the books that the workers synced themselves.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.manifest.load import load
from tests.cli.shell import here, in_silence, start
from tests.host.puppet import DO, ECHO, asks_for, files
from tests.node.books import BOOK
from tests.node.books_checker import ONCE, BookLine, check
from tests.node.test_node_process import Started, started, wait_until
from tests.tools import long_form

LEASE_MS = "10000"
"""A worker that a busy machine keeps from running for longer shares a task with the next one."""

WORKERS = 2
WAIT_S = 60.0
FRONT, KERNEL, WORKER = "front", "kernel process", "worker"


def make_world(path: Path) -> None:
    init_world(path)
    found = files(effects=(ECHO, ONCE))
    nodes = json.loads(found["m.air.json"])
    for node in nodes:
        if node.get("name") == ONCE and node["$kind"] == "defeffect":
            node["delivery"] = "at_most_once"
    with open_writer(path) as writer:
        writer.apply(load(found | {"m.air.json": json.dumps(nodes).encode()}))


class Round:
    """A node and its workers, of which ``kill`` kills one and starts another."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.world = folder / "world"
        self.book = folder / "book"
        self.acknowledged: dict[str, int] = {}
        self.killed: dict[int, int] = {}
        """When each worker was killed, by its process id."""
        self._folder = folder
        self._logs: dict[int, Path] = {}
        self._stack = stack
        self._nodes = 0
        self._node_stack = stack.enter_context(contextlib.ExitStack())
        self._client = stack.enter_context(httpx.Client(timeout=WAIT_S, trust_env=False))
        make_world(self.world)
        self.node = self._start_node()
        self._names = 0
        self.workers = [self._start_worker() for _ in range(WORKERS)]

    def _start_node(self) -> Started:
        self._nodes += 1
        return self._node_stack.enter_context(
            started(self.world, self._folder / f"node-{self._nodes}")
        )

    def _start_worker(self) -> subprocess.Popen[bytes]:
        self._names += 1
        log = self._folder / f"worker-{self._names}"
        worker = self._stack.enter_context(working(self.world, self.book, log))
        self._logs[worker.pid] = log
        return worker

    def _workers_have_started(self) -> bool:
        return all(
            "Ctrl-C stops it" in self._logs[worker.pid].read_text() for worker in self.workers
        )

    def kill(self, victim: str, chosen: int) -> None:
        if victim == FRONT:
            wait_until(self.node.kill_front)
        elif victim == KERNEL:
            self._node_stack.close()
            self.node = self._start_node()
        else:
            worker = self.workers.pop(chosen % len(self.workers))
            self.killed[worker.pid] = time.monotonic_ns()
            worker.kill()
            worker.wait()
            self.workers.append(self._start_worker())

    def send(self, first: int, last: int) -> None:
        """Send events one by one, each until it is acknowledged."""
        for number in range(first, last):
            self.acknowledged[f"k-{number}"] = self._sent(f"k-{number}")

    def _sent(self, key: str) -> int:
        """Send an event under a key until it is acknowledged; return its record."""
        until_s = time.monotonic() + WAIT_S
        out = base64.b64encode(asks_for((ECHO, {"word": key}), (ONCE, {"word": key}))).decode()
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = self._client.post(
                    f"{self.node.url}/v1/events",
                    headers={"Idempotency-Key": key},
                    json={"schema": DO, "value": {"key": key, "out": out, "trap": None}},
                )
                if answer.status_code == 200:
                    return int(answer.json()["seq"])
                assert answer.status_code in (429, 503), answer.text
            assert time.monotonic() < until_s, f"never acknowledged: {key}"
            time.sleep(0.05)

    def finish(self) -> None:
        """Wait until everything is settled, and stop each process cleanly."""
        wait_until(lambda: open_intents(self.world) == 0)
        wait_until(self._workers_have_started)  # a signal before that would end it at once
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        assert [worker.wait(WAIT_S) for worker in self.workers] == [0] * WORKERS
        self.node.process.send_signal(signal.SIGTERM)
        assert self.node.process.wait(WAIT_S) == 0


@contextlib.contextmanager
def working(path: Path, book: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of the node in this folder, killed at the end of the block."""
    module = Path(__file__).with_name("books.py")
    words = (
        "worker", "--node", path, "--lease-ms", LEASE_MS, "--name", log.name, f"{module}:books",
    )  # fmt: skip
    with log.open("w") as opened:
        process = start(*words, env={BOOK: str(book)}, stdout=opened, stderr=opened)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def open_intents(path: Path) -> int:
    with open_reader(path) as reader:
        return len(reader.state.intents)


def play(folder: Path, *, events: int, victims: list[str], seed: int) -> None:
    """Kill these processes one after another at random times while events arrive; then check."""
    chance = random.Random(seed)
    with contextlib.ExitStack() as stack:
        found = Round(folder, stack)
        done = threading.Event()
        with ThreadPoolExecutor(1) as sender:
            sending = sender.submit(found.send, 0, events)
            sending.add_done_callback(lambda _: done.set())
            for victim in victims:
                done.wait(chance.uniform(0.1, 1.0))
                found.kill(victim, chance.randrange(WORKERS))
            sending.result()
        found.finish()

    book = [BookLine.read(line) for line in found.book.read_text().splitlines()]
    exported = here("inspect", "journal", "--from", "1", "--json", "--world", found.world)
    assert exported.code == 0, exported.err
    assert found.acknowledged.keys() == {f"k-{number}" for number in range(events)}
    check(exported.out.splitlines(), book, found.acknowledged, found.killed)
    assert in_silence("replay", "--world", found.world) == 0
    assert in_silence("verify", "--world", found.world) == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(30 if long_form() else 1))
def test_nothing_is_lost_or_done_twice_unseen_though_processes_are_killed(
    tmp_path: Path, seed: int
) -> None:
    if long_form():
        victims = [FRONT, KERNEL, WORKER] * 2
        random.Random(seed).shuffle(victims)
        play(tmp_path, events=200, victims=victims, seed=seed)
    else:
        # A lease outlasts a start by 15 s (N-55), so the worker is killed last in the short form.
        play(tmp_path, events=40, victims=[FRONT, KERNEL, WORKER], seed=1)
