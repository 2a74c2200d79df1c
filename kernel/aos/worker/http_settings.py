"""The settings of ``sys/http.request@1``, for the node and its HTTP process: allowed hosts, none by
default, and limits (X-61, X-64, X-66).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aos.errors import BadUsage
from aos.manifest.hosts import DEFAULT_PORTS, Address, HostPort, as_address, read_place
from aos.values.errors import ValueProblem

HTTP: Final = "sys/http.request@1"

MIB: Final = 1024 * 1024
CONCURRENCY: Final = 64
REQUEST_BYTES_MAX: Final = 16 * MIB
"""Maximum size of a request body that ``body_ref`` names."""

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

BAD_REQUEST: Final = "http_bad_request"
NOT_ALLOWED: Final = "http_not_allowed"
TOO_LARGE: Final = "http_too_large"

PRIVATE: Final = "+private"
LOCALHOST: Final = "localhost"


def _parse_networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(map(ipaddress.ip_network, text.split()))


# Listed here, because ``ipaddress.is_global`` differs between releases of Python.
_NOT_PUBLIC_V4: Final = _parse_networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
    "192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
    "224.0.0.0/4 240.0.0.0/4"
)
_PUBLIC_V6: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = _parse_networks("2001::/23 2001:db8::/32 3fff::/20")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedPlace:
    """One entry of the list. With ``is_private`` its name may resolve to non-public addresses."""

    host_port: HostPort
    is_private: bool


class AllowList:
    """The allowed hosts: entries ``host``, ``host:port`` and ``name:port+private``.

    An entry that is an address or ``localhost`` is allowed as written, also where it is private.
    Any other name must resolve to public addresses, unless its entry ends in ``+private``.

    Raises:
        BadUsage: An entry has none of these forms.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = {entry.host_port: entry for entry in map(parse_entry, entries)}

    def find(self, host: str, port: int) -> AllowedPlace | None:
        """Return the entry that allows ``host`` at ``port``, or None.

        ``host`` is spelled as ``read_host`` returns it.
        """
        entry = self._entries.get(HostPort(host=host, port=port))
        if entry is None and port in DEFAULT_PORTS:
            entry = self._entries.get(HostPort(host=host, port=None))
        return entry


def parse_entry(text: str) -> AllowedPlace:
    """Parse one entry of ``--allow-http``. An address or ``localhost`` counts as private, because
    it is explicit about its target (X-62).

    Raises:
        BadUsage: The entry is not HOST, HOST:PORT or NAME:PORT+private.
    """
    try:
        host_port = read_place(text.removesuffix(PRIVATE))
    except ValueProblem as problem:
        raise BadUsage(
            f"allowed HTTP host {text!r}: expected HOST, HOST:PORT or NAME:PORT+private, such as "
            "api.example.com, without scheme, path or *"
        ) from problem
    leads_itself = as_address(host_port.host) is not None or host_port.host == LOCALHOST
    return AllowedPlace(host_port=host_port, is_private=text.endswith(PRIVATE) or leads_itself)


def is_public(address: Address) -> bool:
    """Whether an address is public; a v4 address in one of its v6 forms is judged as v4."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address in _NAT64:
        inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if inner is not None:
        return is_public(inner)
    return address in _PUBLIC_V6 and not any(address in network for network in _NOT_PUBLIC_V6)


def leads_out(text: str) -> bool:
    """Whether a resolver's answer is a public address; False where it is not a plain address."""
    address = as_address(text)
    return address is not None and is_public(address)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """A response over the limit is an error; one too large for a receipt is stored as a blob.

    ``timeout_s`` covers one attempt as a whole: name resolution, connection, request, response.
    """

    response_bytes_max: int = 16 * MIB
    inline_bytes_max: int = 64 * 1024
    timeout_s: float = 30.0

    @property
    def wire_bytes_max(self) -> int:
        """Limit on all bytes that a server sends for one request, headers and framing included."""
        return 2 * self.response_bytes_max + MIB
