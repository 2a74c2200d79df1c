"""``aos apply PATH``: show a manifest's changes and put it in force (spec/cli.md, C-21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from shlex import join
from typing import Annotated, Any, Final

import typer

from aos.authoring.build_record import is_inside, project_built_at, refuse_stale_build
from aos.authoring.project import Project
from aos.core.journal.inputs import MIGRATE, STRICT
from aos.core.journal.vocabulary import MODES
from aos.errors import BadUsage, Refused, either, sentence
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
)
from aos.host.apply.manifest_files import AIR_FOLDER, AIR_SUFFIX, load_manifest_files
from aos.host.apply.report import ApplyReport
from aos.host.folder.folder import WORLD_FILE
from aos.manifest.load import ManifestProblems
from aos_cli.apply_blockers import show_blockers, show_ways_out, ways_document
from aos_cli.apply_flows import RULE, refusal_text, show_advice, show_flows
from aos_cli.apply_states import show_states
from aos_cli.apply_target import ApplyTarget
from aos_cli.node_option import NodeUrl
from aos_cli.options import DEFAULT_WORLD, Abi, Json, World, check_abi
from aos_cli.output import line, note, print_json

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
    node: NodeUrl = None,
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
    target = ApplyTarget(world, node)
    report = target.apply(
        loaded, dry_run=dry_run, mode=mode, leave_cells=leave_cells, show=show,
        allow_diverged=allow_diverged,
    )  # fmt: skip
    gate, is_stopped = report["flows"], target.is_stopped(report, allow_diverged=allow_diverged)
    command = partial(_command, path, abi, target)
    migration = partial(_migration_command, path, project, world)
    if json:
        shown = {**report, "ways_out": ways_document(report["ways_out"], command, migration)}
        if is_stopped and not dry_run:
            shown["refused"] = {"rule": RULE, "message": refusal_text(gate)}
        print_json(shown)
    else:
        show_states(report["states"])
        if is_stopped and not dry_run:
            show_changes(report["changes"])
        else:
            _show(report)
        show_flows(gate, is_refused=is_stopped)
        if is_stopped:
            show_advice(join(_command(path, abi, target, STRICT, leave_cells)))
        if report["ways_out"] is not None:
            show_ways_out(report["ways_out"], command, migration)
    return Refused.exit_code if is_stopped or not _is_fine(report) else 0


def _command(
    path: Path, abi: str | None, target: ApplyTarget, mode: str, leaves: bool
) -> list[str]:
    """The command line that applies the same manifest to the same world in another mode."""
    words = ["aos", "apply", str(path)]
    words += [] if mode == STRICT else ["--mode", mode]
    words += ["--leave-cells"] if leaves else []
    words += [] if abi is None else ["--abi", abi]
    if target.node is not None:
        return [*words, "--node", target.node]
    return words + ([] if target.world == DEFAULT_WORLD else ["--world", str(target.world)])


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


def _is_fine(report: ApplyReport) -> bool:
    """Whether the manifest is in force now, or could be applied after a dry run."""
    if report["refused"] is not None:
        return False
    return bool(report["in_force"]) or not report["blockers"]


def _show(report: ApplyReport) -> None:
    show_changes(report["changes"])
    many = len(report["blockers"])
    if report["applied"]:
        line(f"applied as record {report['seq']}", style="bold")
        line(f"  {report['manifest']}")
    elif report["in_force"]:
        line("already in force")
        line(f"  {report['manifest']}")
    elif report["refused"] is not None:
        note(f"aos: refused: {report['refused']['message']}", style="red")
        show_blockers(report["groups"], many)
    elif many:
        _show_fates(report["fates"])
        blocked = "1 blocker" if many == 1 else f"{many} blockers"
        note(f"aos: it could not be applied now: {blocked}", style="red")
        show_blockers(report["groups"], many)
    else:
        _show_fates(report["fates"])
        line("it could be applied now (this was a dry run: nothing has changed)")


def _show_fates(fates: Mapping[str, Mapping[str, int]] | None) -> None:
    """Print how many instances of each workflow a dry run would affect, and in which way."""
    if not fates:
        return
    line("instances", style="bold")
    for name, counts in sorted(fates.items()):
        said = [f"{counts[fate]:,} {_FATES[fate]}" for fate in FATES if counts.get(fate)]
        line(f"  {name}: {', '.join(said)}")


def show_changes(changes: Mapping[str, Any]) -> None:
    """Print the changes of a report."""
    sections: Sequence[tuple[str, Sequence[str]]] = [
        ("definitions", _definitions(changes["definitions"])),
        ("routes", changes["routes"]),
        ("limits", changes["limits"]),
        ("plans", changes["plans"]),
        ("schedules", changes["schedules"]),
        ("authority: permissions and keys", changes["authority"]),
    ]
    for title, lines in sections:
        if lines:
            line(title, style="bold")
            for text in lines:
                line(f"  {text}", style=_STYLES.get(text[0]))
    if changes["routes_reordered"]:
        line("routes are in another order: events fan out in the order of the manifest")
    if not any(changes.values()):
        line("nothing changes")


def _definitions(found: Sequence[str]) -> list[str]:
    """One line per definition; more than ``ALIKE_SHOWN`` added or removed ones share a line."""
    lines: list[str] = []
    for (word, sign), group in groupby(found, key=lambda each: (each.split()[1], each[0])):
        these = list(group)
        if sign == "~" or len(these) <= ALIKE_SHOWN:
            lines += these
        else:
            lines.append(f"{sign} {len(these)} {word}s (--json lists them)")
    return lines
