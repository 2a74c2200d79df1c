"""A front keeps its bounds with ten thousand connections, and over a million records (N-116,
N-140, N-143)."""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from aos.node.bounds import CONNECTIONS_MAX
from tests.copies import copied
from tests.host.conftest import template as puppets
from tests.host.puppet import DO
from tests.node.nodes import WAIT_S, Node
from tests.node.test_node_process import started
from tests.tools import long_form

__all__ = ["puppets"]

MIB: Final = 1 << 20
CONNECTIONS: Final = 10_000
RECORDS: Final = 1_000_000
BATCH: Final = 1_000


def memory_of(pid: int) -> int:
    """The memory of a process in bytes, without the pages of files that it has mapped."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


@contextlib.contextmanager
def descriptors(wanted: int) -> Iterator[None]:
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"a process here may open {hard} files: it takes {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


@pytest.mark.long
@pytest.mark.skipif(not long_form(), reason="it opens ten thousand connections")
def test_of_ten_thousand_connections_those_within_the_bound_are_served(node: Node) -> None:
    """The others are answered 503 and closed, and cost no memory; a client that was there before is
    served all the time."""
    before = node.client()
    assert before.get("/healthz").status_code == 200
    before_bytes = memory_of(node.process.pid)
    many: list[socket.socket] = []
    slowest = 0.0
    with descriptors(CONNECTIONS + 1_000), contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            many.append(stack.enter_context(node.raw()))
            if number % 250 == 0:
                began = time.monotonic()
                assert before.get("/healthz").status_code == 200
                slowest = max(slowest, time.monotonic() - began)
        assert answered(many) >= CONNECTIONS - CONNECTIONS_MAX
        assert memory_of(node.process.pid) - before_bytes < 100 * MIB
    assert slowest < 10
    until = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(httpx.HTTPError):
            if node.client().get("/healthz").status_code == 200:
                return
        assert time.monotonic() < until, "the front answers no more"


def answered(many: list[socket.socket]) -> int:
    """How many of these have an answer, which is 503, or are closed."""
    found = 0
    with selectors.DefaultSelector() as selector:
        for each in many:
            selector.register(each, selectors.EVENT_READ)
        while ready := selector.select(timeout=3):
            for key, _ in ready:
                one = key.fileobj
                assert isinstance(one, socket.socket)
                with contextlib.suppress(ConnectionResetError):
                    data = one.recv(64)
                    assert not data or data.startswith((b"HTTP/1.1 503", b"HTTP/1.1 408")), data
                selector.unregister(one)
                found += 1
    return found


@pytest.mark.long
@pytest.mark.skipif(not long_form(), reason="it streams a million records")
def test_a_million_records_are_streamed_in_bounded_memory(puppets: Path, tmp_path: Path) -> None:
    path, log = copied(puppets, tmp_path / "world"), tmp_path / "log"
    items = [
        {"schema": DO, "value": {"key": f"k-{number}", "out": None}} for number in range(BATCH)
    ]
    seen, problems = [0], list[str]()

    def read(url: str) -> None:
        with (
            httpx.Client(base_url=url, timeout=WAIT_S) as client,
            client.stream("GET", "/v1/journal/stream", params={"from": 1}) as answer,
        ):
            for line in answer.iter_lines():
                if line.startswith("id:"):
                    seq = int(line[3:])
                    if seq != seen[0] + 1:
                        problems.append(f"{seq} after {seen[0]}")
                        return
                    seen[0] = seq
                    if seq >= RECORDS:
                        return

    with started(path, log) as node, httpx.Client(base_url=node.url, timeout=WAIT_S) as client:
        reader = threading.Thread(target=read, args=(node.url,), daemon=True)
        reader.start()
        [front] = node.fronts()
        sent, early = 0, 0
        while sent < RECORDS:
            answer = client.post("/v1/events", json={"items": items})
            assert answer.status_code == 200, answer.text
            refused = [each for each in answer.json()["items"] if "problem" in each]
            sent = max([each["seq"] for each in answer.json()["items"] if "seq" in each] + [sent])
            if refused:
                time.sleep(0.2)  # the mailbox is full, and the world catches up
            if not early and seen[0] > RECORDS // 10:
                early = memory_of(front)
        until = time.monotonic() + 300
        while reader.is_alive() and time.monotonic() < until:
            time.sleep(0.2)
        assert problems == []
        assert seen[0] == RECORDS
        assert node.fronts() == [front], log.read_text()
        assert memory_of(front) - early < 64 * MIB
