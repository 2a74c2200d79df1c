"""The maker of a request: its origin, its host and its token (spec/node-api.md, N-130 to N-137)."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from aos.errors import BadUsage
from aos.node.problems import Problem
from aos.node.routes import ApiRoute
from aos.node.tokens import LOCAL, OWNER, LiveTokens, Scope, Token, bearer

CALLER: Final = b"aos-caller"
"""The header with the caller of a request that another node's front has checked (CL-210). It counts
on the node's own socket alone, where the caller may do everything anyway."""

_CHALLENGE: Final = {"www-authenticate": "Bearer"}
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Door:
    """Where a connection arrived: the node's own socket, or ``host`` and ``port`` of TCP."""

    host: str | None
    port: int | None

    @property
    def is_own_socket(self) -> bool:
        """Whether the connection came over the node's own socket."""
        return self.port is None

    @property
    def is_loopback(self) -> bool:
        """Whether the address is one of this machine alone."""
        return self.host is not None and _is_loopback(self.host)


@lru_cache(maxsize=64)
def _is_loopback(host: str) -> bool:
    """Whether an address at which this process listens is one of this machine alone."""
    try:
        return ipaddress.ip_address(host.split("%", maxsplit=1)[0]).is_loopback
    except ValueError:
        return False


def headers_of(
    fields: Iterable[tuple[bytes, bytes]], single_names: AbstractSet[bytes]
) -> dict[bytes, bytes]:
    """Return the headers of a request. Several fields of one name are one list (RFC 9110, 5.3).

    Raises:
        Problem: A header of ``single_names`` is given twice, which could mean something else to a
            proxy (400).
    """
    combined: dict[bytes, bytes] = {}
    for name, value in fields:
        if name in combined and name in single_names:
            raise Problem(400, "header_is_repeated", f"{name.decode('latin-1')}: given twice")
        combined[name] = b", ".join((combined[name], value)) if name in combined else value
    return combined


def check_origin(door: Door, headers: Mapping[bytes, bytes], scheme: str) -> None:
    """Refuse a request that a foreign page makes in someone's browser.

    On loopback only the node's own names are accepted as Host, because any name can be made to
    resolve to 127.0.0.1. An Origin must be the node's own address.

    Raises:
        Problem: The Host or the Origin is another one (403).
    """
    if door.is_own_socket:
        return
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if door.is_loopback and not _is_own(host, door, scheme):
        raise Problem(
            403, "host_is_foreign",
            f"Host: expected localhost:{door.port}, found {host[:100]!r}",
        )  # fmt: skip
    origin = headers.get(b"origin")
    if origin is None:
        return
    origin_text = origin.decode("latin-1").lower()
    if origin_text not in (f"http://{host}", f"https://{host}"):
        raise Problem(
            403,
            "origin_is_foreign",
            f"Origin: expected none or the node's, found {origin_text[:100]!r}",
        )


def _is_own(host: str, door: Door, scheme: str) -> bool:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, "443" if scheme == "https" else "80"
    own_host = f"[{door.host}]" if door.host is not None and ":" in door.host else door.host
    return (name in _LOCAL_NAMES or name == own_host) and port == str(door.port)


def caller_of(
    door: Door, headers: Mapping[bytes, bytes], tokens: LiveTokens, *, now_ns: int
) -> Token | None:
    """Return the caller; None if the request names none and needs one.

    Raises:
        Problem: The token is not valid (401), or another front names no caller (400).
    """
    if door.is_own_socket:
        return OWNER if CALLER not in headers else _named_caller(headers[CALLER])
    authorization = headers.get(b"authorization")
    current = tokens.now()
    if authorization is None:
        return None if tokens.exist or not door.is_loopback else LOCAL
    secret = bearer(authorization)
    token = None if secret is None else current.find(secret, now_ns=now_ns)
    if token is None:
        raise Problem(
            401, "token_is_invalid",
            "the token is not valid: unknown, expired or revoked (make one: aos token create)",
            headers=_CHALLENGE,
        )  # fmt: skip
    return token


def _named_caller(text: bytes) -> Token:
    """The caller that another front names. Raises Problem."""
    try:
        document = json.loads(text)
        return Token(name=str(document["name"]), scopes=tuple(map(Scope.read, document["scopes"])))
    except (ValueError, TypeError, KeyError, BadUsage) as error:
        raise Problem(
            400, "caller_is_invalid",
            f"{CALLER.decode()}: expected the name and the scopes of a token",
        ) from error  # fmt: skip


def check_scope(caller: Token | None, route: ApiRoute) -> Token:
    """Return the caller if its token allows the route.

    Raises:
        Problem: There is no token (401), or it does not allow this (403).
    """
    if caller is None:
        raise Problem(
            401, "token_is_missing",
            "expected a token: Authorization: Bearer TOKEN (make one: aos token create)",
            headers=_CHALLENGE,
        )  # fmt: skip
    if route.scope is not None and not caller.allows(route.scope):
        hint = (
            " (without a token, requests from this machine may not operate the world: make a "
            "token with aos token create NAME --scope operate)"
            if caller is LOCAL
            else ""
        )
        raise Problem(
            403, "token_does_not_allow",
            f"{caller.name}: the scope {route.scope} is missing{hint}",
        )  # fmt: skip
    return caller
