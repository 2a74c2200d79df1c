"""Stream frames of one executor, and those that nobody got (X-70 to X-74)."""

from __future__ import annotations

import asyncio

from aos.host.executors.attempts import TAKEN
from aos.host.executors.task import Journal, Report, StreamFrame


class Streaming:
    """Hands frames to the journal. What is refused is counted, and told once an effect and rule."""

    def __init__(self, name: str, journal: Journal, report: Report) -> None:
        self._name = name
        self._journal = journal
        self._report = report
        self._told: set[tuple[str, str]] = set()
        self.dropped = 0

    def tell(self, frame: StreamFrame) -> None:
        def answered(told: asyncio.Future[str]) -> None:
            if not told.cancelled() and told.result() != TAKEN:
                _, _, why = told.result().partition(": ")
                self.drop(frame.effect, 1, why)

        self._journal.tell(frame).add_done_callback(answered)

    def drop(self, effect: str, count: int, why: str) -> None:
        """Count frames of an effect that are lost. It is no trouble: a person is told once."""
        self.dropped += count
        rule = why.partition(":")[0]
        if count and (effect, rule) not in self._told:
            self._told.add((effect, rule))
            self._report(
                f"executor {self._name}: {effect}: progress is dropped: {why} "
                "(nothing else is; this is told once)"
            )
