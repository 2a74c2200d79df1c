"""Check that servers sync what they acknowledge (spec/cluster.md, CL-26 to CL-28).

A server says so on its HTTP port for monitoring alone. Without ``sync_interval: always`` it syncs
every two minutes, and a loss of power takes what a quorum had acknowledged in between.
"""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from aos.errors import BadUsage, Refused, Unavailable

RELEASE_MIN: Final = (2, 14)
"""The first release of nats-server that is used: earlier ones can lose what they acknowledged."""

ANSWER_SECONDS: Final = 2.0
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024


def check_durable(
    monitors: Sequence[str], replicas: Collection[str], *, needs_all: bool = True
) -> None:
    """Check that each replica syncs before it acknowledges, and is recent enough. Unless it
    ``needs_all``, a server that does not answer is passed over.

    Args:
        monitors: Addresses of the servers for monitoring, such as ``http://10.0.0.1:8222``.
        replicas: The names of the servers that have the stream (``NatsStreamState.replicas``).

    Raises:
        BadUsage: An address is not one of HTTP.
        Refused: A server does not sync, or is too old, or none of the addresses is that of a
            replica.
        Unavailable: A server does not answer.
    """
    documents, has_silent = {}, False
    for monitor in monitors:
        try:
            document = monitor_document(monitor, "/varz")
        except Unavailable:
            if needs_all:
                raise
            has_silent = True
            continue
        documents[str(document.get("server_name"))] = (monitor, document)
    for name in sorted(replicas):
        if name not in documents:
            if has_silent:
                continue
            raise unknown_durability(name, replicas)
        check_server(name, *documents[name])


def unknown_durability(name: str, replicas: Collection[str]) -> Refused:
    """The error of a replica without an address for monitoring."""
    return Refused(
        "it is not known whether a server syncs what it acknowledges",
        expected=f"the address for monitoring of each replica: {', '.join(sorted(replicas))}",
        actual=f"none of {name}",
        hint="give --monitor for each server, or accept the loss of acknowledged records "
        "with --unverified-durability",
    )


def check_server(name: str, monitor: str, document: Mapping[str, Any]) -> None:
    """Check by its ``/varz`` that a server syncs before it acknowledges, and is recent enough.

    Raises:
        Refused: It is not.
    """
    jetstream = (document.get("jetstream") or {}).get("config") or {}
    if jetstream.get("sync_always") is not True:
        raise Refused(
            "a server acknowledges what it has not synced",
            location=f"{name} at {monitor}",
            expected="sync_interval: always in its block jetstream",
            actual=f"sync_interval: {int(jetstream.get('sync_interval', 0)) // 10**9}s"
            if jetstream
            else "no JetStream",
            hint="change its configuration and start it again",
        )
    release = str(document.get("version", ""))
    if _numbers(release) < RELEASE_MIN:
        raise Refused(
            "this release of nats-server is too old",
            location=f"{name} at {monitor}",
            expected=f"{RELEASE_MIN[0]}.{RELEASE_MIN[1]} or newer",
            actual=release,
        )


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2] if part.isdigit())


def monitor_document(monitor: str, path: str) -> Mapping[str, Any]:
    """Return what a server says of itself at a path of its address for monitoring.

    Raises:
        BadUsage: It is not an address of HTTP.
        Unavailable: The server does not answer, or something else does.
    """
    address = urlsplit(monitor)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise BadUsage(
            "not the address of a server for monitoring",
            expected="http://HOST:8222",
            actual=monitor,
        )
    url = f"{address.scheme}://{address.netloc}{path}"
    # A proxy would answer for servers that it cannot reach.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ANSWER_SECONDS) as answer:
            document = json.loads(answer.read(ANSWER_BYTES_MAX))
    except (OSError, ValueError, http.client.HTTPException) as problem:
        reason = getattr(problem, "reason", problem)
        raise Unavailable(
            f"the server does not answer for monitoring: {reason}",
            location=url,
            hint="is http_port in its configuration, and can it be reached from here?",
        ) from None
    if not isinstance(document, dict):
        raise Unavailable("no answer of a nats-server", location=url)
    return document
