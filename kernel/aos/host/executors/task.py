"""What passes between host and executor: a task goes in, an outcome comes out (X-1 to X-6)."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from aos.manifest.effective import Effect, Effective
from aos.manifest.names import NODE
from aos.values.digests import Hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One open intent, as it is published once it is durable.

    ``params`` is canonical CBOR in normal form, ``cell_key`` that of the cell's key (empty for an
    unkeyed workflow). ``attempt`` is the number that the first attempt gets.
    """

    intent: Hash
    effect: Effect
    params: bytes
    idempotency_key: str
    workflow: str
    cell_key: bytes
    issuer_ref: str | None
    opened_seq: int
    opened_ns: int
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an intent ended: what becomes a receipt.

    ``payload`` is canonical CBOR of the effect's receipt schema for ``ok`` and of
    ``sys/EffectError@1`` otherwise. ``executor``, ``key_id`` and ``signature`` are all of the
    executor that signed; unsigned, ``executor`` is ``node`` and the other two are None. ``blobs``
    are what the payload refers to, to be stored in the transaction of the receipt.
    """

    intent: Hash
    effect: str
    attempt: int
    status: str
    payload: bytes
    started_ns: int
    finished_ns: int
    cost_cents: int | None = None
    executor: str = NODE
    key_id: bytes | None = None
    signature: bytes | None = None
    blobs: Mapping[Hash, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counts for a status line. ``done`` is what was settled since the start."""

    running: int
    queued: int
    done: int


Settle: TypeAlias = Callable[[Outcome], Awaitable[str]]
"""Resolves when the receipt is durable or refused: ``settled``, ``duplicate`` or ``refused: …``.

Raises Unavailable when the same outcome may be taken later.
"""

Report: TypeAlias = Callable[[str], None]
"""Takes a line, or several, for the person who runs the node."""


def report_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # the node's terminal


class Executor(Protocol):
    """Runs the tasks of some effects. Used from one event loop only."""

    @property
    def name(self) -> str: ...

    @property
    def effects(self) -> frozenset[str]:
        """The effects it runs; complete once ``start`` has returned."""
        ...

    @property
    def signer(self) -> tuple[str, bytes] | None:
        """(name, public key) of its own signature; None where the host signs as ``node``."""
        ...

    async def start(self, settle: Settle) -> None:
        """Get ready. Raises BadUsage when that cannot be; nothing is left running then."""
        ...

    def use(self, effective: Effective) -> None:
        """A manifest is in force from here on. Called before the first ``publish``."""
        ...

    def publish(self, tasks: Sequence[Task]) -> None:
        """Take tasks to run. Never blocks; an intent that is already here is left as it is."""
        ...

    def cancel(self, intents: Sequence[Hash]) -> None:
        """End these as ``canceled`` unless they have ended already. Unknown ones are ignored."""
        ...

    async def stop(self) -> None:
        """Stop taking and running tasks. What is not settled stays open in the journal."""
        ...

    def stats(self) -> Stats: ...


@runtime_checkable
class Stranding(Protocol):
    """An executor that may come to leave tasks open for good, as far as this run goes."""

    on_stranded: Callable[[], None]
    """Called when ``stranded`` has become more."""

    def stranded(self) -> Mapping[Hash, Task]:
        """Tasks that it will not run any more. A person has been told why."""
        ...
