"""Read requests to the shards of a group's folder (spec/groups.md, GR-80)."""

from __future__ import annotations

from dataclasses import dataclass

from aos.errors import BadUsage
from aos.host.folder.group import GroupFolder
from aos.host.stamps import now_ns
from aos.read.operations.across import check_asked
from aos.read.operations.operation import Query, ReadOperation
from aos.read.views.record_view import Document
from aos_cli.world_reading import FolderReading, parameters_of


@dataclass(frozen=True, slots=True)
class GroupReading:
    """Reads the shards one after the other, and merges their documents."""

    group: GroupFolder

    def document(self, operation: ReadOperation, query: Query) -> Document:
        """See ``WorldReading``."""
        words = {**operation.defaults(), **parameters_of(query)}
        across = check_asked(words, operation.across)
        asked = across.asked(words)
        answers: dict[str, Document | BadUsage] = {}
        for name, folder in zip(self.group.names, self.group.folders(), strict=True):
            try:
                answers[name] = FolderReading(folder.path).document(operation, asked)
            except BadUsage as problem:
                answers[name] = problem
        return across.merged(words, answers)

    def value_bytes(self, value: str) -> bytes:
        """See ``WorldReading``."""
        problem: BadUsage | None = None
        for folder in self.group.folders():
            try:
                return FolderReading(folder.path).value_bytes(value)
            except BadUsage as error:
                problem = problem or error
        assert problem is not None, "a group has shards"
        raise problem

    def now_ns(self, at: int | None) -> int:
        """See ``WorldReading``. A group has no record ``at``, which its documents refuse."""
        assert at is None
        return now_ns()
