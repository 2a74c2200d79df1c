"""A task of the node in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aos.sealing.keyring import Keyring
from aos.values.digests import Hash, content_hash
from aos.worker.api import EffectContext
from aos.worker.calls import FunctionCall
from aos.worker.failure import CANCELED, TIMEOUT, AttemptFailure
from aos.worker.outcome import NO_BLOBS, Outcome
from aos.worker.progress import ProgressStream
from aos.worker.redaction import Redactor
from aos.worker.sealed_calls import OpenedParams
from aos.worker.wire import Message
from aos.worker.worker_secrets import SecretValue, from_wire


def cancellation(circumstance: str) -> AttemptFailure:
    """The failure of a canceled task: not retryable (X-6). ``circumstance`` completes its message:
    "canceled ``circumstance``"."""
    return AttemptFailure(code=CANCELED, message=f"canceled {circumstance}", retryable=False)


def _new_future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, kw_only=True)
class Job:
    """One task of the node in this process, with the fields of its ``run`` message (X-50).

    ``attempt`` is the number of the current attempt, of which the first ``spent`` do not count
    against the policy (X-16); ``next_frame`` is the lowest number that a stream frame may have;
    without ``has_taker`` no workflow takes the frames. ``blobs`` are by hash, ``secrets`` by name.
    Used on the loop that talks to the node.
    """

    intent: Hash
    effect: str
    attempt: int
    spent: int
    params: bytes
    idempotency_key: str
    workflow: str
    cell_key: bytes
    issuer_ref: str | None
    blobs: Mapping[str, bytes]
    next_frame: int
    has_taker: bool
    traceparent: str | None = None
    secrets: Mapping[str, SecretValue] = field(default_factory=dict, repr=False)
    redactor: Redactor | None = None
    """Finds the values of ``secrets`` and of ``opened_params``, while a function of an author runs.
    """
    keyring: Keyring | None = field(default=None, repr=False)
    opened_params: OpenedParams | None = field(default=None, repr=False)
    """The params with their sealed places opened; None if they have none."""
    stream: ProgressStream | None = None
    """The stream frames of the running function."""
    granted: asyncio.Future[bool] | None = None
    """Set to the node's answer to the request for another attempt; None if none is pending."""
    task: asyncio.Task[None] | None = None
    wish: asyncio.Future[None] = field(default_factory=_new_future)
    """Done once the node has requested cancellation."""
    is_waiting: bool = False
    """Waiting for a slot, or for its next attempt."""
    overdue: FunctionCall | None = None
    """A call that did not end when it was canceled."""

    def succeeded(
        self, payload: bytes, started_ns: int, *, cost_cents: int | None, blobs: Sequence[bytes]
    ) -> Outcome:
        """The current attempt ends now with a result."""
        return Outcome(
            intent=self.intent,
            effect=self.effect,
            attempt=self.attempt,
            status="ok",
            payload=payload,
            started_ns=started_ns,
            finished_ns=max(started_ns, time.time_ns()),
            cost_cents=cost_cents,
            blobs={content_hash(blob): blob for blob in blobs} if blobs else NO_BLOBS,
        )

    def failed(
        self, failure: AttemptFailure, started_ns: int | None = None, *, status: str = "error"
    ) -> Outcome:
        """The current attempt fails now. Without ``started_ns`` it has not begun."""
        return Outcome.failed(
            failure,
            intent=self.intent,
            effect=self.effect,
            attempt=self.attempt,
            started_ns=time.time_ns() if started_ns is None else started_ns,
            status=status,
        )

    def timed_out(self, started_ns: int, timeout_s: float) -> Outcome:
        """The timeout of the current attempt expires now: retryable (X-45)."""
        text = f"no result within {timeout_s:g} s"
        failure = AttemptFailure(code=TIMEOUT, message=text, retryable=True)
        return self.failed(failure, started_ns, status=TIMEOUT)

    def canceled(self, circumstance: str, started_ns: int | None = None) -> Outcome:
        """The task is canceled now; see ``cancellation``."""
        return self.failed(cancellation(circumstance), started_ns, status=CANCELED)

    def cancel(self) -> None:
        """End it as canceled, once."""
        if not self.wish.done():
            self.wish.set_result(None)
            if self.is_waiting and self.task is not None:
                self.task.cancel()

    @classmethod
    def of(cls, message: Message) -> Job:
        """Read a ``run`` message (X-50), on the loop that talks to the node. The fields are not
        checked: only the node sends messages."""
        return cls(
            intent=Hash(message["intent"]),
            effect=message["effect"],
            attempt=message["attempt"],
            spent=message.get("spent", 0),
            params=message["params"],
            idempotency_key=message["idempotency_key"],
            workflow=message["workflow"],
            cell_key=message["cell_key"],
            issuer_ref=message["issuer_ref"],
            blobs=message.get("blobs", {}),
            next_frame=message.get("next_frame", 0),
            has_taker=message["has_taker"],
            traceparent=message.get("traceparent"),
            secrets=from_wire(message["secrets"]) if "secrets" in message else {},
        )


class RequestContext(EffectContext):
    """The context of a built-in effect: it adds the secrets that the params name, by their names,
    with the hosts to which they may be sent."""

    named_secrets: Mapping[str, SecretValue]
