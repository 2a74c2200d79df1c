"""Serve the page on a loopback address until it is told to end (spec/page.md, PG-23).

    python -m aos.page.page_server WORLD

As a program it is the page of ``aos dev --page``: on a free port, it prints its URL on stdout, and
ends at the end of stdin, so that it never outlives the process that has started it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import uvloop

from aos.errors import AosError, Refused
from aos.node.bounded_server import BoundedServer
from aos.node.bounds import BoundedProtocol
from aos.node.child_program import end_of_stdin
from aos.node.sockets import ListenAddress, actual, tcp_socket
from aos.page.page_app import PageApp
from aos.page.page_headers import LINES
from aos.page.page_session import PageSession
from aos.page.page_worlds import PageWorlds
from aos.private_memory import keep_memory_private

LISTEN: Final = ListenAddress(host="127.0.0.1", port=7470)


class PageProtocol(BoundedProtocol):
    """The protocol of the front of a node, with the headers of the page on its own answers."""

    refusal_headers = LINES
    connections_max = 64


def run_page(
    paths: Sequence[Path],
    address: ListenAddress,
    *,
    needs_token: bool,
    on_open: Callable[[str], None],
    stdin: int | None = None,
) -> None:
    """Serve worlds and bundles until SIGINT or SIGTERM, or until the end of the descriptor
    ``stdin`` if one is given. ``on_open`` is called with the URL.

    Raises:
        Refused: The address is not a loopback address.
        Unavailable: The address is in use.
        AosError: None of the worlds can be read.
    """
    check_loopback(address)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    worlds = PageWorlds(paths)
    worlds.locate()
    with tcp_socket(address) as listener:
        session = PageSession(actual(listener).port, needs_token=needs_token)
        token = session.token
        query = "" if token is None else f"open?token={token}"
        url = f"http://{actual(listener).text}/{query}"
        uvloop.run(_serve(worlds, session, listener, lambda: on_open(url), stdin))


def check_loopback(address: ListenAddress) -> None:
    """Raise Refused if machines other than this one could reach the address."""
    try:
        is_loopback = ipaddress.ip_address(address.host.partition("%")[0]).is_loopback
    except ValueError:
        is_loopback = address.host == "localhost"
    if not is_loopback:
        raise Refused(
            f"--listen {address.text}: expected a loopback address such as {LISTEN.text}: the page "
            "has no TLS (from another machine, forward the port with ssh -L)"
        )


async def _serve(
    worlds: PageWorlds,
    session: PageSession,
    listener: socket.socket,
    ready: Callable[[], None],
    stdin: int | None,
) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event() if stdin is None else end_of_stdin(stdin)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, over.set)
    async with worlds:
        server = BoundedServer(PageApp(worlds, session), PageProtocol)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        ready()
        ending = asyncio.ensure_future(over.wait())
        await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        server.should_exit = True
        await serving


def _say(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    keep_memory_private()
    # Ctrl-C reaches the whole group of a terminal; the end of stdin ends the page.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run_page(
            [Path(sys.argv[1])],
            ListenAddress(host=LISTEN.host, port=0),
            needs_token=True,
            on_open=_say,
            stdin=0,
        )
    except AosError as error:
        sys.stderr.write(f"aos page: {error}\n")
        sys.exit(error.exit_code)
