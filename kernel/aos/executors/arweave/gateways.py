"""``AOS_ARWEAVE``: the gateways that this process may use, by name (AW-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aos.executors.named_addresses import NamedUrl, read_urls
from aos.worker import NotConfigured

VARIABLE: Final = "AOS_ARWEAVE"

_EXAMPLE: Final = f'{VARIABLE}="main=https://gateway.example.com"'


def read_addresses(text: str) -> dict[str, NamedUrl]:
    """Read ``name=URL`` pairs, separated by blanks (AW-1). Raises as ``read_urls``."""
    return read_urls(VARIABLE, text, example=_EXAMPLE)


def address_of(addresses: Mapping[str, NamedUrl], name: str) -> NamedUrl:
    """The address of the gateway that an effect names (AW-1).

    Raises:
        NotConfigured: There is none, so the effect is held.
    """
    if name not in addresses:
        gateway_names = ", ".join(sorted(addresses)) or "none"
        raise NotConfigured(
            "gateway_not_configured",
            f"{VARIABLE} has no Arweave gateway {name!r:.80}: found {gateway_names}",
            f"set {_EXAMPLE.replace('main=', f'{name:.40}=')} and restart the process",
        )
    return addresses[name]
