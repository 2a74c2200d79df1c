"""One instance of a workflow, as a service sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from aos.audit.views.record_view import Document

_ENDED = ("completed", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An instance after record ``seq`` of the world.

    ``status`` is that of ``aos inspect cell`` (spec/guides/statuses.md). ``key`` and ``state`` are
    JSON values, decoded by the schemas of the workflow: the forms that ``send`` takes. ``state`` is
    None before the first step. ``queued`` counts the events and receipts that the instance has not
    handled yet. ``fault`` is the message of the fault that stopped it. ``reasons`` say why it does
    not advance, one sentence each.
    """

    workflow: str
    key: object
    status: str
    state: Any
    queued: int
    fault: str | None
    reasons: tuple[str, ...]
    seq: int

    @property
    def has_ended(self) -> bool:
        """Whether it is completed or failed, and no event waits for it. A fault ends it in any
        case, because events wait behind a fault."""
        return self.status in _ENDED and (self.fault is not None or not self.queued)

    @classmethod
    def of(cls, document: Document, *, seq: int) -> Self:
        """Read the document of ``aos inspect cell``, made after record ``seq``."""
        fault = document["fault"]
        reasons: list[Mapping[str, str]] = document["reasons"]
        return cls(
            workflow=document["workflow"],
            key=document["key"],
            status=document["status"],
            state=document["state"],
            queued=document["mailbox"] + document["mail_uncounted"],
            fault=None if fault is None else f"{fault['kind']}: {fault['message']}",
            reasons=tuple(reason["text"] for reason in reasons),
            seq=seq,
        )


def reached(
    until: str | Collection[str] | Callable[[Instance], bool] | None,
) -> Callable[[Instance], bool]:
    """The condition of a wait: a status, several, a function; by default that it has ended."""
    if until is None:
        return lambda instance: instance.has_ended
    if callable(until):
        return until
    statuses = (until,) if isinstance(until, str) else tuple(until)
    return lambda instance: instance.status in statuses
