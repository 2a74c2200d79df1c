"""``aos cluster``: the servers of replicated worlds (spec/cli.md, C-117)."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from aos.errors import Unavailable
from aos.host.nats_program import check_release, find_nats_server
from aos.host.nats_servers import QUORUM, LocalServer, LocalServers
from aos.shell_text import shell_word
from aos_cli.options import Json, argument, number, option
from aos_cli.output import note, print_json_line

WATCH_SECONDS = 0.2


def up(
    folder: Annotated[
        Path, argument("DIR", "Folder of the servers: made, or used again with its data.")
    ],
    *,
    port: Annotated[
        int | None,
        option(
            "PORT",
            "First port for clients; the servers use this one and the next two, and those that are "
            "1,000 and 2,000 higher. Default: the ports of DIR, or free ones.",
            parser=number,
        ),
    ] = None,
    json: Json = False,
) -> None:
    program = find_nats_server()
    check_release(program)
    with stop_signal() as stop, LocalServers(folder, program, first_port=port) as servers:
        servers.start(stop.is_set)
        if not stop.is_set():
            _show(servers, as_json=json)
        reported: set[str] = set()
        while not stop.wait(WATCH_SECONDS):
            for server in servers.ended():
                if server.name not in reported:
                    reported.add(server.name)
                    _report(server, program, as_json=json)
            if len(servers.servers) - len(reported) < QUORUM:
                raise Unavailable(
                    "too few servers are left to acknowledge anything",
                    location=str(folder),
                    expected=f"at least {QUORUM} of {len(servers.servers)}",
                    actual=str(len(servers.servers) - len(reported)),
                    hint=f"aos cluster up {shell_word(str(folder))} starts them again with their "
                    "data",
                )


def _show(servers: LocalServers, *, as_json: bool) -> None:
    url = f"{servers.address}/NAME"
    if as_json:
        rows = [
            {
                "name": server.name,
                "pid": server.pid,
                "monitor": server.monitor,
                "log": str(server.log),
            }
            for server in servers.servers
        ]
        print_json_line({"url": url, "servers": rows}, at_once=True)
        return
    note("three servers on this machine (Ctrl-C ends them)")
    note(f"  world NAME: {url}")
    for server in servers.servers:
        note(f"  {server.name}: process {server.pid}, monitor {server.monitor}, log {server.log}")


def _report(server: LocalServer, program: Path, *, as_json: bool) -> None:
    if as_json:
        print_json_line({"ended": server.name, "code": server.exit_code}, at_once=True)
        return
    command = f"{shell_word(str(program))} --config {shell_word(str(server.configuration))}"
    note(
        f"the server {server.name} ended with code {server.exit_code}; the others continue. To "
        f"start it again: {command}",
        style="red",
    )


@contextlib.contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """An event that a signal to end sets."""
    event = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {each: signal.signal(each, lambda *_: event.set()) for each in numbers}
    try:
        yield event
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
