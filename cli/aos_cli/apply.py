"""``aos apply PATH [--dry-run]``: a manifest, what it changes, and in force (spec/cli.md, C-21)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import typer

from aos.core.answers import Admitted, Blocker, Refusal, Rule
from aos.errors import Refused
from aos.host.apply import Applied
from aos.host.client import dry_run_of, open_writer
from aos.host.manifest_files import load_manifest_files
from aos.manifest.difference import DefinitionChange, Difference
from aos.manifest.effective import Effective
from aos.manifest.load import ManifestProblems
from aos.values.digests import hash_text
from aos_cli.cells import cell_document, cell_text
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, note, print_json
from aos_cli.progress import progress

BLOCKERS_SHOWN: Final = 20
ALIKE_SHOWN: Final = 8
"""How many definitions of one kind are listed that are all added, or all removed."""

_STYLES: Final = {"+": "green", "-": "red", "~": "yellow"}


def apply(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A manifest: a folder or one .air.json file.")
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
    ] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    """Put a manifest in force, and show what that changes."""
    try:
        loaded = load_manifest_files(path)
    except ManifestProblems as found:
        problems = f"{len(found.problems)} problems" if len(found.problems) > 1 else "1 problem"
        note(f"aos: the manifest at {path} has {problems}; nothing was applied", style="red")
        raise
    with progress("reading the journal") as advance:
        if dry_run:
            applied = dry_run_of(world, loaded, progress=advance)
        else:
            with open_writer(world, progress=advance) as writer:
                applied = writer.apply(loaded)
    if json:
        print_json(_document(applied, loaded.effective))
    else:
        _show(applied, loaded.effective)
    return 0 if _is_fine(applied) else Refused.exit_code


def _is_fine(applied: Applied) -> bool:
    """Whether the manifest is in force now, or could be."""
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
    _show_changes(applied.difference)
    match applied.answer:
        case Admitted(seq=seq):
            line(f"applied as record {seq}", style="bold")
            line(f"  {hash_text(applied.manifest)}")
        case Refusal(rule=Rule.MANIFEST_IS_IN_FORCE):
            line("already in force")
            line(f"  {hash_text(applied.manifest)}")
        case Refusal(message=message):
            note(f"aos: refused: {message}", style="red")
            _show_blockers(applied.blockers, manifest)
        case _ if applied.blockers:
            count = len(applied.blockers)
            note(f"aos: it could not be applied now: {count} things stand in the way", style="red")
            _show_blockers(applied.blockers, manifest)
        case _:
            line("it could be applied now (this was a dry run: nothing has changed)")


def _show_changes(found: Difference) -> None:
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
    """A line each; many of a kind that come or go together are one line."""
    lines: list[str] = []
    for (_, change), group in groupby(found, key=lambda each: (each.kind, each.change)):
        these = list(map(str, group))
        if change == "changed" or len(these) <= ALIKE_SHOWN:
            lines += these
        else:
            sign, word, _ = these[0].split(" ", 2)
            lines.append(f"{sign} {len(these)} {word}s (--json lists them)")
    return lines


def _show_blockers(blockers: Sequence[Blocker], manifest: Effective) -> None:
    for each in blockers[:BLOCKERS_SHOWN]:
        note(f"  {cell_text(each.cell, manifest)}: {each.kind}, {each.detail}")
    if len(blockers) > BLOCKERS_SHOWN:
        note(f"  and {len(blockers) - BLOCKERS_SHOWN} more (--json lists them all)")
