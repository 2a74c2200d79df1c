"""``aos proof``: make one file that proves a record, an effect or a cell (spec/cli.md, C-134)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from aos.audit.lens.words import count
from aos.audit.proofs.checking import check
from aos.audit.proofs.making import Made
from aos.audit.proofs.trust import TrustPolicy, judge
from aos.host.checkpoints.named_files import write_named
from aos.host.checkpoints.proving import Wanted, prove
from aos.shell_text import shell_word
from aos.values.digests import hash_text
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, note, print_json, write


def proof(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SEQ|INTENT|WORKFLOW KEY|since CHECKPOINT",
            help="A record number, an intent (its hash or at least 8 of its first digits), a cell, "
            "or an older checkpoint of this world.",
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File for the proof (default: print it)."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FILE", help="Prove from this bundle instead of a world."),
    ] = None,
    archive: Annotated[
        list[Path] | None,
        typer.Option(
            "--archive",
            metavar="FILE",
            help="Archive with pruned records. May be given several times.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Prove by this checkpoint, such as one with cosignatures (default: the newest).",
        ),
    ] = None,
    bare: Annotated[
        bool, typer.Option("--bare", help="Of an intent: leave values and manifest out.")
    ] = False,
    snapshot: Annotated[
        bool,
        typer.Option(
            "--snapshot", help="Of a cell: also prove that its record is the last one, or that the "
            "cell has no state, as of the newest snapshot."
        ),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="With --snapshot: show keys of other cells without asking."),
    ] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:  # fmt: skip
    wanted = Wanted(
        words=words,
        bare=bare,
        snapshot=snapshot,
        checkpoint=checkpoint,
        may_show=lambda others: yes or others == 0 or _may_show(others),
    )
    made = prove(world, wanted, bundle=bundle, archives=archive or ())
    if out is None:
        write(made.data.decode())
        return
    write_named(out, made.data)
    if json:
        print_json(_document(made, out))
    else:
        _show(made, out)


def _may_show(others: int) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    question = f"the proof also shows keys and hashes of states of {count(others, 'cell')}: show"
    return typer.confirm(question, err=True)


def _document(made: Made, out: Path) -> dict[str, object]:
    proof = made.proof
    return {
        "file": str(out),
        "bytes": len(made.data),
        "kind": proof.kind,
        "world": hash_text(proof.worlds[0].world),
        "records": {role: each.seq for role, each in proof.records.items()},
        "anchor": "checkpoint" if made.checkpoint is not None else "head",
        "frames": made.checkpoint,
        "left_out": [hash_text(each) for each in made.left_out],
    }


def _show(made: Made, out: Path) -> None:
    world = made.proof.worlds[0].world
    line(f"proof: {out}, {len(made.data):,} bytes", style="bold")
    for each in judge(check(made.proof), TrustPolicy(world=world)).shown:
        line(f"  {each}")
    for value in made.left_out:
        line(f"  without the value {hash_text(value)}: it was erased, or is too long")
    if made.checkpoint is None:
        note("the proof rests on the head: no witness has seen it (aos checkpoint)")
    line(f"next: aos verify-proof {shell_word(out)} --world {hash_text(world)}")
