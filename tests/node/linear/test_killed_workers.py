"""Kernel process, front and workers are killed while instances of a plan run (L-12, L-32, L-43)."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.shell import here, in_silence, start
from tests.node.linear.checker import Line, check
from tests.node.linear.handlers import BOOK
from tests.node.linear.worlds import make_world
from tests.node.test_node_process import Started, started, wait_until
from tests.tools import long_form

WAIT_S = 60.0
FRONT, KERNEL, WORKER = "front", "kernel process", "worker"
TROUBLES = (None, "again", "dead", "silence", None, "hang", None, None)


class Round:
    """A node and its workers, of which ``kill`` kills one and starts another."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, workers: int) -> None:
        self.world = make_world(folder / "world")
        self.book = folder / "book"
        self.book.touch()
        self._folder = folder
        self._stack = stack
        self._count = 0
        self._node_stack = stack.enter_context(contextlib.ExitStack())
        self._client = stack.enter_context(httpx.Client(timeout=WAIT_S, trust_env=False))
        self.node = self._start_node()
        self.workers = [self._start_worker() for _ in range(workers)]

    def _log(self, what: str) -> Path:
        self._count += 1
        return self._folder / f"{what}-{self._count}"

    def _start_node(self) -> Started:
        return self._node_stack.enter_context(started(self.world, self._log("node")))

    def _start_worker(self) -> subprocess.Popen[bytes]:
        return self._stack.enter_context(working(self.world, self.book, self._log("worker")))

    def kill(self, victim: str, chosen: int) -> None:
        if victim == FRONT:
            wait_until(self.node.kill_front)
        elif victim == KERNEL:
            self._node_stack.close()
            self.node = self._start_node()
        else:
            worker = self.workers.pop(chosen % len(self.workers))
            worker.kill()
            worker.wait()
            self.workers.append(self._start_worker())

    def ask(self, path: str, **body: Any) -> tuple[int, Any]:
        """Send a request until it is answered; a refusal is an answer."""
        until_s = time.monotonic() + WAIT_S
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = self._client.post(f"{self.node.url}/v1/linear/{path}", json=body)
                if answer.status_code not in (429, 503):
                    return answer.status_code, answer.json()
            assert time.monotonic() < until_s, f"never answered: {path} {body}"
            time.sleep(0.05)

    def run(self, instances: int, chance: random.Random) -> int:
        """Start instances, signal and cancel some; return how many have started."""
        begun = 0
        for number in range(instances):
            id, trouble = f"i-{number}", TROUBLES[number % len(TROUBLES)]
            key = f"k-{number % 5}" if number % 7 == 0 else None
            status, document = self.ask(
                "start", plan="job", instance=id, biz_key=key, context={"trouble": trouble}
            )
            # A start that was repeated after a crash finds its own instance.
            assert status == 200 or document["rule"] in ("exists", "taken"), document
            if status != 200 and document["rule"] == "taken" and id not in document["detail"]:
                continue
            begun += 1
            if trouble != "silence":
                self.ask("wake", instance=id, type="GO", event_id=f"e-{id}", payload={"n": number})
            if chance.random() < 0.1:
                self.ask("cancel", instance=id, reason="chance")
        return begun

    def finish(self) -> None:
        """Wait until every instance has ended, and stop each process cleanly."""
        wait_until(self._has_ended)
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            worker.wait(WAIT_S)
        self.node.process.send_signal(signal.SIGTERM)
        assert self.node.process.wait(WAIT_S) == 0

    def _has_ended(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            answer = self._client.get(
                f"{self.node.url}/v1/linear/instances", params={"status": "RUNNING", "limit": 1}
            )
            return answer.status_code == 200 and answer.json()["total"] == 0
        return False


@contextlib.contextmanager
def working(path: Path, book: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of the node in this folder, killed at the end of the block."""
    module = Path(__file__).with_name("handlers.py")
    words = ("worker", "--node", path, "--name", log.name, f"{module}:jobs")
    with log.open("w") as opened:
        process = start(*words, env={BOOK: str(book)}, stdout=opened, stderr=opened)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def play(folder: Path, *, instances: int, workers: int, victims: list[str], seed: int) -> None:
    """Kill these processes one after another at random times while instances run; then check."""
    chance = random.Random(seed)
    with contextlib.ExitStack() as stack:
        kill_round = Round(folder, stack, workers)
        done = threading.Event()
        with ThreadPoolExecutor(1) as sender:
            sending = sender.submit(kill_round.run, instances, random.Random(seed + 1))
            sending.add_done_callback(lambda _: done.set())
            for victim in victims:
                done.wait(chance.uniform(0.2, 1.0))
                kill_round.kill(victim, chance.randrange(workers))
            begun = sending.result()
        kill_round.finish()

    exported = here("inspect", "journal", "--from", "1", "--json", "--world", kill_round.world)
    assert exported.code == 0, exported.err
    book = [Line.read(line) for line in kill_round.book.read_text().splitlines()]
    ends = check(exported.out.splitlines(), book, begun)
    assert ends["result"] >= 3
    faults = here("inspect", "faults", "--json", "--world", kill_round.world).json
    assert faults["total"] == 0
    assert in_silence("replay", "--world", kill_round.world) == 0
    assert in_silence("verify", "--world", kill_round.world) == 0


@pytest.mark.long
def test_no_result_counts_without_its_lease_though_processes_are_killed(tmp_path: Path) -> None:
    if long_form():
        victims = [FRONT, KERNEL, *[WORKER] * 8] * 3
        random.Random(7).shuffle(victims)
        play(tmp_path, instances=500, workers=8, victims=victims, seed=7)
    else:
        play(tmp_path, instances=24, workers=2, victims=[WORKER, FRONT, KERNEL], seed=7)
