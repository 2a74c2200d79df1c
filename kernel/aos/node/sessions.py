"""Requests that take long: they end when their token is revoked, or when the node stops
(spec/node-api.md, N-135, N-136)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from aos.node.bodies import ClientGoneError
from aos.node.problems import Problem
from aos.node.tokens import LiveTokens, Token

STREAMS_MAX: Final = 64
POLLS_MAX: Final = 256
WAITS_MAX: Final = 4_096
"""Requests that wait for an outcome, at the same time."""

LOOK_S: Final = 0.5
"""Seconds between two checks of the tokens of long requests."""

STREAM: Final = "stream"
POLL: Final = "poll"
WAIT: Final = "wait"
READING: Final = "read"


@dataclass(slots=True, eq=False)
class Session:
    """One long request. ``end_reason`` is the reason why the node ended it."""

    token: Token
    kind: str
    task: asyncio.Task[object] | None = None
    end_reason: str | None = None

    def end(self, reason: str) -> None:
        """Cancel the request."""
        if self.end_reason is None:
            self.end_reason = reason
            if self.task is not None:
                self.task.cancel()


class Sessions:
    """The long requests of a front, each with its token."""

    def __init__(self, *, streams_max: int = STREAMS_MAX, waits_max: int = WAITS_MAX) -> None:
        self._limits = {STREAM: streams_max, POLL: POLLS_MAX, WAIT: waits_max, READING: waits_max}
        self._open: set[Session] = set()
        self._counts: Counter[str] = Counter()
        self.stopping = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self.stopping.is_set()

    def count(self, kind: str) -> int:
        """Return how many requests of this kind are open."""
        return self._counts[kind]

    @contextmanager
    def hold(self, token: Token, kind: str) -> Iterator[Session]:
        """Count a long request until the end of the block.

        Raises:
            Problem: There are too many of this kind (429), or the node stops (503).
        """
        if self.is_stopping and kind in (STREAM, POLL):
            raise stopping_problem()
        if self.count(kind) >= self._limits[kind]:
            raise Problem(
                429, f"{kind}s_are_full",
                f"{self._limits[kind]} {kind}s are open already (end one, or try again later)",
                retry_after_s=5,
            )  # fmt: skip
        session = Session(token, kind)
        self._open.add(session)
        self._counts[kind] += 1
        try:
            yield session
        finally:
            self._open.discard(session)
            self._counts[kind] -= 1

    def stop(self) -> None:
        """End all streams and polls, and take no more."""
        self.stopping.set()
        for session in list(self._open):
            if session.kind in (STREAM, POLL):
                session.end("stopping")

    def close(self) -> None:
        """End every long request, because the front ends: each is answered with 503."""
        self.stopping.set()
        for session in list(self._open):
            session.end("stopping")

    async def watch(self, tokens: LiveTokens, now_ns: Callable[[], int]) -> None:
        """End the requests of tokens that are revoked or expired, until this is canceled."""
        while True:
            await asyncio.sleep(LOOK_S)
            current_tokens = tokens.now()
            for session in list(self._open):
                if session.token.digest is not None and not current_tokens.has(
                    session.token, now_ns=now_ns()
                ):
                    session.end("revoked")


async def raced(
    session: Session,
    work: Awaitable[object],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
) -> object:
    """Return the result of ``work``; end it when the client goes away, or with its session.

    ``receive`` is that of the request in ASGI, whose body was read.

    Raises:
        Problem: The token of the session has ended (401), or the node stops (503).
        ClientGoneError: The client went away.
    """
    task = asyncio.current_task()
    assert task is not None, "raced outside of a task"
    session.task = task
    watch = asyncio.ensure_future(_end_at_disconnect(session, receive))
    try:
        return await work
    except asyncio.CancelledError:
        # A cancellation of the request itself, for example by its server, continues.
        if session.end_reason is None or task.uncancel():
            raise
    finally:
        session.task = None
        watch.cancel()
    match session.end_reason:
        case "revoked":
            raise Problem(401, "token_is_invalid", "the token was revoked, or has expired")
        case "stopping":
            raise stopping_problem()
    raise ClientGoneError


async def _end_at_disconnect(
    session: Session, receive: Callable[[], Awaitable[MutableMapping[str, Any]]]
) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    session.end("gone")


def stopping_problem() -> Problem:
    """The problem of a request to a node that stops."""
    return Problem(503, "node_is_stopping", "the node is stopping", retry_after_s=5)
