"""The parts of a report about who may do what, and who did: keys, manifests, votes, commands
(spec/exports.md, EX-65 to EX-68, EX-71, EX-72)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from aos.core.journal.inputs import ERASE, STRICT
from aos.core.journal.records import (
    Control,
    Fork,
    Genesis,
    Governance,
    Manifest,
    Receipt,
    Record,
    Start,
    Stream,
)
from aos.manifest.difference import Difference, difference
from aos.manifest.effective import Effective
from aos.manifest.keys import key_text
from aos.prove.report.report_part import LISTED_MAX, CurrentRecord, NewestEntries, ReportDocument
from aos.read.views.record_view import control_text, document
from aos.values.digests import hash_text

CHANGES_MAX: Final = 200
"""How many changes of one manifest are listed."""

ACTS_MAX: Final = 200
"""How many votes and reports of one proposal are listed."""


class IdentityPart:
    """The world's identity: its genesis and all forks, with the keys that each named, and the
    versions that executed steps (EX-65)."""

    NAME: ClassVar = "identity"

    def __init__(self) -> None:
        self._genesis: ReportDocument | None = None
        self._forks = NewestEntries()
        self._starts = 0
        self._hosts: dict[str, int] = {}

    def take(self, record: Record, at: CurrentRecord) -> None:
        if isinstance(record, Genesis):
            self._genesis = document(record, at.lens)
        elif isinstance(record, Fork):
            self._forks.add(document(record, at.lens))
        elif isinstance(record, Start):
            self._starts += 1
            host_text = ", ".join(f"{name} {value}" for name, value in record.host)
            self._hosts.setdefault(host_text, record.seq)

    def document(self) -> ReportDocument:
        hosts = [{"host": host_text, "first": seq} for host_text, seq in self._hosts.items()]
        return {
            "genesis": self._genesis,
            "forks": self._forks.document(),
            "starts": self._starts,
            "hosts": hosts[-100:],
        }


class ManifestPart:
    """Each manifest that came into force, its operator, the authority that it changed, and what
    else changed from the one before (EX-66)."""

    NAME: ClassVar = "manifests"

    def __init__(self) -> None:
        self._manifests = NewestEntries()

    def take(self, record: Record, at: CurrentRecord) -> None:
        if not isinstance(record, Manifest):
            return
        assert at.effective is not None, "the collector reads the manifest first"
        changed = difference(at.previous_effective, at.effective)
        self._manifests.add(
            {
                **document(record, at.lens),
                "proposal": record.proposal,
                "authority": _change_texts(changed.authority),
                "changes": _change_texts(_other_changes(changed)),
            }
        )

    def document(self) -> ReportDocument:
        return self._manifests.document()


def _other_changes(changed: Difference) -> list[object]:
    changes = [
        *changed.definitions, *changed.routes, *changed.placements, *changed.limits,
        *changed.plans, *changed.schedules,
    ]  # fmt: skip
    return [*changes, *(["~ order of the subscriptions"] if changed.reordered else [])]


def _change_texts(changes: Iterable[object]) -> list[str]:
    texts = [str(change) for change in changes]
    omitted = len(texts) - CHANGES_MAX
    return texts[:CHANGES_MAX] + ([f"and {omitted} more"] if omitted > 0 else [])


@dataclass(slots=True)
class _KeyUse:
    """``first`` is the manifest that named the key first, ``last_signed`` the last record that it
    signed."""

    first: int | None
    receipts: int = 0
    frames: int = 0
    last_signed: int | None = None


@dataclass(slots=True)
class _ExecutorUse:
    first: int | None
    keys: dict[bytes, _KeyUse] = field(default_factory=dict)


class ExecutorPart:
    """Every executor and key that a manifest ever named, and what each key signed, by the
    executor's name (EX-67). One that only receipts name, because the manifest that named it was
    pruned, has no first record."""

    NAME: ClassVar = "executors"

    def __init__(self) -> None:
        self._executors: dict[str, _ExecutorUse] = {}
        self._effective: Effective | None = None
        self._revoked: set[bytes] = set()

    def take(self, record: Record, at: CurrentRecord) -> None:
        if isinstance(record, Manifest):
            assert at.effective is not None, "the collector reads the manifest first"
            self._name(at.effective, record.seq)
        elif isinstance(record, Receipt | Stream):
            key = self._key(record.executor, record.key_id, None)
            key.last_signed = record.seq
            if isinstance(record, Receipt):
                key.receipts += 1
            else:
                key.frames += 1

    def _name(self, effective: Effective, seq: int) -> None:
        self._effective = effective
        for name, executor in (effective.executors or {}).items():
            self._executors.setdefault(name, _ExecutorUse(seq))
            for key in (executor.public_key, *executor.retired_keys, *executor.revoked_keys):
                self._key(name, key, seq)
            self._revoked.update(executor.revoked_keys)

    def _key(self, name: str, key: bytes, first: int | None) -> _KeyUse:
        executor = self._executors.setdefault(name, _ExecutorUse(first))
        return executor.keys.setdefault(key, _KeyUse(first))

    def document(self) -> list[ReportDocument]:
        executors = (self._effective.executors if self._effective else None) or {}
        return [
            {
                "name": name,
                "first": executor.first,
                "in_force": name in executors,
                "effects": sorted(executors[name].effects) if name in executors else [],
                "keys": [
                    {
                        "key": key_text(key),
                        "state": self._state(name, key),
                        "first": key_use.first,
                        "receipts": key_use.receipts,
                        "frames": key_use.frames,
                        "last_signed": key_use.last_signed,
                    }
                    for key, key_use in executor.keys.items()
                ],
            }
            for name, executor in sorted(self._executors.items())
        ]

    def _state(self, name: str, key: bytes) -> str:
        """Return ``revoked``, ``signs``, ``retired``, ``gone`` (no manifest in force names it), or
        ``world`` (the world's own key, where the manifest names no executors)."""
        if key in self._revoked:
            return "revoked"
        executors = None if self._effective is None else self._effective.executors
        if executors is None:
            return "world"
        executor = executors.get(name)
        if executor is None:
            return "gone"
        if key == executor.public_key:
            return "signs"
        return "retired" if key in executor.retired_keys else "gone"


class CommandPart:
    """All commands of operators, counted by operator and action (EX-68)."""

    NAME: ClassVar = "commands"

    def __init__(self) -> None:
        self._commands = NewestEntries()
        self._counts: Counter[tuple[str, str]] = Counter()

    def take(self, record: Record, at: CurrentRecord) -> None:
        if isinstance(record, Control):
            self._counts[record.principal, record.action] += 1
            fields = document(record, at.lens)
            self._commands.add({**fields, "summary": control_text(fields)})

    def document(self) -> ReportDocument:
        counts = [
            {"principal": principal, "action": action, "count": count}
            for (principal, action), count in sorted(self._counts.items())
        ]
        return {"counts": counts, **self._commands.document()}


class ErasedPart:
    """The values that a command erased, or that a fork did not take over (EX-71)."""

    NAME: ClassVar = "erased"

    def __init__(self) -> None:
        self._values = NewestEntries()

    def take(self, record: Record, at: CurrentRecord) -> None:  # noqa: ARG002  # as every part
        if isinstance(record, Control) and record.action == ERASE and record.value is not None:
            self._add(hash_text(record.value), record, record.principal)
        elif isinstance(record, Fork):
            for value in record.erased:
                self._add(hash_text(value), record, None)

    def _add(self, value: str, record: Control | Fork, principal: str | None) -> None:
        self._values.add(
            {
                "value": value,
                "record": record.seq,
                "at_ns": record.stamp.ns,
                "principal": principal,
            }
        )

    def document(self) -> ReportDocument:
        return self._values.document()


class GovernancePart:
    """The newest proposals of a governed world, with their reports and votes, each with what became
    of it, and who approves now (EX-72)."""

    NAME: ClassVar = "governance"

    def __init__(self) -> None:
        self._total = 0
        self._proposals: dict[int, ReportDocument] = {}
        self._approvers: ReportDocument | None = None

    def take(self, record: Record, at: CurrentRecord) -> None:
        if isinstance(record, Governance):
            self._act(record)
        elif isinstance(record, Manifest):
            proposal = self._proposals.get(record.proposal or 0)
            if proposal is not None:
                proposal["applied_by"] = record.seq
            self._approvers = _approvers(at)

    def _act(self, record: Governance) -> None:
        if record.action == "propose":
            self._total += 1
            self._proposals[record.seq] = _proposed(record)
            if len(self._proposals) > LISTED_MAX:
                del self._proposals[next(iter(self._proposals))]
            return
        proposal = self._proposals.get(record.proposal or 0)
        if proposal is None:
            return
        if len(proposal["acts"]) < ACTS_MAX:
            proposal["acts"].append(
                {
                    "record": record.seq,
                    "at_ns": record.stamp.ns,
                    "action": record.action,
                    "principal": record.principal,
                    "report": None if record.report is None else hash_text(record.report.hash),
                    "seen": None if record.seen is None else hash_text(record.seen),
                    "note": record.note,
                }
            )
        else:
            proposal["acts_left_out"] += 1

    def document(self) -> ReportDocument:
        return {
            "in_force": self._approvers,
            "total": self._total,
            "left_out": self._total - len(self._proposals),
            "list": list(self._proposals.values()),
        }


def _proposed(record: Governance) -> ReportDocument:
    return {
        "record": record.seq,
        "at_ns": record.stamp.ns,
        "principal": record.principal,
        "document": None if record.document is None else hash_text(record.document.hash),
        "base": None if record.base is None else hash_text(record.base),
        "mode": record.mode or STRICT,
        "leaves": list(record.leaves),
        "note": record.note,
        "acts": [],
        "acts_left_out": 0,
        "applied_by": None,
    }


def _approvers(at: CurrentRecord) -> ReportDocument | None:
    governance = None if at.effective is None else at.effective.governance
    if governance is None:
        return None
    return {
        "approvers": [
            {"name": approver.name, "public_key": key_text(approver.public_key)}
            for approver in governance.approvers
        ],
        "quorum": governance.quorum,
        "shadow_records": governance.shadow_records,
    }
