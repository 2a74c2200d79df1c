"""A host that kills itself or its worker: ``python -m tests.host.attempt_host WORLD POINT WHO``.

POINT is ``before-begin``, ``after-begin``, ``before-settle``, ``after-settle`` or ``never``. Values
of WHO: ``node`` or ``child``. It kills once, when the first attempt or receipt passes that point.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from aos.core.decide.answers import Answer
from aos.errors import AosError
from aos.host import process
from aos.host.executors.python import PythonExecutor
from aos.host.executors.receipts import Receipts
from aos.host.executors.task import Lost, OnAnswer, Report, WorkItem, report_to_stderr
from aos.host.process import Ended, RunSettings, run_world
from aos.values.digests import Hash
from aos.worker.outcome import Outcome

EFFECTS = f"{Path(__file__).parent / 'attempt_effects.py'}:effects"


class Striking(Receipts):
    """Receipts that strike at their point."""

    point = "never"
    who = "node"
    executor: PythonExecutor

    def submit(self, item: WorkItem, on_answer: OnAnswer) -> None:
        point = "settle" if isinstance(item, Outcome) else "begin"
        is_struck = self.pass_(f"before-{point}")

        def answered(answer: Answer | Lost | AosError) -> None:
            self.pass_(f"after-{point}")
            on_answer(answer)

        if is_struck and point == "begin":
            self.submit_after_death(item, answered)
        else:
            super().submit(item, answered)

    def submit_after_death(self, item: WorkItem, on_answer: OnAnswer) -> None:
        """Submit an item once the death of the worker is known."""
        if self.executor._process.is_ready:
            asyncio.get_running_loop().call_later(0.001, self.submit_after_death, item, on_answer)
        else:
            super().submit(item, on_answer)

    def pass_(self, point: str) -> bool:
        """Whether the worker was killed here."""
        if point != self.point:
            return False
        Striking.point = "never"
        if self.who == "node":
            os.kill(os.getpid(), signal.SIGKILL)
        life = self.executor._process.life
        assert life is not None
        life.kill()
        return True


async def host(path: Path, *, report: Report = report_to_stderr, until_idle: bool = True) -> Ended:
    """Run the world, with the effects in a process of their own."""

    def executors(_: object, world: Hash) -> list[PythonExecutor]:
        Striking.executor = PythonExecutor(EFFECTS, world=world, report=report)
        return [Striking.executor]

    return await run_world(
        path,
        RunSettings(
            executors=executors, until_idle=until_idle, handle_signals=False, report=report
        ),
    )


def main(path: str, point: str, who: str) -> None:
    Striking.point, Striking.who = point, who
    vars(process)["Receipts"] = Striking
    asyncio.run(host(Path(path)))


if __name__ == "__main__":
    main(*sys.argv[1:])
