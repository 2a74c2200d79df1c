"""Requests that the fronts of a replicated world pass on to one another, the work of a term, and
requests about the cluster (spec/cluster.md, CL-210, CL-211, CL-320)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from aos.errors import BadUsage
from aos.host.errors import Stopping
from aos.message_fields import Message
from aos.values.cbor import Value

AskFront: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Has the front of a node answer an HTTP request. It takes and returns whole messages of HTTP/1.1.
Raises Unavailable."""

CLUSTER_OPS: Final = ("cluster", "cluster_check", "cluster_move", "cluster_drain")
"""Requests of a front about the cluster of its world, which the process of each node answers."""

KEPT_OPS: Final = ("position", "keep_position", "batches", "keep_batch")
"""Requests of the owner's front about the positions of its readers (CL-330) and its batches
(CL-335), for one term."""

AskCluster: TypeAlias = Callable[[Message], Awaitable[Mapping[str, Value]]]
"""Answers a request of ``CLUSTER_OPS`` or ``KEPT_OPS``. Raises AosError."""


def no_cluster(op: object) -> BadUsage:
    """The world is embedded, so a request about its cluster has no answer."""
    return BadUsage(f"{op}: only the nodes of a replicated world take this request")


def no_front() -> Stopping:
    """The owner has no front: nothing was carried out."""
    return Stopping(
        "the node that owns the world serves no HTTP",
        expected="a front on each node",
        hint="run each node with aos node",
    )


def term_is_over() -> Stopping:
    """The work of a term comes after it: nothing was carried out."""
    return Stopping("this node does not own the world any more, so this part of its work is over")
