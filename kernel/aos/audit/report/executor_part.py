"""Every executor and key that a manifest ever named, and what each key signed (EX-67)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from aos.audit.report.report_part import CurrentRecord, ReportDocument
from aos.core.journal.records import Manifest, Receipt, Record, Stream
from aos.manifest.effective import Effective
from aos.manifest.keys import key_text


@dataclass(slots=True)
class _Key:
    """``first`` is the manifest that named the key first, ``last_signed`` the last record that it
    signed."""

    first: int | None
    receipts: int = 0
    frames: int = 0
    last_signed: int | None = None


@dataclass(slots=True)
class _Executor:
    first: int | None
    keys: dict[bytes, _Key] = field(default_factory=dict)


class ExecutorPart:
    """Executors by name. One that only receipts name, because the manifest that named it was
    pruned, has no first record."""

    NAME: ClassVar = "executors"

    def __init__(self) -> None:
        self._executors: dict[str, _Executor] = {}
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
            self._executors.setdefault(name, _Executor(seq))
            for key in (executor.public_key, *executor.retired_keys, *executor.revoked_keys):
                self._key(name, key, seq)
            self._revoked.update(executor.revoked_keys)

    def _key(self, name: str, key: bytes, first: int | None) -> _Key:
        executor = self._executors.setdefault(name, _Executor(first))
        return executor.keys.setdefault(key, _Key(first))

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
