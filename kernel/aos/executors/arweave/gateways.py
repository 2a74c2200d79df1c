"""``AOS_ARWEAVE``: the gateways that this process may use, by name (AW-1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import httpx

from aos.errors import BadUsage
from aos.worker import NotConfigured

VARIABLE: Final = "AOS_ARWEAVE"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_EXAMPLE: Final = f'{VARIABLE}="main=https://gateway.example.com"'


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAddress:
    """Where a gateway is. ``url`` may contain a token, so only ``host`` is ever shown."""

    name: str
    url: str = field(repr=False)
    host: str

    def quotes_token(self, text: str) -> bool:
        """Whether ``text`` has a part of the URL that may be a token: all but scheme and host."""
        url = httpx.URL(self.url)
        parts = (url.username, url.password, *url.path.split("/"))
        return any(part in text for part in parts if part)


def read_addresses(text: str) -> dict[str, GatewayAddress]:
    """Read ``name=URL`` pairs, separated by blanks (AW-1).

    Raises:
        BadUsage: A pair is malformed, or a name is there twice. The text names the place alone.
    """
    found: dict[str, GatewayAddress] = {}
    for place, pair in enumerate(text.split(), start=1):
        name, equals, url = pair.partition("=")
        host = _host(url)
        if not equals or not _NAME.fullmatch(name) or host is None:
            raise BadUsage(
                f"{VARIABLE}: pair {place}: expected name=URL with http or https, such as "
                f"{_EXAMPLE} (pairs are separated by blanks)"
            )
        if name in found:
            raise BadUsage(f"{VARIABLE}: pair {place}: the name {name!r} is there twice")
        found[name] = GatewayAddress(name=name, url=url.rstrip("/"), host=host)
    return found


def address_of(addresses: Mapping[str, GatewayAddress], name: str) -> GatewayAddress:
    """The address of the gateway that an effect names (AW-1).

    Raises:
        NotConfigured: There is none, so the effect is held.
    """
    if name not in addresses:
        known = ", ".join(sorted(addresses)) or "none"
        raise NotConfigured(
            "gateway_not_configured",
            f"{VARIABLE} has no Arweave gateway {name!r:.80}: found {known}",
            f"set {_EXAMPLE.replace('main=', f'{name:.40}=')} and restart the process",
        )
    return addresses[name]


def _host(url: str) -> str | None:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return None
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        return None
    return parsed.host if parsed.port is None else f"{parsed.host}:{parsed.port}"
