"""Connections to allowed hosts at allowed addresses, kept for a while after use (X-62).

Idle connections are kept here, by origin, because httpcore's own pool compares every connection
with every other whenever a request begins or ends (measured: 2.8 ms a request with 64 connections,
against 0.5 ms here).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import httpcore
import httpx

from aos.manifest.hosts import DEFAULT_PORTS, HostPort, as_address
from aos.worker.failure import EffectFailed, NotConfigured
from aos.worker.http_settings import NOT_ALLOWED, TOO_LARGE, AllowedPlace, AllowList, leads_out

ADDRESSES_MAX: Final = 4
"""Maximum number of addresses of one name that are tried, one after the other."""

IDLE_MAX: Final = 64
IDLE_S: Final = 5.0

CONNECT_FAILED: Final = "http_connect_failed"

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""(name, port) -> its addresses as text. Raises OSError or UnicodeError when there are none."""


async def _system_resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    address_infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in address_infos]


def _system_ssl() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The resolver, TLS and network that are used. Only tests replace them."""

    resolve: Resolve = _system_resolve
    network: httpcore.AsyncNetworkBackend = field(default_factory=httpcore.AnyIOBackend)
    ssl_context: ssl.SSLContext = field(default_factory=_system_ssl)


class _Metered(httpcore.AsyncNetworkStream):
    """A stream that reads a bounded number of bytes after each write.

    All bytes count, because parts of a response have no limit of their own: interim responses,
    chunk headers, trailers.
    """

    def __init__(self, inner: httpcore.AsyncNetworkStream, bytes_max: int) -> None:
        self._inner = inner
        self._bytes_max = bytes_max
        self._bytes_read = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # the base class has it
        data = await self._inner.read(max_bytes, timeout)
        self._bytes_read += len(data)
        if self._bytes_read > self._bytes_max:
            raise EffectFailed(
                TOO_LARGE, f"the server has sent more than {self._bytes_max} bytes for one response"
            )
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  # as above
        self._bytes_read = 0
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # as above
    ) -> httpcore.AsyncNetworkStream:
        inner = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        return _Metered(inner, self._bytes_max)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class ConnectionGate(httpcore.AsyncNetworkBackend):
    """Opens connections, only to allowed hosts at allowed addresses (X-62)."""

    def __init__(self, allowed: AllowList, outside: Outside, *, bytes_max: int) -> None:
        self._allowed = allowed
        self._resolve = outside.resolve
        self._network = outside.network
        self._bytes_max = bytes_max

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the base class has it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to an allowed address of ``host``, the first of at most ``ADDRESSES_MAX`` that
        answers. ``timeout`` is in seconds, for each address.

        Raises:
            EffectFailed: The host cannot be resolved. Nothing was connected.
            NotConfigured: The host is not allowed, or none of its addresses is. Nothing was
                connected.
            httpcore.ConnectError, httpcore.ConnectTimeout: No address answered; the last one's
                error.
        """
        entry = self._allowed.find(host, port)
        if entry is None:
            raise not_allowed(host, port)
        failure: Exception | None = None
        for address in (await self._addresses(entry, host, port))[:ADDRESSES_MAX]:
            try:
                # An address, never the name: nothing is looked up between the check and the use.
                stream = await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _Metered(stream, self._bytes_max)
        assert failure is not None
        raise failure

    async def _addresses(self, entry: AllowedPlace, host: str, port: int) -> list[str]:
        """Resolve ``host`` to the addresses that its entry allows.

        Raises:
            EffectFailed: It cannot be resolved.
            NotConfigured: It has only addresses that are not allowed.
        """
        if as_address(host) is not None:
            return [host]
        try:
            resolved = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise EffectFailed(
                CONNECT_FAILED, f"{host} cannot be resolved: {error}", retryable=True
            ) from error
        addresses = list(dict.fromkeys(resolved))
        if not addresses:
            raise EffectFailed(CONNECT_FAILED, f"{host} has no address", retryable=True)
        if entry.is_private:
            return addresses
        public = [address for address in addresses if leads_out(address)]
        if not public:
            raise NotConfigured(
                NOT_ALLOWED,
                f"{host} leads to a private address",
                f"run the world with --allow-http {host}:{port}+private",
            )
        return public

    async def sleep(self, seconds: float) -> None:
        """A part of httpcore's interface. httpcore calls it only between its own retries, which
        are off: the node decides about retries (X-13)."""
        await self._network.sleep(seconds)


def not_allowed(host: str, port: int) -> NotConfigured:
    """Return the error for a host that no entry allows. It names the missing entry (X-61)."""
    default = port in DEFAULT_PORTS
    entry = HostPort(host=host, port=None if default else port)
    return NotConfigured(
        NOT_ALLOWED, f"host {entry} is not allowed", f"run the world with --allow-http {entry}"
    )


class Connections:
    """A pool. Each connection carries one request at a time and is reused for its origin only."""

    def __init__(self, gate: ConnectionGate, ssl_context: ssl.SSLContext) -> None:
        self._gate = gate
        self._ssl_context = ssl_context
        self._idle: list[tuple[httpcore.Origin, httpcore.AsyncHTTPConnection]] = []

    @asynccontextmanager
    async def lease(self, origin: httpcore.Origin) -> AsyncIterator[httpcore.AsyncHTTPConnection]:
        """Yield a connection for one request, idle or new, and keep it afterwards if possible."""
        connection = await self._idle_one(origin) or httpcore.AsyncHTTPConnection(
            origin, self._ssl_context, keepalive_expiry=IDLE_S, network_backend=self._gate
        )
        try:
            yield connection
        finally:
            if connection.is_idle() and not connection.is_closed() and _is_clean(connection):
                self._idle.append((origin, connection))
                await self._close_oldest(len(self._idle) - IDLE_MAX)
            else:
                await connection.aclose()

    async def _idle_one(self, origin: httpcore.Origin) -> httpcore.AsyncHTTPConnection | None:
        for index in reversed(range(len(self._idle))):
            if self._idle[index][0] == origin:
                _, connection = self._idle.pop(index)
                if not connection.has_expired():
                    return connection
                await connection.aclose()  # the server has closed it, or it is too old
                return await self._idle_one(origin)
        return None

    async def _close_oldest(self, count: int) -> None:
        for _ in range(count):
            await self._idle.pop(0)[1].aclose()

    async def aclose(self) -> None:
        """Close the idle ones."""
        await self._close_oldest(len(self._idle))


def _is_clean(connection: httpcore.AsyncHTTPConnection) -> bool:
    """Whether no bytes follow the response: they would be read as the next request's response.

    httpcore has no API for this, so its internals are read; if that fails, the answer is no.
    """
    state = getattr(getattr(connection, "_connection", None), "_h11_state", None)
    leftover = getattr(state, "trailing_data", None)
    return isinstance(leftover, tuple) and leftover[0] == b""
