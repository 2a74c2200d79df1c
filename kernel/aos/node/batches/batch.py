"""A batch as it is kept and shown: its order, its status, and its counts (spec/batch.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from aos.core.journal.inputs import CANCEL, RETRY, SKIP, UNPIN

CANCEL_EFFECTS: Final = "cancel-effects"
SEND_EVENTS: Final = "send"
BATCH_ACTIONS: Final = (RETRY, SKIP, UNPIN, CANCEL_EFFECTS, SEND_EVENTS)

COMMANDS: Final[Mapping[str, str]] = {
    RETRY: RETRY, SKIP: SKIP, UNPIN: UNPIN, CANCEL_EFFECTS: CANCEL,
}  # fmt: skip
"""The operator's command that an action submits for each item."""

RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"
REFUSALS_KEPT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """The action of a batch, and the cells that it is for.

    ``event`` and ``value`` belong to ``send``, ``effect`` to ``cancel-effects``. ``rate`` is the
    most items in a given time, such as ``50/s``.
    """

    action: str
    workflow: str | None = None
    where: str | None = None
    effect: str | None = None
    event: str | None = None
    value: Any = None
    rate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """One batch.

    ``next`` is the index of the first item that is not finished, ``seq`` the last record before the
    items that may be in progress. ``refused`` counts the items that the world refused; the first
    are in ``refusals``. ``problem`` says why the batch waits or has failed.
    """

    id: str
    order: BatchOrder
    created_ns: int
    token: str
    total: int
    seq: int
    status: str = RUNNING
    next: int = 0
    refused: int = 0
    refusals: tuple[Mapping[str, Any], ...] = ()
    problem: str | None = None
    ended_ns: int | None = None

    @property
    def is_over(self) -> bool:
        return self.status != RUNNING

    def ended(self, status: str, now_ns: int, problem: str | None = None) -> BatchJob:
        """The batch with its last status."""
        return replace(self, status=status, ended_ns=now_ns, problem=problem)

    def to_document(self, *, is_long: bool = True) -> dict[str, Any]:
        """The document of ``aos batch show --json``; a row of the list without refusals."""
        document: dict[str, Any] = {
            "id": self.id,
            "status": self.status,
            **{name: value for name, value in asdict(self.order).items() if value is not None},
            "total": self.total,
            "done": self.next - self.refused,
            "refused": self.refused,
            "left": self.total - self.next,
            "created_ns": self.created_ns,
            "ended_ns": self.ended_ns,
            "token": self.token,
            "problem": self.problem,
        }
        if is_long:
            document["refusals"] = [dict(refusal) for refusal in self.refusals]
        return document

    def to_row(self) -> dict[str, Any]:
        """The content of its file."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Raises: KeyError, TypeError, ValueError: The row is not that of a batch."""
        fields = {name: value for name, value in row.items() if name != "version"}
        batch = cls(
            **{
                **fields,
                "order": BatchOrder(**fields["order"]),
                "refusals": tuple(fields["refusals"]),
            }
        )
        numbers = (batch.total, batch.seq, batch.next, batch.refused, batch.created_ns)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("a count is no whole number")
        if not batch.refused <= batch.next <= batch.total:
            raise ValueError("the counts contradict each other")
        return batch
