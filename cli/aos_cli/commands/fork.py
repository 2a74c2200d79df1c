"""``aos fork DIR --at SEQ``: create a world from any record (spec/cli.md, C-45)."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from aos.core.journal.inputs import CANCEL_OPEN, KEEP_OPEN
from aos.host.transfer.forking import Forked, fork_world
from aos.manifest.keys import key_text
from aos.read.lens.words import count
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, NewWorld, World, number, option
from aos_cli.output import line, print_json, progress


class Intents(Enum):
    """Whether the fork cancels or keeps the effects that are open at the record."""

    CANCEL = CANCEL_OPEN
    KEEP = KEEP_OPEN


def fork(
    directory: NewWorld,
    *,
    at: Annotated[
        int, option("SEQ", "Last record that the new world shares with this one.", parser=number)
    ],
    intents: Annotated[
        Intents,
        typer.Option(help="Cancel the effects that are open at that record, or keep them open."),
    ] = Intents.CANCEL,
    operator: Annotated[str, option("NAME", "Name of the operator of the new world.")] = "operator",
    executor: Annotated[
        list[str] | None,
        option("NAME", "Create a key for an executor of this name. May be given several times."),
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    with progress("forking") as advance:
        fork = fork_world(
            world,
            directory,
            at=at,
            open_work=intents.value,
            operator=operator,
            executors=executor or [],
            progress=advance,
        )
    if json:
        print_json(_document(fork, operator))
    else:
        _show(fork)


def _document(fork: Forked, operator: str) -> dict[str, object]:
    return {
        "world": hash_text(fork.folder.world),
        "path": str(fork.folder.path),
        "created": fork.folder.created,
        "parent": hash_text(fork.parent),
        "at": fork.at,
        "seq": fork.seq,
        "canceled": fork.canceled,
        "kept": fork.open_intents,
        "operator": operator,
        "executors": [
            {"name": name, "public_key": key_text(key)}
            for name, key in fork.folder.executors.items()
        ],
    }


def _show(fork: Forked) -> None:
    shell_path = shell_word(fork.folder.path)
    line(f"new world in {fork.folder.path}, forked after record {fork.at:,}", style="bold")
    line(f"  {hash_text(fork.folder.world)}")
    line(f"  of {hash_text(fork.parent)}")
    if fork.canceled:
        line(f"  {count(fork.canceled, 'open effect')} canceled")
    if fork.open_intents:
        line(
            f"  {count(fork.open_intents, 'open effect')} kept: no executor carries out "
            f"inherited effects (aos effects cancel --world {shell_path})",
            style="yellow",
        )
    line(f"next: aos adopt --world {shell_path}")
