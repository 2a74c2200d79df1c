"""``aos run``: drive a world in the foreground (spec/cli.md, C-25)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Final

from aos.core.state.cells import RESTING_MAX
from aos.errors import BadUsage, Unavailable
from aos.host.errors import NoRoomLeft, Stopping
from aos.host.folder.folder import is_group
from aos.host.folder.group import open_group
from aos.host.folder.secrets import Secrets
from aos.host.process import (
    NO_REPLICA_OPTIONS,
    Ended,
    ReplicaOptions,
    RunSettings,
    Status,
    run_world,
)
from aos.host.stamps import now_ns
from aos.host.world.snapshots import EVERY_RECORDS, Every
from aos.manifest.names import TIMER
from aos.read.lens.words import FAR_NS, SECOND, count, span_text, time_text
from aos.values.digests import hash_text
from aos.worker.host_root import check_host_root, host_environment, with_machine
from aos_cli.core_option import Core, chosen_core
from aos_cli.options import (
    DEFAULT_WORLD,
    AllowHttp,
    CellCacheSize,
    Credentials,
    ExecutorSpecs,
    HasNeighbours,
    HostRoot,
    Json,
    Lease,
    NoReference,
    SecretsFile,
    SnapshotRecords,
    World,
    flag,
    option,
    option_words,
    span,
)
from aos_cli.output import line, note, print_json
from aos_cli.run_process import (
    RunStart,
    figures_document,
    figures_text,
    replica_options,
    run_screen,
    standard_executors,
)

WAITS_EVERY_S: Final = 10.0
"""Least interval of notes about what a run that ends by itself waits for, in seconds."""

QUIET_S: Final = 1.0
"""Time before the first such note, in seconds."""

REFUSED_SHOWN: Final = 10


MaxWait = Annotated[
    int | None,
    option(
        "D",
        "With --until-idle or --until-waiting: exit with code 4 after this time, such as 90s or "
        "5m, and list what is still open.",
        parser=span,
    ),
]


def run(
    *,
    until_idle: Annotated[
        bool, flag("--until-idle", "Exit when this process has nothing left to do.")
    ] = False,
    until_waiting: Annotated[
        bool,
        flag(
            "--until-waiting",
            "Exit when all remaining work waits for a timer, or for an effect that no "
            "executor of this process runs.",
        ),
    ] = False,
    max_wait: MaxWait = None,
    executors: ExecutorSpecs = None,
    allow_http: AllowHttp = None,
    secrets: SecretsFile = None,
    host_root: HostRoot = None,
    snapshot_records: SnapshotRecords = EVERY_RECORDS,
    cell_cache_size: CellCacheSize = RESTING_MAX,
    core: Core = None,
    neighbours: HasNeighbours = False,
    checkpoint_every: Annotated[
        int | None,
        option(
            "SPAN",
            "Make a checkpoint after each such time, such as 10m, and one at the end "
            "(default: none).",
            parser=span,
        ),
    ] = None,
    lease: Lease = None,
    creds: Credentials = None,
    no_reference: NoReference = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    ends_by_itself = until_idle or until_waiting
    _check_spans(max_wait, checkpoint_every, ends_by_itself=ends_by_itself)
    replica = replica_options(lease, creds, no_reference=no_reference)
    if is_group(world):
        _check_group(world, replica)
        check_host_root(host_root, world)
        # Few worlds are groups.
        from aos_cli.group_run import run_group  # noqa: PLC0415

        options = option_words(
            until_idle=until_idle, until_waiting=until_waiting, max_wait=_span(max_wait),
            executors=executors, allow_http=allow_http, secrets=secrets, host_root=host_root,
            snapshot_records=snapshot_records, cell_cache_size=cell_cache_size, core=core,
            checkpoint_every=_span(checkpoint_every), lease=lease, creds=creds,
            neighbours=neighbours, no_reference=no_reference,
        )  # fmt: skip
        return run_group(world, options, json=json)
    kind = chosen_core(core)
    executors_of = partial(
        standard_executors,
        specs=with_machine(executors or [], host_root),
        allow_http=allow_http or [],
        secrets=Secrets(secrets),
        environment=host_environment(host_root, world),
        neighbours_of=world if neighbours else None,
        credentials=creds,
    )
    start = RunStart()
    settings = RunSettings(
        executors=executors_of,
        has_neighbours=neighbours,
        until_idle=until_idle,
        until_waiting=until_waiting,
        max_wait_s=None if max_wait is None else max_wait / SECOND,
        snapshot_every=Every(records=snapshot_records),
        cells_kept=cell_cache_size,
        core=kind,
        replica=replica,
        report=note,
        on_started=start.started,
        on_coverage=start.covered,
    )
    waits = _Waits(max_wait) if ends_by_itself else None
    with _checkpoints(world, checkpoint_every):
        ended = _run_to_the_end(world, settings, waits)
    if ended is None:
        return 0
    if json:
        print_json(_document(ended))
    else:
        _summary(ended, max_wait)
    return Unavailable.exit_code if ended.is_late else 0


def _check_group(world: Path, replica: ReplicaOptions) -> None:
    """Raise BadUsage for options of nodes if the worlds of a group are embedded, and Unavailable if
    only some of them are."""
    if not open_group(world).are_replicated() and replica != NO_REPLICA_OPTIONS:
        raise BadUsage(
            "--lease, --creds, --no-reference: the worlds of this group are not replicated",
            location=str(world),
            expected="no such option, or a group of replicated worlds (aos init --store)",
        )


def _run_to_the_end(world: Path, settings: RunSettings, waits: _Waits | None) -> Ended | None:
    """Run a world with a screen; None if a signal stopped it before it ran."""
    try:
        with run_screen() as screen:

            def show(status: Status) -> None:
                screen.status(status)
                if waits is not None:
                    waits.status(status)

            return asyncio.run(
                run_world(world, replace(settings, on_fold=screen.fold, on_status=show))
            )
    except NoRoomLeft:
        raise
    except (KeyboardInterrupt, Stopping):
        # The signal came while the journal was read, or while the runner did not handle signals.
        note("stopped; everything acknowledged is durable")
        return None


def _span(span_ns: int | None) -> str | None:
    """A duration as its option has it."""
    return None if span_ns is None else f"{span_ns}ns"


def _check_spans(
    max_wait: int | None, checkpoint_every: int | None, *, ends_by_itself: bool
) -> None:
    if max_wait is not None and not ends_by_itself:
        raise BadUsage("--max-wait needs --until-idle or --until-waiting: it limits their wait")
    if checkpoint_every is not None and checkpoint_every < SECOND:
        raise BadUsage("--checkpoint-every: expected at least 1s")


def _checkpoints(world: Path, every_ns: int | None) -> AbstractContextManager[None]:
    if every_ns is None:
        return nullcontext()
    from aos.host.checkpoints.checkpointing import periodic_checkpoints  # noqa: PLC0415  # for this only

    return periodic_checkpoints(world, every_ns / SECOND, note)


class _Waits:
    """Notes what a run that ends by itself waits for, and until when, whenever that changes while
    no step runs; at most every ``WAITS_EVERY_S``."""

    def __init__(self, max_wait_ns: int | None) -> None:
        self._end_ns = None if max_wait_ns is None else now_ns() + max_wait_ns
        self._noted: object = None
        self._steps = -1
        self._last = monotonic() - WAITS_EVERY_S + QUIET_S

    def status(self, status: Status) -> None:
        steps, self._steps = self._steps, status.stats.figures.steps
        open_counts = _at_work(status)
        waits = (open_counts, status.next_timer_ns)
        is_quiet = steps == self._steps and open_counts
        if not is_quiet or waits == self._noted or monotonic() - self._last < WAITS_EVERY_S:
            return
        self._noted, self._last = waits, monotonic()
        note(f"{_waits(open_counts, status.next_timer_ns)}{self._end()}")

    def _end(self) -> str:
        if self._end_ns is None:
            return ""
        return f"; gives up at {time_text(self._end_ns)} (--max-wait)"


def _at_work(status: Status) -> dict[str, int]:
    """The open effects, by name, that an executor of this process runs."""
    at_work = {name: n - status.waiting.get(name, 0) for name, n in status.open.items()}
    return {name: number for name, number in sorted(at_work.items()) if number > 0}


def _waits(open_counts: Mapping[str, int], next_timer_ns: int | None) -> str:
    """Return the work that a run waits for: ``waits for 1 shop/charge@1, 2 timers (the next is due
    …)``. If there are only timers, and none is due today, the time comes first."""
    if set(open_counts) == {TIMER} and next_timer_ns is not None:
        left_ns = next_timer_ns - now_ns()
        if left_ns >= FAR_NS:
            return (
                f"waits until {time_text(next_timer_ns)}, {span_text(left_ns)} from now, for the "
                f"next of {count(open_counts[TIMER], 'timer')} (Ctrl-C ends this run and keeps all "
                "timers; --until-waiting does not wait for timers)"
            )
    parts = [f"{number:,} {name}" for name, number in open_counts.items() if name != TIMER]
    if TIMER in open_counts:
        parts.append(count(open_counts[TIMER], "timer") + _due(next_timer_ns))
    return f"waits for {', '.join(parts)}"


def _due(due_ns: int | None) -> str:
    if due_ns is None:
        return ""
    left_ns = due_ns - now_ns()
    due_text = f"in {span_text(left_ns)}" if left_ns > 0 else "now"
    return f" (the next is due at {time_text(due_ns)}, {due_text})"


def _document(ended: Ended) -> dict[str, object]:
    return {
        "idle": ended.is_idle,
        "late": ended.is_late,
        **figures_document(ended.stats.figures),
        "open": [asdict(open_effect) for open_effect in ended.open],
        "waiting": dict(ended.waiting),
        "halted": [
            {"effect": effect, "phase": phase, "code": code, "count": number}
            for (effect, phase, code), number in sorted(_halts(ended).items())
        ],
        "refused": {
            hash_text(intent): f"refused: {refusal.text}"
            for intent, refusal in ended.refused.items()
        },
    }


def _halts(ended: Ended) -> Counter[tuple[str, str, str]]:
    return Counter((effect, halt.phase, halt.code) for effect, halt in ended.halted.values())


def _why_not(effect: str, ended: Ended) -> str:
    if effect in ended.given_up:
        return "its executor here gave up (it is tried again when the world is run again)"
    return "no executor here runs (add --executors MODULE:ATTRIBUTE with a function for it)"


def _summary(ended: Ended, max_wait_ns: int | None) -> None:
    ending = "idle" if ended.is_idle else "stopped"
    if ended.is_late:
        ending = f"not idle after {span_text(max_wait_ns or 0)} (--max-wait), stopped"
    line(f"{ending} at {figures_text(ended.stats.figures)}")
    for (effect, phase, code), number in sorted(_halts(ended).items()):
        line(
            f"  {number:,} {phase}: {effect}: {code} (aos inspect intents --parked)", style="yellow"
        )
    halted = Counter(effect for effect, _ in ended.halted.values())
    for effect, number in ended.waiting.items():
        waiting = number - halted[effect]
        if not waiting:
            continue
        line(
            f"  {waiting:,} {'waits' if waiting == 1 else 'wait'} for {effect}, which "
            f"{_why_not(effect, ended)}",
            style="yellow",
        )
    if ended.is_late:
        _still_open(ended)
    elif ended.timers:
        due_ns = next(
            (open_effect.due_ns for open_effect in ended.open if open_effect.effect == TIMER), None
        )
        line(f"  {count(ended.timers, 'timer')} not due yet{_due(due_ns)}")
    refused = list(ended.refused.items())
    for intent, refusal in refused[:REFUSED_SHOWN]:
        line(
            f"  the receipt for {hash_text(intent)[:23]}… was refused: {refusal.text}", style="red"
        )
    if len(refused) > REFUSED_SHOWN:
        line(f"  and {len(refused) - REFUSED_SHOWN} more (--json lists them all)", style="red")


def _still_open(ended: Ended) -> None:
    """List the open effects that executors of this process run."""
    for open_effect in ended.open:
        number = open_effect.number - ended.waiting.get(open_effect.effect, 0)
        if number > 0 and open_effect.effect == TIMER:
            line(f"  {count(number, 'timer')}{_due(open_effect.due_ns)}")
        elif number > 0 and open_effect.oldest_ns is not None:
            age = span_text(max(0, now_ns() - open_effect.oldest_ns))
            line(f"  {number:,} open: {open_effect.effect}, the oldest for {age}")
