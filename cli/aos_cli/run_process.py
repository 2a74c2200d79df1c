"""The parts that ``aos run`` and ``aos node`` share: the executors of the process, its first lines,
and its status while it runs (spec/cli.md, C-25, C-25a).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

from aos.core.journal.ports import BlobReader
from aos.errors import BadUsage
from aos.host.executors.backlog import NO_LIMITS
from aos.host.executors.blob import BlobExecutor
from aos.host.executors.cron import CronExecutor
from aos.host.executors.http import HttpExecutor
from aos.host.executors.limiter import Limit
from aos.host.executors.pool import Coverage
from aos.host.executors.python import PythonExecutor
from aos.host.executors.task import TaskExecutor
from aos.host.executors.timer import TimerExecutor
from aos.host.folder.folder import is_group, is_replicated, open_folder
from aos.host.folder.group import find_group
from aos.host.folder.secrets import Secrets
from aos.host.process import STATUS_S, ReplicaOptions, Started, Status
from aos.host.stamps import now_ns
from aos.host.world.unit import Figures
from aos.manifest.effective import Effective
from aos.read.lens.words import FAR_NS, count, span_text, time_text
from aos.read.views.clock_view import ahead_ns, ahead_text
from aos.values.digests import Hash
from aos.worker.shipped import option_for
from aos_cli.output import errors_are_on_terminal, errors_screen, note

LEASE_S_MIN: Final = 1
LEASE_S_MAX: Final = 300
"""Bounds of the lease of a node, in seconds. With a shorter one, an owner that is slow once would
lose the world."""

PLAIN_EVERY_S: Final = 10.0
"""Interval of plain status lines without a terminal, in seconds."""


def standard_executors(
    read: BlobReader,
    world: Hash,
    specs: Sequence[str],
    allow_http: Sequence[str],
    secrets: Secrets,
    *,
    limits: Mapping[str, Limit] = NO_LIMITS,
    environment: Mapping[str, str] | None = None,
    neighbours_of: Path | None = None,
    credentials: Path | None = None,
) -> list[TaskExecutor]:
    """Return the host's own executors, and one for each of ``specs``, which name Python effects.
    ``limits`` are those of a node; ``environment`` is that of the processes of ``specs``.
    ``neighbours_of`` is the folder of the world, if it sends events to its neighbours. If it is
    replicated, ``credentials`` is the file for its servers."""
    return [
        TimerExecutor(report=note),
        BlobExecutor(read, report=note),
        CronExecutor(report=note),
        HttpExecutor(allow_http, read=read, secrets=secrets, report=note),
        *([] if neighbours_of is None else [_to_neighbours(neighbours_of, credentials)]),
        *(
            PythonExecutor(
                spec,
                world=world,
                read=read,
                secrets=secrets,
                report=note,
                limits=limits,
                environment=environment,
            )
            for spec in specs
        ),
    ]


def _to_neighbours(world: Path, credentials: Path | None) -> TaskExecutor:
    # Few worlds have neighbours.
    from aos.host.door.delivery_targets import DeliveryTargets, NeighbourTargets  # noqa: PLC0415
    from aos.host.world_send import WorldSendExecutor  # noqa: PLC0415
    from aos.node.worlds.waking import wake  # noqa: PLC0415

    folder = open_folder(world)
    targets: DeliveryTargets
    if is_replicated(world):
        from aos.host.cluster.registered_worlds import RegisteredTargets  # noqa: PLC0415
        from aos.host.folder.replica_file import replica_of  # noqa: PLC0415

        targets = RegisteredTargets(replica_of(world), folder.world, credentials)
    else:
        targets = NeighbourTargets(folder, wake)
    return WorldSendExecutor(folder, targets=targets, report=note)


def check_neighbours(world: Path) -> None:
    """Check that ``aos node`` may serve a world with neighbours (WS-1). Those of a replicated one
    are at its servers.

    Raises:
        BadUsage: It is a group of embedded worlds, or a shard of one.
    """
    parent = world.absolute().parent
    group = find_group(world) or (find_group(parent) if is_group(parent) else None)
    if group is not None and not group.are_replicated():
        raise BadUsage(
            "--neighbours: aos node serves the shards of a group without neighbours",
            location=str(world),
            expected="a world that is no shard of a group",
            hint="aos run --neighbours runs a group with neighbours",
        )


def replica_options(
    lease_s: int | None, credentials: Path | None, *, no_reference: bool
) -> ReplicaOptions:
    """The options of a node of a replicated world. Raises: BadUsage: The lease is too short or too
    long."""
    if lease_s is not None and not LEASE_S_MIN <= lease_s <= LEASE_S_MAX:
        raise BadUsage("--lease", expected="1 to 300 seconds", actual=str(lease_s))
    return ReplicaOptions(
        lease_ns=None if lease_s is None else lease_s * 10**9,
        credentials=credentials,
        has_reference=not no_reference,
    )


def figures_document(figures: Figures) -> dict[str, object]:
    """The figures of a run, for ``--json``."""
    return {
        "seq": figures.seq,
        "cells": figures.cells,
        "events": figures.events,
        "steps": figures.steps,
        "receipts": figures.receipts,
        "faults": figures.faults,
        "open_intents": figures.open_intents,
    }


def figures_text(figures: Figures) -> str:
    """The figures of a run, in words."""
    parts = [count(figures.steps, "step"), count(figures.receipts, "receipt")]
    if figures.faults:
        parts.append(f"{count(figures.faults, 'fault')} (aos inspect faults)")
    parts.append(f"{count(figures.open_intents, 'effect')} open")
    return f"record {figures.seq:,}: {', '.join(parts)}"


class RunStart:
    """Prints that the world runs, and then the things that its manifest may ask for and this
    process does not provide (C-25). Unless it ``needs_executors``, workers may carry out the
    effects that this process does not."""

    def __init__(self, *, needs_executors: bool = True) -> None:
        self._needs_executors = needs_executors
        self._noted: set[str] = set()
        self._waiting: list[str] = []
        self._has_started = False

    def started(self, start: Started) -> None:
        """Print the first line, and the block after it."""
        _note_start(start)
        self._has_started = True
        self._tell()

    def covered(self, coverage: Coverage, _manifest: Effective) -> None:
        """Print a short block, once the world runs; a later manifest adds only new lines."""
        unserved = coverage.unserved if self._needs_executors else ()
        lacks = [f"{name}: no executor ({option_for(name)})" for name in unserved]
        new = [text for text in (*lacks, *coverage.lacking) if text not in self._noted]
        self._noted.update(new)
        self._waiting += new
        if self._has_started:
            self._tell()

    def _tell(self) -> None:
        new, self._waiting = self._waiting, []
        if new:
            note("this process cannot run these effects, which stay open:")
        for text in new:
            note(f"  {text}")


def _note_start(start: Started) -> None:
    number = start.open_intents
    published_text = f", {count(number, 'open effect')} published again" if number else ""
    note(f"running {start.folder.path} from record {start.seq:,}{published_text} (Ctrl-C stops it)")
    _note_clock(start.clock_ns, now_ns())


def _note_clock(clock_ns: int, machine_ns: int) -> None:
    """Print a line if the machine's clock and the last record are far from each other (C-25f)."""
    found_ns = ahead_ns(clock_ns, machine_ns)
    if found_ns:
        note(ahead_text(found_ns), style="yellow")
    elif machine_ns - clock_ns > FAR_NS:
        note(
            f"this machine's clock is {span_text(machine_ns - clock_ns)} after the last record, of "
            f"{time_text(clock_ns)}: if that clock is wrong, set it, and then see aos clock",
            style="yellow",
        )


class RunScreen(Protocol):
    """Shows how far a world is."""

    def fold(self, records_read: int, total: int) -> None:
        """So many records of the journal were read."""

    def status(self, status: Status) -> None:
        """This is the status now."""


@contextmanager
def run_screen() -> Iterator[RunScreen]:
    """A live status line on a terminal; elsewhere a plain line every ``PLAIN_EVERY_S`` (C-25,
    C-25a)."""
    if not errors_are_on_terminal():
        yield _PlainScreen()
        return
    with errors_screen().status_line() as show:
        yield _TerminalScreen(show)


class _TerminalScreen:
    def __init__(self, show: Callable[[str, str], None]) -> None:
        self._show = show

    def fold(self, records_read: int, total: int) -> None:
        self._show(_reading_text(records_read, total), "dim")

    def status(self, status: Status) -> None:
        self._show(_status_text(status, status.steps_per_s), "cyan")


class _PlainScreen:
    """A line every ``PLAIN_EVERY_S`` while something happens, with the mean since the one before
    or since something happened again."""

    def __init__(self) -> None:
        self._last = self._since = monotonic()
        self._steps = 0
        self._noted_seq = -1

    def fold(self, records_read: int, total: int) -> None:
        if self._is_time():
            note(_reading_text(records_read, total))

    def status(self, status: Status) -> None:
        figures, since = status.stats.figures, self._since
        if figures.seq == self._noted_seq:
            self._begin(figures.steps)
        elif self._is_time():
            self._noted_seq = figures.seq
            seconds = max(monotonic() - since, STATUS_S)
            note(_status_text(status, (figures.steps - self._steps) / seconds))
            self._begin(figures.steps)

    def _begin(self, steps: int) -> None:
        self._since, self._steps = monotonic(), steps

    def _is_time(self) -> bool:
        now = monotonic()
        if now - self._last < PLAIN_EVERY_S:
            return False
        self._last = now
        return True


def _reading_text(records_read: int, total: int) -> str:
    return f"reading the journal: record {records_read:,} of {total:,}"


def _status_text(status: Status, steps_per_s: float) -> str:
    figures = status.stats.figures
    waiting = sum(status.waiting.values())
    parts = [
        f"record {figures.seq:,}",
        count(figures.cells, "cell"),
        f"{steps_per_s:,.0f} steps/s",
        f"{count(figures.open_intents, 'effect')} open",
    ]
    if status.parked:
        parts.append(f"{status.parked:,} parked")
    if status.held:
        parts.append(f"{status.held:,} held")
    if waiting > status.parked + status.held:
        parts.append(f"{waiting - status.parked - status.held:,} without executor")
    if figures.faults:
        parts.append(count(figures.faults, "fault"))
    if status.stats.no_room is not None:
        parts.append("no room on the disk")
    return " · ".join(parts)
