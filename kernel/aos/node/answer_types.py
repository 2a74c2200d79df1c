"""The answers that only a node gives, as types (spec/node-api.md, N-101)."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from aos.read.views.document_types import ShortFault


class ReachedCell(TypedDict):
    """A cell that an event reached. The other fields are there after a wait (N-115)."""

    workflow: str
    key: object
    ran: NotRequired[bool]
    status: NotRequired[str | None]
    record: NotRequired[int | None]
    annotation: NotRequired[object]
    fault: NotRequired[ShortFault]
    state: NotRequired[object]


class NamedCell(TypedDict):
    """A cell by its workflow and its key."""

    workflow: str
    key: object


class SentEvent(TypedDict):
    """The event is record ``seq``, durable. ``to`` is null if the record was pruned. ``ended`` are
    the flows in ``to`` that had ended, which ignore the event; it is absent if there are none.
    ``shard`` is that of a group."""

    seq: int
    duplicate: bool
    to: list[ReachedCell] | None
    ended: NotRequired[list[NamedCell]]
    shard: NotRequired[str]


class ProblemDocument(TypedDict):
    """Why the request was not carried out (RFC 9457)."""

    type: str
    status: int
    detail: str
    rule: str
    pointer: NotRequired[str]
    blockers: NotRequired[list[dict[str, object]]]
    admitted: NotRequired[str]


class RefusedEvent(TypedDict):
    """An event of a batch that was refused."""

    problem: ProblemDocument


class SentBatch(TypedDict):
    """The answers to a batch, in its order."""

    items: list[SentEvent | RefusedEvent]


class AdmittedCommand(TypedDict):
    """The command is record ``seq``."""

    seq: int
    dropped: NotRequired[int]
    abandoned: NotRequired[int]


class StagedModule(TypedDict):
    """The hash of a module, and how many are kept."""

    module: str
    kept: int


class AppliedManifest(TypedDict):
    """The manifest is in force since record ``seq``."""

    seq: int
    manifest: str


class AdmittedRecord(TypedDict):
    """It is record ``seq``."""

    seq: int


class SnapshotDocument(TypedDict):
    """The document of ``aos snapshot --json``."""

    seq: int
    at: int
    document: str
    cells: int
    blobs: int
    bytes: int
    took_ns: int


class StartedInstance(TypedDict):
    """A linear instance runs since record ``seq``."""

    instance: str
    plan: str
    version: int
    biz_key: str | None
    seq: int


class InstanceRecord(TypedDict):
    """The signal or the command for a linear instance is record ``seq``."""

    instance: str
    seq: int


class ScheduleRecord(TypedDict):
    """The command for a schedule is done since record ``seq``."""

    id: str
    seq: int


class BatchItemDocument(TypedDict):
    """An item of a batch: a cell, or one of its effects."""

    workflow: str
    key: object
    intent: NotRequired[str]


class CountedBatch(TypedDict):
    """The items that a batch would have."""

    total: int
    first: list[BatchItemDocument]


class HealthDocument(TypedDict):
    """The front answers. ``role`` and ``lag`` are those of a node of a replicated world."""

    ok: bool
    role: str | None
    lag: int | None


class ReadinessDocument(TypedDict):
    """Each condition, and whether it is met; and what to do about a journal clock that is ahead.
    ``role``, ``lag`` and ``owner`` are those of a node of a replicated world."""

    world_is_open: bool
    follower_is_current: bool
    disk_has_room: bool
    is_not_stopping: bool
    log_answers: bool
    clock_problem: str | None
    role: str | None
    lag: int | None
    owner: str | None
