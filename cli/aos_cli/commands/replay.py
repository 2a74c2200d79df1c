"""``aos replay``: execute the whole journal again and compare (spec/cli.md, C-40)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from aos.errors import BadUsage, Damage
from aos.fastcore.core_kind import CoreKind
from aos.host.folder.folder import open_folder
from aos.prove.replay.difference import FieldDifference
from aos.prove.replay.replay_report import Divergence, ReplayReport
from aos.prove.replay.replay_store import replay_bundle, replay_store
from aos.prove.replay.second_opinion import core_of_bundle, core_of_store, second_core
from aos.read.lens.words import count, short
from aos.sandbox.config import PULLEY
from aos.store.bundle.reader import open_bundle
from aos.values.digests import hash_text
from aos_cli.core_option import chosen_core
from aos_cli.in_shards import on_each_shard
from aos_cli.options import DEFAULT_WORLD, Abi, Bundle, Json, World, check_abi, option
from aos_cli.output import Advance, line, note, print_json, progress
from aos_cli.replay_against import run_against
from aos_cli.replay_start import snapshot_named, until_interrupted

VALUE_CHARACTERS: Final = 2000
"""How much of one side of a difference is shown. ``--json`` has all of it."""

ERASURES_SHOWN: Final = 10

CORE_CHARACTERS: Final = 40
"""How much is shown of the name of a kernel that a journal names."""


class Engine(Enum):
    """The way to execute: machine code, or the portable interpreter, about 9 times slower."""

    NATIVE = "native"
    PULLEY = "pulley"


class Core(Enum):
    """The kernel that decides again, or both, one after the other."""

    PYTHON = "python"
    FAST = "fast"
    BOTH = "both"

    @property
    def kernels(self) -> tuple[CoreKind, ...]:
        return tuple(CoreKind) if self is Core.BOTH else (CoreKind(self.value),)

    @property
    def text(self) -> str:
        return "cores python and fast" if self is Core.BOTH else f"core {self.value}"


Outcome: TypeAlias = ReplayReport | Divergence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replayed:
    """The kernels that decided a journal again, the name of the one that wrote it, and what each of
    the former came to."""

    core: Core
    written_by: str
    outcomes: tuple[Outcome, ...]

    @property
    def cores_text(self) -> str:
        return f"{self.core.text}, written by {short(self.written_by, CORE_CHARACTERS)}"


@on_each_shard(unless="file")
def replay(
    file: Bundle = None,
    *,
    core: Annotated[
        Core | None,
        typer.Option(
            help="Decide again with the reference (python), with the second kernel (fast), or with "
            "both, which must agree (default: AOS_CORE, else the kernel that did not write the "
            "journal)."
        ),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="Run native code, or the slower portable interpreter (pulley), whose results do "
            "not depend on the machine."
        ),
    ] = Engine.NATIVE,
    start: Annotated[
        str | None,
        option(
            "snapshot|RECORD",
            "Start from the newest snapshot, or from the newest one at or before this "
            "record (default: the whole journal).",
            "--from",
        ),
    ] = None,
    candidates: Annotated[
        list[str] | None,
        option(
            "[NAME=]PATH",
            "Run the recorded steps on this build (.wasm), or on this manifest (folder or "
            ".air.json file) with its migrations, and compare. NAME selects one of several "
            "modules. May be given several times for builds.",
            "--against",
        ),
    ] = None,
    abi: Abi = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    check_abi(abi)
    if abi is not None and not candidates:
        raise BadUsage("--abi goes with --against PATH, where PATH is a manifest")
    if candidates:
        if core is not None:
            raise BadUsage("--core goes without --against: candidates run on the recorded steps")
        if engine is not Engine.NATIVE:
            raise BadUsage("--engine goes without --against: candidates run as they would live")
        return run_against(candidates, abi=abi, file=file, start=start, world=world, json=json)
    if file is not None and start is not None:
        raise BadUsage("--from goes with a world: a bundle is replayed from its first record")
    target = PULLEY if engine is Engine.PULLEY else None
    if core is None:
        kind = chosen_core(None)
        core = None if kind is None else Core(kind.value)
    with progress("replaying") as advance:
        if file is None:
            replayed = _of_world(world, target, start, core, advance)
        else:
            replayed = _of_bundle(file, target, core, advance)
    return _told(replayed, json=json)


def _told(replayed: _Replayed, *, json: bool) -> int:
    """Print the outcome of all cores and return the exit code.

    Raises:
        Damage: The cores came to different outcomes.
    """
    outcomes = replayed.outcomes
    documents = [outcome.to_document() for outcome in outcomes]
    first, *others = [{**document, "seconds": None} for document in documents]
    if any(other != first for other in others):
        raise Damage(
            "the two cores disagree about this journal: one of them is wrong",
            expected=f"{_short_outcome(outcomes[0])} by the core in Python",
            actual=f"{_short_outcome(outcomes[1])} by the core in Rust",
            hint="replay with --core python, which is the reference, and report this",
        )
    if json:
        cores = {"core": replayed.core.value, "written_by": replayed.written_by}
        print_json({**cores, **documents[-1]})
    outcome = outcomes[-1]
    if isinstance(outcome, Divergence):
        if not json:
            _show_divergence(outcome, replayed.cores_text)
        return Damage.exit_code
    if not json:
        _show(outcome, replayed.cores_text)
    return 0


def _short_outcome(outcome: Outcome) -> str:
    if isinstance(outcome, Divergence):
        return f"a difference in record {outcome.record} ({outcome.field})"
    return f"no difference to record {outcome.seq}, state {hash_text(outcome.state_root)}"


def _of_world(
    world: Path, target: str | None, start: str | None, core: Core | None, advance: Advance
) -> _Replayed:
    with open_folder(world).open_store(readonly=True) as store:
        head = store.head()
        last = 0 if head is None else head.seq
        row = None if start is None else snapshot_named(store, start)

        def run(kernel: CoreKind) -> ReplayReport:
            return until_interrupted(
                lambda tell: replay_store(
                    store,
                    target=target,
                    start=row,
                    core=kernel,
                    on_progress=lambda seq: tell(seq, last),
                ),
                advance,
            )

        return _replayed(core, core_of_store(store), run)


def _of_bundle(file: Path, target: str | None, core: Core | None, advance: Advance) -> _Replayed:
    with open_bundle(file) as bundle:

        def run(kernel: CoreKind) -> ReplayReport:
            return until_interrupted(
                lambda tell: replay_bundle(bundle, target=target, core=kernel, on_progress=tell),
                advance,
            )

        return _replayed(core, core_of_bundle(bundle), run)


def _replayed(
    core: Core | None, written_by: str, run: Callable[[CoreKind], ReplayReport]
) -> _Replayed:
    """Replay with a kernel, or with both; by default with the one that did not write the
    journal."""
    core = core or Core(second_core(written_by).value)
    outcomes: list[Outcome] = []
    for kernel in core.kernels:
        try:
            outcomes.append(run(kernel))
        except Divergence as divergence:
            outcomes.append(divergence)
    return _Replayed(core=core, written_by=written_by, outcomes=tuple(outcomes))


def _show(report: ReplayReport, cores_text: str) -> None:
    line(f"replay: byte-identical to record {report.seq:,} ({cores_text})", style="bold green")
    faults = f", {count(report.faults, 'fault')} among them" if report.faults else ""
    line(f"  {count(report.steps, 'step')} executed again{faults}")
    core_receipts = report.kernel_receipts
    core_text = (
        f", {count(core_receipts, 'receipt')} of the core made again" if core_receipts else ""
    )
    line(
        f"  {count(report.intents, 'effect')} asked for again, "
        f"{count(report.receipts, 'receipt')} checked again{core_text}"
    )
    line(
        f"  {count(report.records, 'record')} in {count(report.frames, 'frame')}, "
        f"{report.fuel:,} units of fuel, {report.seconds:.1f} s"
    )
    if report.environmental:
        line(
            f"  {count(report.environmental, 'fault')} of the machine taken as recorded",
            style="yellow",
        )
    if report.fuel_taken:
        line(
            f"  the fuel of {count(report.fuel_taken, 'step')} taken as recorded: "
            "another engine version ran them",
            style="yellow",
        )
    if report.erased:
        line(
            f"  {count(report.erased, 'record')} taken as recorded: what they need was erased",
            style="yellow",
        )
    for erasure in report.erasures[:ERASURES_SHOWN]:
        records_text = ", ".join(map(str, erasure.records)) + (
            f" and {erasure.unnamed} more" if erasure.unnamed else ""
        )
        line(f"    {hash_text(erasure.value)}, erased by record {erasure.by}: {records_text}")
    remaining = len(report.erasures) - ERASURES_SHOWN
    if remaining > 0:
        line(f"    and {count(remaining, 'value')} more (--json lists them)")
    if report.snapshots:
        line(f"  {count(report.snapshots, 'snapshot')} taken again and the same")
    line(f"  root {hash_text(report.log_root)}, of the state {hash_text(report.state_root)}")


def _show_divergence(divergence: Divergence, cores_text: str) -> None:
    note(f"aos: {divergence}", style="red")
    line(f"replay: differs ({cores_text})")
    for difference in divergence.differences:
        _show_difference(difference)


def _show_difference(difference: FieldDifference) -> None:
    line(difference.field, style="bold")
    if not difference.places:
        line(f"  recorded    {short(difference.recorded, VALUE_CHARACTERS)}")
        line(f"  recomputed  {short(difference.recomputed, VALUE_CHARACTERS)}")
    for part in difference.places:
        line(f"  {part.path}")
        line(f"    recorded    {short(part.recorded, VALUE_CHARACTERS)}")
        line(f"    recomputed  {short(part.recomputed, VALUE_CHARACTERS)}")
