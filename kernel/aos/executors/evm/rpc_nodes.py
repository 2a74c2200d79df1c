"""``AOS_EVM_RPC``: the node of each chain, with its URL kept out of every message (EV-1, EV-3)."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

import httpx

from aos.errors import BadUsage
from aos.executors.evm.hex_values import U64_MAX
from aos.manifest.hosts import as_address
from aos.worker.redaction import Redactor
from aos.worker.url_secrets import url_secrets
from aos.worker.worker_secrets import SecretValue

VARIABLE: Final = "AOS_EVM_RPC"
WORDS_MAX: Final = 300
"""Longest excerpt of a node's own words in a message, in characters."""

_FORM: Final = "CHAIN_ID=URL, such as 31337=http://127.0.0.1:8545"
_PORTS: Final = {"http": 80, "https": 443}
_PORT_MAX: Final = 65_535
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcNode:
    """The node of one chain. ``host_port`` is its host and port, which messages may show."""

    chain: int
    host_port: str
    scheme: str
    host: str
    port: int
    target: str = field(repr=False)
    """Path and query: they often contain a token."""
    authorization: str | None = field(repr=False)
    secrets: tuple[SecretValue, ...] = field(repr=False)
    """Parts of the URL that no message may contain."""
    redactor: Redactor = field(repr=False, compare=False)

    def redacted_line(self, words: str | bytes) -> str:
        """The words of the node as one bounded line, without secrets of the URL (EV-3)."""
        return self.redactor.line(words, characters_max=WORDS_MAX)


def parse_nodes(text: str) -> dict[int, RpcNode]:
    """The nodes that ``AOS_EVM_RPC`` names, by chain id; none for an empty text.

    Raises:
        BadUsage: An entry is malformed, or a chain has two. The entry is named by its place,
            because it may contain a token.
    """
    nodes: dict[int, RpcNode] = {}
    for position, entry in enumerate(text.split(), 1):
        chain, equals, url = entry.partition("=")
        if not equals or not re.fullmatch(r"[1-9][0-9]{0,19}", chain, re.ASCII):
            raise BadUsage(f"{VARIABLE}: entry {position} is not valid: expected {_FORM}")
        if int(chain) > U64_MAX:
            raise BadUsage(f"{VARIABLE}: entry {position}: expected a chain id below 2^64")
        if int(chain) in nodes:
            raise BadUsage(
                f"{VARIABLE}: entry {position} is the second one of chain {chain}: expected one "
                "node "
                "for each chain"
            )
        nodes[int(chain)] = _node(position, int(chain), url)
    return nodes


def _node(position: int, chain: int, text: str) -> RpcNode:
    try:
        url = httpx.URL(text)
        # Both as it is written, and as it is sent.
        secrets = (*url_secrets(text, VARIABLE), *url_secrets(str(url), VARIABLE))
    except (httpx.InvalidURL, ValueError, BadUsage):
        url, secrets = None, ()
    if url is None or not _is_usable(url):
        # Without the cause: the words of httpx contain the URL.
        raise BadUsage(
            f"{VARIABLE}: entry {position}, of chain {chain}, has no valid URL: expected {_FORM}"
        )
    host = url.raw_host.decode("ascii")
    host_text = f"[{host}]" if ":" in host else host
    port = url.port or _PORTS[url.scheme]
    target = url.raw_path.decode("ascii")
    userinfo = url.userinfo.decode("ascii")
    return RpcNode(
        chain=chain,
        host_port=host_text if url.port is None else f"{host_text}:{url.port}",
        scheme=url.scheme,
        host=host,
        port=port,
        target=target,
        authorization=_basic(userinfo) if userinfo else None,
        secrets=secrets,
        redactor=Redactor(secrets),
    )


def _is_usable(url: httpx.URL) -> bool:
    """Whether it names a server: httpx also takes hosts and ports that cannot be."""
    host = url.raw_host.decode("ascii", "replace")
    is_host = _HOST.fullmatch(host) is not None or as_address(host) is not None
    return url.scheme in _PORTS and is_host and (url.port or 1) <= _PORT_MAX


def _basic(userinfo: str) -> str:
    return "Basic " + base64.b64encode(unquote(userinfo).encode()).decode("ascii")
