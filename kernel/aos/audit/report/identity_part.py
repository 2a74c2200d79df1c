"""The world's identity: its genesis and its forks, with the keys that each named (EX-65)."""

from __future__ import annotations

from typing import ClassVar

from aos.audit.report.report_part import CurrentRecord, NewestEntries, ReportDocument
from aos.audit.views.record_view import document
from aos.core.journal.records import Fork, Genesis, Record, Start


class IdentityPart:
    """The genesis, all forks, and the versions that executed steps."""

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
