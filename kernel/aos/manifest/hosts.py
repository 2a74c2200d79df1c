"""One spelling of ``HOST`` and ``HOST:PORT``, for secrets, the node's allow list and URLs.

A host is a name in lower case, or an address in its usual form; an IPv6 address has brackets where
a port may follow it. Text that a resolver might read as an address (``127.1``, ``0x7f000001``,
``2130706433``, ``fe80::1%eth0``) is not a host.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.values.errors import ValueProblem

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_PORTS: Final = frozenset({80, 443})
PORT_MAX: Final = 65535

_NAME: Final = re.compile(r"(?!.*\.\.)[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")
_PLACE: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]/]+)(:(?P<port>[1-9][0-9]{0,4}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A host and a port. ``port`` None means 80 and 443."""

    host: str
    port: int | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    def covers(self, host: str, port: int) -> bool:
        """Whether this includes ``host`` (spelled as ``read_host`` returns it) at ``port``."""
        return host == self.host and (
            port in DEFAULT_PORTS if self.port is None else port == self.port
        )


def read_place(text: str) -> HostPort:
    """Read ``HOST`` or ``HOST:PORT``, in upper or lower case. Raises ValueProblem."""
    match = _PLACE.fullmatch(text.lower())
    if match is None:
        raise _unfit(text)
    host_text, port = match["host"], None if match["port"] is None else int(match["port"])
    if port is not None and port > PORT_MAX:
        raise _unfit(text)
    host = read_host(host_text.strip("[]"))
    if (":" in host) != host_text.startswith("["):
        raise _unfit(text)
    return HostPort(host=host, port=port)


def read_host(text: str) -> str:
    """The canonical spelling of a name or an address (no brackets). Raises ValueProblem."""
    lower = text.lower()
    address = as_address(lower)
    if address is not None:
        return str(address)
    if not _NAME.fullmatch(lower) or _NUMBER.fullmatch(lower):
        raise _unfit(text)
    return lower


def as_address(text: str) -> Address | None:
    """Read an address; None for a name, another spelling, or an address with a zone."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    has_zone = isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None
    return None if has_zone else address


def _unfit(text: str) -> ValueProblem:
    return ValueProblem(
        f"expected a host name or an address, and perhaps a port, found {text[:80]!a} "
        "(such as api.example.com, api.example.com:8443 or [2001:db8::1]:443)"
    )
