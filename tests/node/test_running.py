"""The kernel process of a node: its front, its sockets, its end (spec/node.md, N-1 to N-9)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from aos.core.decide.answers import Admitted
from aos.errors import BadUsage, Refused, Unavailable
from aos.host.door.remote import ask_running
from aos.host.folder.folder import open_folder
from aos.node import supervision
from aos.node.mounted import Mounted
from aos.node.running import NodeAddresses, NodeOptions, run_node
from aos.node.sockets import HTTP_SOCKET, ListenAddress, Tls
from aos.node.tokens import NODE, Scope, create
from tests.host.conftest import template, world
from tests.host.puppet import do
from tests.host.test_process import send, until

__all__ = ["template", "world"]

T = TypeVar("T")
WAIT_S = 120.0
LOOPBACK = ListenAddress(host="127.0.0.1", port=0)


@dataclass
class Node:
    """A node in this process, with a front that a test tells how to behave."""

    path: Path
    words: tuple[str, ...]
    log: Path = field(init=False)
    opened: list[NodeAddresses] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = self.path.parent / "fronts.jsonl"

    def options(self, **more: Any) -> NodeOptions:
        found: dict[str, Any] = {
            "listen": LOOPBACK,
            "report": self.reports.append,
            "on_open": self.opened.append,
            "handle_signals": False,
            "front": (sys.executable, "-m", "tests.node.fake_front", str(self.log), *self.words),
            **more,
        }
        return NodeOptions(**found)

    @property
    def fronts(self) -> list[dict[str, Any]]:
        """The settings of each front so far, with its process id."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    @property
    def port(self) -> int:
        return int(self.opened[0].url.rpartition(":")[2])

    def front_pid(self) -> int:
        """Ask the front that answers for its process id."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as client:
            return int(client.makefile().readline())

    def is_alive(self, number: int) -> bool:
        """Whether the front of this number still runs."""
        try:
            os.kill(self.fronts[number]["pid"], 0)
        except ProcessLookupError:
            return False
        return True


@contextlib.asynccontextmanager
async def running(node: Node, **more: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """The node from the moment when it answers, until its end."""
    task = asyncio.create_task(run_node(node.path, node.options(**more)))
    await until(lambda: bool(node.opened) or task.done())
    if task.done():
        task.result()
    try:
        yield task
    finally:
        if not task.done():
            with contextlib.suppress(Unavailable):
                await asyncio.to_thread(ask_running, node.path, "stop")
        await asyncio.wait({task})


def run(body: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(WAIT_S):
            return await body

    return asyncio.run(bounded())


def test_a_front_serves_the_sockets_of_the_kernel_process_and_ends_with_it(world: Path) -> None:
    """N-3, N-5"""
    node = Node(world, ("good",))

    async def body() -> None:
        async with running(node):
            [front] = node.fronts
            assert await asyncio.to_thread(node.front_pid) == front["pid"]
            own = world / NODE / HTTP_SOCKET
            assert node.opened[0].own_socket == own
            assert stat.S_IMODE(own.stat().st_mode) == 0o600
            assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700
            assert await asyncio.to_thread(pid_behind, own) == front["pid"]
            assert front["mount"] is None
            assert front["world"] == str(world)
            assert front["address"] == f"127.0.0.1:{node.port}"
            assert (front["tls"], front["insecure"], front["operator_key"]) == (None, False, False)
            assert node.opened[0].is_open
            assert isinstance((await asyncio.to_thread(send, world, do("a")))[0], Admitted)
        assert not own.exists()
        assert not node.is_alive(0)

    run(body())


def test_each_front_of_a_mounted_world_gets_the_door_of_the_router(world: Path) -> None:
    """N-132a"""
    node = Node(world, ("good",))
    at = world.parent / "door.sock"

    async def body() -> None:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(at))
            door.listen()
            mount = Mounted(
                name="alpha", door=door, server=("127.0.0.1", 7460), scheme="https",
                tokens=world / "all.json",
            )  # fmt: skip
            async with running(node, listen=None, mount=mount):
                first = await asyncio.to_thread(pid_behind, at)
                os.kill(first, signal.SIGKILL)
                second = await asyncio.to_thread(pid_behind, at)
                assert [each["pid"] for each in node.fronts] == [first, second]
                for front in node.fronts:
                    assert front["tcp"] is None
                    assert front["mount"] == {
                        "name": "alpha", "door": door.fileno(), "server": ["127.0.0.1", 7460],
                        "scheme": "https", "tokens": str(world / "all.json"),
                    }  # fmt: skip

    run(body())


def pid_behind(path: Path) -> int:
    """Ask the front that answers at a socket for its process id."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT_S)
        client.connect(str(path))
        return int(client.makefile().readline())


def test_a_front_that_is_killed_is_started_again_on_the_same_port(world: Path) -> None:  # N-5
    node = Node(world, ("good",))

    async def body() -> None:
        async with running(node):
            first = await asyncio.to_thread(node.front_pid)
            os.kill(first, signal.SIGKILL)
            second = await asyncio.to_thread(node.front_pid)  # the connection waits for the next
            assert second != first
            assert [each["pid"] for each in node.fronts] == [first, second]
            assert node.reports == ["the front died (signal 9); it is started again"]

    run(body())


def test_after_five_quick_deaths_the_world_stops_cleanly(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-6"""
    monkeypatch.setattr(supervision, "BACKOFF_S", 0.001)
    node = Node(world, ("brief",))
    with pytest.raises(Unavailable, match="the front died 5 times in a row"):
        run(run_node(world, node.options()))
    assert len(node.fronts) == 5
    assert isinstance(send(world, do("a"))[0], Admitted), "the world is free"


def test_a_front_that_was_started_wrongly_ends_the_node_at_once(world: Path) -> None:  # N-6
    node = Node(world, ("refuse",))
    with pytest.raises(BadUsage, match="the front cannot serve this world"):
        run(run_node(world, node.options()))
    assert len(node.fronts) == 1
    assert not node.opened


def test_a_front_that_is_never_ready_counts_as_dead(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-6"""
    monkeypatch.setattr(supervision, "READY_S", 0.5)
    node = Node(world, ("mute", "good"))

    def report(_: str) -> None:
        # A busy machine may need more time for the first one to begin; the next one has its time.
        ready_s = WAIT_S if node.fronts else 2 * supervision.READY_S
        monkeypatch.setattr(supervision, "READY_S", ready_s)

    async def body() -> None:
        async with running(node, report=report):
            assert await asyncio.to_thread(node.front_pid) == node.fronts[1]["pid"]
            assert not node.is_alive(0)

    run(body())


def test_the_world_answers_until_its_front_has_drained(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N-8: a second signal ends the wait, which is longer than this test may take."""
    monkeypatch.setattr(supervision, "DRAIN_S", 10 * WAIT_S)
    node = Node(world, ("busy",))

    async def body() -> None:
        hurry = asyncio.Event()
        task = asyncio.create_task(run_node(world, node.options(handle_signals=True)))
        await until(lambda: bool(node.opened))
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(3):
            assert isinstance((await asyncio.to_thread(send, world, do("a")))[0], Admitted)
        assert await asyncio.to_thread(node.front_pid), "it still answers"
        assert not task.done()
        os.kill(os.getpid(), signal.SIGTERM)
        await task
        assert not node.is_alive(0)
        assert not hurry.is_set()

    run(body())


def test_two_signals_end_a_node_whose_front_never_answers(world: Path) -> None:  # N-21
    node = Node(world, ("mute",))

    async def body() -> None:
        task = asyncio.create_task(run_node(world, node.options(handle_signals=True)))
        await until(lambda: bool(node.fronts))
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)
        ended = await task
        assert not ended.is_idle
        assert not node.opened
        assert not node.is_alive(0)

    run(body())


def test_a_front_that_does_not_end_is_killed(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-8"""
    monkeypatch.setattr(supervision, "DRAIN_S", 0.1)
    monkeypatch.setattr(supervision, "END_S", 0.2)
    node = Node(world, ("deaf",))

    async def body() -> None:
        async with running(node):
            pass
        assert not node.is_alive(0)

    run(body())


def test_a_port_that_is_taken_is_found_before_the_world_is_opened(world: Path) -> None:  # N-3
    node = Node(world, ("good",))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = ListenAddress(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(Unavailable, match="cannot listen there: Address already in use"):
            run(run_node(world, node.options(listen=address)))
    assert not node.fronts
    assert not (world / NODE).exists()


def test_other_machines_need_a_token_and_encryption(world: Path) -> None:  # N-4
    node = Node(world, ("good",))
    everywhere = ListenAddress(host="0.0.0.0", port=0)  # that is what is tested

    async def body() -> None:
        async with running(node, listen=everywhere, is_insecure=True):
            assert not node.opened[0].is_open
            assert node.fronts[0]["insecure"] is True

    with pytest.raises(Refused, match="this world has no tokens"):
        run(run_node(world, node.options(listen=everywhere, is_insecure=True)))
    create(open_folder(world), "reader", (Scope("read"),), secret=bytes(32), now_ns=0)
    with pytest.raises(Refused, match="unencrypted"):
        run(run_node(world, node.options(listen=everywhere)))
    assert not node.fronts
    run(body())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:7460", ("127.0.0.1", 7460)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, found: tuple[str, int]) -> None:
    address = ListenAddress.read(text)
    assert (address.host, address.port) == found
    assert address.text == text


@pytest.mark.parametrize(
    "text",
    ["", "7460", ":7460", "host", "host:", "host:65536", "host:-1", "host:7 ", "::1:80", "h:٣"],
)
def test_something_else_is_no_address(text: str) -> None:
    with pytest.raises(BadUsage, match="expected HOST:PORT"):
        ListenAddress.read(text)


def test_a_host_that_is_not_there_is_refused(world: Path) -> None:
    node = Node(world, ("good",))
    nowhere = ListenAddress(host="no.such.host.invalid", port=0)
    with pytest.raises(BadUsage, match="there is no such host"):
        run(run_node(world, node.options(listen=nowhere)))


def test_tls_files_that_are_missing_open_to_others_or_no_certificate_are_refused(
    world: Path, tmp_path: Path
) -> None:
    node = Node(world, ("good",))
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    with pytest.raises(BadUsage, match=r"cert\.pem: expected a file in PEM format, found none"):
        run(run_node(world, node.options(tls=Tls(cert=cert, key=key))))
    cert.write_text("nonsense")
    key.write_text("nonsense")
    key.chmod(0o644)
    with pytest.raises(Refused, match="others may read this secret key"):
        run(run_node(world, node.options(tls=Tls(cert=cert, key=key))))
    key.chmod(0o600)
    with pytest.raises(BadUsage, match="expected a certificate and its key"):
        run(run_node(world, node.options(tls=Tls(cert=cert, key=key))))
    assert not node.fronts


def test_a_thing_in_the_place_of_the_own_socket_is_left_alone(world: Path) -> None:  # ST-80
    node = Node(world, ("good",))
    (world / NODE).mkdir()
    thing = world / NODE / HTTP_SOCKET
    thing.write_text("mine")
    with pytest.raises(Exception, match="expected a socket"):
        run(run_node(world, node.options()))
    assert thing.read_text() == "mine"
