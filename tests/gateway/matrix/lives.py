"""One life of a world: its process, and those of its workers, in one group of processes.

The workers are forked before the world's process starts a thread, and wait for the socket that the
host gives to a process that it starts. A worker that is started again later is a program of its own
as always.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from aos.core.decide.answers import Admitted, Duplicate
from aos.errors import AosError
from aos.host.door.writer import Item, open_writer
from aos.host.executors.life import Life
from aos.host.folder.secrets import Secrets
from aos.host.process import RunSettings, run_world
from aos.host.transfer.adopting import adopt_world
from aos.host.world.snapshots import Every
from aos.worker import child
from aos.worker.load_executors import load
from aos.worker.wire import FD_VARIABLE
from aos_cli.run_process import standard_executors
from tests.gateway.matrix.deaths import IN_WORKER, Death, Prank, die_at_commit, interfere

IDLE, LATE, FAILED = 0, 4, 70


def live(
    *,
    world: str,
    secrets: str,
    executors: list[str],
    env: Mapping[str, str],
    items: Sequence[Sequence[str]] = (),
    is_copy: bool = False,
    death: dict[str, Any] | None = None,
    pranks: Sequence[dict[str, Any]] = (),
    snapshot_records: int | None = None,
    max_wait_s: float = 60.0,
) -> int:
    """Run a world until it is idle or dies; return 0 if it is idle, 4 if that took too long.

    ``items`` are events that it gets first: schema, value in hex, submission id. ``is_copy``: the
    world was copied from another folder, and is adopted first.
    """
    os.environ.update(env)
    ending = None if death is None else Death.from_json(death)
    played = [Prank.from_json(each) for each in pranks]
    _hand_over_to({spec: _Worker(spec, ending, played) for spec in executors})
    if is_copy:
        adopt_world(Path(world))
    if items:
        _send(Path(world), items)
    if ending is not None and ending.point not in IN_WORKER:
        die_at_commit(ending)
    values = Secrets(Path(secrets))
    ended = asyncio.run(
        run_world(
            Path(world),
            RunSettings(
                executors=lambda read, own: standard_executors(read, own, executors, [], values),
                until_idle=True,
                max_wait_s=max_wait_s,
                handle_signals=False,
                snapshot_every=None
                if snapshot_records is None
                else Every(records=snapshot_records),
            ),
        )
    )
    return LATE if ended.is_late else IDLE


def _send(world: Path, items: Sequence[Sequence[str]]) -> None:
    given = [
        Item(schema=schema, value=bytes.fromhex(value), submission_id=name or None)
        for schema, value, name in items
    ]
    with open_writer(world) as writer:
        for answer in writer.send(given):
            assert isinstance(answer, Admitted | Duplicate), answer


class _Worker:
    """A worker that was forked in advance: the ``Popen`` of ``Life``, once it is used."""

    def __init__(self, spec: str, death: Death | None, pranks: Sequence[Prank]) -> None:
        self._ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            os.close(reading)
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            run_child(lambda: _serve(spec, theirs, death, pranks))
        theirs.close()
        os.close(writing)
        self.stdout: IO[bytes] = os.fdopen(reading, "rb", buffering=0)

    def take(self, descriptor: int) -> None:
        """Give it the socket to its node."""
        socket.send_fds(self._ours, [b"."], [descriptor])
        self._ours.close()

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _serve(spec: str, handover: socket.socket, death: Death | None, pranks: Sequence[Prank]) -> int:
    interfere(death, pranks)
    _, descriptors, _, _ = socket.recv_fds(handover, 1, 1)
    handover.close()
    if not descriptors:
        return 0  # the world died first
    os.environ[FD_VARIABLE] = str(descriptors[0])
    return child.serve(lambda: load(spec))


def _hand_over_to(workers: dict[str, _Worker]) -> None:
    """Make the first life of each executor use the worker that was forked for it."""
    spawn = Life._spawn

    def first(life: Life, descriptor: int) -> Any:
        worker = workers.pop(life._command[-1], None)
        if worker is None:
            return spawn(life, descriptor)
        worker.take(descriptor)
        life._reading = asyncio.ensure_future(life._pass_output(worker.stdout))
        return worker

    setattr(Life, "_spawn", first)  # noqa: B010  # mypy refuses the plain form


def run_child(job: Callable[[], int]) -> None:
    """Run a job in a process that was just forked, and end it."""
    code = FAILED
    try:
        code = job()
    except AosError as problem:
        sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
        code = problem.exit_code
    except BaseException:  # noqa: BLE001  # nothing may continue in this copy of the zygote
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
