"""A world that a process runs, and its front, for clients and for hostile bytes."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from aos.errors import AosError
from aos.host.door.remote import ask_running
from tests.cli.shell import environment, start
from tests.client.conftest import start_trips
from tests.node.answers import check_response

WAIT_S = 60.0
WANTED = "trip/Requested@1"
SERVER = "127.0.0.1:7460"
"""The address of the router of a front that is mounted."""


@dataclass
class Node:
    """A front over a world that another process runs. ``url`` is its TCP address."""

    path: Path
    port: int
    unix: Path
    process: subprocess.Popen[str]
    log: Path
    kernel: subprocess.Popen[bytes]
    scheme: str = "http"
    door: Path | None = None
    """The Unix socket that is the door of a front that is mounted."""
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def client(self, **more: Any) -> httpx.Client:
        found = httpx.Client(
            base_url=self.url, timeout=WAIT_S, trust_env=False,
            event_hooks={"response": [check_response]}, **{"verify": False, **more},
        )  # fmt: skip
        self.clients.append(found)
        return found

    def owner(self) -> httpx.Client:
        """A client on the node's own socket. As of ``client``, each of its answers is compared with
        the document of the API."""
        transport = httpx.HTTPTransport(uds=str(self.unix), verify=False)
        found = httpx.Client(
            base_url="http://node", transport=transport, timeout=WAIT_S,
            event_hooks={"response": [check_response]},
        )  # fmt: skip
        self.clients.append(found)
        return found

    def routed(self, server: str = SERVER, **more: Any) -> httpx.Client:
        """A client of a router at ``server``, which passes on each request as it is."""
        assert self.door is not None
        found = httpx.Client(
            base_url=f"http://{server}", timeout=WAIT_S, trust_env=False,
            transport=httpx.HTTPTransport(uds=str(self.door)),
            event_hooks={"response": [check_response]}, **more,
        )  # fmt: skip
        self.clients.append(found)
        return found

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def requests(self) -> list[dict[str, Any]]:
        """The lines of the access log."""
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def stop_front(self) -> int:
        """End stdin, as the end of the kernel process does; return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(WAIT_S)


@contextlib.contextmanager
def front(
    path: Path,
    folder: Path,
    kernel: subprocess.Popen[bytes],
    *,
    module: str = "aos.node.front",
    mount: Mapping[str, Any] | None = None,
    has_tcp_door: bool = False,
    is_run: bool = True,
    **settings: Any,
) -> Iterator[Node]:
    """Run a front for the world at ``path``; ``folder`` is for its sockets and its log. ``mount``
    are the settings of a front that is mounted, without its door. With ``has_tcp_door``, clients
    reach the door themselves, at ``url``. Where the world ``is_run``, the front hands out work."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "front.log"
    unix_path = folder / "http.sock"
    door_path = folder / "door.sock"
    for socket_path in (unix_path, door_path):
        socket_path.unlink(missing_ok=True)
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unix,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door,
        log.open("w") as stderr,
    ):
        for listener, socket_path in ((unix, unix_path), (door, door_path)):
            listener.bind(str(socket_path))
            listener.listen(128)
        port = tcp.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            pass_fds=[tcp.fileno(), unix.fileno(), door.fileno()],
            env=environment(),
        )
        given: dict[str, Any] = {
            "world": str(path), "tcp": tcp.fileno(), "unix": unix.fileno(),
            "address": f"127.0.0.1:{port}", "tls": None, "insecure": False, "operator_key": False,
            "mount": None if mount is None else {**at_router(), **mount, "door": door.fileno()},
        }  # fmt: skip
        if has_tcp_door:
            given["tcp"] = None
            given["mount"] |= {"door": tcp.fileno(), "server": ["127.0.0.1", port]}
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(given | settings) + "\n")
        process.stdin.flush()
        scheme = "https" if settings.get("tls") else "http"
        door_at = None if has_tcp_door else door_path
        node = Node(path, port, unix_path, process, log, kernel, scheme, door_at)
        try:
            assert process.stdout.readline() == "ready\n", log.read_text()
            if mount is None and is_run:
                _until_open(node)
            yield node
        finally:
            for each in node.clients:
                each.close()
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()


def _until_open(node: Node) -> None:
    """Wait until the front hands out work, a moment after it takes requests."""
    until = time.monotonic() + WAIT_S
    while not node.owner().get("/readyz").json()["world_is_open"]:
        assert time.monotonic() < until, "the front does not hand out work"
        time.sleep(0.02)


def at_router(name: str = "alpha") -> dict[str, Any]:
    """The settings of a front that is mounted at a router at ``SERVER``, without its door."""
    host, _, port = SERVER.partition(":")
    return {"name": name, "server": [host, int(port)], "scheme": "http", "tokens": None}


@contextlib.contextmanager
def running_kernel(path: Path, *, executors: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    """Run the trips' world, with its executors or without; it answers on its socket. Kill it at the
    end."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = start_trips(path) if executors else start("run", "--world", path, **quiet)
    try:
        until = time.monotonic() + WAIT_S
        while True:
            try:
                ask_running(path, "status")
            except AosError:
                assert time.monotonic() < until, "the world does not answer"
                assert process.poll() is None, "the world has ended"
                time.sleep(0.05)
            else:
                break
        yield process
    finally:
        process.kill()
        process.wait()


def wait_ready(client: httpx.Client) -> None:
    """Wait until a front has heard from its kernel process: it tries ten times a second."""
    until = time.monotonic() + WAIT_S
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < until, "the front is not ready"
        time.sleep(0.05)


def trip(id: str, city: str = "Lisbon") -> dict[str, str]:
    return {"trip_id": id, "city": city}


def event(id: str, city: str = "Lisbon", **more: Any) -> dict[str, Any]:
    return {"schema": WANTED, "value": trip(id, city), **more}


def unread_claim(
    url: str,
    body: Mapping[str, Any],
    cause: Callable[[], object] = lambda: None,
    *,
    until_answered: bool = True,
) -> None:
    """Let a client claim, wait until ``cause`` has brought it an answer, and end without reading
    it, as a worker does that is killed in that moment."""
    data = json.dumps(body).encode()
    node = httpx.URL(url)
    with socket.create_connection((node.host, node.port or 0), timeout=WAIT_S) as client:
        head = f"POST /v1/work/claim HTTP/1.1\r\nHost: {node.netloc.decode()}\r\n"
        client.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        cause()
        if until_answered:
            assert client.recv(64, socket.MSG_PEEK).startswith(b"HTTP/1.1 200")
