"""Requests that the fronts of a replicated world pass on to one another, and the work of a term
(spec/cluster.md, CL-210, CL-211)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aos.host.errors import Stopping

AskFront: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Has the front of a node answer an HTTP request. It takes and returns whole messages of HTTP/1.1.
Raises Unavailable."""


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
