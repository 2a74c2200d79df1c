"""The durable row of a task that was given out: its attempt, its worker, its end (N-54).

The key of a row is the intent's hash; its value is a canonical CBOR list of the fields below, in
their order.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode
from aos.values.errors import ValueProblem


class Phase(enum.Enum):
    """Whether the attempt of a row was given out, and whether a worker still has it."""

    RESERVED = "reserved"
    """No worker has it: it is about to be journaled, or a worker gave it back unused."""
    LEASED = "leased"
    OVER = "over"
    """A worker had it; the next attempt follows."""


class LeaseHolder(NamedTuple):
    """A worker and the token under which it speaks."""

    worker: str
    token: str


NO_HOLDER: Final = LeaseHolder("", "")


class RetryPolicy(NamedTuple):
    """Attempts and pauses that a claim asked for, in milliseconds (X-43); None where the claim gave
    no number."""

    attempts: int | None = None
    base_ms: int | None = None
    cap_ms: int | None = None


class Row(NamedTuple):
    """The last attempt of a task that was given out, or is about to be.

    ``epoch`` is its number, ``claim`` the worker's name for the request that took it. Times are of
    the wall clock: the lease of ``lease_ns`` ends at ``until_ns``, and a pause of ``pause_ns``
    before the next attempt at ``resume_ns``. ``lost`` counts leases lost in a row, ``failed``
    attempts that ended with a retryable failure. ``problem`` is why the attempt is over.
    """

    epoch: int
    phase: Phase
    holder: LeaseHolder = NO_HOLDER
    claim: str = ""
    until_ns: int = 0
    lease_ns: int = 0
    lost: int = 0
    failed: int = 0
    pause_ns: int = 0
    resume_ns: int = 0
    problem: str | None = None
    policy: RetryPolicy = RetryPolicy()

    def to_bytes(self) -> bytes:
        """The value of the row."""
        fields: list[Value] = [
            self.epoch, self.phase.value, list(self.holder), self.claim, self.until_ns,
            self.lease_ns, self.lost, self.failed, self.pause_ns, self.resume_ns, self.problem,
            list(self.policy),
        ]  # fmt: skip
        return encode(fields)

    @classmethod
    def from_bytes(cls, data: bytes) -> Row:
        """Read a value that ``to_bytes`` wrote.

        Raises:
            Damage: It is not such a value.
        """
        try:
            value = decode_record(data)
        except ValueProblem as problem:
            raise Damage(f"a lease's row is not canonical CBOR: {problem}") from problem
        match value:
            case [
                int(epoch), str(phase), [str(worker), str(token)], str(claim), int(until_ns),
                int(lease_ns), int(lost), int(failed), int(pause_ns), int(resume_ns), why,
                [int() | None as attempts, int() | None as base_ms, int() | None as cap_ms],
            ] if phase in _PHASES and isinstance(why, str | None):  # fmt: skip
                return cls(
                    epoch=epoch,
                    phase=Phase(phase),
                    holder=LeaseHolder(worker, token),
                    claim=claim,
                    until_ns=until_ns,
                    lease_ns=lease_ns,
                    lost=lost,
                    failed=failed,
                    pause_ns=pause_ns,
                    resume_ns=resume_ns,
                    problem=why,
                    policy=RetryPolicy(attempts=attempts, base_ms=base_ms, cap_ms=cap_ms),
                )
        raise Damage("a lease's row does not have the fields of one")


_PHASES = frozenset(phase.value for phase in Phase)
