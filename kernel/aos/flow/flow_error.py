"""The failures of a flow as exceptions, for authors of flows in Python (spec/flow.md, FL-12)."""

from __future__ import annotations

from typing import ClassVar, Self


class FlowError(Exception):
    """The final failure of an operation, or of a flow: the retries are over. A flow raises
    ``Critical`` or ``Rollback``, and catches ``FlowError`` or one of its kinds.

    Attributes:
        kind: ``critical``, ``rollback``, ``exhausted``, ``timeout``, ``canceled``, ``join`` or
            ``race``.
        code: One word, for programs.
        message: One sentence, for people.
        path: The path of the operation or branch that failed; empty for the flow itself.
        causes: The failures of the branches of a join or race, in their order.
    """

    kind: ClassVar[str] = "critical"

    def __init__(
        self,
        code: str | FlowError,
        message: str = "",
        *,
        path: str = "",
        causes: tuple[FlowError, ...] = (),
    ) -> None:
        """Of a code and a message, or of another failure, whose fields it takes."""
        failure = code if isinstance(code, FlowError) else None
        self.code: str = failure.code if failure else str(code)
        self.message: str = failure.message if failure else message
        self.path: str = failure.path if failure else path
        self.causes: tuple[FlowError, ...] = failure.causes if failure else causes
        super().__init__(self.code, self.message)

    def __str__(self) -> str:
        place = f" ({self.path})" if self.path else ""
        return f"{self.code}: {self.message}{place}"

    def at(self, path: str) -> Self:
        """An equal failure; one without a path gets this one (FL-52)."""
        return type(self)(self.code, self.message, path=self.path or path, causes=self.causes)


class Critical(FlowError):
    """A failure that no retry can mend. In a branch, it fails this branch only."""


class Rollback(FlowError):
    """A failure that ends every join and race around it. ``Rollback(error)`` makes one of another
    failure."""

    kind = "rollback"


class Exhausted(FlowError):
    """Every attempt of a step failed."""

    kind = "exhausted"


class Timeout(FlowError):
    """The time ran out. The effect may have happened."""

    kind = "timeout"


class Canceled(FlowError):
    """An operator canceled the flow. The effect may have happened."""

    kind = "canceled"


class JoinFailed(FlowError):
    """Branches of a join failed: ``causes``."""

    kind = "join"


class RaceFailed(FlowError):
    """All branches of a race failed: ``causes``."""

    kind = "race"
