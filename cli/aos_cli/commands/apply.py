"""``aos apply PATH``: show a manifest's changes and put it in force (spec/cli.md, C-21)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from aos.author.build_record import is_inside, project_built_at
from aos.author.project import Project
from aos.core.decide.answers import Rule
from aos.core.journal.inputs import MIGRATE, STRICT
from aos.core.journal.vocabulary import MODES
from aos.errors import BadUsage, Refused, either
from aos.host.folder.folder import is_group
from aos.shell_text import shell_text
from aos_cli.apply_target import ApplyTarget, load_named
from aos_cli.apply_text import (
    FLOWS_DIVERGE,
    is_fine,
    refusal_text,
    show_advice,
    show_changes,
    show_flows,
    show_report,
    show_states,
    show_ways_out,
    ways_document,
)
from aos_cli.options import (
    DEFAULT_WORLD,
    Abi,
    AllowDiverged,
    Json,
    NodeUrl,
    World,
    address_of,
    argument,
    flag,
    option,
)
from aos_cli.output import note, print_json

if TYPE_CHECKING:
    from aos.host.folder.group import GroupShards


def apply(
    path: Annotated[Path, argument("PATH", "Manifest: a folder or one .air.json file.")],
    *,
    dry_run: Annotated[bool, flag("--dry-run", "Show what would change; change nothing.")] = False,
    mode: Annotated[
        str,
        option(
            "|".join(MODES),
            "strict (default): refuse while work is in flight; pin: instances in flight "
            "finish on their version; migrate: new modules convert the stored states. "
            "The page on changing a workflow that is running helps to choose.",
        ),
    ] = STRICT,
    show: Annotated[
        int,
        option(
            "N",
            "With --dry-run --mode migrate: print N states before and after, those that fail "
            "first (default 0).",
            min=0,
        ),
    ] = 0,
    leave_cells: Annotated[
        bool,
        flag(
            "--leave-cells",
            "Allow removing a workflow that still has cells. The cells are kept but receive "
            "nothing.",
        ),
    ] = False,
    allow_diverged: AllowDiverged = False,
    abi: Abi = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    _check_options(mode, show, world, dry_run=dry_run)
    loaded = load_named(path, abi)
    group = None if node is not None else _group_of(world)
    if group is not None:
        if show:
            raise BadUsage(
                "--show: expected a world, found a group (name a shard: --world DIR/000)"
            )
        from aos_cli.group_apply import GroupApply, apply_to_group  # noqa: PLC0415  # few worlds

        applying = GroupApply(
            group=group, loaded=loaded, mode=mode, leave_cells=leave_cells,
            allow_diverged=allow_diverged,
        )  # fmt: skip
        return apply_to_group(applying, dry_run=dry_run, json=json)
    target = ApplyTarget(world, node)
    report = target.apply(
        loaded, dry_run=dry_run, mode=mode, leave_cells=leave_cells, show=show,
        allow_diverged=allow_diverged,
    )  # fmt: skip
    gate, is_stopped = report["flows"], target.is_stopped(report, allow_diverged=allow_diverged)
    command = partial(_command, path, abi, target)
    migration = partial(_migration_command, path, project_built_at(path), world)
    propose = None
    if _needs_proposal(report):
        propose = ["aos", "gov", "propose", *_command(path, abi, target, mode, leave_cells)[2:]]
        report["refused"] = {**report["refused"], "command": propose}
    if json:
        document = {**report, "ways_out": ways_document(report["ways_out"], command, migration)}
        if is_stopped and not dry_run:
            document["refused"] = {"rule": FLOWS_DIVERGE, "message": refusal_text(gate)}
        print_json(document)
    else:
        show_states(report["states"])
        if is_stopped and not dry_run:
            show_changes(report["changes"])
        else:
            show_report(report)
        show_flows(gate, is_refused=is_stopped)
        if is_stopped:
            show_advice(shell_text(_command(path, abi, target, STRICT, leave_cells)))
        if report["ways_out"] is not None:
            show_ways_out(report["ways_out"], command, migration)
        if propose is not None:
            note(f"next: {shell_text(propose)}")
    return Refused.exit_code if is_stopped or not is_fine(report) else 0


def _check_options(mode: str, show: int, world: Path, *, dry_run: bool) -> None:
    """Raises: BadUsage: They do not go together, or ``mode`` is none."""
    if mode not in MODES:
        raise BadUsage("--mode", expected=either(MODES), actual=repr(mode))
    if show and not (dry_run and mode == MIGRATE):
        raise BadUsage("--show: expected --dry-run and --mode migrate with it")
    if show and address_of(world) is not None:
        from aos_cli.addressed_world import refuse_choice  # noqa: PLC0415  # few worlds have one

        refuse_choice(world, "--show")


def _group_of(world: Path) -> GroupShards | None:
    """The group in a folder or at an address; None for a world."""
    # Few worlds are groups, and few are named by an address.
    if is_group(world):
        from aos.host.folder.group import open_group  # noqa: PLC0415

        return open_group(world)
    if address_of(world) is None:
        return None
    from aos_cli.addressed_group import group_at  # noqa: PLC0415

    return group_at(world)


def _needs_proposal(report: Mapping[str, Any]) -> bool:
    """Whether the world is governed, so that approvers must agree first (GV-40)."""
    refused = report["refused"]
    return refused is not None and refused["rule"] == Rule.MANIFEST_NEEDS_PROPOSAL.value


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
