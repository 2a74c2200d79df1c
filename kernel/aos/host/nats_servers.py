"""Three NATS servers on loopback, configured as a replicated world needs them (spec/cluster.md,
CL-30 to CL-36).

    DIR/cluster.json    the ports, which stay the same from start to start
    DIR/n1.conf         the configuration of a server, written on each start
    DIR/n1/             its data
    DIR/n1.log          its log

They are for trying things out, and for tests: all three are on one machine, and any program of that
machine may connect.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.closable import Closable
from aos.errors import BadUsage, Damage, Unavailable
from aos.shell_text import shell_word
from aos.store.log.nats_durability import monitor_document
from aos.store.plain_files import PlainFolder
from aos.tied_process import tied

HOST: Final = "127.0.0.1"
SERVERS: Final = 3
QUORUM: Final = 2
START_SECONDS: Final = 60.0
END_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.05
PORT_MAX: Final = 65535
PORTS_FILE: Final = "cluster.json"
LOCK_FILE: Final = "lock"
FILE_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPorts:
    """The ports of one server: for clients, for the other servers, and for monitoring."""

    client: int
    route: int
    monitor: int


class LocalServer:
    """One of the servers. ``process`` is None before its start."""

    def __init__(self, name: str, ports: ServerPorts, folder: Path) -> None:
        self.name = name
        self.ports = ports
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The number of its process; None before its start."""
        return None if self.process is None else self.process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code of its process, negative for a signal; None while it runs."""
        return None if self.process is None else self.process.poll()

    @property
    def monitor(self) -> str:
        """Its address for monitoring."""
        return f"http://{HOST}:{self.ports.monitor}"

    @property
    def log(self) -> Path:
        """Its log."""
        return self.folder / f"{self.name}.log"

    @property
    def configuration(self) -> Path:
        """Its configuration."""
        return self.folder / f"{self.name}.conf"

    def document(self, path: str) -> Mapping[str, Any] | None:
        """The server's account of itself for monitoring; None while it does not answer."""
        try:
            return monitor_document(self.monitor, path)
        except Unavailable:
            return None


class LocalServers(Closable):
    """The servers of a folder. ``start`` runs them, ``close`` ends them."""

    def __init__(
        self, folder: Path, program: Path, *, first_port: int | None = None, count: int = SERVERS
    ) -> None:
        """Make the folder, or use it again.

        Args:
            folder: Its ports and data are used again, if it has them.
            program: The nats-server.
            first_port: Clients connect to this port and the next ones, servers to each other to
                those that are 1,000 higher; monitoring is 2,000 higher. None: those of the folder,
                or else ports that are free now.
            count: How many servers; tests also use one.

        Raises:
            BadUsage: The folder cannot be made or used, or it has other ports.
            Damage: Its file of ports is not one.
            Unavailable: Another process runs these servers, or a port is in use.
        """
        if first_port is not None and not 0 < first_port <= PORT_MAX - 2000 - count:
            raise BadUsage(
                f"not a first port for {count} servers: {first_port}",
                expected=f"1 to {PORT_MAX - 2000 - count}",
            )
        self._program = program
        self._path = folder.absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = PlainFolder.at_user_path(self._path)
        except OSError as problem:
            raise BadUsage(f"not a folder for servers: {problem}", location=str(folder)) from None
        self.servers: tuple[LocalServer, ...] = ()
        self._check_folder()
        self._lock = self._locked()
        try:
            ports = self._ports(first_port, count)
        except BaseException:
            self.close()
            raise
        self.servers = tuple(
            LocalServer(f"n{index + 1}", server_ports, self._path)
            for index, server_ports in enumerate(ports)
        )

    @property
    def address(self) -> str:
        """The address of a world on these servers, without its name."""
        hosts = ",".join(f"{HOST}:{server.ports.client}" for server in self.servers)
        return f"nats://{hosts}"

    @property
    def monitors(self) -> tuple[str, ...]:
        """The addresses for monitoring."""
        return tuple(server.monitor for server in self.servers)

    def start(self, is_canceled: Callable[[], bool] = lambda: False) -> None:
        """Run the servers, and wait until they have elected a leader, or ``is_canceled``.

        Raises:
            Unavailable: A server ended, or they do not elect a leader in a minute.
        """
        for server in self.servers:
            self.start_server(server)
        until = time.monotonic() + START_SECONDS
        while not self._are_ready() and not is_canceled():
            for server in self.ended():
                raise Unavailable(f"the server {server.name} ended", hint=_log_end(server.log))
            if time.monotonic() > until:
                raise Unavailable(
                    f"the servers have elected no leader in {START_SECONDS:g} s",
                    location=str(self._path),
                    hint=f"see {', '.join(str(server.log) for server in self.servers)}",
                )
            time.sleep(POLL_SECONDS)

    def start_server(self, server: LocalServer) -> None:
        """Write the configuration of one server and run it."""
        text = json.dumps(self.configuration(server), indent=2)
        self._folder.put(server.configuration.name, f"{text}\n".encode())
        server.process = subprocess.Popen(  # noqa: S603  # the user's program
            tied([str(self._program), "--config", str(server.configuration)]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is for this process, which ends the servers in order.
            start_new_session=True,
        )

    def configuration(self, server: LocalServer) -> dict[str, Any]:
        """The configuration of a server, as it is written: JSON is the form of nats-server too."""
        document: dict[str, Any] = {
            "server_name": server.name,
            "listen": f"{HOST}:{server.ports.client}",
            "http": f"{HOST}:{server.ports.monitor}",
            "log_file": str(server.log),
            "logfile_size_limit": 16 * 1024 * 1024,
            "jetstream": {
                "store_dir": str(self._path / server.name),
                "sync_interval": "always",
            },
        }
        if len(self.servers) > 1:
            routes = [f"nats-route://{HOST}:{other.ports.route}" for other in self.servers]
            document["cluster"] = {
                "name": "aos",
                "listen": f"{HOST}:{server.ports.route}",
                "routes": routes,
            }
        return document

    def ended(self) -> list[LocalServer]:
        """The servers whose process has ended."""
        return [server for server in self.servers if server.exit_code is not None]

    def close(self) -> None:
        """End the servers, and let another process run them."""
        processes = [server.process for server in self.servers if server.process]
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + END_SECONDS
        for process in processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.close()
        os.close(self._lock)

    def _are_ready(self) -> bool:
        leaders = set()
        for server in self.servers:
            document = server.document("/jsz")
            if document is None:
                return False
            if len(self.servers) > 1:
                group = document.get("meta_cluster") or {}
                if group.get("cluster_size") != len(self.servers):
                    return False
                leaders.add(group.get("leader"))
        return len(self.servers) == 1 or (len(leaders) == 1 and all(leaders))

    def _check_folder(self) -> None:
        """Raise BadUsage if the folder has other things and no servers."""
        names = set(self._folder.names())
        others = [name for name in names if name != LOCK_FILE and not name.startswith(PORTS_FILE)]
        if others and PORTS_FILE not in names:
            self._folder.close()
            raise BadUsage(
                "not a folder of servers",
                location=str(self._path),
                expected="a new or empty folder, or one of an earlier aos cluster up",
                actual=f"{min(others)} in it",
            )

    def _locked(self) -> int:
        lock = self._folder.open(LOCK_FILE, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            self._folder.close()
            raise Unavailable(
                "another process runs the servers of this folder", location=str(self._path)
            ) from None
        return lock

    def _ports(self, first_port: int | None, count: int) -> Sequence[ServerPorts]:
        ports = self._stored_ports()
        if ports is not None and len(ports) != count:
            raise BadUsage(
                "this folder is of another number of servers",
                location=str(self._path),
                expected=str(count),
                actual=str(len(ports)),
            )
        if first_port is not None:
            chosen = [
                ServerPorts(client=port, route=port + 1000, monitor=port + 2000)
                for port in range(first_port, first_port + count)
            ]
            if ports is not None and ports != chosen:
                raise BadUsage(
                    "the servers of this folder have other ports, and worlds know them",
                    location=str(self._path),
                    expected=f"no --port, or --port {ports[0].client}",
                    actual=f"--port {first_port}",
                )
            ports = chosen
        if ports is None:
            numbers = _free_ports(3 * count)
            ports = [
                ServerPorts(client=client, route=route, monitor=monitor)
                for client, route, monitor in zip(*[iter(numbers)] * 3, strict=True)
            ]
        for server_ports in ports:
            for port in (server_ports.client, server_ports.route, server_ports.monitor):
                _check_free(port)
        rows = [[each.client, each.route, each.monitor] for each in ports]
        self._folder.put(PORTS_FILE, f"{json.dumps({'ports': rows})}\n".encode())
        return ports

    def _stored_ports(self) -> list[ServerPorts] | None:
        try:
            document = json.loads(self._folder.read(PORTS_FILE, FILE_BYTES_MAX))
            ports = [
                ServerPorts(client=int(client), route=int(route), monitor=int(monitor))
                for client, route, monitor in document["ports"]
            ]
            if not all(0 < number <= PORT_MAX for row in document["ports"] for number in row):
                raise ValueError("a port is not between 1 and 65535")
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as problem:
            raise Damage(
                f"the file of ports cannot be read: {problem!r}",
                location=str(self._path / PORTS_FILE),
                expected='{"ports": [[client, route, monitor], …]}',
                hint="remove it: free ports are chosen, and worlds need the new address",
            ) from None
        return ports


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, all different."""
    with contextlib.ExitStack() as probes:
        sockets = [probes.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in sockets]


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        # Else the connections of a server that has just ended would keep its port in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as problem:
            raise Unavailable(
                f"port {port} of {HOST} cannot be used: {problem}",
                hint="end the program that listens on it, or choose a new folder with --port",
            ) from None


def _log_end(log: Path) -> str:
    return f"see its log: tail {shell_word(str(log))}"
