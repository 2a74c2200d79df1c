"""``aos fork DIR --at SEQ``: create a world from any record (spec/cli.md, C-45)."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from aos.audit.lens.words import count
from aos.core.journal.inputs import CANCEL_OPEN, KEEP_OPEN
from aos.host.transfer.forking import Forked, fork_world
from aos.manifest.keys import key_text
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, NewWorld, World, number
from aos_cli.output import line, print_json
from aos_cli.progress import progress


class Intents(Enum):
    """Whether the fork cancels or keeps the effects that are open at the record."""

    CANCEL = CANCEL_OPEN
    KEEP = KEEP_OPEN


def fork(
    directory: NewWorld,
    *,
    at: Annotated[
        int,
        typer.Option(
            "--at",
            metavar="SEQ",
            parser=number,
            help="Last record that the new world shares with this one.",
        ),
    ],
    intents: Annotated[
        Intents,
        typer.Option(help="Cancel the effects that are open at that record, or keep them open."),
    ] = Intents.CANCEL,
    operator: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the operator of the new world.")
    ] = "operator",
    executor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Create a key for an executor of this name. May be given several times.",
        ),
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    with progress("forking") as advance:
        made = fork_world(
            world,
            directory,
            at=at,
            open_work=intents.value,
            operator=operator,
            executors=executor or [],
            progress=advance,
        )
    if json:
        print_json(_document(made, operator))
    else:
        _show(made)


def _document(made: Forked, operator: str) -> dict[str, object]:
    return {
        "world": hash_text(made.folder.world),
        "path": str(made.folder.path),
        "created": made.folder.created,
        "parent": hash_text(made.parent),
        "at": made.at,
        "seq": made.seq,
        "canceled": made.canceled,
        "kept": made.kept,
        "operator": operator,
        "executors": [
            {"name": name, "public_key": key_text(key)}
            for name, key in made.folder.executors.items()
        ],
    }


def _show(made: Forked) -> None:
    where = shell_word(made.folder.path)
    line(f"new world in {made.folder.path}, forked after record {made.at:,}", style="bold")
    line(f"  {hash_text(made.folder.world)}")
    line(f"  of {hash_text(made.parent)}")
    if made.canceled:
        line(f"  {count(made.canceled, 'open effect')} canceled")
    if made.kept:
        line(
            f"  {count(made.kept, 'open effect')} kept: no executor carries out inherited effects "
            f"(aos effects cancel --world {where})",
            style="yellow",
        )
    line(f"next: aos adopt --world {where}")
