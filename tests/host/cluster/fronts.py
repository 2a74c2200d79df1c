"""Three nodes of one world, each with a front, as processes on real servers."""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from aos.values.spelling import base64_text
from tests.host import puppet
from tests.host.cluster.node_processes import NodeProcess, waits
from tests.node.test_webhooks import SECRET, Post

NAMES = ("a", "b", "c")
SERVING = "serving "
LEASE_S = 5
"""Longer than that of other nodes: these tests name the owner and ask the others."""

STARTS = 8
"""How many times 30 s the start of all nodes may take on a busy machine."""


@dataclass
class Answers:
    """The answers of the receiver to posts. Those behind the first ``most`` are held back."""

    most: int | None = None

    def __call__(self, number: int) -> int:
        """The status of the answer to a post."""
        while self.most is not None and number > self.most:
            time.sleep(0.01)
        return 204


@dataclass
class Fronts:
    """Three nodes of one world, each with a front."""

    folders: dict[str, Path]
    begin: Callable[..., NodeProcess]
    nodes: dict[str, NodeProcess] = field(default_factory=dict)
    clients: dict[str, httpx.Client] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    """How many lines about its address a node had printed before its start."""
    posts: list[Post] = field(default_factory=list)
    """The posts of the webhook that each node has, about events that the puppet emits."""
    answers: Answers = field(default_factory=Answers)

    def start(self, name: str, *more: str) -> NodeProcess:
        """Start a node, or start it again."""
        words = ("--listen", "127.0.0.1:0", "--lease", str(LEASE_S), *more)
        earlier = self.nodes.get(name)
        self.lines[name] = 0 if earlier is None else earlier.output.count(SERVING)
        node = self.begin(self.folders[name], *words, command="node", PYTHONUNBUFFERED="1")
        self.nodes[name] = node
        return node

    def http(self, name: str) -> httpx.Client:
        """A client at the own socket of a node."""
        if name not in self.clients:
            path = self.folders[name] / "node" / "http.sock"
            transport = httpx.HTTPTransport(uds=str(path))
            self.clients[name] = httpx.Client(
                transport=transport, base_url="http://node", timeout=90
            )
        return self.clients[name]

    def url(self, name: str) -> str:
        """The address of a node over TCP."""
        return str(re.findall(rf"{SERVING}(http://\S+)", self.nodes[name].output)[-1])

    def serves(self, name: str) -> bool:
        """Whether the front of a node listens, and its process runs."""
        node = self.nodes[name]
        return node.process.poll() is None and node.output.count(SERVING) > self.lines[name]

    def ready(self, name: str) -> dict[str, Any]:
        """The readiness of a node, as its front reports it; empty while it is not ready."""
        if not self.serves(name):
            return {}
        answer = self.http(name).get("/readyz")
        return dict(answer.json()) if answer.status_code == 200 else {}

    def all_ready(self) -> None:
        """Wait until one node owns the world and the others follow it, by what their fronts say."""

        def are_ready() -> bool:
            documents = [self.ready(name) for name in NAMES]
            owners = {document.get("owner") for document in documents}
            roles = Counter(document.get("role") for document in documents)
            return roles == {"owner": 1, "standby": 2} and len(owners) == 1 and None not in owners

        patiently(are_ready, lambda: str([node.output for node in self.nodes.values()]))

    @property
    def owner(self) -> str:
        """The node that owns the world."""
        self.all_ready()
        return next(name for name in NAMES if self.ready(name).get("role") == "owner")

    @property
    def standby(self) -> str:
        """A node that follows it."""
        owner = self.owner
        return next(name for name in NAMES if name != owner)

    def kill_owner(self) -> str:
        """Kill the owner; return its name."""
        owner = self.owner
        self.nodes[owner].kill()
        return owner


def give_webhook(folder: Path, url: str) -> None:
    """Have the front of a node post the events that the puppet emits."""
    secret = folder / "hook.secret"
    secret.write_bytes(b"whsec_" + base64.b64encode(SECRET))
    secret.chmod(0o600)
    lines = [
        "[webhooks.emitted]", f'url = "{url}"', f'schemas = ["{puppet.DO}"]',
        'secret = "hook.secret"',
    ]  # fmt: skip
    (folder / "node.toml").write_text("\n".join(lines))


def patiently(condition: Callable[[], object], reason: Callable[[], str]) -> None:
    for _ in range(STARTS - 1):
        try:
            waits(condition, reason)
        except AssertionError:
            continue
        return
    waits(condition, reason)


def event(cell: str, *words: str, id: str | None = None) -> dict[str, Any]:
    value: dict[str, Any] = {"key": cell}
    if words:
        value["out"] = base64_text(puppet.asks(*words))
    document = {"schema": puppet.DO, "value": value}
    return document if id is None else {**document, "submission_id": id}


@contextmanager
def over_tcp(path: Path) -> Iterator[str]:
    """The own socket of a node at an address for a browser, which speaks no Unix sockets."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as node:
                node.connect(str(path))
                back = threading.Thread(target=_copy, args=(node, self.request), daemon=True)
                back.start()
                _copy(self.request, node)
                back.join()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
