"""The sockets of a node, and the addresses at which it may listen (spec/node.md, N-3, N-4)."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from aos.errors import BadUsage, Refused, Unavailable
from aos.host.door.listener import listen_at
from aos.node.tokens import NODE, TokenFolder, load
from aos.shell_text import shell_word
from aos.store.plain_files import PlainFolder

HTTP_SOCKET: Final = "http.sock"
"""The node's own socket in DIR/node, for clients that may read the folder: they need no token."""

BACKLOG: Final = 1024
PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Where a node listens. ``port`` 0 lets the system choose one."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> ListenAddress:
        """Read ``HOST:PORT``; an IPv6 address is in brackets.

        Raises:
            BadUsage: It is something else.
        """
        host, colon, port = text.rpartition(":")
        is_bracketed = host.startswith("[") and host.endswith("]")
        is_port = port.isascii() and port.isdigit() and int(port) <= PORT_MAX
        if not (colon and host and is_port) or (":" in host and not is_bracketed):
            raise BadUsage(
                "--listen",
                expected="HOST:PORT, such as 127.0.0.1:7460 or [::1]:7460",
                actual=repr(text),
            )
        return cls(host=host[1:-1] if is_bracketed else host, port=int(port))

    @property
    def text(self) -> str:
        """The address as ``read`` takes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files of a certificate with its chain, of its key, and of the authorities whose clients may
    connect (None: any client may)."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    @classmethod
    def read(cls, document: Mapping[str, str | None]) -> Self:
        """Read the document of ``document``. Raises KeyError or TypeError for another."""
        cert, key, client_ca = (document[name] for name in ("cert", "key", "client_ca"))
        if cert is None or key is None:
            raise TypeError("a certificate needs its key")
        return cls(
            cert=Path(cert),
            key=Path(key),
            client_ca=None if client_ca is None else Path(client_ca),
        )

    def document(self) -> dict[str, str | None]:
        """The absolute paths, for the settings of another process."""
        return {
            "cert": str(self.cert.resolve()),
            "key": str(self.key.resolve()),
            "client_ca": None if self.client_ca is None else str(self.client_ca.resolve()),
        }

    def check(self) -> None:
        """Check that the files can be used.

        Raises:
            Refused: Others than its owner may read the key.
            BadUsage: A file cannot be read, or they do not belong together.
        """
        for file in (self.cert, self.key, *([self.client_ca] if self.client_ca else [])):
            if not file.is_file():
                raise BadUsage(f"{file}: expected a file in PEM format, found none")
        mode = stat.S_IMODE(self.key.stat().st_mode)
        if mode & 0o077:
            raise Refused(
                "others may read this secret key",
                location=str(self.key),
                expected="mode 0600",
                actual=f"mode {mode:04o}",
                hint=f"chmod 600 {shell_word(self.key)}",
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_password)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise BadUsage(
                f"{self.cert} and {self.key}: expected a certificate and its key in PEM format, "
                f"without a password: {error}"
            ) from error


def _no_password() -> str:
    raise ValueError("the key has a password")


@contextlib.contextmanager
def tcp_socket(address: ListenAddress) -> Iterator[socket.socket]:
    """Listen at a TCP address until the end of the block.

    Raises:
        BadUsage: There is no such host.
        Unavailable: The port is taken, or this system does not allow it.
    """
    try:
        addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise BadUsage(f"--listen {address.text}: there is no such host: {error}") from error
    family, kind, protocol, _, name = addresses[0]
    with socket.socket(family, kind, protocol) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(name)
            listener.listen(BACKLOG)
        except OSError as error:
            raise Unavailable(
                f"--listen {address.text}: cannot listen there: {error.strerror} (is another "
                "program using this port? choose another one)"
            ) from error
        listener.setblocking(False)
        yield listener


def actual(listener: socket.socket) -> ListenAddress:
    """Return the address of a listening TCP socket."""
    host, port = listener.getsockname()[:2]
    return ListenAddress(host=host, port=port)


@contextlib.contextmanager
def own_socket(folder: TokenFolder) -> Iterator[socket.socket]:
    """Listen on DIR/node/http.sock until the end of the block. The caller holds the lock of the
    world, or that of the folder of many worlds.

    Raises:
        Unavailable: The socket cannot be made.
        Damage: Something other than a folder or a socket is there (ST-80).
    """
    path = folder.path / NODE / HTTP_SOCKET
    try:
        with folder.open_plain() as world, world.inner(NODE, make=True):
            pass
        listener = listen_at(path, backlog=BACKLOG)
    except OSError as error:
        raise Unavailable(f"{path}: the socket cannot be made: {error.strerror}") from error
    with listener:
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError), PlainFolder.at_user_path(path.parent) as inner:
                inner.remove(HTTP_SOCKET)


def check_access(
    folder: TokenFolder,
    address: ListenAddress,
    *,
    has_tls: bool,
    is_insecure: bool,
    lack: str = "this world has no tokens",
    option: str = "--world",
) -> None:
    """Check that a node may listen at ``address``: on a loopback address always, elsewhere only
    with a token, and with TLS or a word that it is not needed (N-4). ``lack`` and ``option`` are
    the words about ``folder`` if it has no token.

    Raises:
        Refused: It may not.
        Damage, Unavailable: The tokens cannot be read.
    """
    if ipaddress.ip_address(address.host.partition("%")[0]).is_loopback:
        return
    if not len(load(folder)):
        raise Refused(
            f"--listen {address.text}: other machines reach this address, and {lack} "
            f"(make one: aos token create NAME --scope read {option} "
            f"{shell_word(folder.path)}; or listen on 127.0.0.1)"
        )
    if not (has_tls or is_insecure):
        raise Refused(
            f"--listen {address.text}: other machines reach this address, and tokens would cross "
            "the network unencrypted (give --tls-cert and --tls-key, or --insecure-http if "
            "a proxy in front of the node encrypts them)"
        )
