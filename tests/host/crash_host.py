"""A host that a test kills: ``python -m tests.host.crash_host WORLD LOG``.

It runs the world with one executor, which notes in LOG each task that it is given and each that was
settled, before anything else happens to it. With ``--silent`` the executor settles none.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from aos.core.decide.answers import Answer, Refusal
from aos.host.executors.task import Task
from aos.host.process import RunSettings, Started, run_world
from aos.worker.outcome import Outcome
from tests.host.test_process import Echo


class Noting(Echo):
    """Takes a little while for each task, so that some are always open."""

    def __init__(self, log: Path, *, silent: bool = False) -> None:
        super().__init__(silent=silent)
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, word: str, task: Task) -> None:
        os.write(self.log, f"{word} {task.intent.hex()} {task.idempotency_key}\n".encode())

    def started(self, _: Started) -> None:
        os.write(self.log, b"started\n")

    def publish(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self.note("published", task)
            if self.silent:
                continue
            delay_s = task.intent[0] / 2560
            asyncio.get_running_loop().call_later(delay_s, self.settle, task)

    def settle(self, task: Task) -> None:
        assert self.outbox is not None

        def on_end(_: Outcome, answer: Answer | None) -> None:
            if answer is not None and not isinstance(answer, Refusal):
                self.note("settled", task)

        now = task.opened_ns
        outcome = Outcome(
            intent=task.intent, effect=task.effect.name, attempt=1, status="ok",
            payload=task.params, started_ns=now, finished_ns=now,
        )  # fmt: skip
        self.outbox.settle(outcome, on_end)


def main() -> None:
    world, log, *flags = sys.argv[1:]
    noting = Noting(Path(log), silent="--silent" in flags)
    asyncio.run(
        run_world(
            Path(world),
            RunSettings(
                executors=lambda _blob, _world: [noting],
                until_idle="--until-idle" in flags,
                on_started=noting.started,
            ),
        )
    )


if __name__ == "__main__":
    main()
