"""From a request as the router passes it on to the same request as if it had arrived here
(spec/node-api.md, N-132a, N-132b).

    aos-peer: 192.0.2.7     ──▶ its client, for the access log
    the door                ──▶ the address and the scheme of the router
    /w/NAME/v1/cells        ──▶ /v1/cells, and the prefix /w/NAME for its answer
    /w/NAME/cells           ──▶ unchanged: a page
    /w/OTHER/…              ──▶ 404
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from aos.node.application import serves_path
from aos.node.calls import PREFIX_KEY
from aos.node.mounted import MOUNTS, MountPoint

PEER: Final = b"aos-peer"
"""The header with the address of a client, which the router sets."""

PEER_BYTES_MAX: Final = 64

_Scope: TypeAlias = MutableMapping[str, Any]
_App: TypeAlias = Callable[[_Scope, Any, Any], Awaitable[None]]


class MountedApp:
    """An ASGI application at the name of its world. ``served`` answers the paths of this world, and
    ``api``, which has no path below ``/w/``, refuses those of others."""

    def __init__(self, served: _App, api: _App, mount: MountPoint) -> None:
        self._served = served
        self._api = api
        self._prefix = mount.prefix

    async def __call__(self, scope: _Scope, receive: Any, send: Any) -> None:
        path: str = scope.get("path", "")
        if not path.startswith(MOUNTS):
            await self._served(scope, receive, send)
            return
        # The router reads the name from the bytes that were sent. An escape in them, such as that
        # of a slash, must not make it another one here.
        sent = scope["raw_path"]
        prefix = self._prefix.encode()
        if sent != prefix and not sent.startswith(prefix + b"/"):
            await self._api(scope, receive, send)
            return
        inner = path.removeprefix(self._prefix)
        if serves_path(inner):
            scope = {**scope, "path": inner, PREFIX_KEY: self._prefix}
        await self._served(scope, receive, send)


class RoutedApp:
    """An ASGI application behind a door that only the router can reach."""

    def __init__(self, served: _App, mount: MountPoint) -> None:
        self._served = served
        self._server = mount.server
        self._scheme = mount.scheme

    async def __call__(self, scope: _Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            peers = [value for name, value in scope["headers"] if name == PEER]
            scope = {
                **scope,
                "server": self._server,
                "scheme": self._scheme,
                "client": _client(peers),
                "headers": [field for field in scope["headers"] if field[0] != PEER],
            }
        await self._served(scope, receive, send)


def _client(peers: list[bytes]) -> tuple[str, int] | None:
    """The client that the router names. Of two, one would be the word of the client itself."""
    if len(peers) != 1 or len(peers[0]) > PEER_BYTES_MAX:
        return None
    return peers[0].decode("latin-1"), 0
