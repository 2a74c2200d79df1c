"""The process in which ``aos dev`` runs its world (AU-85).

    python -m aos.author.world_child '{"world": …, "executors": […], "until_idle": …, …}'

It writes one JSON object per line to stdout: ``{"started": SEQ}``, then ``{"note": TEXT}``, for
each manifest ``{"unasked": [EFFECT, …], "known": [EFFECT, …]}``, and at its end ``{"ended": …}`` or
``{"failed": TEXT, "code": N}``. It ends when its stdin does, so it never outlives its parent.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from aos.core.journal.ports import BlobReader
from aos.errors import AosError
from aos.host.executors.blob import BlobExecutor
from aos.host.executors.cron import CronExecutor
from aos.host.executors.http import HttpExecutor
from aos.host.executors.pool import Coverage
from aos.host.executors.python import PythonExecutor
from aos.host.executors.task import TaskExecutor
from aos.host.executors.timer import TimerExecutor
from aos.host.folder.secrets import Secrets
from aos.host.process import Ended, RunSettings, Started, run_world
from aos.manifest.effective import Effective
from aos.manifest.names import is_run_by_node
from aos.private_memory import keep_memory_private
from aos.values.digests import Hash
from aos.worker.host_root import host_environment, with_machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The parameters of a run. ``executors`` are in the form of ``--executors``."""

    world: str
    executors: Sequence[str]
    allow_http: Sequence[str] = ()
    secrets: str | None = None
    host_root: str | None = None
    until_idle: bool = False

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        return cls(**json.loads(text))


def main() -> int:
    order = Order.from_text(sys.argv[1])
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        ended = asyncio.run(
            run_world(
                Path(order.world),
                RunSettings(
                    executors=lambda read, world: _executors(order, read, world),
                    until_idle=order.until_idle,
                    report=lambda text: _tell({"note": text}),
                    on_started=_started,
                    on_coverage=_covered,
                ),
            )
        )
    except AosError as error:
        _tell({"failed": str(error), "code": error.exit_code})
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    _tell({"ended": _document(ended)})
    return 0


def _executors(order: Order, read: BlobReader, world: Hash) -> list[TaskExecutor]:
    secrets = Secrets(None if order.secrets is None else Path(order.secrets))
    root = None if order.host_root is None else Path(order.host_root)
    environment = host_environment(root, Path(order.world))
    return [
        TimerExecutor(report=_note),
        BlobExecutor(read, report=_note),
        CronExecutor(report=_note),
        HttpExecutor(order.allow_http, read=read, secrets=secrets, report=_note),
        *(
            PythonExecutor(
                spec,
                world=world,
                read=read,
                secrets=secrets,
                report=_note,
                environment=environment,
            )
            for spec in with_machine(order.executors, root)
        ),
    ]


def _started(started: Started) -> None:
    _tell({"started": started.seq})


def _covered(coverage: Coverage, manifest: Effective) -> None:
    known_effects = sorted(name for name in manifest.effects if not is_run_by_node(name))
    _tell(
        {
            "unasked": list(coverage.unused),
            "known": known_effects,
            "lacking": list(coverage.lacking),
        }
    )


def _note(text: str) -> None:
    _tell({"note": text})


def _document(ended: Ended) -> Mapping[str, object]:
    return {"idle": ended.is_idle, "waiting": dict(ended.waiting)}


def _tell(message: Mapping[str, object]) -> None:
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # the parent is gone; the end of stdin ends this process


def _end_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    keep_memory_private()
    sys.exit(main())
