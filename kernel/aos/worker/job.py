"""A task of the node in this process, and how an attempt at it ended."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from aos.values.digests import Hash
from aos.worker.api import EffectContext
from aos.worker.calls import FunctionCall
from aos.worker.failure import CANCELED, TIMEOUT, AttemptFailure
from aos.worker.progress import ProgressStream
from aos.worker.wire import Message


def new_future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, kw_only=True)
class Job:
    """One task of the node in this process."""

    intent: Hash
    effect: str
    attempt: int
    params: bytes
    idempotency_key: str
    workflow: str
    cell_key: bytes
    issuer_ref: str | None
    blobs: tuple[bytes, ...]
    next_frame: int
    has_taker: bool
    stream: ProgressStream | None = None
    """The stream frames of the running function."""
    granted: asyncio.Future[bool] | None = None
    """Set to the node's answer to the request for another attempt; None if none is pending."""
    task: asyncio.Task[None] | None = None
    wish: asyncio.Future[None] = field(default_factory=new_future)
    """Done once the node has requested cancellation."""
    is_waiting: bool = False
    """Waiting for a slot, or for its next attempt."""
    overdue: FunctionCall | None = None
    """A call that did not end when it was canceled."""

    def cancel(self) -> None:
        """End it as canceled, once."""
        if not self.wish.done():
            self.wish.set_result(None)
            if self.is_waiting and self.task is not None:
                self.task.cancel()

    @classmethod
    def of(cls, message: Message) -> Job:
        return cls(
            intent=Hash(message["intent"]),
            effect=message["effect"],
            attempt=message["attempt"],
            params=message["params"],
            idempotency_key=message["idempotency_key"],
            workflow=message["workflow"],
            cell_key=message["cell_key"],
            issuer_ref=message["issuer_ref"],
            blobs=tuple(message["blobs"]),
            next_frame=message["next_frame"],
            has_taker=message["has_taker"],
        )


@dataclass(slots=True, kw_only=True)
class AttemptResult:
    """How an attempt ended. ``failure`` is None for a value."""

    attempt: int
    started_ns: int
    finished_ns: int
    status: str = "ok"
    payload: bytes = b""
    failure: AttemptFailure | None = None
    cost_cents: int | None = None
    blobs: tuple[bytes, ...] = ()

    @classmethod
    def now(cls, attempt: int, started_ns: int) -> AttemptResult:
        """One that ends now; not before ``started_ns``, even if the wall clock was set back."""
        return cls(
            attempt=attempt, started_ns=started_ns, finished_ns=max(started_ns, time.time_ns())
        )

    def fail(self, failure: AttemptFailure, status: str = "error") -> AttemptResult:
        self.status = status
        self.failure = failure
        self.payload = failure.payload()
        self.blobs = ()
        return self


class RequestContext(EffectContext):
    """The context of a built-in effect: it adds the blobs that the params refer to, in order."""

    blobs: tuple[bytes, ...]


def timed_out(attempt: int, started_ns: int, timeout_s: float) -> AttemptResult:
    failure = AttemptFailure(
        code=TIMEOUT, message=f"no result within {timeout_s:g} s", retryable=True
    )
    return AttemptResult.now(attempt, started_ns).fail(failure, TIMEOUT)


def canceled(attempt: int, started_ns: int, when: str) -> AttemptResult:
    failure = AttemptFailure(code=CANCELED, message=f"canceled {when}", retryable=False)
    return AttemptResult.now(attempt, started_ns).fail(failure, CANCELED)
