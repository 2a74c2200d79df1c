"""``aos node`` as its users run it: over HTTP, with processes that are killed (N-1 to N-23)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from aos.node.sockets import HTTP_SOCKET
from aos.node.tokens import NODE
from tests.cli.shell import start
from tests.host.conftest import template, world
from tests.host.puppet import DO, PUPPET

__all__ = ["template", "world"]

WAIT_S = 90.0
FRONT = b"aos.page.node_page"


@dataclass
class Started:
    """``aos node`` in a process of its own, on a port that the system chose."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        for line in self.log.read_text().splitlines():
            if line.startswith("serving "):
                return line.split()[1]
        return ""

    def fronts(self) -> list[int]:
        return self.children(FRONT)

    def kill_front(self) -> bool:
        """Kill the front, if there is one now: it may just have ended by an earlier kill."""
        for pid in self.fronts():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def children(self, word: bytes) -> list[int]:
        """The process ids of its children with this word in their command line."""
        found = []
        for each in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # the thread has ended
                pids = each.read_text().split()
                found += [int(pid) for pid in pids if word in command_line(int(pid))]
        return found


@contextlib.contextmanager
def started(
    path: Path, log: Path, *options: str | Path, begin: Sequence[str] = ()
) -> Iterator[Started]:
    with log.open("w") as opened:
        words = ("node", "--listen", "127.0.0.1:0", "--world", path, *options)
        process = start(*words, stdout=opened, stderr=opened, begin=begin)
    node = Started(process, log)
    try:
        wait_until(lambda: bool(node.url) or process.poll() is not None)
        assert node.url, log.read_text()
        yield node
    finally:
        fronts = node.fronts()
        process.kill()
        process.wait()
        for pid in fronts:
            wait_until(lambda pid=pid: not is_alive(pid))


def is_alive(pid: int) -> bool:
    return FRONT in command_line(pid)


def command_line(pid: int) -> bytes:
    """The words of a process; none of one that has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def wait_until(is_so: Any) -> None:
    until_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until_s, "never"
        time.sleep(0.05)


def post(client: httpx.Client, key: str, wait: str = "ran") -> dict[str, Any]:
    answer = client.post(
        "/v1/events",
        params={"wait": wait},
        headers={"Idempotency-Key": key},
        json={"schema": DO, "value": {"key": key, "out": None, "trap": None}},
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_node_serves_its_world_though_its_processes_are_killed(
    world: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with started(world, log) as node, httpx.Client(base_url=node.url, timeout=WAIT_S) as client:
        first = post(client, "a")
        assert first["to"][0]["workflow"] == PUPPET
        assert first["to"][0]["ran"] is True

        [front] = node.fronts()
        os.kill(front, signal.SIGKILL)
        wait_until(lambda: node.fronts() not in ([], [front]))
        with httpx.Client(base_url=node.url, timeout=WAIT_S) as again:
            assert post(again, "a")["seq"] == first["seq"], "the next front has the same world"
            second = post(again, "b")
            assert second["seq"] > first["seq"]

        [front] = node.fronts()
        node.process.kill()
        wait_until(lambda: not is_alive(front))

    with started(world, log) as node, httpx.Client(base_url=node.url, timeout=WAIT_S) as client:
        assert post(client, "b", "durable")["seq"] == second["seq"], "it was acknowledged"
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(WAIT_S) == 0
        assert "stopped at record" in log.read_text()
    assert not (world / NODE / HTTP_SOCKET).exists()
