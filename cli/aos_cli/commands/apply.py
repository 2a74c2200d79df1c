"""``aos apply PATH``: show a manifest's changes and put it in force (spec/cli.md, C-21)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from shlex import join
from typing import Annotated, Final

import typer

from aos.audit.lens.gate_document import gate_document
from aos.authoring.build_record import is_inside, project_built_at, refuse_stale_build
from aos.authoring.project import Project
from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.inputs import MIGRATE, STRICT
from aos.core.journal.vocabulary import MODES
from aos.errors import BadUsage, Refused, either, sentence
from aos.host.apply.apply import Applied
from aos.host.apply.dry_run import dry_run_of
from aos.host.apply.flow_gating import gate_flows
from aos.host.apply.forecast import (
    FAILED,
    FATES,
    GOES_ON,
    IN_PLACE,
    KEPT,
    LEFT,
    MIGRATED,
    PINNED,
    WAITED_FOR,
    Fates,
)
from aos.host.apply.manifest_files import AIR_FOLDER, AIR_SUFFIX, load_manifest_files
from aos.host.apply.ways_out import ways_out
from aos.host.door.writer import open_writer
from aos.host.folder.folder import WORLD_FILE
from aos.manifest.difference import DefinitionChange, Difference
from aos.manifest.effective import Effective
from aos.manifest.load import ManifestProblems
from aos.values.digests import hash_text
from aos_cli.apply_blockers import (
    groups_document,
    show_blockers,
    show_ways_out,
    ways_document,
)
from aos_cli.apply_flows import RULE, refusal_text, show_advice, show_flows
from aos_cli.apply_states import show_states, states_document
from aos_cli.cell_names import cell_document, cell_key
from aos_cli.options import DEFAULT_WORLD, Abi, Json, World, check_abi
from aos_cli.output import line, note, print_json
from aos_cli.progress import progress

ALIKE_SHOWN: Final = 8
"""Most added, or removed, definitions of one kind that are listed one by one."""

_FATES: Final = {
    GOES_ON: "at rest, next on the new version",
    PINNED: "in flight, pinned to their version",
    KEPT: "at rest, kept on their version (their state does not fit the new one)",
    IN_PLACE: "in flight, on the new version at their next step",
    MIGRATED: "taken over by the new module",
    WAITED_FOR: "in flight, to be waited for",
    FAILED: "failed, on the new version when they are retried",
    LEFT: "left without their workflow",
}

_STYLES: Final = {"+": "green", "-": "red", "~": "yellow"}


def apply(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Manifest: a folder or one .air.json file.")
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
    ] = False,
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            metavar="|".join(MODES),
            help="strict (default): refuse while work is in flight; pin: instances in flight "
            "finish on their version; migrate: new modules convert the stored states. "
            "The page on changing a workflow that is running helps to choose.",
        ),
    ] = STRICT,
    show: Annotated[
        int,
        typer.Option(
            "--show",
            metavar="N",
            min=0,
            help="With --dry-run --mode migrate: print N states before and after, those that fail "
            "first (default 0).",
        ),
    ] = 0,
    leave_cells: Annotated[
        bool,
        typer.Option(
            "--leave-cells",
            help="Allow removing a workflow that still has cells. The cells are kept but receive "
            "nothing.",
        ),
    ] = False,
    allow_diverged: Annotated[
        bool,
        typer.Option(
            "--allow-diverged",
            help="Apply although the new code does not fit the history of flows in progress; they "
            "stop with a fault.",
        ),
    ] = False,
    abi: Abi = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if mode not in MODES:
        raise BadUsage(sentence("--mode", expected=either(MODES), found=repr(mode)))
    if show and not (dry_run and mode == MIGRATE):
        raise BadUsage("--show: expected --dry-run and --mode migrate with it")
    check_abi(abi)
    _check_path(path)
    project = project_built_at(path)
    if project is not None:
        refuse_stale_build(project)
    try:
        loaded = load_manifest_files(path, abi=abi)
    except ManifestProblems as found:
        problems = f"{len(found.problems)} problems" if len(found.problems) > 1 else "1 problem"
        note(f"aos: the manifest at {path} has {problems}; nothing was applied", style="red")
        raise
    with progress("reading the journal") as advance:
        gate = gate_flows(world, loaded, progress=advance)
    is_stopped = bool(gate.stopped) and not allow_diverged
    with progress("reading the journal") as advance:
        if dry_run or is_stopped:
            applied = dry_run_of(
                world, loaded, mode=mode, leave_cells=leave_cells, show=show, progress=advance
            )
        else:
            with open_writer(world, progress=advance) as writer:
                applied = writer.apply(loaded, mode=mode, leave_cells=leave_cells)
    ways = None
    if applied.blockers:
        ways = ways_out(world, loaded, applied.blockers, mode=mode, leave_cells=leave_cells)
    command = partial(_command, path, abi, world)
    migration = partial(_migration_command, path, project, world)
    if json:
        flows = gate_document(gate, lambda cell: cell_key(cell, loaded.effective))
        shown = _document(applied, loaded.effective, ways_document(ways, command, migration))
        if is_stopped and not dry_run:
            shown["refused"] = {"rule": RULE, "message": refusal_text(gate)}
        print_json({**shown, "flows": flows})
    else:
        show_states(applied.states, loaded.effective)
        if is_stopped and not dry_run:
            show_changes(applied.difference)
        else:
            _show(applied, loaded.effective)
        show_flows(gate, loaded.effective, is_refused=is_stopped)
        if is_stopped:
            show_advice(join(_command(path, abi, world, STRICT, leave_cells)))
        if ways is not None:
            show_ways_out(ways, command, migration)
    return Refused.exit_code if is_stopped or not _is_fine(applied) else 0


def _command(path: Path, abi: str | None, world: Path, mode: str, leaves: bool) -> list[str]:
    """The command line that applies the same manifest to the same world in another mode."""
    words = ["aos", "apply", str(path)]
    words += [] if mode == STRICT else ["--mode", mode]
    words += ["--leave-cells"] if leaves else []
    words += [] if abi is None else ["--abi", abi]
    return words + ([] if world == DEFAULT_WORLD else ["--world", str(world)])


def _migration_command(
    path: Path, project: Project | None, world: Path, workflow: str
) -> list[str]:
    """The command line that writes the skeleton of a migration. Without a project at the path of
    the manifest, it is to be typed in the project that made the manifest."""
    folder = [] if project is None or is_inside(project) else [str(path)]
    return ["aos", "build", *folder, "--migration", workflow, "--world", str(world)]


def _check_path(path: Path) -> None:
    """Raise BadUsage for two paths that are often mistaken for a manifest's."""
    if (path / WORLD_FILE).is_file() and not (path / AIR_FOLDER).is_dir():
        raise BadUsage(
            f"{path}: expected a manifest, found the folder of a world "
            f"(aos apply PATH --world {path})"
        )
    if path.is_file() and not path.name.endswith(AIR_SUFFIX):
        raise BadUsage(f"{path}: expected a folder, or a file whose name ends in {AIR_SUFFIX}")


def _is_fine(applied: Applied) -> bool:
    """Whether the manifest is in force now, or could be applied after a dry run."""
    match applied.answer:
        case None:
            return not applied.blockers
        case Refusal(rule=rule):
            return rule is Rule.MANIFEST_IS_IN_FORCE
        case _:
            return True


def _document(
    applied: Applied, manifest: Effective, ways: dict[str, object] | None
) -> dict[str, object]:
    answer = applied.answer
    refused = None
    if isinstance(answer, Refusal) and answer.rule is not Rule.MANIFEST_IS_IN_FORCE:
        refused = {"rule": answer.rule.value, "message": answer.message}
    return {
        "manifest": hash_text(applied.manifest),
        "applied": isinstance(answer, Admitted),
        "in_force": isinstance(answer, Admitted)
        or (isinstance(answer, Refusal) and answer.rule is Rule.MANIFEST_IS_IN_FORCE),
        "seq": answer.seq if isinstance(answer, Admitted) else None,
        "changes": _changes(applied.difference),
        "blockers": [
            {"kind": each.kind, "cell": cell_document(each.cell, manifest), "detail": each.detail}
            for each in applied.blockers
        ],
        "groups": groups_document(applied.blockers, manifest),
        "ways_out": ways,
        "states": states_document(applied.states, manifest),
        "refused": refused,
        "fates": None
        if applied.fates is None
        else {name: dict(each) for name, each in sorted(applied.fates.by_workflow.items())},
    }


def _changes(found: Difference) -> dict[str, object]:
    return {
        "definitions": [str(each) for each in found.definitions],
        "routes": [str(each) for each in found.routes],
        "routes_reordered": found.reordered,
        "limits": [str(each) for each in found.limits],
        "plans": [str(each) for each in found.plans],
        "authority": [str(each) for each in found.authority],
    }


def _show(applied: Applied, manifest: Effective) -> None:
    show_changes(applied.difference)
    match applied.answer:
        case Admitted(seq=seq):
            line(f"applied as record {seq}", style="bold")
            line(f"  {hash_text(applied.manifest)}")
        case Refusal(rule=Rule.MANIFEST_IS_IN_FORCE):
            line("already in force")
            line(f"  {hash_text(applied.manifest)}")
        case Refusal(message=message):
            note(f"aos: refused: {message}", style="red")
            show_blockers(applied.blockers, manifest)
        case _ if applied.blockers:
            _show_fates(applied.fates)
            many = len(applied.blockers)
            blocked = "1 blocker" if many == 1 else f"{many} blockers"
            note(f"aos: it could not be applied now: {blocked}", style="red")
            show_blockers(applied.blockers, manifest)
        case _:
            _show_fates(applied.fates)
            line("it could be applied now (this was a dry run: nothing has changed)")


def _show_fates(fates: Fates | None) -> None:
    """Print how many instances of each workflow a dry run would affect, and in which way."""
    if fates is None or not fates.by_workflow:
        return
    line("instances", style="bold")
    for name, counts in sorted(fates.by_workflow.items()):
        said = [f"{counts[fate]:,} {_FATES[fate]}" for fate in FATES if counts.get(fate)]
        line(f"  {name}: {', '.join(said)}")


def show_changes(found: Difference) -> None:
    sections: Sequence[tuple[str, Sequence[str]]] = [
        ("definitions", _definitions(found.definitions)),
        ("routes", [str(each) for each in found.routes]),
        ("limits", [str(each) for each in found.limits]),
        ("plans", [str(each) for each in found.plans]),
        ("authority: permissions and keys", [str(each) for each in found.authority]),
    ]
    for title, lines in sections:
        if lines:
            line(title, style="bold")
            for text in lines:
                line(f"  {text}", style=_STYLES.get(text[0]))
    if found.reordered:
        line("routes are in another order: events fan out in the order of the manifest")
    if found.is_empty:
        line("nothing changes")


def _definitions(found: Sequence[DefinitionChange]) -> list[str]:
    """One line per definition; more than ``ALIKE_SHOWN`` added or removed ones share a line."""
    lines: list[str] = []
    for (_, change), group in groupby(found, key=lambda each: (each.kind, each.change)):
        these = list(group)
        if change == "changed" or len(these) <= ALIKE_SHOWN:
            lines += map(str, these)
        else:
            first = these[0]
            lines.append(f"{first.sign} {len(these)} {first.word}s (--json lists them)")
    return lines
