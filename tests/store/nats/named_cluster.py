"""A world on a server, which commands name by its address."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aos.core.journal.record_codec import from_bytes
from aos.host.folder.folder import key_file
from aos.store.log.logged_store import LoggedStore
from tests.cli.shell import Result, here
from tests.host import puppet
from tests.host.cluster import bus_owner
from tests.memory_world import OPERATOR_KEY
from tests.nats_servers import Servers

DO = "host/Do@1"


def event(key: str) -> str:
    return json.dumps({"key": key, "out": None, "trap": None})


@dataclass
class NamedCluster:
    """A world on a server, and the processes of its nodes, which own it one after the other."""

    folder: Path
    address: str
    stream: str
    manifest: Path
    key: Path
    stack: ExitStack = field(default_factory=ExitStack)

    def start(self, node: str) -> subprocess.Popen[str]:
        servers = self.address.rpartition("/")[0]
        return self.stack.enter_context(
            bus_owner.owner(self.folder, f"{servers}/x", self.stream, node)
        )

    def aos(self, *words: str | Path) -> Result:
        return here(*words, "--world", self.address)

    def signed(self, *words: str | Path) -> Result:
        return self.aos(*words, "--operator-key", self.key)

    def records(self, node: str) -> list[object]:
        with LoggedStore.open(self.folder / node, readonly=True) as store:
            return [from_bytes(data) for frame in store.frames() for data in frame.records]


@contextmanager
def named_cluster(server: Servers, tmp_path: Path) -> Iterator[NamedCluster]:
    """The world; the processes of its nodes are killed at the end."""
    name = f"w{secrets.token_hex(4)}"
    key = tmp_path / "operator.key"
    key.write_bytes(key_file(OPERATOR_KEY))
    key.chmod(0o600)
    manifest = tmp_path / "manifest"
    manifest.mkdir()
    for file, data in puppet.files().items():
        (manifest / file).write_bytes(data)
    stream = bus_owner.made(server, tmp_path, name)
    cluster = NamedCluster(tmp_path, f"{server.address}/{name}", stream, manifest, key)
    with cluster.stack:
        yield cluster
