"""The HTTP server of every program of this package: uvicorn's with bounded connections
(``bounds``), without signal handlers, logs and lifespan events."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import uvicorn

from aos.node.bounds import BoundedProtocol
from aos.node.sockets import Tls

SHUTDOWN_S: Final = 1
"""Seconds that answers in progress have once a server ends."""


class BoundedServer(uvicorn.Server):
    """A server that its caller ends by ``should_exit``: no signal does.

    ``is_up`` is set when it accepts connections. It believes no proxy about a client's address.
    """

    def __init__(
        self,
        app: Any,
        protocol: type[BoundedProtocol] = BoundedProtocol,
        *,
        tls: Tls | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol,
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=SHUTDOWN_S,
                **_tls_options(tls),
                **options,
            )
        )
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle no signal."""
        yield


def _tls_options(tls: Tls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    files: dict[str, Any] = {"ssl_certfile": tls.cert, "ssl_keyfile": tls.key}
    if tls.client_ca is not None:
        files |= {"ssl_ca_certs": tls.client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return files


def read_certificate(
    servers: Iterable[BoundedServer], tls: Tls, report: Callable[[str], None]
) -> None:
    """Read the certificate of those servers that have one again (N-6a). If it cannot be read, the
    one in use stays."""
    for server in servers:
        context = server.config.ssl
        if context is None:
            continue
        try:
            context.load_cert_chain(tls.cert, tls.key)
        except (OSError, ssl.SSLError) as error:
            report(f"the certificate was not read again: {error}")
        else:
            report("read the certificate again")
