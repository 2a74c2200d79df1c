"""Stream frames of one executor, and those that were dropped (X-70 to X-74)."""

from __future__ import annotations

import asyncio
from typing import TypeAlias, assert_never

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.host.executors.task import AttemptJournal, Loss, Lost, Report, StreamFrame

Why: TypeAlias = Refusal | Lost
"""Why a stream frame was dropped."""


class Streaming:
    """Hands frames to the journal, counts those that are dropped, and reports each reason once for
    each effect."""

    def __init__(self, name: str, journal: AttemptJournal, report: Report) -> None:
        self._name = name
        self._journal = journal
        self._report = report
        self._reported_reasons: set[tuple[str, Rule | Loss]] = set()
        self.dropped = 0

    def tell(self, frame: StreamFrame) -> None:
        """Submit a frame and return at once. A frame that is refused or lost is dropped (X-74)."""

        def answered(future: asyncio.Future[Answer | Lost]) -> None:
            if future.cancelled():
                return
            match future.result():
                case Admitted() | Duplicate():
                    pass
                case Refusal() | Lost() as why:
                    self.drop(frame.effect, 1, why)
                case unknown:
                    assert_never(unknown)

        self._journal.tell(frame).add_done_callback(answered)

    def drop(self, effect: str, count: int, cause: Why) -> None:
        """Count dropped frames of an effect. Nothing else comes of it, so it is reported once
        (X-74)."""
        self.dropped += count
        reason = (effect, cause.rule if isinstance(cause, Refusal) else cause.loss)
        if count and reason not in self._reported_reasons:
            self._reported_reasons.add(reason)
            self._report(
                f"executor {self._name}: {effect}: progress is dropped: {cause.text} "
                "(only progress; this is reported once)"
            )
