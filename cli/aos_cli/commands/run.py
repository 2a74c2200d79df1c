"""``aos run``: drive a world in the foreground (spec/cli.md, C-25)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Annotated, Final, Protocol

import typer

from aos.audit.lens.words import count
from aos.core.journal.ports import BlobReader
from aos.core.state.cells import RESTING_MAX
from aos.host.errors import NoRoomLeft, Stopping
from aos.host.executors.blob import BlobExecutor
from aos.host.executors.http import HttpExecutor
from aos.host.executors.python import PythonExecutor
from aos.host.executors.task import TaskExecutor
from aos.host.executors.timer import TimerExecutor
from aos.host.folder.secrets import Secrets
from aos.host.process import Ended, Started, Status, run_world
from aos.host.world.snapshots import EVERY_RECORDS, Every
from aos.values.digests import Hash, hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import errors_are_on_terminal, errors_screen, line, note, print_json

PLAIN_EVERY_S: Final = 10.0
"""Interval of plain status lines without a terminal, in seconds."""

REFUSED_SHOWN: Final = 10


def run(
    *,
    until_idle: Annotated[
        bool,
        typer.Option("--until-idle", help="Exit when this process has nothing left to do."),
    ] = False,
    until_waiting: Annotated[
        bool,
        typer.Option(
            "--until-waiting",
            help="Exit when all remaining work waits for a timer, or for an effect that no "
            "executor of this process runs.",
        ),
    ] = False,
    executors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="M:A",
            help="Run Python effects in a process of their own: package.module:attribute or "
            "path/to/file.py:attribute. May be given several times.",
        ),
    ] = None,
    allow_http: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="Allow sys/http.request@1 to reach this host (default: none). "
            "May be given several times.",
        ),
    ] = None,
    secrets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the values of file:KEY secrets: KEY=VALUE lines or a JSON object, "
            "mode 0600. Read again when it changes.",
        ),
    ] = None,
    snapshot_records: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            envvar="AOS_SNAPSHOT_RECORDS",
            help="Take a snapshot after this number of records; 0: only on request (aos snapshot).",
        ),
    ] = EVERY_RECORDS,
    cell_cache_size: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            envvar="AOS_CELL_CACHE_SIZE",
            help="Maximum number of idle cells kept in memory, for each workflow.",
        ),
    ] = RESTING_MAX,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    values = Secrets(secrets)
    try:
        with _screen() as screen:
            ended = asyncio.run(
                run_world(
                    world,
                    executors=lambda read, world: _executors(
                        read, world, executors or [], allow_http or [], values
                    ),
                    until_idle=until_idle,
                    until_waiting=until_waiting,
                    snapshot_every=Every(records=snapshot_records),
                    cells_kept=cell_cache_size,
                    report=note,
                    on_fold=screen.fold,
                    on_started=_started,
                    on_status=screen.status,
                )
            )
    except NoRoomLeft:
        raise
    except (KeyboardInterrupt, Stopping):
        # The signal came while the journal was read, or while the runner did not handle signals.
        note("stopped; everything acknowledged is durable")
        return
    if json:
        print_json(_document(ended))
    else:
        _summary(ended)


def _executors(
    read: BlobReader,
    world: Hash,
    specs: Sequence[str],
    allow_http: Sequence[str],
    secrets: Secrets,
) -> list[TaskExecutor]:
    return [
        TimerExecutor(report=note),
        BlobExecutor(read, report=note),
        HttpExecutor(allow_http, read=read, secrets=secrets, report=note),
        *(PythonExecutor(spec, world=world, report=note) for spec in specs),
    ]


def _started(found: Started) -> None:
    number = found.open_intents
    again = f", {count(number, 'open effect')} published again" if number else ""
    note(f"running {found.folder.path} from record {found.seq:,}{again} (Ctrl-C stops it)")


class _Screen(Protocol):
    def fold(self, done: int, total: int) -> None: ...

    def status(self, status: Status) -> None: ...


@contextmanager
def _screen() -> Iterator[_Screen]:
    """A live status line on a terminal; elsewhere a plain line every ``PLAIN_EVERY_S``."""
    if not errors_are_on_terminal():
        yield _Plain()
        return
    with errors_screen().status_line() as show:
        yield _Terminal(show)


class _Terminal:
    def __init__(self, show: Callable[[str, str], None]) -> None:
        self._show = show

    def fold(self, done: int, total: int) -> None:
        self._show(_folding(done, total), "dim")

    def status(self, status: Status) -> None:
        self._show(_status(status), "cyan")


class _Plain:
    def __init__(self) -> None:
        self._last = monotonic()
        self._told = -1

    def fold(self, done: int, total: int) -> None:
        if self._is_time():
            note(_folding(done, total))

    def status(self, status: Status) -> None:
        seq = status.stats.figures.seq
        if seq != self._told and self._is_time():
            self._told = seq
            note(_status(status))

    def _is_time(self) -> bool:
        now = monotonic()
        if now - self._last < PLAIN_EVERY_S:
            return False
        self._last = now
        return True


def _folding(done: int, total: int) -> str:
    return f"reading the journal: record {done:,} of {total:,}"


def _status(status: Status) -> str:
    figures = status.stats.figures
    waiting = sum(status.waiting.values())
    parts = [
        f"record {figures.seq:,}",
        count(figures.cells, "cell"),
        f"{status.steps_per_s:,.0f} steps/s",
        f"{count(figures.open_intents, 'effect')} open",
    ]
    if waiting:
        parts.append(f"{waiting:,} without executor")
    if figures.faults:
        parts.append(count(figures.faults, "fault"))
    if status.stats.no_room is not None:
        parts.append("no room on the disk")
    return " · ".join(parts)


def _document(ended: Ended) -> dict[str, object]:
    figures = ended.stats.figures
    return {
        "idle": ended.is_idle,
        "seq": figures.seq,
        "cells": figures.cells,
        "events": figures.events,
        "steps": figures.steps,
        "receipts": figures.receipts,
        "faults": figures.faults,
        "open_intents": figures.open_intents,
        "waiting": dict(ended.waiting),
        "refused": {
            hash_text(intent): f"refused: {why.text}" for intent, why in ended.refused.items()
        },
    }


def _why_not(effect: str, ended: Ended) -> str:
    if effect in ended.given_up:
        return "its executor here gave up (it is tried again when the world is run again)"
    return "nobody here runs (add --executors MODULE:ATTRIBUTE with a function for it)"


def _summary(ended: Ended) -> None:
    figures = ended.stats.figures
    how = "idle" if ended.is_idle else "stopped"
    parts = [count(figures.steps, "step"), count(figures.receipts, "receipt")]
    if figures.faults:
        parts.append(f"{count(figures.faults, 'fault')} (aos inspect faults)")
    parts.append(f"{count(figures.open_intents, 'effect')} open")
    line(f"{how} at record {figures.seq:,}: {', '.join(parts)}")
    for effect, waiting in ended.waiting.items():
        line(
            f"  {waiting:,} wait for {effect}, which {_why_not(effect, ended)}",
            style="yellow",
        )
    if ended.timers:
        line(f"  {count(ended.timers, 'timer')} not due yet")
    refused = list(ended.refused.items())
    for intent, why in refused[:REFUSED_SHOWN]:
        line(f"  the receipt for {hash_text(intent)[:23]}… was refused: {why.text}", style="red")
    if len(refused) > REFUSED_SHOWN:
        line(f"  and {len(refused) - REFUSED_SHOWN} more (--json lists them all)", style="red")
