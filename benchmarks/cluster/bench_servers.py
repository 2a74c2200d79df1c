"""NATS servers of a benchmark: one or three on loopback, whose leader can be killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from aos.errors import Unavailable
from aos.host.nats_program import find_nats_server
from aos.host.nats_servers import LocalServer, LocalServers

WAIT_S: Final = 120.0
_STREAMS: Final = "/jsz?accounts=true&streams=true"


class BenchServers(LocalServers):
    """``count`` servers. Without ``syncs``, they have the default setting of NATS, which loses
    acknowledged messages when machines lose power."""

    def __init__(self, folder: Path, *, count: int, syncs: bool = True) -> None:
        self.syncs = syncs
        super().__init__(folder, find_nats_server(), count=count)

    def configuration(self, server: LocalServer) -> dict[str, Any]:
        document = super().configuration(server)
        if not self.syncs:
            del document["jetstream"]["sync_interval"]
        return document

    @property
    def durability_words(self) -> list[str]:
        """Options of ``aos adopt`` and ``aos join``."""
        if not self.syncs:
            return ["--unverified-durability"]
        return [word for monitor in self.monitors for word in ("--monitor", monitor)]

    @property
    def pids(self) -> list[int]:
        return [server.pid for server in self.servers if server.pid is not None]

    def kill(self, server: LocalServer) -> None:
        assert server.process is not None, "started"
        server.process.kill()
        server.process.wait()

    def restart(self, server: LocalServer, stream: str) -> None:
        """Run a server again, and wait until its copy of the stream is current."""
        self.start_server(server)
        wait_until(lambda: self.is_whole(stream), f"server {server.name} does not catch up")

    def leader_of(self, stream: str, *, but: LocalServer | None = None) -> LocalServer | None:
        """Return the leader of a stream, as one of the servers knows it; None if none does.
        ``but`` was killed: it is neither asked nor the answer."""
        named = {server.name: server for server in self.servers if server is not but}
        for server in named.values():
            leader = named.get(str(_group(server, stream).get("leader")))
            if leader is not None:
                return leader
        return None

    def is_whole(self, stream: str) -> bool:
        """Whether the leader of a stream knows a current copy of it on each other server."""
        leader = self.leader_of(stream)
        if leader is None:
            return False
        replicas = _group(leader, stream).get("replicas") or []
        current = [row for row in replicas if row.get("current") and not row.get("offline")]
        return len(current) == len(self.servers) - 1


def _group(server: LocalServer, stream: str) -> Mapping[str, Any]:
    document = server.document(_STREAMS) or {}
    for account in document.get("account_details") or []:
        for detail in account.get("stream_detail") or []:
            if detail["name"] == stream:
                group: Mapping[str, Any] = detail.get("cluster") or {}
                return group
    return {}


def wait_until(is_so: Callable[[], bool], reason: str, *, pause_s: float = 0.05) -> None:
    """Wait for two minutes at most. Raises: Unavailable: The ``reason``."""
    until_s = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > until_s:
            raise Unavailable(f"{reason} in {WAIT_S:g} s")
        time.sleep(pause_s)
