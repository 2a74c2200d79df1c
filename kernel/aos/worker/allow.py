"""Which hosts ``sys/http.request@1`` may reach: node configuration, by default none (X-61)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.errors import BadUsage

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_PORTS: Final = frozenset({80, 443})
PRIVATE: Final = "+private"
LOCALHOST: Final = "localhost"

_NAME: Final = re.compile(r"(?!.*\.\.)[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")
_ENTRY: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]/]+)(:(?P<port>[0-9]{1,5}))?")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """``port`` None stands for 80 and 443; ``is_private`` lets the name lead to such addresses."""

    host: str
    port: int | None
    is_private: bool


class AllowList:
    """Entries ``host``, ``host:port`` and ``name:port+private``.

    An entry that is an address, or ``localhost``, says itself where it leads: it is allowed as it
    is written. Any other name must lead to public addresses, unless the entry ends in ``+private``.

    Raises:
        BadUsage: An entry is none of these.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = {(each.host, each.port): each for each in map(parse_entry, entries)}

    def find(self, host: str, port: int) -> Entry | None:
        """The entry that allows ``host`` (lower case, no brackets) at ``port``."""
        entry = self._entries.get((host, port))
        if entry is None and port in DEFAULT_PORTS:
            entry = self._entries.get((host, None))
        return entry


def parse_entry(text: str) -> Entry:
    is_private = text.endswith(PRIVATE)
    match = _ENTRY.fullmatch(text.removesuffix(PRIVATE).lower())
    if match is None:
        raise _unfit(text)
    port = None if match["port"] is None else int(match["port"])
    if port is not None and not 0 < port < 65536:
        raise _unfit(text)
    bare = match["host"].strip("[]")
    address = as_address(bare)
    if address is None and (bare != match["host"] or not _NAME.fullmatch(bare)):
        raise _unfit(text)
    return Entry(
        host=bare if address is None else str(address),
        port=port,
        is_private=is_private or address is not None or bare == LOCALHOST,
    )


def _unfit(text: str) -> BadUsage:
    return BadUsage(
        f"allowed HTTP host {text!r}: expected HOST, HOST:PORT or NAME:PORT+private, such as "
        "api.example.com, without scheme, path or *"
    )


def as_address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether an address is one of the internet at large, also a v4 one in one of its v6 forms."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved
