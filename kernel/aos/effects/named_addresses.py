"""``name=WHERE`` pairs of an environment variable: the services that an executor may use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import httpx

from aos.errors import BadUsage
from aos.worker.redaction import Redactor
from aos.worker.url_secrets import url_secrets
from aos.worker.worker_secrets import SecretValue

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedUrl:
    """A service and where it is. ``url`` may contain a token, so only ``host`` is ever shown.

    ``secrets`` are its parts that may be tokens; ``redactor`` replaces them in texts from outside.
    """

    name: str
    url: str = field(repr=False)
    host: str
    secrets: tuple[SecretValue, ...] = field(repr=False)
    redactor: Redactor = field(repr=False, compare=False)


def read_urls(variable: str, text: str, *, example: str) -> dict[str, NamedUrl]:
    """Read ``name=URL`` pairs, separated by blanks.

    Raises:
        BadUsage: A pair is malformed, or a name is there twice. The text names the place alone.
    """
    addresses: dict[str, NamedUrl] = {}
    for position, name, url in pairs(text):
        host = _host(url)
        if not _NAME.fullmatch(name) or host is None:
            raise _not_a_pair(variable, position, example)
        if name in addresses:
            raise BadUsage(f"{variable}: pair {position}: the name {name!r} is there twice")
        try:
            secrets = url_secrets(url, variable)
        except BadUsage:  # httpx takes some that are none
            raise _not_a_pair(variable, position, example) from None
        addresses[name] = NamedUrl(
            name=name,
            url=url.rstrip("/"),
            host=host,
            secrets=secrets,
            redactor=Redactor(secrets),
        )
    return addresses


def _not_a_pair(variable: str, position: int, example: str) -> BadUsage:
    return BadUsage(
        f"{variable}: pair {position}: expected name=URL with http or https, such as "
        f"{example} (pairs are separated by blanks)"
    )


def pairs(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield place, name and target of each pair. A pair without ``=`` has an empty target."""
    for position, pair in enumerate(text.split(), start=1):
        name, _, target = pair.partition("=")
        yield position, name, target


def _host(url: str) -> str | None:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return None
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        return None
    return parsed.host if parsed.port is None else f"{parsed.host}:{parsed.port}"
