"""``aos apply PATH``: show a manifest's changes and put it in force (spec/cli.md, C-21)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import typer

from aos.core.decide.answers import Admitted, Blocker, Refusal, Rule
from aos.core.journal.inputs import STRICT
from aos.core.journal.vocabulary import MODES
from aos.errors import BadUsage, Refused, sentence
from aos.host.apply.apply import Applied
from aos.host.apply.dry_run import dry_run_of
from aos.host.apply.forecast import (
    FAILED,
    FATES,
    GOES_ON,
    IN_PLACE,
    LEFT,
    MIGRATED,
    PINNED,
    WAITED_FOR,
    Fates,
)
from aos.host.apply.manifest_files import load_manifest_files
from aos.host.door.writer import open_writer
from aos.manifest.difference import DefinitionChange, Difference
from aos.manifest.effective import Effective
from aos.manifest.forms import ABIS
from aos.manifest.load import ManifestProblems
from aos.values.digests import hash_text
from aos_cli.cell_names import cell_document, cell_text
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, note, print_json
from aos_cli.progress import progress

BLOCKERS_SHOWN: Final = 20
ALIKE_SHOWN: Final = 8
"""Most added, or removed, definitions of one kind that are listed one by one."""

_FATES: Final = {
    GOES_ON: "at rest, next on the new version",
    PINNED: "in flight, pinned to their version",
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
            metavar="MODE",
            help="strict (default): refuse while work is in flight; pin: instances in flight "
            "finish on their "
            "version; migrate: new modules convert the stored states.",
        ),
    ] = STRICT,
    leave_cells: Annotated[
        bool,
        typer.Option(
            "--leave-cells",
            help="Allow removing a workflow that still has cells. The cells are kept but receive "
            "nothing.",
        ),
    ] = False,
    abi: Annotated[
        str | None,
        typer.Option(
            "--abi",
            metavar="ABI",
            help="ABI assumed for modules that declare none: aos/1 (default), or agentos for "
            "AgentOS folders.",
        ),
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if mode not in MODES:
        raise BadUsage(sentence("--mode", expected=" or ".join(MODES), found=repr(mode)))
    if abi is not None and abi not in ABIS:
        raise BadUsage(sentence("--abi", expected=" or ".join(ABIS), found=repr(abi)))
    try:
        loaded = load_manifest_files(path, abi=abi)
    except ManifestProblems as found:
        problems = f"{len(found.problems)} problems" if len(found.problems) > 1 else "1 problem"
        note(f"aos: the manifest at {path} has {problems}; nothing was applied", style="red")
        raise
    with progress("reading the journal") as advance:
        if dry_run:
            applied = dry_run_of(
                world, loaded, mode=mode, leave_cells=leave_cells, progress=advance
            )
        else:
            with open_writer(world, progress=advance) as writer:
                applied = writer.apply(loaded, mode=mode, leave_cells=leave_cells)
    if json:
        print_json(_document(applied, loaded.effective))
    else:
        _show(applied, loaded.effective)
    return 0 if _is_fine(applied) else Refused.exit_code


def _is_fine(applied: Applied) -> bool:
    """Whether the manifest is in force now, or could be applied after a dry run."""
    match applied.answer:
        case None:
            return not applied.blockers
        case Refusal(rule=rule):
            return rule is Rule.MANIFEST_IS_IN_FORCE
        case _:
            return True


def _document(applied: Applied, manifest: Effective) -> dict[str, object]:
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
            standing = "1 thing stands" if many == 1 else f"{many} things stand"
            note(f"aos: it could not be applied now: {standing} in the way", style="red")
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
        ("authority: who may do what", [str(each) for each in found.authority]),
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


def show_blockers(blockers: Sequence[Blocker], manifest: Effective | None) -> None:
    for each in blockers[:BLOCKERS_SHOWN]:
        note(f"  {cell_text(each.cell, manifest)}: {each.kind}, {each.detail}")
    if len(blockers) > BLOCKERS_SHOWN:
        note(f"  and {len(blockers) - BLOCKERS_SHOWN} more (--json lists them all)")
